"""Commands on many lanes hold the write lock for a few of them at a time (G36, G41)."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engine import AsyncSessionStore, SessionStore
from tests.gateway.children import Child
from tests.gateway.effort import watched
from tests.gateway.support import source, tables

LANES = 1300


def filled(store: SessionStore, count: int) -> None:
    for n in range(count):
        store.get_or_create_session(source(str(n)))


def marked(store: SessionStore) -> int:
    return sum(entry.resume_pending for entry in store.iter_sessions())


def test_marking_what_a_restart_cut_off_is_done_in_parts(store):
    """(G36) With 100,000 lanes it held the write lock for 3.9 s."""
    filled(store, LANES)
    with watched(store) as effort:
        assert store.suspend_recently_active() == LANES
    changed = [section.rows for section in effort.sections if section.rows]
    assert len(changed) == 3, "500 lanes at a time"
    assert max(changed) < 500 * 5
    assert marked(store) == LANES
    assert store.suspend_recently_active() == 0


def test_pruning_is_done_in_parts(store, clock):
    """(G41) With 100,000 lanes it held the write lock for 3.1 s."""
    filled(store, LANES)
    clock.advance(days=100)
    with watched(store) as effort:
        assert store.prune_old_entries(90) == LANES
    changed = [section.rows for section in effort.sections if section.rows]
    assert len(changed) == 3
    assert max(changed) < 500 * 5
    assert store.list_sessions() == []


def test_from_a_task_the_host_is_asked_about_a_part_at_a_time(open_store, clock):
    """(G30, G41) And what it works on stays."""
    asked: list[str] = []

    def busy(key: str) -> bool:
        asked.append(key)
        return key.endswith("7")

    store = open_store(None, busy)
    filled(store, 620)
    clock.advance(days=100)

    async def prune() -> int:
        return await AsyncSessionStore(store).prune_old_entries(90)

    assert asyncio.run(prune()) == 620 - 62
    assert len(asked) == len(set(asked)) == 620
    assert len(store.list_sessions()) == 62


def test_a_lane_that_is_touched_between_two_parts_is_not_pruned(open_store, clock):
    """(G41) What was found old is looked at again under the lock."""
    spoken: list[str] = []

    def busy(key: str) -> bool:
        if not spoken:
            spoken.append(store.get_or_create_session(source("600")).session_key)
        return False

    store = open_store(None, busy)
    filled(store, 610)
    clock.advance(days=100)
    assert store.prune_old_entries(90) == 609
    assert [entry.session_key for entry in store.list_sessions()] == spoken


def test_what_a_cancelled_await_began_is_done(store):
    """(G36) Nobody is left unmarked because a caller stopped waiting."""
    filled(store, 1100)

    async def cancelled() -> None:
        tasks = AsyncSessionStore(store)
        marking = asyncio.ensure_future(tasks.suspend_recently_active())
        await asyncio.sleep(0)
        marking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await marking
        await tasks.close()

    asyncio.run(cancelled())
    with SessionStore(store.sessions_dir) as again:
        assert marked(again) == 1100


def test_killed_between_two_parts_it_leaves_whole_parts_and_the_next_call_does_the_rest(tmp_path: Path):
    """(G41) A real process and a real signal."""
    with SessionStore(tmp_path, synchronous="OFF") as store:
        filled(store, LANES)
    with Child("sweep_and_die", tmp_path, "prune_old_entries", 90) as child:
        child.process.wait(300)
        assert child.rest() == []
    with open_later(tmp_path) as store:
        assert len(store.list_sessions()) == LANES - 1000
        before = tables(store)
        store.rebuild()
        assert {**tables(store), "projections": before["projections"]} == before
        assert store.prune_old_entries(90) == LANES - 1000
        assert store.list_sessions() == []


def open_later(folder: Path) -> SessionStore:
    """The store after the time that the child had."""
    later = datetime.now(UTC) + timedelta(days=100)
    return SessionStore(folder, clock=lambda: later, synchronous="OFF")
