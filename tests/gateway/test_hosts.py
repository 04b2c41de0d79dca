"""Faults of a host's own functions: they never return, or raise what Python takes for something else."""

import asyncio
import subprocess
import sys
import threading
from datetime import UTC, datetime

import pytest

from engine import AsyncSessionStore, EngineError, SessionEntry, runner
from tests.faults.children import ROOT
from tests.gateway.support import policy, source

KEY = "agent:main:telegram:dm:4711"
NEVER_RETURNS = """
import asyncio, sys, threading
from datetime import timedelta
from engine import AsyncSessionStore, GatewayConfig, Platform, SessionResetPolicy, SessionSource
from engine.clock import local_now

now = [timedelta(0)]
asked = threading.Event()

def busy(key):
    asked.set()
    threading.Event().wait()

async def main():
    policy = GatewayConfig(default_reset_policy=SessionResetPolicy(mode="idle", idle_minutes=1))
    store = await AsyncSessionStore.open(sys.argv[1], policy, busy, clock=lambda: local_now() + now[0])
    ada = SessionSource(Platform.TELEGRAM, "4711")
    await store.get_or_create_session(ada)
    now[0] = timedelta(hours=1)
    waiting = asyncio.ensure_future(store.get_or_create_session(ada))
    await asyncio.to_thread(asked.wait)
    print("asked", flush=True)

asyncio.run(main())
"""


def test_a_host_that_never_answers_does_not_keep_the_process_from_ending(tmp_path):
    """G30: a real process, whose callback waits for ever when the program ends."""
    command = [sys.executable, "-c", NEVER_RETURNS, str(tmp_path)]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (ended.returncode, ended.stdout) == (0, "asked\n"), ended.stderr


def test_an_await_ends_though_the_host_never_answers(open_store, clock, monkeypatch, caplog):
    """G30: no answer counts as busy, so the session goes on; everybody else is served meanwhile."""
    monkeypatch.setattr(runner, "_LONGEST_ANSWER", 0.05)
    never = threading.Event()
    store = open_store(policy("idle", idle_minutes=1), lambda key: never.wait(300))
    entries = [store.get_or_create_session(source(str(lane))) for lane in range(80)]
    clock.advance(hours=1)

    async def talk() -> list[SessionEntry]:
        face = AsyncSessionStore(store)
        found = [await asyncio.gather(*(face.get_or_create_session(source(str(lane))) for lane in range(80)))]
        assert not await face.is_session_expired(entries[0])
        assert await face.prune_old_entries(0.01) == 0
        return found[0]

    try:
        found = asyncio.run(asyncio.wait_for(talk(), 300))
    finally:
        never.set()
    assert [entry.session_id for entry in found] == [entry.session_id for entry in entries]
    assert "does not return" in caplog.text


def test_an_await_ends_though_the_clock_raises_stop_iteration(open_store):
    """A future refuses that error: the await waited for ever."""
    broken, ended = [False], []

    def clock() -> datetime:
        if broken[0]:
            raise StopIteration
        return datetime(2026, 7, 1, 14, 25, 30, tzinfo=UTC)

    async def talk() -> None:
        face = AsyncSessionStore(store)
        calls = {
            "route": lambda: face.get_or_create_session(source("new")),
            "route again": lambda: face.get_or_create_session(source()),
            "list": lambda: face.list_sessions(5),
            "append": lambda: face.append_to_transcript(entry.session_id, {"role": "user", "content": "x"}),
            "begin": lambda: face.begin_turn(KEY),
            "prune": lambda: face.prune_old_entries(1),
            "mark": lambda: face.suspend_recently_active(),
            "expired": lambda: face.is_session_expired(entry),
            "transcript": lambda: face.load_transcript(entry.session_id),
        }
        for name, call in calls.items():
            try:
                await asyncio.wait_for(call(), 300)
            except TimeoutError:
                pytest.fail(f"{name} never ended")
            except (RuntimeError, EngineError):
                ended.append(name)

    store = open_store(policy("idle", idle_minutes=1), clock=clock)
    entry = store.get_or_create_session(source())
    broken[0] = True
    asyncio.run(talk())
    broken[0] = False
    assert {"route", "list", "append", "begin", "prune", "mark", "expired"} <= set(ended)


def test_a_pool_of_daemon_threads_does_what_it_is_given_and_no_more(monkeypatch):
    """In order, by few threads, and nothing after it was shut down."""
    pool = runner.DaemonThreads(2, "test")
    gate, names = threading.Event(), set()

    def work(number: int) -> int:
        gate.wait(300)
        names.add(threading.current_thread().name)
        return number

    given = [pool.submit(work, number) for number in range(6)]
    late = [pool.submit(work, number) for number in range(3)]
    assert late[2].cancel()
    gate.set()
    assert [future.result(300) for future in given] == list(range(6))
    assert names <= {"test_0", "test_1"}
    pool.shutdown()
    with pytest.raises(RuntimeError, match="shutdown"):
        pool.submit(work, 1)
    assert late[0].result(300) == 0
