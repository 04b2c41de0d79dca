"""The one write transaction: appends rows, keeps the chain, feeds the inline projections."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar, cast

import apsw

from engine.domain.encoding import decode
from engine.log.chain import genesis, link
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.log.errors import (
    ConflictError,
    CorruptLogError,
    InvalidEventError,
    LogError,
    NestedCommandError,
    RefusedError,
    StorageError,
)
from engine.log.protocol import InlineProjection, Transaction
from engine.log.rows import Row, check_row, check_time, to_row, to_rows
from engine.log.sqlite.names import WriterNames
from engine.log.sqlite.queries import SQLiteQueries, not_text
from engine.log.sqlite.schema import table_definition

logger = logging.getLogger("engine.log")

T = TypeVar("T")

_INSERT = "INSERT INTO events VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"
_HEAD = "SELECT position, hash, time FROM events ORDER BY position DESC LIMIT 1"
_VERSION = "SELECT max(version) FROM events WHERE stream = ?"
_REFUSALS = (apsw.Error, UnicodeEncodeError, TypeError, OverflowError, AttributeError, ValueError)
"""What inserting a row can raise: by the database, by the encoder of the hash, or by binding a value."""


class _Ended:
    """In the place of the connection between two commands: whoever kept the transaction is told."""

    def __getattr__(self, name: str) -> Any:
        raise NestedCommandError("a transaction is valid only inside its command; give another command")


_ENDED = cast(apsw.Connection, _Ended())


class _Lost:
    """In the place of the connection once an error has ended the transaction: what came after would stand alone."""

    def __getattr__(self, name: str) -> Any:
        raise StorageError("an error before has ended the transaction, and nothing of its command is stored; try again")


_LOST = cast(apsw.Connection, _Lost())


class SQLiteTransaction(SQLiteQueries):
    """Everything a command may do while it holds the write lock. Valid only inside the command."""

    def __init__(
        self,
        connection: apsw.Connection,
        clock: Callable[[], int],
        payload_limit: int,
        inline: Sequence[InlineProjection],
        explain: Callable[[apsw.Error], LogError],
    ) -> None:
        self._writing = connection
        self._connection = _ENDED
        self.names = self._names = WriterNames()
        self._clock = clock
        self._limit = payload_limit
        self._inline = inline
        self._explain = explain
        self._data_version = -1
        self.position = 0
        self.began_at = 0
        self.rollbacks = 0
        self._hash = b""
        self._time = 0
        self.unfinished: BaseException | None = None

    # For the backend

    def begin(self) -> None:
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
        self.began_at = self.position

    def check_whole(self) -> None:
        """Raise if an append failed half way and its error was swallowed: a part of it must not be committed."""
        if self.unfinished is not None:
            raise RefusedError(
                "an append failed half way and its command went on; let the error pass, or append inside "
                f"transaction.attempt(…): {self.unfinished}"
            ) from self.unfinished

    def committed(self) -> None:
        """End after COMMIT: this connection's own change is not news to it."""
        self._data_version = self._writing.data_version()
        self._connection = _ENDED
        if self._names.added:
            self._names.settle()

    def undone(self) -> None:
        """End after a rollback, or when nobody knows how it ended: read the head again next time."""
        self._data_version = -1
        self.rollbacks += 1
        self._names.forget()
        self._connection = _ENDED
        self.unfinished = None

    # For commands

    def attempt(self, action: Callable[[Transaction], T]) -> T:
        """Run an action in a savepoint: if it fails it leaves nothing behind, and the rest still stands."""
        mark = self.position, self._hash, self._time, self.unfinished
        names = len(self._names.added)
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
            else:
                self._connection = _LOST
            self._names.forget(names)
            self.rollbacks += 1
            raise

    @property
    def now(self) -> int:
        """Return the log's clock, in UTC microseconds."""
        return self._clock()

    def execute(self, sql: str, bindings: Sequence[Any] = ()) -> None:
        """Run SQL to its end; rows it gives are dropped."""
        try:
            self._connection.execute(sql, bindings).fetchall()
        except apsw.Error as error:
            raise self._failed(error) from error

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query, read inside the transaction."""
        try:
            return self._connection.execute(sql, bindings).fetchall()
        except apsw.Error as error:
            raise self._failed(error) from error
        except UnicodeDecodeError as error:
            raise not_text(error) from error

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each row of bindings."""
        try:
            self._connection.executemany(sql, rows).fetchall()
        except apsw.Error as error:
            raise self._failed(error) from error

    def _failed(self, error: apsw.Error) -> LogError:
        """Return the log's own error; some end the transaction, and a command that goes on must not change anything."""
        if not self._writing.in_transaction:
            self._connection = _LOST
        return self._explain(error)

    def define(self, statements: Sequence[str]) -> None:
        """Run portable DDL, one statement each; tables become STRICT and WITHOUT ROWID."""
        if isinstance(statements, str):
            raise ValueError("statements must be a list of SQL statements, not one text; put it into a list")
        for statement in statements:
            self.execute(table_definition(statement))

    def replace_payload(self, position: int, state: str) -> None:
        """Put a tombstone or an archive's marker in the place of a payload, or back what a marker stands for."""
        self.execute("UPDATE events SET state = ? WHERE position = ?", (state, position))

    def version(self, stream: str) -> int | None:
        """Return the stream's last version, or None if it has no events."""
        known = self._names.known(stream, self.query)
        return None if known is None else self._version(known)

    def _version(self, stream: int) -> int | None:
        version: int | None = self._connection.execute(_VERSION, (stream,)).get
        return version

    def append(self, envelopes: Sequence[Envelope]) -> list[int]:
        """Append events to their streams and apply the inline projections; return the positions."""
        return self.append_rows(to_rows(envelopes, self._limit))

    def insert(self, envelopes: Sequence[Envelope]) -> list[int]:
        """Append events without telling the inline projections; return their positions."""
        limit = self._limit
        return self.append_rows([to_row(envelope, limit) for envelope in envelopes], inline=False)

    def append_rows(self, rows: Sequence[Row], *, inline: bool = True) -> list[int]:
        """Append like `append` what was encoded before the write lock was taken."""
        first = self.position + 1
        recorded: list[Envelope] | None = [] if inline and self._inline else None
        try:
            try:
                self._connection.executemany(_INSERT, self._bindings(rows, recorded))
            except _REFUSALS as error:
                refusal = self._refusal(rows[self.position + 1 - first], error)
                if refusal is error:
                    raise
                raise refusal from error
            positions = list(range(first, self.position + 1))
            if recorded:
                for projection in self._inline:
                    projection.apply(self, recorded)
        except BaseException as error:
            if self.position >= first:
                self.unfinished = error
            raise
        return positions

    def _bindings(self, rows: Sequence[Row], recorded: list[Envelope] | None) -> Iterator[tuple[Any, ...]]:
        """Yield what to insert for each row; goes on to the next one when the database has taken the last."""
        now = 0
        ids = self._names.ids
        for row in rows:
            stream, version, topic, time, actor, command, reason, event_id, metadata, state, digest, _ = row
            try:
                stream_id, actor_id, command_id = ids[stream], ids[actor], ids[command]
            except (KeyError, TypeError):
                stream_id, actor_id, command_id = self._ids(row)
            if version == NEXT_VERSION:
                version = (self._version(stream_id) or 0) + 1
            if time == 0:
                time = now = now or self._clock()
            # The database would turn 7.0 into 7, and the hash would not match.
            plain = type(version) is int and type(time) is int and event_id is None and metadata is None
            if not plain or (reason is not None and (type(reason) is not str or "\0" in reason)):
                check_row(row)
                check_time(time)
            position = self.position + 1
            hash_ = link(
                self._hash,
                digest,
                (position, stream, version, topic, time, actor, command, reason, event_id and event_id.hex(), metadata),
            )
            yield (
                position,
                stream_id,
                version,
                topic,
                time,
                actor_id,
                command_id,
                reason,
                event_id,
                metadata,
                state,
                hash_,
            )
            if time < self._time:
                self._note_clock_step(position, time, stamped=row.time == 0)
            self.position, self._hash, self._time = position, hash_, time
            if recorded is not None:
                recorded.append(self._recorded(row, version, time))

    def _ids(self, row: Row) -> tuple[int, int, int]:
        """Return the ids of a row's names, adding those that are new."""
        ids, ensure, query, add = self._names.ids, self._names.ensure, self.query, self._add_name
        return (
            ensure(row.stream, "stream", query, add, likely_new=row.version == 1),
            ids.get(row.actor) or ensure(row.actor, "actor", query, add),
            ids.get(row.command) or ensure(row.command, "command", query, add),
        )

    def _add_name(self, name: str) -> int:
        # Without RETURNING, which keeps its rows in a table of its own until all are written.
        self.execute("INSERT INTO names (name) VALUES (?)", (name,))
        return self._connection.last_insert_rowid()

    def _recorded(self, row: Row, version: int, time: int) -> Envelope:
        """Return the envelope of the row just written, for the inline projections."""
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

    def _note_clock_step(self, position: int, time: int, *, stamped: bool) -> None:
        self._connection.execute("INSERT INTO clock_steps VALUES (?)", (position,))
        if stamped and self._time - time > 1_000_000:
            logger.warning("the clock went back %.1f s at position %d", (self._time - time) / 1e6, position)

    def _refusal(self, row: Row, error: Exception) -> Exception:
        """Return what it means that a row could not be inserted."""
        if isinstance(error, apsw.Error) and not isinstance(error, apsw.ConstraintError):
            return self._explain(error)
        check_row(row)
        check_time(row.time or self.now)
        if not isinstance(error, apsw.ConstraintError):
            return error
        version, actual = row.version, self.version(row.stream)
        if version < 0:
            return InvalidEventError(f"{version} is not a version of stream {row.stream!r}; a stream starts at 1")
        follows = version in (0, 1) if actual is None else version == actual + 1
        return self._explain(error) if follows else ConflictError(row.stream, version - 1, actual)
