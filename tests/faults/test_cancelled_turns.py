"""Turns whose begin is cancelled or interrupted: none stays open, because nobody has the token that ends it (G36)."""

import asyncio
import contextlib
import gc
import inspect
import random
import threading
from collections.abc import Callable, Coroutine, Iterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from engine import AsyncSessionStore, Platform, SessionEntry, SessionSource, SessionStore, TurnInProgressError
from engine.claims import GIVEN_UP
from engine.domain import events as e
from engine.log.errors import DiskFullError, NestedCommandError
from engine.turns import AsyncTurn
from projections.inline.turns import open_turns
from tests.chance import SEED, SOAK
from tests.faults.interrupts import InterruptedAt, in_files
from tests.gateway.support import until

CANCELLATIONS, STRIDE = (20_000, 1) if SOAK > 1 else (1_000, 7)
PATIENCE = 300.0
KEPT: list[AsyncTurn] = []
KEY = "agent:main:telegram:dm:chat"
NOW = datetime(2026, 7, 1, 14, 25, 30, tzinfo=UTC)
TURN_CODE = in_files(
    *("engine/turns.py", "engine/renewals.py", "engine/store.py", "engine/runner.py", "engine/commands/turns.py")
)


@pytest.fixture
def clock() -> list[datetime]:
    """The times the clock was set to; the last one counts."""
    return [NOW]


@pytest.fixture
def store(tmp_path: Path, clock: list[datetime]) -> Iterator[SessionStore]:
    with SessionStore(tmp_path / "sessions", clock=lambda: clock[-1], synchronous="OFF") as store:
        yield store


def source(name: str = "chat") -> SessionSource:
    return SessionSource(Platform.TELEGRAM, name, user_id="u")


def none_stays_open(store: SessionStore) -> None:
    until(lambda: not open_turns(store.log.reader))


async def cancelled_after(pause: float, coroutine: Coroutine[Any, Any, None]) -> bool:
    """Run a coroutine as a task, and cancel it after some turns of the loop, or some time; True if that ended it."""
    task = asyncio.ensure_future(coroutine)
    if pause < 0:
        for _ in range(int(-pause)):
            await asyncio.sleep(0)
    else:
        await asyncio.sleep(pause)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    except (TurnInProgressError, TimeoutError):
        pass
    return False


class Storm:
    """Tasks that begin turns and append messages in every way, each cancelled at some moment."""

    def __init__(self, store: SessionStore, chance: random.Random) -> None:
        self.store, self.chance = store, chance
        self.begun = 0
        self.cancelled = 0
        self.given: dict[str, str] = {}
        self.answered: dict[str, int] = {}

    async def blow(self, cancellations: int) -> None:
        """Blow until so many tasks were cancelled, and some others were not."""
        face = AsyncSessionStore(self.store)
        lanes = [source(f"chat-{number}") for number in range(20)]
        entries = [await face.get_or_create_session(each) for each in lanes]

        async def gusts() -> None:
            while self.cancelled < cancellations or not self.answered:
                number = self.chance.randrange(len(lanes))
                self.begun += 1
                way = self.chance.choice(self.ways)(self, face, lanes[number], entries[number])
                longest = self.chance.choice([0.004, 0.1])  # so that a slow machine answers some, too
                pause = self.chance.choice([-self.chance.randrange(6), self.chance.uniform(0, longest)])
                if await cancelled_after(pause, way):
                    self.cancelled += 1

        await asyncio.gather(*(gusts() for _ in range(30)))

    async def _begin_and_end(self, face: AsyncSessionStore, _where: SessionSource, entry: SessionEntry) -> None:
        await face.end_turn(await face.begin_turn(entry.session_key))

    async def _begin_in_time(self, face: AsyncSessionStore, _where: SessionSource, entry: SessionEntry) -> None:
        token = await asyncio.wait_for(face.begin_turn(entry.session_key), self.chance.uniform(0, 0.002))
        await face.end_turn(token)

    async def _turn(self, face: AsyncSessionStore, where: SessionSource, _entry: SessionEntry) -> None:
        async with face.turn(where, wait=0.05):
            await asyncio.sleep(self.chance.uniform(0, 0.001))

    async def _append(self, face: AsyncSessionStore, _where: SessionSource, entry: SessionEntry) -> None:
        message_id = f"m-{len(self.given)}"
        self.given[message_id] = entry.session_id
        message = {"role": "user", "content": message_id, "message_id": message_id}
        position = await face.append_to_transcript(entry.session_id, message)
        assert position is not None
        self.answered[message_id] = position

    ways = (_begin_and_end, _begin_in_time, _turn, _append)

    def check(self) -> None:
        """Nobody's turn stays open; what was answered is where it was said to be, and nothing is there twice."""
        none_stays_open(self.store)
        found: dict[str, int] = {}
        for envelope in self.store.log.events():
            if isinstance(envelope.event, e.MessageAppended):
                assert envelope.event.message_id not in found, "a message was stored twice"
                assert self.given[envelope.event.message_id or ""] == envelope.stream.removeprefix("session:")
                found[envelope.event.message_id or ""] = envelope.position
        assert self.answered.items() <= found.items()
        assert self.store.verify().ok


