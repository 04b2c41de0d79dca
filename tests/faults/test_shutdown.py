"""Closing, back-pressure, cancellation and failing commands: every command has one outcome, and it is true."""

import asyncio
import dis
import gc
import inspect
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import pytest

from engine.domain.events import MessageAppended
from engine.log import EventLog, Transaction
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.log.errors import (
    ClosedLogError,
    ConflictError,
    CorruptLogError,
    LogError,
    NestedCommandError,
    StorageError,
)
from engine.log.writer import _Work
from tests.faults.disk import Disk, io_error

PATIENCE = 300.0


def message(name: str, stream: str = "session:s") -> Envelope:
    return Envelope(stream, NEXT_VERSION, MessageAppended(message={"role": "user", "content": name}), command=name)


def stored(path: Path) -> Counter[str]:
    with EventLog(path, read_only=True) as log:
        assert log.verify().ok
        return Counter(envelope.command for envelope in log.events())


class Plug:
    """A command that keeps the writer busy until it is pulled, so that others queue behind it."""

    def __init__(self, log: EventLog) -> None:
        self._begun, self._pulled = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=log.transact, args=(self._hold,))
        self._thread.start()
        assert self._begun.wait(PATIENCE)

    def _hold(self, transaction: Transaction) -> None:
        transaction.append([message("plug")])
        self._begun.set()
        assert self._pulled.wait(PATIENCE)

    def pull(self) -> None:
        self._pulled.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()


