"""The event log: one file, appended to by commands, read by position, stream, topic and time."""

import atexit
import logging
import os
import time
import warnings
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from engine.domain.encoding import tombstone, tombstone_digest
from engine.domain.envelope import LOG_STREAM, NEXT_VERSION, Envelope
from engine.domain.events import ContentErased
from engine.log import chain
from engine.log.database import Database, keep_for_ever
from engine.log.errors import (
    ClosedLogError,
    CorruptLogError,
    InvalidEventError,
    LogError,
    ReadOnlyLogError,
    StorageError,
)
from engine.log.mapper import not_envelopes, to_row, to_rows
from engine.log.reader import Reader
from engine.log.tail import Tail
from engine.log.transaction import AppendOne, InlineProjection, Transaction
from engine.log.verify import Progress, Verification, verify
from engine.log.watch import Watch
from engine.log.writer import Command, Writer

logger = logging.getLogger("engine.log")

T = TypeVar("T")

DEFAULT_PAYLOAD_LIMIT = 16 * 1024 * 1024


def utc_microseconds() -> int:
    """The default clock."""
    return time.time_ns() // 1000


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How the log is doing, for a host's status page."""

    path: str
    state: str
    position: int
    clock_steps: int
    queue_depth: int = 0
    commits: int = 0
    commands: int = 0
    largest_batch: int = 0
    mean_commit_seconds: float = 0.0
    slowest_commit_seconds: float = 0.0
    storage_errors: int = 0
    checkpoints: int = 0
    wal_bytes: int = 0


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
    ) -> None:
        self._unusable: LogError | None = ClosedLogError(f"{path} was never open")
        _check_number("busy_timeout", busy_timeout, float, 0)
        _check_number("payload_limit", payload_limit, int, 1)
        _check_number("queue_limit", queue_limit, int, 1)
        _check_number("checkpoint_pages", checkpoint_pages, int, 1)
        self._database = Database(
            path, synchronous=synchronous, busy_timeout=busy_timeout, read_only=read_only, vfs=vfs
        )
        self.path = self._database.path
        self.payload_limit = payload_limit
        self._has_inline = bool(inline)
        connection = self._database.prepare()
        self._reader = Reader(self._database.reader, self._database.explain, self._note_damage)
        self._tail = Tail(self._reader.last_position)
        self._writer: Writer | None = None
        if connection is not None:
            transaction = Transaction(connection, clock, payload_limit, inline)
            self._writer = Writer(
                connection,
                transaction,
                explain=self._database.explain,
                check_place=self._database.check_place,
                on_commit=self._tail.publish,
                busy_timeout=busy_timeout,
                queue_limit=queue_limit,
                checkpoint_pages=checkpoint_pages,
            )
            if self._database.wal_bytes():
                self._writer.checkpointer.empty(wait=0.0)  # what a killed process left may have been erased since
        self._unusable = None
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
        """Append events, to one stream or several, all or none; their positions, once they are durable."""
        return self._writable().run(self._appending(envelopes))

    def append_async(self, envelopes: Sequence[Envelope]) -> Awaitable[list[int]]:
        """Like `append`, to be awaited; commands of many tasks share a commit."""
        return self._writable().run_async(self._appending(envelopes))

    def _appending(self, envelopes: Sequence[Envelope]) -> Command[list[int]]:
        try:
            if len(envelopes) == 1 and not self._has_inline:
                return AppendOne(to_row(envelopes[0], self.payload_limit))
        except (TypeError, AttributeError) as error:
            raise not_envelopes(error) from error
        return partial(Transaction.append_rows, rows=to_rows(envelopes, self.payload_limit))

    def transact(self, command: Command[T]) -> T:
        """Run a command under the write lock; it may read, decide and append, all or nothing."""
        return self._writable().run(command)

    def transact_async(self, command: Command[T]) -> Awaitable[T]:
        """Like `transact`, to be awaited; the command itself runs on the writer's thread."""
        return self._writable().run_async(command)

    def erase(self, positions: Sequence[int], *, actor: str, reason: str, request: str | None = None) -> list[int]:
        """Replace payloads by tombstones and record who asked for it and why; the positions erased now.

        The envelope and the digest stay, so the chain still verifies. The old bytes are overwritten in the
        file, and the WAL that held them is emptied as soon as no reader needs it.
        """
        if not reason:
            raise InvalidEventError("an erasure needs a reason: it is what remains in the place of the content")

        odd = [position for position in positions if type(position) is not int]
        if odd:
            raise InvalidEventError(f"a position is an int, not {odd[0]!r}")

        def command(transaction: Transaction) -> list[int]:
            erased = [position for position in sorted(set(positions)) if _erase_one(transaction, position)]
            if erased:
                event = ContentErased(positions=erased, request=request)
                envelope = Envelope(LOG_STREAM, NEXT_VERSION, event, actor=actor, command="erase", reason=reason)
                transaction.append([envelope])
            return erased

        writer = self._writable()
        erased = writer.run(command)
        if erased:
            writer.empty_wal()
        return erased

    def _writable(self) -> Writer:
        if self._unusable is not None:
            raise self._unusable.with_traceback(None)
        if self._writer is None:
            raise ReadOnlyLogError(f"{self.path} was opened read-only; open it without read_only=True to append")
        return self._writer

    # Reading

    @property
    def last_position(self) -> int:
        """The position of the newest event, of any process; 0 while there is none."""
        return self._reader.last_position()

    def events(self, after: int = 0, upto: int | None = None, topics: Sequence[str] = ()) -> Iterator[Envelope]:
        """Events by position, after one and up to another or to the end as it is when iteration starts."""
        return self._reader.by_position(after, upto, topics)

    def stream(
        self, stream: str, after: int = -1, upto: int | None = None, *, backwards: bool = False
    ) -> Iterator[Envelope]:
        """Events of one stream by version."""
        return self._reader.by_stream(stream, after, upto, backwards=backwards)

    def version(self, stream: str) -> int | None:
        """The last version of a stream, or None if it has no events."""
        return self._reader.stream_version(stream)

    def position_at(self, time: int) -> int:
        """The last position recorded at or before a time in UTC microseconds; 0 if none.

        One binary search, and one more for each time the clock went back since.
        """
        return self._reader.position_at(time)

    def between(self, start: int, end: int) -> Iterator[Envelope]:
        """Events recorded at or after one time and before another, by position."""
        return self._reader.by_time(start, end)

    def wait(self, after: int, timeout: float | None = None, stopped: Callable[[], bool] = bool) -> bool:
        """Block until there is an event after a position, written by this or any other process."""
        return self._tail.wait_beyond(after, timeout, lambda: self._unusable is not None or stopped())

    def wake(self) -> None:
        """Make waiting threads look again whether they were stopped."""
        self._tail.wake()

    def watch(self) -> Watch:
        """A way to see cheaply whether anybody has committed; it ends with the log."""
        return Watch(self._reader)

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Read-only SQL on the file, for projections' own tables."""
        return self._reader.rows(sql, bindings)

    def verify(self, progress: Progress | None = None, published: str | None = None) -> Verification:
        """Recompute the whole hash chain, streaming; `published` is a head of an earlier run to hold it to."""
        return verify(self._reader, progress, published)

    # Being well, and ending

    def health(self) -> Health:
        """State, size and counters."""
        writer = self._writer
        state = "read-only" if writer is None else "ok" if writer.refusal is None else writer.refusal.code
        position, steps = self._tail.position, 0
        try:
            self._database.check_place()
            position = self.last_position
            steps = self._reader.value("SELECT count(*) FROM clock_steps")
        except (CorruptLogError, StorageError) as error:
            state = error.code
        wal_bytes = self._database.wal_bytes()
        if writer is None:
            return Health(path=self.path, state=state, position=position, clock_steps=steps, wal_bytes=wal_bytes)
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
            storage_errors=counted.storage_errors,
            checkpoints=writer.checkpointer.count,
            wal_bytes=wal_bytes,
        )

    def _note_damage(self, error: LogError) -> None:
        if self._writer is not None:
            self._writer.refuse(error)

    def close(self, *, drain: bool = True) -> None:
        """Write what was taken, then close; with drain=False what still queues fails with ClosedLogError.

        A command cannot close its own log, nor can a signal handler that interrupted one: both get a
        NestedCommandError. A handler sets a flag, or asks the event loop to close.
        """
        if self._unusable is not None:
            return
        if self._writer is not None:
            self._writer.check_may_close()
        self._unusable = ClosedLogError(f"{self.path} is closed; open it again to use it")
        _open_logs.discard(self)
        self._tail.wake()
        self._reader.close(self._unusable)
        if self._writer is not None:
            self._writer.close(drain=drain)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_unusable", self) is None:  # a constructor that was called wrongly has set nothing
            warnings.warn(f"the log {self.path} was not closed", ResourceWarning, source=self, stacklevel=2)
            self.close()

    def _abandon_after_fork(self) -> None:
        error = self._database.abandon_after_fork()
        self._unusable = error
        self._tail = Tail(self._reader.last_position)  # a thread that is not there may hold the old one's lock
        connections = self._reader.abandon(error)
        if self._writer is not None:
            connections.append(self._writer.abandon(error))
        for connection in connections:
            keep_for_ever(connection)