def test_a_storm_of_cancellations_leaves_no_turn_open(store: SessionStore) -> None:
    """G36, G47, G48: and no message that was answered is missing, none is there twice."""
    storm = Storm(store, random.Random(SEED))
    asyncio.run(storm.blow(CANCELLATIONS))
    storm.check()


async def begin(store: AsyncSessionStore) -> None:
    await store.begin_turn(KEY)
    await asyncio.sleep(PATIENCE)


async def hold(store: AsyncSessionStore) -> None:
    turns = [store.turn(source()), store.turn(source("other"))]
    async with turns[0], turns[1]:
        await asyncio.sleep(PATIENCE)


async def hold_and_keep(store: AsyncSessionStore) -> None:
    KEPT.append(store.turn(source()))  # nothing collects it
    async with KEPT[-1]:
        pass
    await asyncio.sleep(PATIENCE)


async def hold_and_end(store: AsyncSessionStore) -> None:
    async with store.turn(source()):
        pass
    await asyncio.sleep(PATIENCE)


@pytest.mark.parametrize("way", [begin, hold, hold_and_end, hold_and_keep])
def test_a_task_cancelled_at_any_step_leaves_no_turn_that_nobody_holds(
    store: SessionStore, way: Callable[[AsyncSessionStore], Coroutine[Any, Any, None]]
) -> None:
    """G36: a begun turn may stay only if its token was given to the caller, which was cancelled afterwards."""
    store.get_or_create_session(source())

    async def cancel_at(steps: int) -> bool:
        """Return True if the task got to its last step, where it slept."""
        coroutine = way(AsyncSessionStore(store))
        task = asyncio.ensure_future(coroutine)
        for _ in range(steps):
            waiting: Any = getattr(task, "_fut_waiter", None)
            if waiting is not None:
                await asyncio.wait([waiting], timeout=0.05)
            await asyncio.sleep(0)
        reached = bool(inspect.getcoroutinestate(coroutine) == inspect.CORO_SUSPENDED and _sleeps(coroutine))
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        return reached

    for steps in count():
        if asyncio.run(cancel_at(steps)):
            break
        gc.collect()
        none_stays_open(store)
    assert steps > 1


def _sleeps(coroutine: Any) -> bool:
    """Return True if a coroutine waits in its own sleep, past all that is tested."""
    return coroutine.cr_await is not None and getattr(coroutine.cr_await, "__name__", "") == "sleep"


def test_a_loop_that_is_dropped_with_its_tasks_leaves_no_turn_open(store: SessionStore) -> None:
    """G36: nothing can be awaited any more; what is left of the tasks is collected."""
    loop = asyncio.new_event_loop()
    tasks: set[asyncio.Future[Any]] = set()

    async def run() -> None:
        face = AsyncSessionStore(store)
        tasks.add(asyncio.ensure_future(hold(face)))
        await asyncio.sleep(0.05)
        tasks.update(asyncio.ensure_future(face.begin_turn(key)) for key in keys)
        await asyncio.sleep(0)

    keys = [store.get_or_create_session(source(name)).session_key for name in ("a", "b", "c")]
    loop.run_until_complete(run())
    for task in tasks:
        assert not task.done()
        task._log_destroy_pending = False  # type: ignore[attr-defined]
    loop.close()
    del task
    tasks.clear()
    until(lambda: gc.collect() >= 0 and not open_turns(store.log.reader))