class Callers:
    """Threads that each give one command, and what came of it."""

    def __init__(self, count: int, call: Callable[[int], object]) -> None:
        self.outcomes: dict[int, object] = {}
        self._call = call
        self._threads = [threading.Thread(target=self._run, args=(n,), daemon=True) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def _run(self, number: int) -> None:
        try:
            self.outcomes[number] = self._call(number)
        except Exception as error:  # noqa: BLE001 - it is the outcome
            self.outcomes[number] = error

    def join(self) -> dict[int, object]:
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive(), "a caller was never answered"
        return self.outcomes


def until(condition: Callable[[], bool]) -> None:
    pause = threading.Event()
    for _ in range(int(PATIENCE / 0.005)):
        if condition():
            return
        pause.wait(0.005)
    pytest.fail("waited in vain")


class Interrupt:
    """Raises KeyboardInterrupt in the log's code where its n-th call begins or has returned.

    That is where the interpreter looks for signals. Only this thread is interrupted, and only once. The garbage
    collector waits: an interrupt inside what it finalises would be passed over and prove nothing.
    """

    def __init__(self, number: int) -> None:
        self.left = number
        self._last: dict[FrameType, int] = {}

    def __enter__(self) -> "Interrupt":
        self._before = sys.gettrace()
        gc.disable()
        sys.settrace(self._call)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        sys.settrace(self._before)
        gc.enable()
        return kind is KeyboardInterrupt

    def _call(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        code = frame.f_code
        if "engine/log/" not in code.co_filename or code.co_flags & inspect.CO_GENERATOR:
            return None  # a generator is also closed by the garbage collector, which passes over errors
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        self._look()
        return self._opcode

    def _opcode(self, frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "opcode":
            before = self._last.get(frame)
            self._last[frame] = frame.f_code.co_code[frame.f_lasti]
            if before is not None and dis.opname[before].startswith("CALL"):
                self._look()
        return self._opcode

    def _look(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise KeyboardInterrupt


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def log(path: Path) -> Iterator[EventLog]:
    with EventLog(path) as log:
        yield log


def test_close_writes_what_was_queued(path: Path, log: EventLog) -> None:
    plug = Plug(log)
    callers = Callers(20, lambda n: log.append([message(f"c{n}")]))
    until(lambda: log.health().queue_depth == 20)
    closing = threading.Thread(target=log.close)
    closing.start()
    until(lambda: log._unusable is not None)
    plug.pull()
    closing.join(PATIENCE)
    assert not closing.is_alive()
    outcomes = callers.join()
    assert sorted(position for positions in outcomes.values() for position in positions) == list(range(2, 22))
    assert stored(path) == Counter({"plug": 1, **{f"c{n}": 1 for n in range(20)}})


def test_close_without_draining_fails_the_queue_and_keeps_what_was_acknowledged(path: Path, log: EventLog) -> None:
    for n in range(5):
        log.append([message(f"before{n}")])
    plug = Plug(log)
    callers = Callers(20, lambda n: log.append([message(f"c{n}")]))
    until(lambda: log.health().queue_depth == 20)
    closing = threading.Thread(target=log.close, kwargs={"drain": False})
    closing.start()
    outcomes = callers.join()
    plug.pull()
    closing.join(PATIENCE)
    assert not closing.is_alive()
    assert all(isinstance(outcome, ClosedLogError) for outcome in outcomes.values()), outcomes
    assert stored(path) == Counter({"plug": 1, **{f"before{n}": 1 for n in range(5)}})


def test_closing_while_everybody_appends_gives_each_command_one_true_outcome(tmp_path: Path) -> None:
    for number in range(20):
        path = tmp_path / f"{number}.db"
        log = EventLog(path, synchronous="OFF", queue_limit=8)

        def append_until_closed(worker: int, log: EventLog = log) -> list[str]:
            acknowledged: list[str] = []
            while True:
                name = f"{worker}-{len(acknowledged)}"
                try:
                    log.append([message(name)])
                except ClosedLogError:
                    return acknowledged
                acknowledged.append(name)

        async def append_tasks(log: EventLog = log) -> list[str]:
            async def one(name: str) -> str | None:
                try:
                    await log.append_async([message(name)])
                except ClosedLogError:
                    return None
                return name

            acknowledged: list[str] = []
            while True:
                names = [f"a-{len(acknowledged)}-{n}" for n in range(30)]
                done = await asyncio.gather(*map(one, names))
                acknowledged += [name for name in done if name]
                if None in done:
                    return acknowledged

        callers = Callers(
            5, lambda n, work=append_until_closed, tasks=append_tasks: work(n) if n else asyncio.run(tasks())
        )
        until(lambda log=log: log.health().commands > 50)
        log.close(drain=number % 2 == 0)
        acknowledged = [name for names in callers.join().values() for name in names]
        assert stored(path) == Counter(acknowledged)


def test_nothing_works_after_close(log: EventLog) -> None:
    log.append([message("one")])
    log.close()
    log.close()

    async def append() -> list[int]:
        return await log.append_async([message("async")])

    uses: list[Callable[[], object]] = [
        lambda: log.append([message("two")]),
        lambda: log.transact(lambda transaction: transaction.position),
        lambda: asyncio.run(append()),
        lambda: list(log.events()),
        lambda: list(log.stream("session:s")),
        lambda: log.version("session:s"),
        lambda: log.last_position,
        lambda: log.verify(),
        lambda: log.erase([1], actor="a", reason="b"),
        lambda: log.health(),
    ]
    for use in uses:
        with pytest.raises(ClosedLogError, match="closed"):
            use()


def test_a_short_queue_holds_back_tasks_but_not_their_event_loop(path: Path) -> None:
    with EventLog(path, queue_limit=4) as log:

        async def run() -> None:
            plug = await asyncio.to_thread(Plug, log)
            tasks = [asyncio.create_task(_append_some(log, n)) for n in range(50)]
            for _ in range(200):  # the writer is held, the queue full: the loop must still turn
                assert log.health().queue_depth <= 4
                assert not any(task.done() for task in tasks)
                await asyncio.sleep(0)
            await asyncio.to_thread(plug.pull)
            positions = await asyncio.wait_for(asyncio.gather(*tasks), PATIENCE)
            assert len({p for some in positions for p in some}) == 250

        asyncio.run(run())
    assert stored(path) == Counter({"plug": 1, **{f"t{n}-{i}": 1 for n in range(50) for i in range(5)}})


async def _append_some(log: EventLog, task: int) -> list[int]:
    return [(await log.append_async([message(f"t{task}-{i}")]))[0] for i in range(5)]


def test_no_single_answer_keeps_the_event_loop_from_turning(path: Path) -> None:
    """Between any two answers to one task the loop turns: appending never blocks it for a commit."""
    with EventLog(path, queue_limit=4) as log:

        async def run() -> None:
            turns = 0

            async def tick() -> None:
                nonlocal turns
                while True:
                    turns += 1
                    await asyncio.sleep(0)

            async def append(task: int) -> None:
                for i in range(5):
                    before = turns
                    await log.append_async([message(f"t{task}-{i}")])
                    assert turns > before, "the loop stood still during an append"

            ticker = asyncio.create_task(tick())
            await asyncio.sleep(0)
            await asyncio.wait_for(asyncio.gather(*map(append, range(50))), PATIENCE)
            ticker.cancel()

        asyncio.run(run())
        assert log.last_position == 250


def test_a_short_queue_holds_back_threads_until_all_is_stored(path: Path) -> None:
    with EventLog(path, queue_limit=4) as log:
        plug = Plug(log)
        callers = Callers(20, lambda n: [log.append([message(f"c{n}-{i}")]) for i in range(5)])
        until(lambda: log.health().queue_depth == 4)
        plug.pull()
        outcomes = callers.join()
        assert not [outcome for outcome in outcomes.values() if isinstance(outcome, Exception)]
    assert stored(path) == Counter({"plug": 1, **{f"c{n}-{i}": 1 for n in range(20) for i in range(5)}})


def test_a_cancelled_await_leaves_its_command_stored_once(path: Path, log: EventLog) -> None:
    async def run() -> None:
        plug = await asyncio.to_thread(Plug, log)

        async def append(name: str) -> list[int]:
            return await log.append_async([message(name)])

        tasks = [asyncio.create_task(append(f"t{n}")) for n in range(10)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        outcomes_ = asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)
        await asyncio.to_thread(plug.pull)
        outcomes = await asyncio.wait_for(outcomes_, PATIENCE)
        assert all(isinstance(outcome, asyncio.CancelledError) for outcome in outcomes[::2])
        assert all(isinstance(outcome, list) for outcome in outcomes[1::2])

    asyncio.run(run())
    log.close()
    assert stored(path) == Counter({"plug": 1, **{f"t{n}": 1 for n in range(10)}})


def test_a_command_that_waits_for_space_and_is_cancelled_is_stored_once(path: Path) -> None:

    async def run(log: EventLog) -> None:
        plug = await asyncio.to_thread(Plug, log)

        async def append(name: str) -> list[int]:
            return await log.append_async([message(name)])

        tasks = [asyncio.create_task(append(f"t{n}")) for n in range(10)]
        await asyncio.sleep(0)
        for task in tasks[1::2]:
            task.cancel()
        await asyncio.to_thread(plug.pull)
        await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), PATIENCE)
        assert all(not task.cancelled() for task in tasks[::2])

    with EventLog(path, queue_limit=2) as log:
        asyncio.run(run(log))
    assert stored(path) == Counter({"plug": 1, **{f"t{n}": 1 for n in range(10)}})


def test_a_command_may_not_give_another(path: Path, log: EventLog) -> None:
    def nested(transaction: Transaction) -> None:
        transaction.append([message("outer")])
        log.append([message("inner")])

    with pytest.raises(NestedCommandError, match="use the transaction"):
        log.transact(nested)
    log.append([message("after")])
    log.close()
    assert stored(path) == Counter({"after": 1})


class _OddError(BaseException):
    pass


@pytest.mark.parametrize("kind", [ValueError, _OddError, KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError])
def test_a_command_that_raises_alone_leaves_nothing(kind: type[BaseException], path: Path, log: EventLog) -> None:
    def failing(transaction: Transaction) -> None:
        transaction.append([message("half"), message("done", "session:other")])
        raise kind("stop")

    with pytest.raises(kind):
        log.transact(failing)
    log.append([message("after")])
    log.close()
    assert stored(path) == Counter({"after": 1})


@pytest.mark.parametrize("kind", [ValueError, _OddError, ConflictError, KeyboardInterrupt, SystemExit])
def test_a_command_that_raises_in_a_batch_leaves_the_others(
    kind: type[BaseException], path: Path, log: EventLog
) -> None:
    def failing(transaction: Transaction) -> None:
        transaction.append([message("half"), message("done", "session:other")])
        if kind is ConflictError:
            transaction.append([Envelope("session:s", 99, MessageAppended(message={}), command="late")])
        raise kind("stop")

    caught: list[BaseException] = []

    def call(number: int) -> object:
        if number % 3:
            return log.append([message(f"c{number}")])
        try:
            log.transact(failing)
        except BaseException as error:  # noqa: BLE001 - it is the outcome
            caught.append(error)
        return None

    plug = Plug(log)
    callers = Callers(12, call)
    until(lambda: log.health().queue_depth == 12)
    plug.pull()
    outcomes = callers.join()
    assert [type(error) for error in caught] == [kind] * 4
    assert not [outcome for outcome in outcomes.values() if isinstance(outcome, Exception)]
    assert log.health().largest_batch == 12
    log.close()
    assert stored(path) == Counter({"plug": 1, **{f"c{n}": 1 for n in range(12) if n % 3}})


def test_an_event_loop_that_closes_while_it_waits_does_not_break_the_writer(path: Path, log: EventLog) -> None:
    plug = Plug(log)
    loop = asyncio.new_event_loop()

    async def ask() -> object:
        return log.append_async([message("left behind")])

    future = loop.run_until_complete(ask())
    loop.close()
    plug.pull()
    until(lambda: log.last_position == 2)
    assert not future.done()
    callers = Callers(8, lambda n: log.append([message(f"c{n}")]))
    assert not [outcome for outcome in callers.join().values() if isinstance(outcome, Exception)]
    log.close()
    assert stored(path) == Counter({"plug": 1, "left behind": 1, **{f"c{n}": 1 for n in range(8)}})


def test_an_event_loop_that_closes_while_it_waits_for_space_does_not_break_the_writer(path: Path) -> None:
    with EventLog(path, queue_limit=1) as log:
        plug = Plug(log)
        loop = asyncio.new_event_loop()

        async def ask() -> list[asyncio.Task[list[int]]]:
            async def append(name: str) -> list[int]:
                return await log.append_async([message(name)])

            tasks = [asyncio.create_task(append(f"t{n}")) for n in range(3)]
            await asyncio.sleep(0)
            return tasks

        tasks = loop.run_until_complete(ask())
        for task in tasks:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        loop.close()
        plug.pull()
        callers = Callers(8, lambda n: log.append([message(f"c{n}")]))
        assert not [outcome for outcome in callers.join().values() if isinstance(outcome, Exception)]
    assert stored(path) == Counter(["plug", *(f"t{n}" for n in range(3)), *(f"c{n}" for n in range(8))])


@pytest.mark.parametrize("refused", [False, True], ids=["an append", "a refused append"])
def test_an_interrupt_at_any_moment_leaves_the_log_to_others(path: Path, refused: bool) -> None:
    with EventLog(path, synchronous="OFF") as log, EventLog(path, synchronous="OFF", busy_timeout=5) as other:
        log.append([message("first")])
        for number in count(1):
            late = [Envelope("session:s", 99, MessageAppended(message={}))]
            with Interrupt(number) as interrupt:
                try:
                    log.append(late if refused else [message("one")])
                except ConflictError:
                    assert refused
            outcome = Callers(1, lambda _: log.append([message("two")])).join()[0]
            assert isinstance(outcome, list), (number, outcome)
            assert log.append([message("same thread")])
            assert other.append([message("other")])
            if interrupt.left > 0:
                break
        assert number > 20, "the interrupts came too late to test anything"
        assert log.verify().ok


def test_an_interrupted_thread_wakes_the_others_of_its_batch(path: Path) -> None:
    with EventLog(path, synchronous="OFF") as log:
        for number in count(1):
            interrupts: list[Interrupt] = []

            def call(caller: int, number: int = number, interrupts: list[Interrupt] = interrupts) -> object:
                if caller:
                    return log.append([message(f"c{caller}")])
                with Interrupt(number) as interrupt:
                    interrupts.append(interrupt)
                    log.append([message("interrupted")])
                return None

            plug = Plug(log)
            first = Callers(1, call)
            until(lambda first=first: log.health().queue_depth == 1 or 0 in first.outcomes)
            others = Callers(5, lambda n, call=call: call(n + 1))
            until(lambda: log.health().queue_depth >= 5)
            plug.pull()
            outcomes = others.join()
            assert all(isinstance(outcome, list) for outcome in outcomes.values()), outcomes
            first.join()
            if interrupts[0].left > 0:
                break
        assert number > 10, "the interrupts came too late to test anything"


def test_close_without_draining_wakes_those_behind_an_interrupted_thread(log: EventLog) -> None:
    plug = Plug(log)
    for _ in range(3):
        gone = _Work(lambda transaction: None, None)
        gone.latch = threading.Lock()
        gone.latch.acquire()
        log._writer._queue.append(gone)
    callers = Callers(5, lambda n: log.append([message(f"c{n}")]))
    until(lambda: log.health().queue_depth == 8)
    closing = threading.Thread(target=log.close, kwargs={"drain": False})
    closing.start()
    outcomes = callers.join()
    plug.pull()
    closing.join(PATIENCE)
    assert all(isinstance(outcome, ClosedLogError) for outcome in outcomes.values()), outcomes


def test_a_command_that_raises_stop_iteration_in_a_batch_leaves_the_others_answered(log: EventLog) -> None:
    async def run() -> list[Any]:
        plug = await asyncio.to_thread(Plug, log)
        commands = [log.transact_async(lambda transaction: next(iter(()))), log.append_async([message("after")])]
        await asyncio.to_thread(plug.pull)
        return await asyncio.wait_for(asyncio.gather(*commands, return_exceptions=True), PATIENCE)

    bad, good = asyncio.run(run())
    assert isinstance(bad, RuntimeError)
    assert good == [2]


def test_a_queued_command_may_not_close_its_log(log: EventLog) -> None:
    async def run() -> None:
        with pytest.raises(NestedCommandError, match="closed"):
            await log.transact_async(lambda transaction: log.close())

    asyncio.run(run())
    assert log.append([message("after")]) == [1]


def test_a_thread_that_cannot_start_is_an_error_of_that_command_alone(
    path: Path, log: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def append(name: str) -> list[int]:
        return await log.append_async([message(name)])

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        with pytest.raises(RuntimeError, match="can't start"):
            asyncio.run(append("refused"))
    assert asyncio.run(append("taken")) == [1]
    log.close()
    assert stored(path) == Counter({"taken": 1})


def test_a_writer_that_fails_says_so_to_everybody(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with EventLog(path, checkpoint_pages=1) as log:
        failing = threading.Event()

        def fail() -> None:
            assert failing.wait(PATIENCE)
            raise ValueError("unheard of")

        monkeypatch.setattr(log._backend.checkpointer, "run", fail)
        log.append([message("one")])
        callers = Callers(5, lambda n: log.append([message(f"c{n}")]))
        failing.set()
        outcomes = callers.join()
        assert any(isinstance(outcome, LogError) for outcome in outcomes.values())
        until(lambda: log._writer.refusal is not None)
        with pytest.raises(LogError, match="writer thread failed"):
            log.append([message("two")])
        assert log.health().state == "log"


def test_nothing_queued_is_written_once_damage_was_found(path: Path, log: EventLog) -> None:
    plug = Plug(log)
    callers = Callers(3, lambda n: log.append([message(f"c{n}")]))
    until(lambda: log.health().queue_depth == 3)
    log._writer.refuse(CorruptLogError("found by a reader"))
    plug.pull()
    assert all(isinstance(outcome, CorruptLogError) for outcome in callers.join().values())
    log.close()
    assert stored(path) == Counter({"plug": 1})


def test_a_refusal_is_not_told_if_what_it_was_held_against_could_not_be_committed(path: Path) -> None:
    """The second command of a batch conflicts with the first; then the disk fails, and neither has happened."""
    disk = Disk()
    with disk.in_use():
        log = EventLog(path, vfs=disk.name)
        first = Envelope("session:new", 1, MessageAppended(message={"role": "user"}), command="c")

        async def both() -> list[object]:
            plug = Plug(log)
            given = [log.transact_async(lambda transaction: transaction.append([first])) for _ in range(2)]
            given += [log.transact_async(lambda _: setattr(disk, "fail", lambda _number, what: io_error(what)))]
            plug.pull()
            return await asyncio.gather(*given, return_exceptions=True)

        outcomes = asyncio.run(both())
        disk.fail = None
        assert [type(outcome) for outcome in outcomes] == [StorageError] * 3
        assert log.append([first]) == [2]
        log.close()
