"""Nothing blocks the event loop: no SQL and no file on its thread, whatever is asked of the awaitable store."""

import asyncio
import json
import os
import time
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from engine import (
    AsyncSessionCatalog,
    AsyncSessionStore,
    AsyncTurn,
    ForeignFileError,
    Platform,
    SessionSource,
    SessionStore,
    TurnInProgressError,
    TurnLostError,
    UnknownSessionError,
)
from engine.clock import boot_time, local_now
from engine.domain.turn import BootTime
from tests.gateway.loop_watch import Watch, watching
from tests.gateway.support import policy, source, until

ADA = source()
BOB = SessionSource(Platform.WHATSAPP, "1111@lid", user_id="1111@lid")
HELLO = {"role": "user", "content": "hello", "message_id": "m1"}


class Clock:
    """The machine's clocks, time zone included, moved forward when told."""

    def __init__(self) -> None:
        self.moved = timedelta(0)

    def __call__(self) -> datetime:
        return local_now() + self.moved

    def since_boot(self) -> BootTime:
        boot, at = boot_time()
        return BootTime(boot, at + self.moved // timedelta(microseconds=1))


@pytest.fixture
def aliases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a WhatsApp bridge that knows Bob by two ids."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    folder = tmp_path / "whatsapp" / "session"
    folder.mkdir(parents=True)
    (folder / "lid-mapping-1111.json").write_text(json.dumps("31612345678"))
    return folder


async def route(store: AsyncSessionStore, clock: Clock, folder: Path) -> None:
    """Lanes known and unknown, alone and many at once, moved by others, expired, with aliases in files."""
    entry = await store.get_or_create_session(ADA)
    assert (await store.get_or_create_session(ADA)).session_id == entry.session_id
    await store.get_or_create_session(ADA, touch=False)
    others = [source(str(number)) for number in range(40)]
    await asyncio.gather(*(store.get_or_create_session(each) for each in others for _ in range(3)))
    for _ in range(2):
        assert (await store.get_or_create_session(BOB)).session_key == "agent:main:whatsapp:dm:1111"
    await asyncio.to_thread((folder / "lid-mapping-1111.json").write_text, json.dumps("222"))
    assert (await store.get_or_create_session(BOB)).session_key == "agent:main:whatsapp:dm:222"
    await asyncio.to_thread(change_elsewhere, store.store, entry.session_key)
    await asyncio.gather(*(store.get_or_create_session(each) for each in (ADA, *others)))
    clock.moved += timedelta(hours=2)
    await store.get_or_create_session(ADA)  # its idle time is over; the host is asked whether it works on it
    await store.get_or_create_session(ADA, force_new=True)
    cancelled = asyncio.ensure_future(store.get_or_create_session(source("cancelled")))
    await asyncio.sleep(0)
    cancelled.cancel()
    await asyncio.gather(cancelled, return_exceptions=True)


def change_elsewhere(store: SessionStore, session_key: str) -> None:
    """Change a lane as another process does."""
    with SessionStore(store.sessions_dir, synchronous="OFF") as other:
        other.update_session(session_key, 1)


async def command_lanes(store: AsyncSessionStore, key: str) -> None:
    await store.update_session(key, 5, input_tokens=2)
    await store.suspend_session(key)
    await store.get_or_create_session(ADA)
    await store.mark_resume_pending(key)
    await store.clear_resume_pending(key)
    await store.suspend_recently_active()
    await store.set_model_override(key, {"model": "large"})
    await store.get_model_override(key)
    entry = await store.reset_session(key)
    assert entry is not None
    await store.consume_notices(key)
    await store.is_session_expired(entry)
    await store.is_session_finalizable(entry)
    await store.set_expiry_finalized(entry)
    await store.prune_old_entries(30)
    fork = await store.fork_session(entry.session_id)
    await store.switch_session(key, fork)


async def take_turns(store: AsyncSessionStore, clock: Clock) -> None:
    async with store.turn(ADA) as turn:
        await turn.append(HELLO)
        await turn.append_messages([{"role": "assistant", "content": "hello Ada"}])
        await turn.load_transcript()
        await turn.retry()
        with pytest.raises(TurnInProgressError):
            async with store.turn(ADA, wait=0):
                pass
    async with store.turn(BOB, lease_seconds=1.5):
        await asyncio.to_thread(until, lambda: was_renewed(store.store))
    async with store.turn(BOB) as turn:
        clock.moved += timedelta(minutes=11)  # in the eyes of its own renewal no time has passed
        await store.recover_interrupted_turns()
        with pytest.raises(TurnLostError):
            await turn.append(HELLO)
    await asyncio.gather(*(one_turn(store) for _ in range(3)))
    token = await store.begin_turn((await store.get_or_create_session(ADA)).session_key)
    await store.renew_turn(token)
    await store.end_turn(token)


def was_renewed(store: SessionStore) -> bool:
    return any(each.event.topic == "turn.renewed" for each in store.log.events())


async def one_turn(store: AsyncSessionStore) -> None:
    async with store.turn(ADA, wait=30) as turn:
        await turn.append({"role": "user", "content": "next"})


async def write_transcripts(store: AsyncSessionStore) -> None:
    session_id = (await store.get_or_create_session(ADA)).session_id
    message = {"role": "user", "content": "x" * 10_000, "message_id": "m2"}
    await asyncio.gather(*(store.append_to_transcript(session_id, message) for _ in range(5)))
    await store.append_messages(session_id, [{"role": "assistant", "content": "y"}] * 50)
    await asyncio.gather(*(store.load_transcript(session_id) for _ in range(5)))
    await store.recorded_messages(session_id)
    await store.has_platform_message_id(session_id, "m2")
    await store.rewind_session(session_id)
    await store.restore_rewound(session_id)
    await store.rewrite_transcript(session_id, [HELLO])
    await store.set_session_title(session_id, "Delft")
    await store.set_auto_title(session_id, "Trip")
    child = await store.compress_session(session_id)
    await store.end_session(child, "agent_close")
    await store.reopen_session(child)
    with pytest.raises(UnknownSessionError):
        await store.append_to_transcript("nobody", HELLO)


async def ask(store: AsyncSessionStore) -> None:
    entries = await store.list_sessions()
    assert [each async for each in store.iter_sessions()] == entries
    entry = entries[0]
    await store.lookup_by_session_id(entry.session_id)
    await store.peek_session_id(entry.session_key)
    await store.peek_entry(entry.session_key)
    await store.names_like(entry.session_id[:8], 5)
    await store.sessions_of(entry.session_key)
    await store.has_any_sessions()
    await store.get_session(entry.session_id)
    await store.conversation(entry.session_id)
    async with store.follow(timeout=0.01, lanes=[entry.session_key]) as follower:
        assert [each async for each in follower]
    catalog = AsyncSessionCatalog(store)
    await catalog.rename_session((await catalog.new_session()).session_id, "Trip")
    assert await catalog.all_sessions(True, limit=5)
    async with catalog.follow(timeout=0.01) as rows:
        assert [each async for each in rows]
    await store.quarantined()
    await store.health()
    await store.metrics()
    await store.verify()
    await store.rebuild()
    await store.erase(session_id=entry.session_id, reason="asked to", purge=True)
    await store.purge()
    assert await store.wait_for_views()
    assert (await store.search("hello OR *")).next_cursor is None
    await store.usage(["day"])
    await store.verify_views()
    await store.rebuild_views()
    await store.backup(store.store.sessions_dir / "copy.db")
    archive = store.store.sessions_dir / "archive"
    assert (await store.archive(timedelta(0), archive)).messages
    assert (await store.restore(archive)).messages
    with pytest.raises(ForeignFileError):
        await store.import_from("/nowhere")


async def everything(folder: Path, aliases: Path, clock: Clock) -> None:
    def busy(_: str) -> bool:
        time.sleep(0.001)
        return False

    options: dict[str, Any] = {"clock": clock, "synchronous": "OFF", "cached_lanes": 20}
    config = policy("idle", idle_minutes=60)
    async with await AsyncSessionStore.open(folder, config, busy, **options) as store:
        await route(store, clock, aliases)
        await command_lanes(store, (await store.get_or_create_session(ADA)).session_key)
        await take_turns(store, clock)
        await write_transcripts(store)
        await ask(store)


def watched(run: Callable[[], Awaitable[None]]) -> Watch:
    """Run on a loop whose thread is watched from its first step to its last."""

    async def main() -> Watch:
        await asyncio.to_thread(bool)  # the first one imports a module
        with watching() as watch:
            await run()
        return watch

    return asyncio.run(main())


def test_no_sql_and_no_file_on_the_thread_of_the_loop(
    tmp_path: Path, aliases: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every public method of the store and of its turns is awaited, and none touches the disk there."""
    clock = Clock()
    monkeypatch.setattr("engine.store.boot_time", clock.since_boot)
    watch = watched(lambda: everything(tmp_path / "sessions", aliases, clock))
    assert watch.found == []
    for kind in (AsyncSessionStore, AsyncTurn):
        public = {f"{kind.__name__}.{name}" for name, value in vars(kind).items() if callable(value) and name[0] != "_"}
        assert public - watch.entered == set()


@pytest.mark.parametrize(
    ("act", "seen"),
    [
        (lambda store, folder: store.load_transcript("nobody"), "Connection"),
        (lambda store, folder: store.suspend_session("nobody"), "Connection"),
        (lambda store, folder: store.get_or_create_session(BOB), "posix.stat"),
        (lambda store, folder: folder.exists(), "posix.stat"),
        (lambda store, folder: list(os.scandir(folder)), "posix.scandir"),
        (lambda store, folder: (folder / "notes").write_text("…"), "open"),
        (lambda store, folder: time.sleep(0), "time.sleep"),
    ],
    ids=["read", "command", "route", "stat", "list", "write", "sleep"],
)
def test_what_waits_for_the_disk_is_seen(tmp_path: Path, act: Callable[[SessionStore, Path], Any], seen: str) -> None:
    with SessionStore(tmp_path / "sessions", synchronous="OFF") as store:

        async def run() -> None:
            act(store, tmp_path)

        found = watched(run).found
    assert any(seen in each for each in found), found


def test_a_loop_that_only_waits_is_left_alone() -> None:
    async def run() -> None:
        await asyncio.sleep(0.001)
        await asyncio.to_thread(Path("/").exists)

    assert watched(run).found == []