def test_a_turn_that_was_given_up_is_taken_over_by_the_next_begin(
    store: SessionStore, clock: list[datetime], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """G36: also while it cannot be ended; it did nothing, so nothing is to be resumed."""

    def fail(_: str) -> None:
        raise DiskFullError("full")

    entry = store.get_or_create_session(source())
    monkeypatch.setattr(store.runner.renewals, "_end", fail)

    async def run() -> None:
        task = asyncio.ensure_future(AsyncSessionStore(store).begin_turn(KEY))
        await asyncio.sleep(0)
        until(lambda: bool(open_turns(store.log.reader)))  # it has begun, and the loop could not say so yet
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    until(lambda: "could not be ended" in caplog.text)
    clock.append(NOW + timedelta(days=1))
    assert store.recover_interrupted_turns() == 0, "the lease ran out, but nothing was interrupted"
    token = store.begin_turn(entry.session_key)
    ended = [each.event for each in store.log.events() if isinstance(each.event, (e.TurnEnded, e.TurnInterrupted))]
    assert [(each.outcome, each.error) for each in ended if isinstance(each, e.TurnEnded)] == [("failed", GIVEN_UP)]
    assert len(ended) == 1
    assert not store.list_sessions()[0].resume_pending
    assert store.end_turn(token)


@pytest.mark.parametrize("way", ["begin_turn", "turn"])
def test_an_interrupt_at_any_moment_leaves_no_turn_open(store: SessionStore, way: str) -> None:
    """G36: in the sync form."""
    store.get_or_create_session(source())
    for number in count(1, STRIDE):
        with InterruptedAt(number, TURN_CODE) as interrupt:
            if way == "begin_turn":
                store.begin_turn(KEY)
            else:
                with store.turn(source()):
                    pass
        if interrupt.left > 0:
            break
        none_stays_open(store)
    assert number > 100, "there was nothing to interrupt"


def test_a_thread_interrupted_in_the_line_lets_the_others_go_on(store: SessionStore) -> None:
    """G36."""
    for number in count(1, STRIDE):
        interrupts: list[InterruptedAt] = []

        def wait(number: int = number, interrupts: list[InterruptedAt] = interrupts) -> None:
            with InterruptedAt(number, TURN_CODE) as interrupt:
                interrupts.append(interrupt)
                with store.turn(source()):
                    pass

        def go_on() -> None:
            with store.turn(source()):
                pass

        with store.turn(source()):
            threads = [threading.Thread(target=wait, daemon=True), threading.Thread(target=go_on, daemon=True)]
            for thread in threads:
                thread.start()
        for thread in threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()
        if interrupts[0].left > 0:
            break
    none_stays_open(store)


def test_a_worker_that_begins_its_own_turn_again_is_told_so(store: SessionStore) -> None:
    """G36: it would wait for itself."""
    with store.turn(source()):
        with pytest.raises(NestedCommandError, match="for ever"), store.turn(source()):
            pass
        with pytest.raises(TurnInProgressError), store.turn(source(), wait=0.01):
            pass

    async def run() -> None:
        face = AsyncSessionStore(store)
        async with face.turn(source()):
            with pytest.raises(NestedCommandError, match="for ever"):
                await face.turn(source()).__aenter__()

    asyncio.run(run())
    none_stays_open(store)


def test_a_turn_that_is_dropped_or_interrupted_while_kept_does_not_stay_open(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """G36."""
    turn = store.turn(source())
    turn.__enter__()
    del turn
    none_stays_open(store)

    def interrupt(*_: object, touch: bool = True) -> object:
        if not touch:
            raise KeyboardInterrupt
        return entry

    entry = store.get_or_create_session(source())
    kept = store.turn(source())
    monkeypatch.setattr(store, "get_or_create_session", interrupt)
    with pytest.raises(KeyboardInterrupt):
        kept.__enter__()
    none_stays_open(store)
    with pytest.raises(ValueError, match="inside its block"):
        _ = kept.token
