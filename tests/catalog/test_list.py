"""The list of chats: rows, order, what is hidden, chains as one row, and what it costs (W5 to W7, W11 to W14)."""

import json
import logging
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from engine import ArchivedError, ChatSession, Platform, SessionCatalog, SessionSource, SessionStore
from engine.log.sqlite.tables import SQLiteTables
from tests.gateway.support import FakeClock

ONE = {"role": "user", "content": "hello", "timestamp": 100.0}
TWO = {"role": "assistant", "content": "hi", "timestamp": 200.0}
THREE = {"role": "user", "content": "and?", "timestamp": 300.0}


@pytest.fixture(params=[True, False], ids=["views", "memory"])
def store(open_store: Callable[..., SessionStore], request: pytest.FixtureRequest) -> SessionStore:
    return open_store(views=request.param, search=False)


@pytest.fixture
def catalog(store: SessionStore, live: set[str]) -> Iterator[SessionCatalog]:
    """A catalogue whose list is, after the test, what every session says of itself, and what the log says."""
    catalog = SessionCatalog(store, live_streams=lambda: live)
    yield catalog
    assert store.verify().ok
    if store._views is not None:
        assert store.verify_views().difference is None


def chat(catalog: SessionCatalog, *messages: dict[str, Any], **attributes: Any) -> ChatSession:
    session = catalog.new_session(workspace="/work", model="large-2")
    if messages:
        session = catalog.save_messages(session.session_id, messages)
    return catalog.set_attributes(session.session_id, **attributes) if attributes else session


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["session_id"] for row in rows]


def expected(catalog: SessionCatalog, session_id: str, live: set[str] = frozenset()) -> dict[str, Any]:
    row = catalog.get_session(session_id, metadata_only=True).compact(True, live)
    return row | {"profile": row["profile"] or "default"}


def source(chat_id: str = "1") -> SessionSource:
    return SessionSource(Platform.TELEGRAM, chat_id, user_id="ada")


def test_a_row_is_what_the_session_says_of_itself(catalog: SessionCatalog, live: set[str]) -> None:
    """W5, W7, W11."""
    first = chat(catalog, ONE, TWO, personality="dry", enabled_toolsets=["web"], context_length=9, unheard_of=1)
    catalog.rename_session(first.session_id, "One \ud800 title")
    catalog.record_usage(first.session_id, 5, 7, 0.5)
    project = catalog.create_project("Site")["project_id"]
    catalog.move_to_project(first.session_id, project)
    second = chat(catalog, ONE)
    catalog.start_turn(second.session_id, "s-1", "and now?")
    live.add("s-1")
    rows = catalog.all_sessions()
    assert rows == [expected(catalog, first.session_id), expected(catalog, second.session_id, live)]
    assert len(rows[0]) == 30
    assert [row["is_streaming"] for row in rows] == [False, True]
    assert rows[1]["pending_user_message"] == "and now?"
    assert (rows[0]["profile"], rows[0]["project_id"], rows[0]["output_tokens"]) == ("default", project, 7)
    live.clear()
    assert [row["is_streaming"] for row in catalog.all_sessions()] == [False, False]


def test_a_host_that_does_not_say_what_runs_counts_as_running(
    store: SessionStore, caplog: pytest.LogCaptureFixture
) -> None:
    """W7."""

    def broken() -> list[str]:
        raise OSError("no answer")

    catalog = SessionCatalog(store, live_streams=broken)
    session = catalog.new_session()
    catalog.start_turn(session.session_id, "s-1", "hello")
    assert catalog.all_sessions()[0]["is_streaming"]
    assert "live_streams raised" in caplog.text


SAID = [
    {"role": "user", "content": "a", "timestamp": 100.0},
    {"role": "assistant", "content": "b", "_ts": "150.5", "timestamp": 1.0},
    {"role": "tool", "content": "c", "timestamp": 900.0},
    {"role": "assistant", "content": "d", "timestamp": 0},
    {"role": "assistant", "content": "e", "timestamp": "soon"},
]


