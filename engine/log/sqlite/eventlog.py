"""The event log: one file, appended to by commands, read by position, stream, topic and time."""

import atexit
import logging
import os
import threading
import time
import warnings
import weakref
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import apsw

from engine.log.envelope import Envelope
from engine.log.errors import (
    ClosedLogError,
    CorruptLogError,
    LogError,
    ReadOnlyLogError,
    StorageError,
)
from engine.log.mutex import Mutex
from engine.log.protocol import (
    Answer,
    Bounds,
    Command,
    Dialect,
    Health,
    InlineProjection,
    Progress,
    Together,
    Transaction,
    Verification,
)
from engine.log.rows import Row, SalvagedRows, not_envelopes, to_row, to_rows
from engine.log.sqlite.backend import SQLiteBackend
from engine.log.sqlite.backup import back_up
from engine.log.sqlite.copying import copy_until
from engine.log.sqlite.database import Database, keep_for_ever
from engine.log.sqlite.dialect import SQLiteDialect
from engine.log.sqlite.erasure import Part, Wish, checked_positions
from engine.log.sqlite.overlay import Overlay
from engine.log.sqlite.reader import Snapshot, SQLiteReader
from engine.log.sqlite.salvage import end_of, salvaged_rows
from engine.log.sqlite.scratch import Scratch
from engine.log.sqlite.transaction import SQLiteTransaction
from engine.log.sqlite.verify import verify
from engine.log.sqlite.watch import SQLiteWatch
from engine.log.tail import Tail
from engine.log.writer import Writer

logger = logging.getLogger("engine.log")

T = TypeVar("T")

DEFAULT_PAYLOAD_LIMIT = 16 * 1024 * 1024


def utc_microseconds() -> int:
    """Return the current time: the default clock."""
    return time.time_ns() // 1000


class _AppendOne:
    """The commonest command, by name, so that the writer can put many of them into one statement."""

    __slots__ = ("row",)

    def __init__(self, row: Row) -> None:
        self.row = row

    def __call__(self, transaction: Transaction) -> list[int]:
        return transaction.append_rows((self.row,))


def _append_together(transaction: Transaction, commands: Sequence[_AppendOne]) -> list[list[int]]:
    return [[position] for position in transaction.append_rows([command.row for command in commands])]


