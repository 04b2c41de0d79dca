"""One writer and group commit: whatever queues up during a commit goes into the next one.

A command is a function that gets the open transaction. When nobody is writing, the caller's own thread
runs its command and commits, without a thread switch; otherwise it queues, and the writer thread runs all
queued commands in one transaction, each in its own savepoint. A command is answered only after COMMIT.
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
from typing import Any, Generic, TypeVar, cast

import apsw

from engine.log.database import close_connection
from engine.log.errors import (
    ClosedLogError,
    CorruptLogError,
    ForkedLogError,
    LogError,
    NestedCommandError,
    NotALogError,
)
from engine.log.locks import Patience
from engine.log.transaction import AppendOne, Transaction

logger = logging.getLogger("engine.log")

T = TypeVar("T")
Command = Callable[[Transaction], T]

_MAX_BATCH = 1000
_LONGEST_MOMENT = 0.002
_WAKE_AT_ONCE = 2
_LONGEST_CHECKPOINT_WAIT = 0.2


class _Work(Generic[T]):
    """One command on its way: the thread or the event loop that waits for it, and its outcome."""

    __slots__ = ("command", "error", "future", "latch", "loop", "result")

    def __init__(self, command: Command[T], loop: asyncio.AbstractEventLoop | None = None) -> None:
        self.command = command
        self.result: T | None = None
        self.error: BaseException | None = None
        self.loop = loop
        self.future: asyncio.Future[T] | None = loop.create_future() if loop else None
        self.latch: threading.Lock | None = None


class Statistics:
    """What the writer has done so far; read it without a lock, it only grows."""

    def __init__(self) -> None:
        self.commits = 0
        self.commands = 0
        self.storage_errors = 0
        self.largest_batch = 0
        self.commit_seconds = 0.0
        self.slowest_commit_seconds = 0.0
        self.checkpoints = 0
        self.wal_pages = 0


class Writer:
    """Owns the writing connection; everything that changes the file goes through `run` or `run_async`."""

    def __init__(
        self,
        connection: apsw.Connection,
        transaction: Transaction,
        *,
        explain: Callable[[apsw.Error, str, float | None], LogError],
        on_commit: Callable[[int], None],
        busy_timeout: float,
        queue_limit: int,
        checkpoint_pages: int,
    ) -> None:
        self._connection = connection
        self._transaction = transaction
        self._explain = explain
        self._on_commit = on_commit
        self._queue_limit = queue_limit
        self._checkpoint_pages = self._checkpoint_at = checkpoint_pages
        self._queue: deque[_Work[Any]] = deque()
        self._mutex = threading.Lock()
        self._space = threading.Condition(self._mutex)
        self._held: deque[_Work[Any]] = deque()
        self._turn = threading.Lock()
        self._turn_holder = 0
        self._bell = threading.Lock()
        self._bell.acquire()
        self._asleep = False
        self._sleepers: deque[threading.Lock] = deque()
        self._expected = 0
        self._last_commit_seconds = 0.0
        self._thread: threading.Thread | None = None
        self._closing = False
        self._truncate = False
        self._refusal: LogError | None = None
        self.statistics = Statistics()
        self._patience = Patience(busy_timeout)
        connection.set_busy_handler(self._patience)
        connection.set_wal_hook(self._note_wal)

    # Giving commands

    def run(self, command: Command[T]) -> T:
        """Run a command and return its result once it is durable."""
        if self._refusal is not None:
            raise self._refusal
        if self._turn_holder == threading.get_ident():
            raise NestedCommandError("a command may not give another one; use the transaction it was given")
        checkpoint_due = self.statistics.wal_pages >= self._checkpoint_at
        if self._queue or self._expected or checkpoint_due or not self._turn.acquire(blocking=False):
            return self._wait_for(_Work(command))
        try:
            self._check_open()
            return self._commit(command, 1)
        finally:
            self._turn.release()
            if self._queue or self.statistics.wal_pages >= self._checkpoint_at:
                with self._mutex:
                    self._wake()

    def run_async(self, command: Command[T]) -> Awaitable[T]:
        """Like `run`, to be awaited; never blocks the event loop.

        Cancelling the await does not cancel the command: it is written once, or fails, as if waited for.
        While the queue is full the command is held back until there is space, and so is whoever awaits it.
        """
        if self._refusal is not None:
            raise self._refusal
        loop = asyncio.get_running_loop()
        work = _Work(command, loop)
        with self._mutex:
            self._check_open()
            if len(self._queue) >= self._queue_limit:
                self._held.append(work)
            else:
                self._queue.append(work)
                self._wake()
        return cast("asyncio.Future[T]", work.future)

    def _wait_for(self, work: _Work[T]) -> T:
        work.latch = latch = threading.Lock()
        latch.acquire()
        with self._mutex:
            while len(self._queue) >= self._queue_limit and not self._closing:
                self._space.wait()
            self._check_open()
            self._queue.append(work)
            self._wake()
        try:
            latch.acquire()
        finally:
            self._wake_sleepers(1)
        if work.error is not None:
            raise work.error
        return cast(T, work.result)

    def _wake(self) -> None:
        """Start or ring the writer thread; the mutex is held."""
        if self._thread is None:
            # A daemon never blocks exit; what it was still to do was not acknowledged, and `close`, which
            # also runs at exit, waits for it.
            self._thread = threading.Thread(target=self._loop, name="session-log-writer", daemon=True)
            self._thread.start()
        if self._asleep and (len(self._queue) >= self._expected or self._closing):
            self._asleep = False
            self._bell.release()

    def _check_open(self) -> None:
        if self._refusal is not None:
            raise self._refusal
        if self._closing:
            raise ClosedLogError("the log is closed; open it again to use it")

    # Writing

    def _loop(self) -> None:
        while True:
            with self._mutex:
                idle = not self._queue and self.statistics.wal_pages < self._checkpoint_at
                if idle and self._closing:
                    return
                self._asleep = idle
            if idle:
                self._bell.acquire()
                continue
            with self._turn:
                batch = self._take_batch()
                if batch:
                    self._write(batch)
            self._answer(batch)
            if self.statistics.wal_pages >= self._checkpoint_at:
                with self._turn:
                    self._checkpoint()
            if len(batch) > 1:
                self._await_the_same(len(batch))
            self._wake_sleepers(len(self._sleepers))  # an interrupted thread wakes nobody: leave none asleep

    def _await_the_same(self, answered: int) -> None:
        """Give those just answered a moment to come back: one commit for all beats two for halves.

        The moment is at most twice what the commit before it took.
        """
        with self._mutex:
            if self._closing:
                return
            self._expected = len(self._queue) + answered
            self._asleep = True
        rung = self._bell.acquire(timeout=min(2 * self._last_commit_seconds, _LONGEST_MOMENT))
        with self._mutex:
            if not rung and not self._asleep:
                self._bell.acquire()  # rung between the timeout and here: leave no ring behind
            self._asleep = False
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
            except RuntimeError:
                logger.debug("an event loop was closed while it waited for the log")
        self._wake_sleepers(_WAKE_AT_ONCE)

    def _wake_sleepers(self, count: int) -> None:
        """Wake some of the threads that were answered; each wakes the next one before it goes on.

        All at once they would stand in line for the interpreter's lock, which makes each wait twice as long.
        """
        with suppress(IndexError):
            for _ in range(count):
                self._sleepers.popleft().release()

    def _take_batch(self) -> list[_Work[Any]]:
        with self._mutex:
            batch = [self._queue.popleft() for _ in range(min(len(self._queue), _MAX_BATCH))]
            while self._held and len(self._queue) < self._queue_limit:
                self._queue.append(self._held.popleft())
            self._space.notify_all()
        return batch

    def _write(self, batch: list[_Work[Any]]) -> None:
        """Run a batch in one transaction; afterwards each work has its outcome. The turn is held."""
        try:
            self._commit(partial(self._run_all, batch), len(batch))
        except BaseException as error:  # noqa: BLE001 - every way to fail is reported to every command it failed
            for work in batch:
                if work.error is None:
                    work.error = error

    def _commit(self, command: Command[T], commands: int) -> T:
        """Run a command in a transaction of its own and make it durable. The turn is held."""
        self._turn_holder = threading.get_ident()
        started = time.perf_counter()
        execute, transaction = self._connection.execute, self._transaction
        try:
            execute("BEGIN IMMEDIATE")
            transaction.refresh()
            result = command(transaction)
            execute("COMMIT")
            transaction.settle()
        except BaseException as error:
            self._roll_back()
            translated = self._translate(error, time.perf_counter() - started)
            if translated is error:
                raise
            raise translated from error
        finally:
            self._turn_holder = 0
        self._on_commit(transaction.position)
        self._count(commands, time.perf_counter() - started)
        return result

    def _run_all(self, batch: list[_Work[Any]], _: Transaction) -> None:
        for appends, group in groupby(batch, _appends_one):
            works = list(group)
            if not (appends and len(works) > 1 and self._append_together(works)):
                for work in works:
                    self._run_one_of_many(work)

    def _append_together(self, works: list[_Work[Any]]) -> bool:
        """Append for many commands in one statement; False, and nothing done, if one of them is refused."""
        try:
            rows = [cast(AppendOne, work.command).row for work in works]
            positions = self._transaction.attempt(partial(Transaction.append_rows, rows=rows))
        except Exception:
            if not self._connection.in_transaction:
                raise
            return False  # one by one, each gets its own answer
        for work, position in zip(works, positions, strict=True):
            work.result = [position]
        return True

    def _run_one_of_many(self, work: _Work[Any]) -> None:
        """Run a command so that its failure leaves the others of the batch standing."""
        try:
            work.result = self._transaction.attempt(work.command)
        except BaseException as error:
            # Some storage errors end the whole transaction, and with it every command of the batch.
            if not self._connection.in_transaction or isinstance(error, (KeyboardInterrupt, SystemExit)):
                raise
            work.error = self._translate(error, None)

    def _roll_back(self) -> None:
        self._transaction.forget()
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except apsw.Error:
            logger.exception("rolling back failed too")

    def _translate(self, error: BaseException, waited: float | None) -> BaseException:
        if not isinstance(error, apsw.Error):
            return error
        self.statistics.storage_errors += 1
        translated = self._explain(error, "writing", waited)
        if isinstance(translated, (CorruptLogError, NotALogError)):
            self.refuse(translated)
        return translated

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

    def _note_wal(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        if pages < self.statistics.wal_pages:
            self._checkpoint_at = self._checkpoint_pages  # the WAL began again, here or in another process
        self.statistics.wal_pages = pages
        return apsw.SQLITE_OK

    def _checkpoint(self) -> None:
        """Move the WAL into the file between two commits, when nothing of this process can join it.

        Usually PASSIVE, which waits for nobody, is enough for the next commit to begin the WAL again. When
        readers or other writing processes have kept it from that four times over, RESTART holds them off
        for a moment.
        """
        pages = self.statistics.wal_pages
        insist = pages >= 4 * self._checkpoint_pages
        mode = apsw.SQLITE_CHECKPOINT_RESTART if insist else apsw.SQLITE_CHECKPOINT_PASSIVE
        if self._truncate:
            mode = apsw.SQLITE_CHECKPOINT_TRUNCATE
        try:
            if self._checkpointed(mode):
                self._truncate = False
            elif insist or self._truncate:
                logger.warning("the WAL has %d pages, and another connection keeps it from shrinking", pages)
        except apsw.Error as error:
            logger.warning("checkpoint failed; the WAL grows until one succeeds: %s", error)
        self._checkpoint_at = pages + self._checkpoint_pages

    def _checkpointed(self, mode: int) -> bool:
        """Try for a moment, while commands wait; False if another connection is in the way for longer."""
        moment = 0.0 if mode == apsw.SQLITE_CHECKPOINT_PASSIVE else _LONGEST_CHECKPOINT_WAIT
        deadline = time.monotonic() + moment
        usual, self._patience.seconds = self._patience.seconds, moment
        try:
            while True:
                try:
                    in_wal, moved = self._connection.wal_checkpoint(mode=mode)
                except apsw.BusyError:  # at once, whatever the patience, while another checkpoint runs
                    if time.monotonic() >= deadline:
                        return False
                    time.sleep(0.001)
                else:
                    self.statistics.checkpoints += 1
                    return moved >= in_wal
        finally:
            self._patience.seconds = usual

    def empty_wal(self) -> None:
        """Drop the WAL's content now, or at the first checkpoint that no reader prevents."""
        with self._turn:
            self._truncate = True
            self._checkpoint()

    # Ending

    def refuse(self, error: LogError) -> None:
        """Write nothing more: the file is damaged."""
        if self._refusal is None:
            self._refusal = error

    def abandon(self, error: ForkedLogError) -> apsw.Connection:
        """After a fork, in the child: take no lock, a thread that is not there may hold it."""
        self._refusal = error
        return self._connection

    @property
    def refusal(self) -> LogError | None:
        return self._refusal

    @property
    def queue_depth(self) -> int:
        return len(self._queue)

    def close(self, *, drain: bool = True) -> None:
        """Stop taking commands; write those already taken, or with drain=False fail them visibly."""
        if isinstance(self._refusal, ForkedLogError):
            return
        with self._mutex:
            self._closing = True
            dropped = [] if drain else [*self._queue, *self._held]
            if dropped:
                self._queue.clear()
                self._held.clear()
            self._space.notify_all()
            thread = self._thread
            if thread is not None:
                self._wake()
        for work in dropped:
            work.error = ClosedLogError("the log was closed before this command was written")
        self._answer(dropped)
        if thread is not None:
            thread.join()
        with self._turn:
            close_connection(self._connection)


def _appends_one(work: _Work[Any]) -> bool:
    return type(work.command) is AppendOne


def _resolve(works: list[_Work[Any]]) -> None:
    for work in works:
        future = work.future
        if future is None or future.done():
            continue
        if work.error is not None:
            future.set_exception(work.error)
        else:
            future.set_result(work.result)
