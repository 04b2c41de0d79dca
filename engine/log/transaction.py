"""The one write transaction: appends rows, keeps the chain, feeds the inline projections."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar, cast
from weakref import ref

import apsw
from eventsourcing.persistence import Tracking

from engine.domain.encoding import decode
from engine.domain.envelope import NEXT_VERSION, Envelope
from engine.log.chain import genesis, link
from engine.log.errors import (
    ConflictError,
    CorruptLogError,
    InvalidEventError,
    NestedCommandError,
    RefusedError,
    TrackingConflictError,
)
from engine.log.mapper import Row, check_row, check_time, to_rows

logger = logging.getLogger("engine.log")

T = TypeVar("T")

_INSERT = "INSERT INTO events VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
_HEAD = "SELECT position, hash, time FROM events ORDER BY position DESC LIMIT 1"
_VERSION = "SELECT max(version) FROM events WHERE stream = ?"
_REQUIRED = (int, str, int, str, int, str, str)
_PLAIN = frozenset({(*_REQUIRED, str), (*_REQUIRED, type(None))})
"""The types of a row's first columns. The database would turn 7 into '7', and the hash would not match."""
_TRACK = """INSERT INTO tracking VALUES (?1, ?2)
    ON CONFLICT (application_name) DO UPDATE SET notification_id = ?2 WHERE notification_id < ?2
    RETURNING 1"""


class InlineProjection(Protocol):
    """A fold that changes in the transaction that appends, so that it cannot be stale.

    `create` makes its tables if they are missing; `apply` gets the events of one command, in order, and
    writes through the transaction. If it raises, the command fails and leaves nothing behind.
    """

    def create(self, transaction: "Transaction") -> None: ...

    def apply(self, transaction: "Transaction", events: Sequence[Envelope]) -> None: ...


Together = Callable[..., list[Any]]
"""Runs commands of one kind as one, in a transaction: (transaction, commands=…) → their results.

A command says with its attribute `group` that it may be run so with the others of its batch.
"""


class AppendOne:
    """The commonest command, by name, so that the writer can put many of them into one statement."""

    __slots__ = ("row",)

    @staticmethod
    def group(transaction: "Transaction", commands: Sequence["AppendOne"]) -> list[list[int]]:
        return [[position] for position in transaction.append_rows([command.row for command in commands])]

    def __init__(self, row: Row) -> None:
        self.row = row

    def __call__(self, transaction: "Transaction") -> list[int]:
        return transaction.append_rows((self.row,))


class _Ended:
    """In the place of the connection between two commands: whoever kept the transaction is told."""

    def __getattr__(self, name: str) -> Any:
        raise NestedCommandError("a transaction is valid only inside its command; give another command")


_ENDED = cast(apsw.Connection, _Ended())