class EventLog:
    """An append-only log in one SQLite file, for many threads, event loops and processes at once.

    What `append` returned for is on disk and survives a power cut, unless `synchronous` is lowered. Use it
    as a context manager, or call `close`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        read_only: bool = False,
        synchronous: str = "FULL",
        busy_timeout: float = 5.0,
        payload_limit: int = DEFAULT_PAYLOAD_LIMIT,
        queue_limit: int = 10_000,
        checkpoint_pages: int = 1000,
        clock: Callable[[], int] = utc_microseconds,
        inline: Sequence[InlineProjection] = (),
        vfs: str | None = None,
        damaged: bool = False,
    ) -> None:
        """Open the log in a file, making it if need be.

        Args:
            path: The file; a log lives on disk, so not `:memory:`.
            read_only: True creates nothing and changes nothing.
            synchronous: FULL and EXTRA survive a power cut; NORMAL and OFF may lose acknowledged events.
            busy_timeout: Seconds to wait for another process's write lock before LockedLogError.
            payload_limit: Bytes an event may have before PayloadTooLargeError.
            queue_limit: Commands that may wait for the writer; then threads wait and awaits are held back.
            checkpoint_pages: Pages the write-ahead log may have before it is moved into the file.
            clock: Returns UTC microseconds; stamps events that have no time of their own.
            inline: Projections that change in the transaction that appends.
            vfs: The name of an SQLite VFS, for tests of faults.
            damaged: True reads what is left of a file that was cut off, and changes nothing.
        """
        self._unusable: LogError | None = ClosedLogError(f"{path} was never open")
        self._ended = True
        self._closing: dict[int, Mutex] = {}
        _check_number("busy_timeout", busy_timeout, float, 0)
        _check_number("payload_limit", payload_limit, int, 1)
        _check_number("queue_limit", queue_limit, int, 1)
        _check_number("checkpoint_pages", checkpoint_pages, int, 1)
        self._database = Database(
            path, synchronous=synchronous, busy_timeout=busy_timeout, read_only=read_only, vfs=vfs, damaged=damaged
        )
        self.path = self._database.path
        self.payload_limit = payload_limit
        self.dialect: Dialect = SQLiteDialect()
        self._has_inline = bool(inline)
        connection = self._database.prepare()
        self.reader = SQLiteReader(self._database.reader, self._database.explain, self._note_damage)
        self._tail = Tail(self.reader.last_position)
        self._backend: SQLiteBackend | None = None
        self._writer: Writer | None = None
        if connection is not None:

            def transaction(writing: apsw.Connection, explain: Callable[[apsw.Error], LogError]) -> SQLiteTransaction:
                return SQLiteTransaction(writing, clock, payload_limit, inline, explain)

            self._backend = SQLiteBackend(
                connection,
                self._database,
                transaction,
                busy_timeout=busy_timeout,
                checkpoint_pages=checkpoint_pages,
            )
            self._writer = Writer(self._backend, on_commit=self._tail.publish, queue_limit=queue_limit)
            if self._database.wal_bytes():
                self._backend.checkpointer.empty(wait=0.0)  # what a killed process left may have been erased since
        self._unusable, self._ended = None, False
        _open_logs.add(self)
        if inline:
            self._create_inline(inline)

    def _create_inline(self, inline: Sequence[InlineProjection]) -> None:
        def create(transaction: Transaction) -> None:
            for projection in inline:
                projection.create(transaction)

        try:
            self.transact(create)
        except BaseException:
            self.close()
            raise

    # Writing

    def append(self, envelopes: Sequence[Envelope]) -> list[int]:
        """Append events, to one stream or several, all or none; return their positions once they are durable."""
        one = self._single(envelopes)
        if one is not None:
            return self._writable().run(one, _append_together)
        return self._writable().run(self._appending(envelopes))

    def append_async(self, envelopes: Sequence[Envelope]) -> Awaitable[list[int]]:
        """Like `append`, to be awaited; commands of many tasks share a commit."""
        one = self._single(envelopes)
        if one is not None:
            return self._writable().run_async(one, _append_together)
        return self._writable().run_async(self._appending(envelopes))

    def _single(self, envelopes: Sequence[Envelope]) -> _AppendOne | None:
        try:
            if len(envelopes) == 1 and not self._has_inline:
                return _AppendOne(to_row(envelopes[0], self.payload_limit))
        except (TypeError, AttributeError) as error:
            raise not_envelopes(error) from error
        return None

    def _appending(self, envelopes: Sequence[Envelope]) -> Command[list[int]]:
        rows = to_rows(envelopes, self.payload_limit)
        return lambda transaction: transaction.append_rows(rows)

    def transact(self, command: Command[T], *, together: Together | None = None) -> T:
        """Run a command under the write lock; it may read, decide and append, all or nothing.

        With `together` it may share one call with neighbours that were given the same function.
        """
        return self._writable().run(command, together)

    def transact_async(self, command: Command[T], *, together: Together | None = None) -> Awaitable[T]:
        """Like `transact`, to be awaited; the command itself runs on the writer's thread."""
        return self._writable().run_async(command, together)

    def erase(self, positions: Sequence[int], *, actor: str, reason: str, request: str | None = None) -> list[int]:
        """Replace payloads by tombstones and record who asked for it and why; return the positions erased now.

        The envelope and the digest stay, so the chain still verifies. The old bytes are overwritten in the
        file, and the WAL that held them is emptied as soon as no reader needs it. Many positions are erased in parts;
        a crash leaves the first parts erased and recorded, and the same call again erases the rest.
        """
        writer = self._writable()
        wanted, wish = checked_positions(self.reader, positions, reason), Wish(actor, reason, request)
        erased: list[int] = []
        while wanted:
            part = Part(wanted, wish)
            erased += writer.run(part)
            wanted = wanted[part.looked_at :]
        if erased:
            writer.empty_wal()
        return erased

    def purge(self) -> bool:
        """Write the file anew and cut the WAL to nothing, so that no byte of what was erased is left in them.

        An erasure overwrites the payloads at once, but SQLite may have left copies of rows in the unused part of a
        page. This takes as long as copying the file, twice its space, and the write lock meanwhile: commands of this
        and other processes wait. Return False while a reader keeps the WAL from being emptied; call it again.
        """
        return self._writable().purge()

    def _writable(self) -> Writer:
        if self._unusable is not None:
            raise self._unusable.with_traceback(None)
        if self._writer is None:
            raise ReadOnlyLogError(f"{self.path} was opened read-only; open it without read_only=True to append")
        return self._writer

    # Reading

    @property
    def last_position(self) -> int:
        """Return the position of the newest event, of any process; 0 while there is none."""
        return self.reader.last_position()

    def events(self, after: int = 0, upto: int | None = None, topics: Sequence[str] = ()) -> Iterator[Envelope]:
        """Yield events by position, after one and up to another or to the end as it is when iteration starts."""
        return self.reader.by_position(after, upto, topics)

    def stream(
        self, stream: str, after: int = -1, upto: int | None = None, *, backwards: bool = False
    ) -> Iterator[Envelope]:
        """Yield the events of one stream by version."""
        return self.reader.by_stream(stream, after, upto, backwards=backwards)

    def version(self, stream: str) -> int | None:
        """Return the last version of a stream, or None if it has no events."""
        return self.reader.stream_version(stream)

    def head(self, upto: int | None = None) -> str:
        """Return `<position>:<hash>` of the newest event, or at a position: what `verify(published=…)` takes."""
        return self.reader.head(upto)

    def position_at(self, time: int) -> int:
        """Return the last position recorded at or before a time in UTC microseconds; 0 if none.

        One binary search, and one more for each time the clock went back since.
        """
        return self.reader.position_at(time)

    def between(self, start: int, end: int) -> Iterator[Envelope]:
        """Yield events recorded at or after one time and before another, by position."""
        return self.reader.by_time(start, end)

    def wait(self, after: int, timeout: float | None = None, stopped: Callable[[], bool] = bool) -> bool:
        """Block until there is an event after a position, written by this or any other process."""
        return self._tail.wait_beyond(after, timeout, lambda: self._unusable is not None or stopped())

    def wake(self) -> None:
        """Make waiting threads check again whether they were stopped."""
        self._tail.wake()

    def watch(self) -> SQLiteWatch:
        """Return a way to see cheaply whether anybody has committed; it ends with the log."""
        return SQLiteWatch(self.reader)

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run read-only SQL on the projections' own tables."""
        return self.reader.query(sql, bindings)

    def ask(self, sql: str, bounds: Bounds) -> Answer:
        """Return what a query gives that anybody may have written; raise UnsafeQueryError for one that must not run."""
        overlay = Overlay(self.reader)
        try:
            with overlay.one_state():
                return overlay.ask(sql, bounds)
        finally:
            overlay.close()

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """Return reads of the log as it is now, whatever is committed meanwhile; keep it open for a short time."""
        return self.reader.snapshot()

    def scratch(self) -> Scratch:
        """Return empty tables in memory over the events of this log; close them."""
        return Scratch(self.reader)

    def overlay(self) -> Overlay:
        """Return temporary tables over those of this log; close them."""
        return Overlay(self.reader)

    def verify(self, progress: Progress | None = None, published: str | Iterable[str] | None = None) -> Verification:
        """Recompute the whole hash chain, streaming, and check the rules, the indexes and the pages of the file.

        `published` is a head of an earlier time, or many: the log must still have them.
        """
        return verify(self.reader, progress, published)

    def backup(self, to: str | os.PathLike[str]) -> Verification:
        """Copy the log to a new file while it is written; return what verifying the copy found (V17).

        The copy is of one moment, private, and never in the place of a file that exists. Copying the file by other
        means while a log is open loses what is in its WAL.
        """
        self.reader.check_open()
        return back_up(self._database, to, _verified)

    def copy_until(self, part: Path, position: int, progress: Progress | None = None) -> None:
        """Fill an empty file with this log's events up to a position, hashes and all, and with nothing else (R20)."""
        self.reader.check_open()
        copy_until(self._database, part, position, progress)

    def salvaged(self) -> SalvagedRows:
        """Return every position with its row, as far as a damaged log can be read (R19)."""
        last, known = end_of(self.reader)
        return SalvagedRows(last, known, salvaged_rows(self.reader, last))

    # Being well, and ending

    def health(self) -> Health:
        """Return state, size and counters."""
        writer, backend = self._writer, self._backend
        state = "read-only" if writer is None else "ok" if writer.refusal is None else writer.refusal.code
        position, steps = self._tail.position, 0
        try:
            self._database.check_place()
            position = self.last_position
            steps = self.reader.value("SELECT count(*) FROM clock_steps")
        except (CorruptLogError, StorageError) as error:
            state = error.code
        wal_bytes = self._database.wal_bytes()
        if writer is None or backend is None:
            return Health(
                path=self.path,
                state=state,
                position=position,
                clock_steps=steps,
                wal_bytes=wal_bytes,
                damaged_wal=self._database.damaged_wal,
            )
        counted = writer.statistics
        return Health(
            path=self.path,
            state=state,
            position=position,
            clock_steps=steps,
            queue_depth=writer.queue_depth,
            commits=counted.commits,
            commands=counted.commands,
            largest_batch=counted.largest_batch,
            mean_commit_seconds=counted.commit_seconds / counted.commits if counted.commits else 0.0,
            slowest_commit_seconds=counted.slowest_commit_seconds,
            storage_errors=backend.storage_errors,
            checkpoints=backend.checkpointer.count,
            wal_bytes=wal_bytes,
            damaged_wal=self._database.damaged_wal,
        )

    def _note_damage(self, error: LogError) -> None:
        if self._writer is not None:
            self._writer.refuse(error)

    def close(self, *, drain: bool = True) -> None:
        """Write what was taken, then close; with drain=False what still queues fails with ClosedLogError.

        A command cannot close its own log, nor can a signal handler that interrupted one: both get a
        NestedCommandError, and nothing has changed. A handler sets a flag, or asks the event loop to close. One that
        interrupts `close` itself finds nothing left to do. A `close` that an error cuts off goes on when it is called
        again.
        """
        inside = self._closing.setdefault(threading.get_ident(), Mutex())
        if self._ended or inside.is_mine():
            return
        self.check_may_close()
        with inside.once():  # of this thread alone: another that closes does the same steps, and is not waited for
            if self._unusable is None:
                self._unusable = ClosedLogError(f"{self.path} is closed; open it again to use it")
            self._tail.wake()
            self.reader.close(self._unusable)
            if self._writer is not None:
                self._writer.close(drain=drain)
            self._database.close()
            self._ended = True
            _open_logs.discard(self)

    def check_may_close(self) -> None:
        """Raise NestedCommandError where `close` would: this thread is inside what it has to wait for."""
        if self._ended:
            return
        self.reader.check_may_close()
        if self._writer is not None:
            self._writer.check_may_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if not getattr(self, "_ended", True):  # a constructor that was called wrongly has set nothing
            warnings.warn(f"the log {self.path} was not closed", ResourceWarning, source=self, stacklevel=2)
            self.close()

    def _abandon_after_fork(self) -> None:
        error = self._database.abandon_after_fork()
        self._unusable, self._ended = error, True
        self._tail = Tail(self.reader.last_position)  # a thread that is not there may hold the old one's lock
        connections = self.reader.abandon(error)
        if self._writer is not None and self._backend is not None:
            self._writer.abandon(error)
            connections.append(self._backend.connection)
        for connection in connections:
            keep_for_ever(connection)


def _verified(path: str) -> Verification:
    with EventLog(path, read_only=True) as log:
        return log.verify()


def _check_number(name: str, value: object, kind: type[float], least: int) -> None:
    if not isinstance(value, (int, kind)) or isinstance(value, bool) or not value >= least:
        raise ValueError(f"{name} must be a number of at least {least}, not {value!r}")


_open_logs: "weakref.WeakSet[EventLog]" = weakref.WeakSet()


def _close_all() -> None:
    for log in list(_open_logs):
        try:
            if log._unusable is None:
                log.close()
        except Exception:
            logger.exception("closing %s at exit failed", log.path)


def _abandon_all() -> None:
    for log in list(_open_logs):
        log._abandon_after_fork()
    _open_logs.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_abandon_all)
