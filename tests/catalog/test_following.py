"""W15: following the list of chats: changed rows and removals, nothing missed, whoever reconnects whenever."""

import asyncio
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine import AsyncSessionCatalog, AsyncSessionStore, SessionCatalog, SessionStore
from engine.chat_following import _BATCH
from tests.chance import SEED

ONE = {"role": "user", "content": "hello", "timestamp": 100.0}
TWO = {"role": "assistant", "content": "hi", "timestamp": 200.0}

Page = dict[str, dict[str, Any]]
"""A page that shows the list: rows by id."""


@pytest.fixture(params=[True, False], ids=["views", "memory"])
def catalog(open_store: Callable[..., SessionStore], request: pytest.FixtureRequest) -> SessionCatalog:
    catalog = SessionCatalog(open_store(views=request.param, search=False))
    assert catalog.all_sessions() == []  # the view is there
    return catalog


def chat(catalog: SessionCatalog, *messages: dict[str, Any]) -> str:
    session = catalog.new_session().session_id
    if messages:
        catalog.save_messages(session, messages)
    return session


def update(page: Page, change: Any) -> None:
    if change.row is None:
        page.pop(change.session_id, None)
    else:
        page[change.session_id] = change.row


def listed(catalog: SessionCatalog, include_hidden: bool = False) -> Page:
    return {row["session_id"]: row for row in catalog.all_sessions(include_hidden)}


def test_a_page_gets_the_rows_that_changed_and_what_is_gone(catalog: SessionCatalog) -> None:
    """W15."""
    first, second = chat(catalog, ONE), chat(catalog, TWO)
    position = catalog.store.log.last_position
    with catalog.follow(position, timeout=0) as changes:
        assert list(changes) == []
        catalog.rename_session(first, "Trip")
        (change,) = list(changes)
        assert (change.session_id, change.row) == (first, listed(catalog)[first])
        assert change.position == changes.position == catalog.store.log.last_position
        catalog.delete_session(second)
        assert [(each.session_id, each.row) for each in changes] == [(second, None)]
        catalog.rotate_session(first, "other")
        assert {each.session_id: each.row for each in changes} == {first: None, **listed(catalog)}
        catalog.clear_session("other")
        assert [(each.session_id, each.row) for each in changes] == [("other", None)], "it is a draft again"


def test_who_follows_the_hidden_ones_too_gets_drafts(catalog: SessionCatalog) -> None:
    """W15, W11."""
    draft = chat(catalog)
    (change,) = catalog.follow(include_hidden=True, timeout=0)
    assert change.row == listed(catalog, True)[draft]
    (change,) = catalog.follow(timeout=0)
    assert change.row is None


def test_whoever_reconnects_after_any_change_has_the_list(catalog: SessionCatalog) -> None:
    """W15: also in the middle of rows that were written at once, with chains, deletions and other ids."""
    chance = random.Random(SEED)
    catalog.store.end_session(chat(catalog, ONE), "cli_close")
    page: Page = {}
    position = 0
    for number in range(60):
        sessions = [each["session_id"] for each in catalog.all_sessions(include_hidden=True)] or [chat(catalog)]
        one, other = chance.choice(sessions), chance.choice(sessions)
        match chance.randrange(8):
            case 0:
                chat(catalog, ONE)
            case 1:
                catalog.save_messages(one, [*catalog.get_session(one).messages, {**ONE, "timestamp": number + 1000}])
            case 2:
                catalog.set_attributes(one, parent_session_id=other)
            case 3:
                catalog.store.end_session(one, "cli_close")
            case 4:
                catalog.rotate_session(one, f"other_{number}")
            case 5:
                catalog.truncate_session(one, 0)
            case 6 if chance.random() < 0.3:
                catalog.delete_session(one)
            case _:
                catalog.rename_session(one, f"title {number}")
        for change in catalog.follow(position, timeout=0):
            update(page, change)
            position = change.position
            if chance.random() < 0.3:
                break
    for change in catalog.follow(position, timeout=0):
        update(page, change)
    assert page == listed(catalog)


