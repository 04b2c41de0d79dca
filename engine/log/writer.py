"""One writer and group commit: whatever queues up during a commit goes into the next one.

A command is a function that gets the open transaction. When nobody is writing, the caller's own thread
runs its command and commits, without a thread switch; otherwise it queues, and the writer thread runs all
queued commands in one transaction. There each command has a savepoint of its own, except that neighbours
which only append one event share a savepoint and a statement. A command is answered only after COMMIT.

A KeyboardInterrupt can be raised in the main thread after any call returns. Where one there would leave a
lock taken or a thread asleep, what belongs together is one call or one `with`.
"""

import asyncio
import logging
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from itertools import groupby
from typing import Any, Generic, Protocol, TypeVar, cast

from engine.log.errors import (
    ClosedLogError,
    CorruptLogError,
    CorruptStateError,
    ForkedLogError,
    LogError,
    NestedCommandError,
    NotALogError,
)
from engine.log.mutex import Mutex, check_outside
from engine.log.protocol import Command, Together, Transaction

logger = logging.getLogger("engine.log")

T = TypeVar("T")

_MAX_BATCH = 1000
_LONGEST_MOMENT = 0.002
_WAKE_AT_ONCE = 2
_RETRY_SECONDS = 0.5
_LOOK_SECONDS = 0.1
_PAUSE_SECONDS = 0.005
"""After a pause it is looked again whether the file is in place: each commit looks only when it is done."""


_ANOTHER = (
    "a command may not give another one: use the transaction it was given; a signal handler that interrupted one sets "
    "a flag, or asks the event loop"
)


class Checkpoints(Protocol):
    """Work of the backend that waits for a pause between two commits."""

    due: bool
    emptying: bool

    def run(self) -> None:
        """Do what is due."""

    def empty(self, wait: float = ...) -> bool:
        """Drop what was written ahead; False, and to be tried again, if a reader still needs it."""


class Backend(Protocol):
    """The one writing connection to a database. The writer lets one thread at a time use it."""

    storage_errors: int

    @property
    def checkpointer(self) -> Checkpoints:
        """Return the work that waits for a pause."""

    @property
    def active(self) -> bool:
        """Return True if the transaction still stands; some storage errors end it."""

    def check_place(self) -> None:
        """Raise if what is written would no longer be found."""

    def begin(self) -> Transaction:
        """Take the write lock; return the transaction, which sees what any process has committed."""

    def attempt(self, action: Callable[[Transaction], T]) -> T:
        """Run an action in a savepoint of the transaction."""

    def commit(self) -> int:
        """Make durable what was done; return the position of the newest event."""

    def roll_back(self) -> None:
        """Undo what was done since `begin`."""

    def explain(self, error: BaseException, waited: float | None) -> BaseException:
        """Return the log's own error for one of the database; any other error as it is."""

    def purge(self) -> bool:
        """Leave no byte of what was erased; return False while a reader is in the way."""

    def close(self) -> None:
        """Close the connection."""