class Transaction:
    """What a command may do while it holds the write lock. Valid only inside the command."""

    def __init__(
        self,
        connection: apsw.Connection,
        clock: Callable[[], int],
        payload_limit: int,
        inline: Sequence[InlineProjection],
    ) -> None:
        self._writing = connection
        self._connection = _ENDED
        self._cursors: list[ref[apsw.Cursor]] = []
        self._clock = clock
        self._limit = payload_limit
        self._inline = inline
        self._data_version = -1
        self.epoch = 0
        """Grows when what was read or written in earlier transactions may no longer hold."""
        self.position = 0
        self._hash = b""
        self._time = 0
        self.unfinished: BaseException | None = None

    def refresh(self) -> None:
        """Read the head again if anybody else has written; called right after BEGIN IMMEDIATE."""
        self._connection = connection = self._writing
        version = connection.data_version()
        if version != self._data_version:
            row = connection.execute(_HEAD).fetchone()
            if row is None:
                log_id = connection.execute("SELECT value FROM meta WHERE key = 'log_id'").get
                if not isinstance(log_id, bytes):
                    raise CorruptLogError("the log's own id is missing, so nothing can be added to its hash chain")
                row = (0, genesis(log_id), 0)
            self.position, self._hash, self._time = row
            self._data_version = version
            self.epoch += 1

    def settle(self) -> None:
        """The transaction was committed: this connection's own change is not news to it."""
        self._data_version = self._connection.data_version()
        self._connection = _ENDED
        if self._cursors:
            self._close_cursors()

    def forget(self) -> None:
        """The transaction is rolled back, or nobody knows how it ended: look again next time."""
        self._data_version = -1
        self.epoch += 1
        self._connection = _ENDED
        self.unfinished = None
        self._close_cursors()

    def _close_cursors(self) -> None:
        """A cursor that was not read to its end would keep this connection from seeing other processes."""
        cursors, self._cursors = self._cursors, []
        for reference in cursors:
            if (cursor := reference()) is not None:
                cursor.close(True)

    def attempt(self, action: Callable[["Transaction"], T]) -> T:
        """Do something; if it fails it leaves nothing behind, and the rest of the transaction stands."""
        mark = self.position, self._hash, self._time, self.unfinished
        connection = self._connection
        execute = connection.execute
        execute("SAVEPOINT attempt")
        try:
            result = action(self)
            if self.unfinished is not None:
                self.check_whole()
            execute("RELEASE attempt")
            return result
        except BaseException:
            if connection.in_transaction:
                execute("ROLLBACK TO attempt")
                execute("RELEASE attempt")
                self.position, self._hash, self._time, self.unfinished = mark
            self.epoch += 1
            raise

    def check_whole(self) -> None:
        """Refuse to commit a part of what one `append` was to write, when its error was swallowed."""
        if self.unfinished is not None:
            raise RefusedError(
                "an append failed half way and its command went on; let the error pass, or append inside "
                f"transaction.attempt(…): {self.unfinished}"
            ) from self.unfinished

    @property
    def now(self) -> int:
        """The log's clock, in UTC microseconds."""
        return self._clock()

    def execute(self, sql: str, bindings: Sequence[Any] = ()) -> apsw.Cursor:
        """Run SQL inside the transaction, to read or for an inline projection's own tables."""
        return self._kept(self._connection.execute(sql, bindings))

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a query, read inside the transaction."""
        return self._connection.execute(sql, bindings).fetchall()

    def executemany(self, sql: str, bindings: Iterable[Sequence[Any]]) -> apsw.Cursor:
        return self._kept(self._connection.executemany(sql, bindings))

    def _kept(self, cursor: apsw.Cursor) -> apsw.Cursor:
        self._cursors.append(ref(cursor))
        return cursor

    def version(self, stream: str) -> int | None:
        """The stream's last version, or None if it has no events."""
        version: int | None = self._connection.execute(_VERSION, (stream,)).get
        return version

    def append(self, envelopes: Sequence[Envelope]) -> list[int]:
        """Append events to their streams; their positions."""
        return self.append_rows(to_rows(envelopes, self._limit))

    def append_rows(self, rows: Sequence[Row]) -> list[int]:
        """Append rows that were encoded before the lock was taken; their positions."""
        first = self.position + 1
        recorded: list[Envelope] = []
        try:
            self._insert(rows, recorded, first)
            positions = list(range(first, self.position + 1))
            if recorded:
                for projection in self._inline:
                    projection.apply(self, recorded)
        except BaseException as error:
            if self.position >= first:
                self.unfinished = error
            raise
        return positions

    def _insert(self, rows: Sequence[Row], recorded: list[Envelope], first: int) -> None:
        try:
            self._connection.executemany(_INSERT, self._bindings(rows, recorded))
        except apsw.ConstraintError as error:
            raise self._refusal(rows[self.position + 1 - first], error) from error
        except (UnicodeEncodeError, TypeError, OverflowError, AttributeError, ValueError):
            check_row(rows[self.position + 1 - first])
            check_time(self.now)
            raise

    def _bindings(self, rows: Sequence[Row], recorded: list[Envelope]) -> Iterator[tuple[Any, ...]]:
        """What to insert for each row; goes on to the next one when the database has taken the last."""
        now = 0
        inline, row_hash = self._inline, link
        for row in rows:
            stream, version, event_id, metadata = row.stream, row.version, row.event_id, row.metadata
            if version == NEXT_VERSION:
                version = (self.version(stream) or 0) + 1
            time = row.time
            if time == 0:
                time = now = now or self._clock()
            position = self.position + 1
            columns = (position, stream, version, row.topic, time, row.actor, row.command, row.reason)
            if tuple(map(type, columns)) not in _PLAIN or event_id is not None or metadata is not None:
                check_row(row)
                check_time(time)
            hash_ = row_hash(self._hash, row.digest, (*columns, event_id and event_id.hex(), metadata))
            yield (*columns, event_id, metadata, row.state, hash_)
            if time < self._time:
                self._note_clock_step(position, time, stamped=row.time == 0)
            self.position, self._hash, self._time = position, hash_, time
            if inline:
                recorded.append(self._recorded(row, version, time))

    def _recorded(self, row: Row, version: int, time: int) -> Envelope:
        """The envelope of the row just written, for the inline projections."""
        content = row.event or decode(row.topic, row.state)
        event_id = row.event_id or self._hash[:16]
        return Envelope(
            row.stream,
            version,
            content,
            time,
            row.actor,
            row.command,
            row.reason,
            self.position,
            event_id,
            row.metadata,
        )

    def track(self, tracking: Tracking) -> None:
        """Record how far a projection of another application has come."""
        if self._connection.execute(_TRACK, (tracking.application_name, tracking.notification_id)).get is None:
            raise TrackingConflictError(
                f"position {tracking.notification_id} of {tracking.application_name!r} is not after the recorded one"
            )

    def _note_clock_step(self, position: int, time: int, *, stamped: bool) -> None:
        self._connection.execute("INSERT INTO clock_steps VALUES (?)", (position,))
        if stamped and self._time - time > 1_000_000:
            logger.warning("the clock went back %.1f s at position %d", (self._time - time) / 1e6, position)

    def _refusal(self, row: Row, error: apsw.ConstraintError) -> Exception:
        """What a refused insert means."""
        check_row(row)
        version, actual = row.version, self.version(row.stream)
        if version < 0:
            return InvalidEventError(f"{version} is not a version of stream {row.stream!r}; a stream starts at 1")
        follows = version in (0, 1) if actual is None else version == actual + 1
        return error if follows else ConflictError(row.stream, version - 1, actual)
