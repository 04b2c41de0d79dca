"""The awaitable face: the same methods with the same arguments, and the same results."""

import asyncio
import inspect
import threading
from typing import Any

import pytest

from engine import (
    AsyncSessionCatalog,
    AsyncSessionStore,
    ConflictError,
    SessionCatalog,
    SessionStore,
    UnknownSessionError,
)

FOR_THE_PACKAGE = {"changes", "bringing", "repairing", "sweeping"}


def public(kind: type) -> dict[str, Any]:
    return {name: each for name, each in inspect.getmembers(kind, inspect.isfunction) if not name.startswith("_")}


def test_every_method_can_be_awaited_with_the_same_arguments() -> None:
    plain, awaitable = public(SessionCatalog), public(AsyncSessionCatalog)
    assert set(awaitable) == set(plain) - FOR_THE_PACKAGE
    for name, method in awaitable.items():
        if name != "follow":  # returns an asynchronous iterator
            assert inspect.iscoroutinefunction(method), name
            assert str(inspect.signature(method)) == str(inspect.signature(plain[name])), name
    options = [
        list(inspect.signature(kind.__init__).parameters.values())[2:] for kind in (SessionCatalog, AsyncSessionCatalog)
    ]
    assert options[0] == options[1]


def test_a_chat_lives_through_everything(store: SessionStore) -> None:
    """W3, W8, W9, W16, W17, W19."""
    hello = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    loops: list[int] = []

    def asked() -> str:
        loops.append(threading.get_ident())
        return "asked"

    async def live() -> None:
        catalog = AsyncSessionCatalog(AsyncSessionStore(store), default_model=asked, live_streams=lambda: ["s2"])
        chat = (await catalog.new_session()).session_id
        assert (await catalog.get_session(chat)).model == "asked"
        assert (await catalog.rename_session(chat, "Trip")).title == "Trip"
        project = (await catalog.create_project("P"))["project_id"]
        assert await catalog.rename_project(project, "Q") == await catalog.recolor_project(project, None)
        assert [each["name"] for each in await catalog.list_projects()] == ["Q"]
        assert (await catalog.move_to_project(chat, project)).project_id == project
        await catalog.delete_project(project)
        assert await catalog.ensure_cron_project() == await catalog.ensure_cron_project()
        assert (await catalog.pin_session(chat)).pinned
        assert (await catalog.archive_session(chat)).archived
        assert (await catalog.set_attributes(chat, theme="dark")).extra == {"theme": "dark"}
        assert (await catalog.record_usage(chat, 5)).input_tokens == 5
        saved = await catalog.save_messages(chat, hello)
        assert saved.messages == hello
        with pytest.raises(ConflictError):
            await catalog.undo(chat, expected_version=saved.version - 1)
        assert (await catalog.branch_session(chat, 1)).messages == hello[:1]
        assert (await catalog.duplicate_session(chat)).messages == hello
        assert (await catalog.retry(chat))["text"] == "hello"
        assert (await catalog.save_messages(chat, hello)).messages == hello
        assert (await catalog.truncate_session(chat, 1)).messages == hello[:1]
        assert (await catalog.compress_session(chat, hello)).messages == hello
        assert (await catalog.undo(chat)).messages == []
        assert (await catalog.start_turn(chat, "s1", "hello")).active_stream_id == "s1"
        assert (await catalog.start_turn(chat, "s2", "again")).active_stream_id == "s2"
        with pytest.raises(ConflictError, match="live"):
            await catalog.start_turn(chat, "s3", "again")
        assert not await catalog.repair_stale_turn(chat, 0)
        before = (await catalog.get_session(chat)).messages
        done = await catalog.finish_turn(chat, "s2", [*before, {"role": "user", "content": "again"}])
        assert done.active_stream_id is None
        await catalog.start_turn(chat, "s4", "more")
        assert (await catalog.fail_turn(chat, "s4", "broken")).messages[-1]["_error"]
        await catalog.start_turn(chat, "s5", "more")
        assert (await catalog.cancel_turn(chat, "s5")).active_stream_id is None
        await catalog.start_turn(chat, "s6", "more")
        assert await catalog.repair_stale_turns(0) == [chat]
        assert (await catalog.rotate_session(chat, "second")).session_id == "second"
        assert (await catalog.clear_session(chat)).title == "Untitled"
        assert (await catalog.get_session(chat, metadata_only=True)).message_count == 0
        assert await catalog.delete_session(chat) is None
        with pytest.raises(UnknownSessionError):
            await catalog.get_session(chat)
        assert await catalog.sweep_drafts() == []

    asyncio.run(live())
    assert loops
    assert threading.get_ident() not in loops
    assert store.verify().ok


def test_it_stands_on_an_async_store(store: SessionStore) -> None:
    with pytest.raises(ValueError, match="store must be an AsyncSessionStore"):
        AsyncSessionCatalog(store)  # type: ignore[arg-type]