def _check_number(name: str, value: object, kind: type[float], least: int) -> None:
    if not isinstance(value, (int, kind)) or isinstance(value, bool) or not value >= least:
        raise ValueError(f"{name} must be a number of at least {least}, not {value!r}")


def _erase_one(transaction: Transaction, position: int) -> bool:
    row = transaction.execute("SELECT topic, state FROM events WHERE position = ?", (position,)).fetchone()
    if row is None:
        raise InvalidEventError(f"there is no event at position {position} to erase")
    topic, state = row
    if topic == ContentErased.TOPIC:
        raise InvalidEventError(f"position {position} records an erasure and cannot be erased")
    raw = state.encode() if isinstance(state, str) else state
    if tombstone_digest(raw) is not None:
        return False
    mark = tombstone(chain.digest(raw).hex(), transaction.now)
    transaction.execute("UPDATE events SET state = ? WHERE position = ?", (mark, position))
    return True


_open_logs: "weakref.WeakSet[EventLog]" = weakref.WeakSet()


def _close_all() -> None:
    for log in list(_open_logs):
        try:
            log.close()
        except Exception:
            logger.exception("closing %s at exit failed", log.path)


def _abandon_all() -> None:
    for log in list(_open_logs):
        log._abandon_after_fork()
    _open_logs.clear()


atexit.register(_close_all)
os.register_at_fork(after_in_child=_abandon_all)