class _Work(Generic[T]):
    """One command on its way: the thread or the event loop that waits for it, and its outcome."""

    __slots__ = ("command", "error", "future", "latch", "loop", "result", "together")

    def __init__(
        self, command: Command[T], together: Together | None, loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        self.command = command
        self.together = together
        self.result: T | None = None
        self.error: BaseException | None = None
        self.loop = loop
        self.future: asyncio.Future[T] | None = loop.create_future() if loop else None
        self.latch: threading.Lock | None = None


class Statistics:
    """Counters of the writer's work so far; read it without a lock, it only grows."""

    def __init__(self) -> None:
        self.commits = 0
        self.commands = 0
        self.largest_batch = 0
        self.commit_seconds = 0.0
        self.slowest_commit_seconds = 0.0


class Writer:
    """Owns the writing connection; everything that changes the file goes through `run` or `run_async`."""

    def __init__(
        self,
        backend: Backend,
        *,
        on_commit: Callable[[int], None],
        queue_limit: int,
    ) -> None:
        self._backend = backend
        self._checkpoints = backend.checkpointer
        self._look_at = 0.0
        self._ended = 0.0
        self._on_commit = on_commit
        self._queue_limit = queue_limit
        self._queue: deque[_Work[Any]] = deque()
        self._mutex = Mutex()
        self._space = threading.Condition(self._mutex.lock)
        self._held: deque[_Work[Any]] = deque()
        self._turn = Mutex()
        self._writing = False
        self._bell = threading.Lock()
        self._bell.acquire()
        self._asleep = False
        self._sleepers: deque[threading.Lock] = deque()
        self._wake_next = partial(next, map(type(self._bell).release, iter(self._sleepers.popleft, None)))
        self._expected = 0
        self._last_commit_seconds = 0.0
        self._thread: threading.Thread | None = None
        self._closing = False
        self._refusal: LogError | None = None
        self.statistics = Statistics()

    # Giving commands

    def run(self, command: Command[T], together: Together | None = None) -> T:
        """Run a command and return its result once it is durable."""
        if self._turn.is_mine():
            raise NestedCommandError(_ANOTHER)
        if self._queue or self._expected or self._checkpoints.due or self._writing:
            return self._wait_for(_Work(command, together))
        try:
            with self._turn.lock:  # another thread may have been faster: then this one waits for one commit
                self._writing = True
                try:
                    if self._closing or self._refusal is not None:
                        self._check_open()
                    return self._commit(command, 1)
                finally:
                    self._writing = False
        finally:
            if self._queue or self._checkpoints.due:
                self._wake()

    def run_async(self, command: Command[T], together: Together | None = None) -> Awaitable[T]:
        """Like `run`, to be awaited; never blocks the event loop.

        Cancelling the await does not cancel the command: it is written once, or fails, as if waited for.
        While the queue is full the command is held back until there is space, and so is whoever awaits it.
        """
        loop = asyncio.get_running_loop()
        work = _Work(command, together, loop)
        with self._mutex.once():
            self._check_open()
            self._start()
            if len(self._queue) >= self._queue_limit:
                self._held.append(work)
            else:
                self._queue.append(work)
                self._ring()
        return cast("asyncio.Future[T]", work.future)

    def _wait_for(self, work: _Work[T]) -> T:
        work.latch = latch = threading.Lock()
        latch.acquire()
        with self._mutex.once():
            while len(self._queue) >= self._queue_limit and not self._closing:
                self._space.wait()
            self._check_open()
            self._start()
            self._queue.append(work)
            self._ring()
        try:
            latch.acquire()
        finally:
            self._wake_sleepers(1)
        if work.error is not None:
            raise work.error
        return cast(T, work.result)

    def _start(self) -> None:
        """Have a writer thread, before there is anything for it to do; the mutex is held."""
        if self._thread is None:
            # A daemon never blocks exit; what it was still to do was not acknowledged, and `close`, which
            # also runs at exit, waits for it.
            thread = threading.Thread(target=self._loop, name="session-log-writer", daemon=True)
            thread.start()
            self._thread = thread

    def _ring(self) -> None:
        """Wake the writer thread if it sleeps and enough has queued; the mutex is held."""
        if self._asleep and (len(self._queue) >= self._expected or self._closing):
            self._asleep = False
            self._bell.release()

    def _wake(self) -> None:
        """Let the writer thread look what there is to do. Nobody waits for it, so no failure is raised."""
        try:
            if not self._mutex.is_mine():  # else a signal handler has interrupted who wakes it
                with self._mutex.lock:
                    if not self._closing:  # meanwhile: then nothing is left to do
                        self._start()
                        self._ring()
        except RuntimeError as error:
            logger.warning("the writer thread cannot start, the WAL grows until it can: %s", error)

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise self._refusal.with_traceback(None)
        if self._closing:
            raise ClosedLogError("the log is closed; open it again to use it")

    # Writing

    def _loop(self) -> None:
        """Run the writer thread. It must not end before the log does: commands would wait for ever."""
        try:
            self._serve()
        except BaseException as error:
            logger.exception("the writer thread failed")
            failure = LogError(f"the log's writer thread failed, open the log again: {type(error).__name__}: {error}")
            failure.__cause__ = error
            self.refuse(failure)
            self._fail_the_queue(failure)

    def _serve(self) -> None:
        while True:
            with self._mutex.once():
                idle = not self._queue and not self._checkpoints.due
                if idle and self._closing:
                    return
                self._asleep = idle
            if idle:
                if not self._sleep(_RETRY_SECONDS if self._checkpoints.emptying else -1):
                    self._in_turn(partial(self._checkpoints.empty, 0.0))
                continue
            threads = self._serve_batch()
            if self._checkpoints.due:
                self._in_turn(self._checkpoints.run)
            if threads > 1:
                self._await_the_same(threads)
            self._wake_sleepers(len(self._sleepers))  # an interrupted thread wakes nobody: leave none asleep

    def _serve_batch(self) -> int:
        """Write what queues and answer; return how many threads were answered. Nothing of it is kept meanwhile."""
        batch = self._in_turn(self._write_batch)
        self._answer(batch)
        return sum(work.latch is not None for work in batch)

    def _in_turn(self, action: Callable[[], T]) -> T:
        with self._turn.once():
            self._writing = True
            try:
                return action()
            finally:
                self._writing = False

    def _sleep(self, seconds: float) -> bool:
        """Wait for the bell, which rings once if `_asleep` was set; False if it did not ring in time."""
        rung = self._bell.acquire(timeout=seconds)
        with self._mutex.once():
            if not rung and not self._asleep:
                rung = self._bell.acquire()  # rung between the timeout and here: leave no ring behind
            self._asleep = False
        return rung

    def _await_the_same(self, threads: int) -> None:
        """Give the threads just answered a moment to come back: one commit for all beats two for halves.

        The moment is at most twice what the commit before it took. Tasks of an event loop need none: they
        come back together anyway.
        """
        with self._mutex.once():
            if self._closing:
                return
            self._expected = len(self._queue) + threads
            self._asleep = True
        self._sleep(min(2 * self._last_commit_seconds, _LONGEST_MOMENT))
        self._expected = 0

    def _answer(self, batch: list[_Work[Any]]) -> None:
        """Let everybody know who waits for a command of the batch; each event loop once."""
        loops: dict[asyncio.AbstractEventLoop, list[_Work[Any]]] = {}
        for work in batch:
            if work.latch is not None:
                self._sleepers.append(work.latch)
            elif work.loop is not None:
                loops.setdefault(work.loop, []).append(work)
        for loop, works in loops.items():
            try:
                loop.call_soon_threadsafe(_resolve, works)
            except Exception as error:  # noqa: BLE001 - the others of the batch still wait for their answer
                logger.debug("an event loop was closed while it waited for the log: %r", error)
        self._wake_sleepers(_WAKE_AT_ONCE)

    def _wake_sleepers(self, count: int) -> None:
        """Wake some of the threads that were answered; each wakes the next one before it goes on.

        All at once they would stand in line for the interpreter's lock, which makes each wait twice as long.
        `_wake_next` takes a latch from the deque and releases it in one call, so that no interrupt comes
        between: the thread would sleep for ever.
        """
        with suppress(IndexError):
            for _ in range(count):
                self._wake_next()

    def _write_batch(self) -> list[_Work[Any]]:
        """Run what queues in one transaction; afterwards each work has its outcome. The turn is held."""
        batch = self._take_batch()
        if batch:
            try:
                if self._refusal is not None:
                    raise self._refusal  # noqa: TRY301 - one exit for every way to fail
                self._commit(partial(self._run_all, batch), len(batch))
            except BaseException as error:  # noqa: BLE001 - every way to fail is reported to every command it failed
                for work in batch:  # also for one that was refused: what it was held against has not happened
                    work.error = error
        return batch

    def _take_batch(self) -> list[_Work[Any]]:
        with self._mutex.once():
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), _MAX_BATCH))]
            while self._held and len(self._queue) < self._queue_limit:
                self._queue.append(self._held.popleft())
            self._space.notify_all()
        return batch

    def _commit(self, command: Command[T], commands: int) -> T:
        """Run a command in a transaction of its own and make it durable. The turn is held."""
        started = time.perf_counter()
        backend = self._backend
        if started >= self._look_at or started >= self._ended + _PAUSE_SECONDS:
            backend.check_place()
            self._look_at = started + _LOOK_SECONDS
        try:
            result = command(backend.begin())
            position = backend.commit()
        except BaseException as error:
            backend.roll_back()
            explained = self._explain(error, time.perf_counter() - started)
            if explained is error:
                raise
            raise explained from error
        self._on_commit(position)
        self._ended = ended = time.perf_counter()
        self._count(commands, ended - started)
        return result

    def _run_all(self, batch: list[_Work[Any]], _: Transaction) -> None:
        for together, group in groupby(batch, _together_of):
            works = list(group)
            if together is None or len(works) == 1 or not self._run_together(together, works):
                for work in works:
                    self._run_one_of_many(work)

    def _run_together(self, together: Together, works: list[_Work[Any]]) -> bool:
        """Run many commands as one; False, and nothing done, if one of them is refused."""
        commands = [work.command for work in works]
        try:
            results = self._backend.attempt(lambda transaction: together(transaction, commands))
        except Exception:
            if not self._backend.active:
                raise
            return False  # one by one, each gets its own answer
        for work, result in zip(works, results, strict=True):
            work.result = result
        return True

    def _run_one_of_many(self, work: _Work[Any]) -> None:
        """Run a command so that its failure leaves the others of the batch standing."""
        try:
            work.result = self._backend.attempt(work.command)
        except BaseException as error:
            # Some storage errors end the whole transaction, and with it every command of the batch.
            if not self._backend.active:
                raise
            work.error = self._explain(error, None)

    def _explain(self, error: BaseException, waited: float | None) -> BaseException:
        explained = self._backend.explain(error, waited)
        if isinstance(explained, (CorruptLogError, NotALogError)) and not isinstance(explained, CorruptStateError):
            self.refuse(explained)  # but not for a state, which a command repairs: a rebuild
        return explained

    def _count(self, commands: int, seconds: float) -> None:
        statistics = self.statistics
        statistics.commits += 1
        statistics.commands += commands
        statistics.commit_seconds += seconds
        self._last_commit_seconds = seconds
        if commands > statistics.largest_batch:
            statistics.largest_batch = commands
        if seconds > statistics.slowest_commit_seconds:
            statistics.slowest_commit_seconds = seconds

    def empty_wal(self) -> bool:
        """Drop the WAL's content now, or as soon as no reader prevents it; return True if it is done."""
        done = self._in_turn(lambda: self._closing or self._checkpoints.empty())
        if not done:
            self._wake()  # it tries again
        return done

    def purge(self) -> bool:
        """Leave no byte of what was erased; commands wait meanwhile. Return False while a reader is in the way."""
        self.check_may_close()  # a command that waits for its own end would wait for ever
        started = time.perf_counter()
        try:
            done = self._in_turn(self._purge)
        except BaseException as error:
            explained = self._explain(error, time.perf_counter() - started)
            if explained is error:
                raise
            raise explained from error
        if not done:
            self._wake()  # it tries again to empty the WAL
        return done

    def _purge(self) -> bool:
        self._check_open()
        return self._backend.purge()

    # Ending

    def refuse(self, error: LogError) -> None:
        """Write nothing more: the file is damaged."""
        if self._refusal is None:
            self._refusal = error

    def abandon(self, error: ForkedLogError) -> None:
        """Give up in the child of a fork: take no lock, a thread that is not there may hold it."""
        self._refusal = error

    @property
    def refusal(self) -> LogError | None:
        return self._refusal

    @property
    def queue_depth(self) -> int:
        return len(self._queue)

    def check_may_close(self) -> None:
        """Raise if a command closes its own log, or a handler that interrupted one: it would wait for its own end."""
        check_outside(self._turn, self._mutex)

    def close(self, *, drain: bool = True) -> None:
        """Stop taking commands; write those already taken, or with drain=False fail them visibly.

        Cut off by an interrupt, it goes on when it is called again.
        """
        if isinstance(self._refusal, ForkedLogError):
            return
        with self._mutex.once():
            self._closing = True
            self._space.notify_all()
        if not drain:
            self._fail_the_queue(ClosedLogError("the log was closed before this command was written"))
        with self._mutex.once():
            thread = self._thread
            self._ring()
        if thread is not None:
            thread.join()
        with self._turn.once():
            self._backend.close()

    def _fail_the_queue(self, error: LogError) -> None:
        with self._mutex.once():
            dropped = [*self._queue, *self._held]
            self._queue.clear()
            self._held.clear()
            self._space.notify_all()
        for work in dropped:
            work.error = error
        self._answer(dropped)
        self._wake_sleepers(len(self._sleepers))


def _together_of(work: _Work[Any]) -> Together | None:
    return work.together


def _resolve(works: list[_Work[Any]]) -> None:
    for work in works:
        future, error = work.future, work.error
        if future is None or future.done():
            continue
        if error is None:
            future.set_result(work.result)
            continue
        if isinstance(error, StopIteration):  # a future refuses it, and would leave the others unanswered
            error = RuntimeError("the command raised StopIteration")
            error.__cause__ = work.error
        future.set_exception(error)