def test_many_rows_come_in_batches(catalog: SessionCatalog, monkeypatch: pytest.MonkeyPatch) -> None:
    """W15: at most a batch is in memory, and a slow user gets each row as it is then."""
    monkeypatch.setattr("engine.chat_following._BATCH", 3)
    made = [chat(catalog, ONE) for _ in range(10)]
    changes = catalog.follow(timeout=0)
    assert [next(changes).session_id] == made[:1]
    assert len(changes._place._ready) == 2
    catalog.rename_session(made[1], "Later")
    changes._place._read_at -= 1  # it took its time
    assert [each.session_id for each in changes] == [made[0 + number] for number in range(2, 10)] + [made[1]]
    assert _BATCH > 3


def test_after_the_views_were_made_anew_nothing_is_missed(
    open_store: Callable[..., SessionStore], tmp_path: Path
) -> None:
    """W15, V1: rows written at once, more than a batch, come once more; so does what is gone."""
    store = open_store(views=True, search=False)
    catalog = SessionCatalog(store)
    made = [chat(catalog, ONE) for _ in range(_BATCH + 20)]
    page: Page = {}
    for change in catalog.follow(timeout=0):
        update(page, change)
        position = change.position
    catalog.delete_session(made[0])
    for path in (tmp_path / "sessions").glob("views.db*"):
        path.unlink()
    assert len(listed(catalog)) == len(made) - 1
    for change in catalog.follow(position - 1, timeout=0):
        update(page, change)
    assert page == listed(catalog)


def test_what_was_erased_comes_once_more_without_it(catalog: SessionCatalog) -> None:
    """W15, V15: also a row that names the session as its parent, and one of another session's chain."""
    parent = chat(catalog, ONE)
    catalog.rename_session(parent, "Ada's trip")
    branch = catalog.branch_session(parent, title="Branch").session_id
    page = listed(catalog)
    position = catalog.store.log.last_position
    catalog.store.erase(session_id=parent, reason="asked to")
    for change in catalog.follow(position, timeout=0):
        update(page, change)
    assert page == listed(catalog)
    assert page[branch]["parent_title"] == "Untitled"
    assert "Ada" not in str(page)


def test_a_position_after_the_end_is_refused(catalog: SessionCatalog) -> None:
    """W15, V14."""
    with pytest.raises(ValueError, match="after the end of the log"):
        next(catalog.follow(1000, timeout=0))
    with pytest.raises(ValueError, match="after must be"):
        catalog.follow(-1)
    with pytest.raises(ValueError, match="include_hidden must be"):
        catalog.follow(include_hidden=None)  # type: ignore[arg-type]


def test_a_follower_waits_and_can_be_closed_from_another_thread(catalog: SessionCatalog) -> None:
    """W15."""
    found: list[Any] = []
    changes = catalog.follow(catalog.store.log.last_position)
    got = threading.Event()

    def follow() -> None:
        for change in changes:
            found.append(change)
            if change.row is not None:
                got.set()

    thread = threading.Thread(target=follow)
    thread.start()
    made = chat(catalog, ONE)
    assert got.wait(10)
    changes.close()
    thread.join(10)
    assert not thread.is_alive()
    assert found[-1].session_id == made


def test_closing_the_store_ends_it(catalog: SessionCatalog) -> None:
    """W15."""
    changes = catalog.follow()
    catalog.store.close()
    assert list(changes) == []


def test_tasks_list_and_follow(tmp_path: Path) -> None:
    """W11, W15."""

    async def main() -> None:
        async with await AsyncSessionStore.open(tmp_path / "sessions", synchronous="OFF", search=False) as store:
            catalog = AsyncSessionCatalog(store)
            session = (await catalog.new_session()).session_id
            await catalog.save_messages(session, [ONE])
            assert [row["session_id"] for row in await catalog.all_sessions(limit=5)] == [session]
            async with catalog.follow() as changes:
                task = asyncio.ensure_future(anext(changes))
                assert (await task).session_id == session
                waiting = asyncio.ensure_future(anext(changes))
                await catalog.rename_session(session, "Trip")
                change = await waiting
                assert change.row is not None
                assert change.row["title"] == "Trip"
                assert changes.position == change.position
            assert [each async for each in catalog.follow(change.position, timeout=0.01)] == []

    asyncio.run(main())