def test_last_activity_is_that_of_the_newest_message_with_a_time(catalog: SessionCatalog, clock: FakeClock) -> None:
    """W6: as the session says, after every way to change what is said."""
    session = catalog.save_messages(catalog.new_session().session_id, SAID).session_id
    other = chat(catalog, *SAID[3:]).session_id

    def rows() -> dict[str, float]:
        found = {row["session_id"]: row for row in catalog.all_sessions()}
        for each, row in found.items():
            assert row == expected(catalog, each)
        return {each: row["last_message_at"] for each, row in found.items()}

    assert rows()[session] == 150.5
    assert rows()[other] == catalog.get_session(other).updated_at
    clock.advance(seconds=9)
    catalog.save_messages(session, [*SAID[:4], {**SAID[4], "_ts": 700}])
    assert rows()[session] == 700
    catalog.truncate_session(session, 1)
    assert rows()[session] == 100
    catalog.save_messages(session, [SAID[0], TWO, THREE])
    catalog.store.rewind_session(session)
    assert rows()[session] == 200
    catalog.store.restore_rewound(session)
    assert rows()[session] == 300
    branch = catalog.branch_session(session, at=1).session_id
    assert {row["session_id"]: row["last_message_at"] for row in catalog.all_sessions()}[branch] == 100
    catalog.delete_session(branch)
    catalog.compress_session(session, [{"role": "system", "content": "so far", "timestamp": 250}])
    assert rows()[session] == 250
    catalog.clear_session(session)
    catalog.rename_session(session, "Kept")
    assert rows()[session] == catalog.get_session(session).updated_at


def test_pinned_come_first_then_those_last_active(catalog: SessionCatalog) -> None:
    """W11."""
    old, middle, new = (chat(catalog, each).session_id for each in (ONE, TWO, THREE))
    assert ids(catalog.all_sessions()) == [new, middle, old]
    catalog.pin_session(old)
    assert ids(catalog.all_sessions()) == [old, new, middle]
    catalog.archive_session(middle)
    assert [row["archived"] for row in catalog.all_sessions()] == [False, False, True]
    catalog.pin_session(old, False)
    catalog.save_messages(middle, [TWO, {**TWO, "timestamp": 400}])
    assert ids(catalog.all_sessions()) == [middle, new, old]


def test_drafts_and_timers_sessions_are_hidden(catalog: SessionCatalog, store: SessionStore) -> None:
    """W11, W3."""
    shown = chat(catalog, ONE).session_id
    draft = catalog.new_session().session_id
    timers = chat(catalog, ONE, source_tag="cron").session_id
    named = catalog.import_session({"session_id": "cron_daily_1", "messages": [TWO]}).session_id
    assert ids(catalog.all_sessions()) == [shown]
    assert set(ids(catalog.all_sessions(include_hidden=True))) == {shown, draft, timers, named}
    catalog.rename_session(draft, "Begun")
    started = catalog.new_session().session_id
    catalog.start_turn(started, "s-1", None)
    assert set(ids(catalog.all_sessions())) == {shown, draft, started}
    catalog.rename_session(draft, "")
    assert set(ids(catalog.all_sessions())) == {shown, started}


def test_a_deleted_session_is_not_listed(catalog: SessionCatalog) -> None:
    """W9, W11: nor does it return."""
    kept, gone = chat(catalog, ONE).session_id, chat(catalog, TWO).session_id
    child = catalog.branch_session(gone).session_id
    catalog.delete_session(gone)
    assert ids(catalog.all_sessions(include_hidden=True)) == [child, kept]
    assert "parent_title" not in catalog.all_sessions()[0]


def test_sessions_of_a_gateway_are_listed_with_where_they_came_from(
    catalog: SessionCatalog, store: SessionStore
) -> None:
    """W11, W13."""
    entry = store.get_or_create_session(source())
    (row,) = catalog.all_sessions()
    assert (row["session_id"], row["session_source"], row["source_label"]) == (
        entry.session_id,
        "messaging",
        "Telegram",
    )
    assert row["source_tag"] is None
    web = chat(catalog, ONE)
    assert {row["session_id"]: row["session_source"] for row in catalog.all_sessions()}[web.session_id] is None


def test_a_page_goes_on_after_the_last_row_of_the_one_before(catalog: SessionCatalog) -> None:
    """W11, W14."""
    made = [chat(catalog, {**ONE, "timestamp": 100.0 + number // 2}).session_id for number in range(7)]
    catalog.pin_session(made[3])
    hidden = catalog.new_session().session_id
    for include_hidden in (False, True):
        whole = catalog.all_sessions(include_hidden)
        assert (hidden in ids(whole)) is include_hidden
        for limit in (1, 2, 3, 100):
            found, after = [], None
            while page := catalog.all_sessions(include_hidden, limit=limit, after=after):
                assert len(page) <= limit
                found += page
                after = page[-1]
            assert found == whole


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"limit": 0}, "limit must be"),
        ({"limit": "5"}, "limit must be"),
        ({"after": {}}, "after must be a row"),
        ({"after": "x"}, "after must be a row"),
        ({"include_hidden": None}, "include_hidden must be"),
    ],
)
def test_a_bad_argument_is_refused_by_name(catalog: SessionCatalog, arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        catalog.all_sessions(**arguments)


# Chains


def test_a_compressed_conversation_is_one_row(catalog: SessionCatalog, store: SessionStore, clock: FakeClock) -> None:
    """W12: title and start of the head, the rest of the tip."""
    entry = store.get_or_create_session(source())
    store.append_to_transcript(entry.session_id, ONE)
    store.set_session_title(entry.session_id, "trip")
    started = clock().timestamp()
    clock.advance(hours=1)
    tip = store.compress_session(entry.session_id, None, [{"role": "system", "content": "so far", "timestamp": 500}])
    (row,) = catalog.all_sessions()
    assert (row["session_id"], row["title"], row["created_at"], row["message_count"], row["last_message_at"]) == (
        tip,
        "trip",
        started,
        1,
        500,
    )
    assert row["_lineage_root_id"] == entry.session_id
    assert (row["_lineage_tip_id"], row["_compression_segment_count"]) == (tip, 2)
    assert "parent_session_id" not in row
    third = store.compress_session(tip, None, [{"role": "system", "content": "so far", "timestamp": 600}])
    (row,) = catalog.all_sessions()
    assert (row["session_id"], row["_compression_segment_count"]) == (third, 3)
    catalog.delete_session(third)
    assert ids(catalog.all_sessions()) == [tip]


def test_the_tip_is_the_latest_segment_with_messages(catalog: SessionCatalog, store: SessionStore) -> None:
    """W12."""
    head = chat(catalog, ONE).session_id
    store.end_session(head, "cli_close")
    child = chat(catalog, parent_session_id=head).session_id
    (row,) = catalog.all_sessions()
    assert (row["session_id"], row["_lineage_tip_id"], row["_compression_segment_count"]) == (head, head, 2)
    catalog.save_messages(child, [TWO])
    assert ids(catalog.all_sessions()) == [child]
    catalog.truncate_session(child, 0)
    assert ids(catalog.all_sessions()) == [head]


def test_what_does_not_go_on_for_its_parent_is_a_row_of_its_own(
    catalog: SessionCatalog, store: SessionStore, clock: FakeClock
) -> None:
    """W12: a branch, and a session that works for another."""
    parent = chat(catalog, ONE)
    catalog.rename_session(parent.session_id, "Trip")
    branch = catalog.branch_session(parent.session_id).session_id
    helper = chat(catalog, ONE, parent_session_id=parent.session_id).session_id

    def rows() -> dict[str, dict[str, Any]]:
        return {row["session_id"]: row for row in catalog.all_sessions()}

    for each in (branch, helper):
        row = rows()[each]
        assert (row["relationship_type"], row["parent_session_id"]) == ("child_session", parent.session_id)
        assert (row["parent_title"], row["parent_source"]) == ("Trip", "webui")
        assert row["_parent_lineage_root_id"] == parent.session_id
    assert "relationship_type" not in rows()[parent.session_id]
    catalog.rename_session(parent.session_id, "Journey")
    assert rows()[branch]["parent_title"] == "Journey"
    clock.advance(seconds=1)
    store.end_session(parent.session_id, "cli_close")
    assert set(rows()) == {branch, helper, parent.session_id}, "the helper began before its parent ended"
    catalog.set_attributes(helper, parent_session_id=None)
    assert "relationship_type" not in rows()[helper]


def test_circles_and_orphans_are_harmless(catalog: SessionCatalog, store: SessionStore) -> None:
    """W12."""
    first, second = chat(catalog, ONE).session_id, chat(catalog, TWO).session_id
    for each, parent in ((first, second), (second, first)):
        store.end_session(each, "cli_close")
        catalog.set_attributes(each, parent_session_id=parent)
    orphan = chat(catalog, THREE, parent_session_id="nobody_there").session_id
    itself = chat(catalog, ONE).session_id
    catalog.set_attributes(itself, parent_session_id=itself)
    rows = {row["session_id"]: row for row in catalog.all_sessions()}
    assert {orphan, itself} < set(rows)
    assert rows[orphan]["parent_session_id"] == "nobody_there"
    assert "parent_title" not in rows[orphan]


def test_a_session_that_goes_on_under_another_id_is_listed_with_that(
    catalog: SessionCatalog, store: SessionStore
) -> None:
    """W9, W12: also where it is the parent of others."""
    parent = chat(catalog, ONE).session_id
    branch = catalog.branch_session(parent).session_id
    catalog.rotate_session(parent, "renamed-1")
    rows = {row["session_id"]: row for row in catalog.all_sessions()}
    assert set(rows) == {branch, "renamed-1"}
    assert rows[branch]["parent_session_id"] == "renamed-1"
    child = chat(catalog, THREE, parent_session_id="renamed-1").session_id
    assert {row["session_id"]: row for row in catalog.all_sessions()}[child]["parent_title"] == "Untitled"
    catalog.delete_session("renamed-1")
    assert set(ids(catalog.all_sessions())) == {branch, child}


# Freshness, and what is wrong with the files


def test_what_another_process_commanded_is_in_the_list(
    catalog: SessionCatalog, open_store: Callable[..., SessionStore]
) -> None:
    """W11."""
    other = SessionCatalog(open_store())
    made = chat(other, ONE).session_id
    assert ids(catalog.all_sessions()) == [made]


def test_one_bad_session_does_not_hide_the_others(
    catalog: SessionCatalog, store: SessionStore, caplog: pytest.LogCaptureFixture
) -> None:
    """W11: neither a bad state in a table, nor a row that cannot be read."""
    good, bad = chat(catalog, ONE).session_id, chat(catalog, TWO).session_id
    assert len(catalog.all_sessions()) == 2
    with sqlite3.connect(store.log.path) as connection:
        connection.execute("UPDATE sessions SET state = '{]' WHERE session_id = ?", (bad,))
    assert len(catalog.all_sessions()) == 2
    tables = store.chat_list._ask(lambda tables: tables)
    sql = "UPDATE catalogue_rows SET state = '{]' WHERE session_id = ?"
    tables.transact(lambda transaction: transaction.execute(sql, (bad,)))
    assert ids(catalog.all_sessions()) == [good]
    assert bad in caplog.text
    with sqlite3.connect(store.log.path) as connection:
        state = connection.execute("SELECT state FROM sessions WHERE session_id = ?", (good,)).fetchone()[0]
        connection.execute("UPDATE sessions SET state = ? WHERE session_id = ?", (state, bad))
    store.rebuild()
    catalog.rename_session(bad, "Good again")
    assert len(catalog.all_sessions()) == 2


def test_a_broken_file_of_views_lists_from_memory_until_it_is_healed(
    open_store: Callable[..., SessionStore], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """W11, V5: the list goes on, and says so."""
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "views.db").write_bytes(b"something else" * 1000)
    store = open_store(views=True, search=False)
    catalog = SessionCatalog(store)
    made = [chat(catalog, ONE).session_id]
    with caplog.at_level(logging.WARNING):
        assert ids(catalog.all_sessions()) == made
    assert "listed from memory" in caplog.text
    made.insert(0, chat(catalog, TWO).session_id)
    assert ids(catalog.all_sessions()) == made
    (tmp_path / "sessions" / "views.db").unlink()
    assert store.wait_for_views()
    made.insert(0, chat(catalog, THREE).session_id)
    assert ids(catalog.all_sessions()) == made


def test_deleting_the_views_gives_identical_rows(open_store: Callable[..., SessionStore], tmp_path: Path) -> None:
    """V1, W12: an invariant."""
    store = open_store(views=True, search=False)
    catalog = SessionCatalog(store)
    parent = chat(catalog, ONE, TWO)
    catalog.branch_session(parent.session_id)
    catalog.rotate_session(parent.session_id, "other")
    entry = store.get_or_create_session(source())
    store.append_to_transcript(entry.session_id, ONE)
    store.compress_session(entry.session_id, None, [TWO])
    catalog.new_session()
    before = catalog.all_sessions(include_hidden=True)
    assert len(before) == 4
    for path in (tmp_path / "sessions").glob("views.db*"):
        path.unlink()
    assert catalog.all_sessions(include_hidden=True) == before


# What it costs


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_hundred_lists_open_no_file_and_write_nothing(
    open_store: Callable[..., SessionStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W14: an invariant; nor is any session read, or a transcript."""
    store = open_store(views=True, search=False)
    catalog = SessionCatalog(store)
    made = [chat(catalog, ONE, TWO).session_id for _ in range(20)]
    with ThreadPoolExecutor(8) as threads:  # connections are kept for as many as ask at once, up to four
        for each in [threads.submit(catalog.all_sessions) for _ in range(200)]:
            assert len(each.result()) == 20
    folder = tmp_path / "sessions"
    before = {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}
    files = open_files()
    asked: list[str] = []
    query = SQLiteTables.query
    monkeypatch.setattr(SQLiteTables, "query", lambda self, sql, *rest: (asked.append(sql), query(self, sql, *rest))[1])
    monkeypatch.setattr(type(store.log.reader), "payloads", None)
    monkeypatch.setattr(type(store.log.reader), "recorded", None)
    for _ in range(100):
        assert len(catalog.all_sessions(limit=10)) == 10
        assert set(ids(catalog.all_sessions())) == set(made)
    limit = time.monotonic() + 10
    while open_files() > files and time.monotonic() < limit:  # the runner may be reading too
        time.sleep(0.01)
    assert open_files() <= files
    assert {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")} == before
    assert all("catalogue_rows" in sql or "FROM views" in sql for sql in asked)


# What was erased, archived or imported


def test_a_time_that_a_branch_took_from_an_erased_message_is_gone(catalog: SessionCatalog, store: SessionStore) -> None:
    """W6, V15: erasing a message erases it wherever it was taken to."""
    parent = chat(catalog, ONE, TWO)
    branch = catalog.branch_session(parent.session_id).session_id
    second = catalog.branch_session(branch).session_id
    assert {row["last_message_at"] for row in catalog.all_sessions()} == {200.0}
    position = store.log.query("SELECT position FROM log WHERE topic = 'message.appended' ORDER BY position DESC")
    store.erase(positions=[position[0][0]], reason="asked to")
    assert {row["session_id"] for row in catalog.all_sessions()} == {parent.session_id, branch, second}
    assert {row["last_message_at"] for row in catalog.all_sessions()} == {100.0}


def test_what_was_in_a_chain_with_an_erased_session_stands_for_itself(
    catalog: SessionCatalog, store: SessionStore
) -> None:
    """W12, V15: nobody knows any more that one went on for the other."""
    head = chat(catalog, ONE)
    store.end_session(head.session_id, "cli_close")
    tip = chat(catalog, TWO, parent_session_id=head.session_id).session_id
    assert ids(catalog.all_sessions()) == [tip]
    store.erase(session_id=tip, reason="asked to")
    rows = catalog.all_sessions(include_hidden=True)
    assert head.session_id in ids(rows)
    assert not any("_lineage_tip_id" in row for row in rows)


def test_no_byte_of_an_erased_chat_is_left_in_the_list(open_store: Callable[..., SessionStore], tmp_path: Path) -> None:
    """V15, W11: title, words, folder and what rows of others repeat of it; in the views and in the log."""
    store = open_store(views=True, search=False)
    catalog = SessionCatalog(store)
    words = ["Ada Lovelace", "my secret", "ada-folder", "in a hurry"]
    session = catalog.new_session(workspace=f"/{words[2]}").session_id
    catalog.rename_session(session, f"{words[0]}'s trip")
    catalog.save_messages(session, [{**ONE, "content": words[1]}])
    branch = catalog.branch_session(session, title="Branch").session_id
    catalog.start_turn(session, "s-1", words[3])
    files = [tmp_path / "sessions" / name for name in ("views.db", "views.db-wal", "sessions.db", "sessions.db-wal")]
    listed = str(catalog.all_sessions())
    assert all(word in listed for word in words if word != words[1])
    for each in (session, branch):
        assert store.erase(session_id=each, reason="asked to", purge=True).purged
    assert not [word for word in words if word in str(catalog.all_sessions(include_hidden=True))]
    held = b"".join(path.read_bytes() for path in files if path.exists())
    assert [word for word in words if word.encode() in held] == []
    assert store.verify_views().ok


def test_the_list_in_memory_lets_go_of_what_was_erased(open_store: Callable[..., SessionStore]) -> None:
    """V15: in the call that erases, not when somebody lists again."""
    store = open_store(views=False)
    catalog = SessionCatalog(store)
    session = chat(catalog, ONE).session_id
    catalog.rename_session(session, "Ada's trip")
    assert "Ada" in str(catalog.all_sessions())
    store.erase(session_id=session, reason="asked to")
    assert store.chat_list._memory is not None
    assert "Ada" not in str(store.chat_list._memory[0].query("SELECT state FROM catalogue_rows"))


def test_an_archived_conversation_is_listed_with_what_is_known(
    catalog: SessionCatalog, store: SessionStore, clock: FakeClock, tmp_path: Path
) -> None:
    """V16, W11: reading it says where it is; restored, its row is what it was."""
    session = chat(catalog, ONE, TWO).session_id
    catalog.rename_session(session, "Trip")
    store.end_session(session, "cli_close")
    before = catalog.all_sessions()
    clock.advance(days=2)
    archive = tmp_path / "old.archive"
    assert store.archive(clock(), archive).messages == 2
    (row,) = catalog.all_sessions()
    assert (row["title"], row["message_count"]) == ("Trip", 2)
    assert row == expected(catalog, session)
    with pytest.raises(ArchivedError):
        catalog.get_session(session)
    store.restore(archive)
    assert catalog.all_sessions() == before


def test_an_imported_folder_of_chats_is_listed_as_it_was(
    catalog: SessionCatalog, store: SessionStore, tmp_path: Path
) -> None:
    """V18, W11: places, projects, times and chains."""
    folder = tmp_path / "webui" / "sessions"
    folder.mkdir(parents=True)
    common = {"workspace": "/work", "model": "large", "created_at": 50.0}
    chats = [
        {**common, "session_id": "a1", "title": "One", "messages": [ONE, TWO], "updated_at": 900.0, "pinned": True},
        {**common, "session_id": "b2", "title": "Two", "messages": [THREE], "updated_at": 300.0, "project_id": "4f1d"},
        {**common, "session_id": "c3", "title": "Old", "messages": [ONE], "updated_at": 100.0, "archived": True},
        {**common, "session_id": "d4", "title": "Untitled", "messages": [], "updated_at": 50.0},
    ]
    for each in chats:
        (folder / f"{each['session_id']}.json").write_text(json.dumps(each))
    index = [{key: value for key, value in each.items() if key != "messages"} for each in chats]
    (folder / "_index.json").write_text(json.dumps(index))
    (folder.parent / "projects.json").write_text(json.dumps([{"project_id": "4f1d", "name": "Site"}]))
    store.import_from(folder)
    rows = catalog.all_sessions()
    assert ids(rows) == ["a1", "b2", "c3"]
    assert [(row["updated_at"], row["last_message_at"]) for row in rows] == [(900, 200), (300, 300), (100, 100)]
    assert [(row["pinned"], row["archived"], row["project_id"]) for row in rows] == [
        (True, False, None),
        (False, False, "4f1d"),
        (False, True, None),
    ]
    assert "d4" in ids(catalog.all_sessions(include_hidden=True))
    assert rows == [expected(catalog, each) for each in ids(rows)]


def test_a_chain_whose_segments_change_at_once_is_listed_once(catalog: SessionCatalog, store: SessionStore) -> None:
    """W12, W9: its tip goes by another id, and its head was changed before."""
    head = chat(catalog, ONE).session_id
    store.end_session(head, "cli_close")
    tip = chat(catalog, TWO, parent_session_id=head).session_id
    assert ids(catalog.all_sessions()) == [tip]
    catalog.rename_session(head, "Trip")
    catalog.rotate_session(tip, "other")
    (row,) = catalog.all_sessions()
    assert (row["session_id"], row["title"], row["_lineage_tip_id"]) == ("other", "Trip", "other")
