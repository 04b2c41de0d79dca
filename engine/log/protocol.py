"""The protocol every backend of the log offers. Code above the log is written against these types alone.

No type of a database driver crosses this line: rows are tuples, errors are those of `engine.log.errors`.
"""

import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from engine.log.envelope import Envelope
from engine.log.rows import Row

T = TypeVar("T")

Payload = tuple[int, str, str | bytes, int, int]
"""An event of a stream, not decoded: version, topic, state, position, time."""

Progress = Callable[[int, int], None]
"""Told how many events were verified, and of how many."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """Health of the log, for a host's status page."""

    path: str
    """The file."""
    state: str
    """"ok", "read-only", or the code of the error that ended writing or reading."""
    position: int
    """The newest event's position."""
    clock_steps: int
    """How often the clock went back."""
    queue_depth: int = 0
    """Commands that wait for the writer."""
    commits: int = 0
    """Transactions committed since opening."""
    commands: int = 0
    """Commands run since opening."""
    largest_batch: int = 0
    """The most commands in one commit."""
    mean_commit_seconds: float = 0.0
    """The mean time of a commit."""
    slowest_commit_seconds: float = 0.0
    """The longest time of a commit."""
    storage_errors: int = 0
    """Errors the database reported."""
    checkpoints: int = 0
    """Checkpoints made."""
    wal_bytes: int = 0
    """The size of the write-ahead log."""
    damaged_wal: str | None = None
    """The write-ahead log as it was found at opening, if commits were cut off in it: they are lost."""


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """The findings of `verify`. Publish `head` off the machine: without it a cut tail cannot be seen."""

    ok: bool
    """True if the whole chain holds."""
    events: int
    """How many events were checked."""
    head: str
    """Position and hash of the newest event: publish it."""
    erased: int = 0
    """How many of them were erased."""
    archived: int = 0
    """How many of them are in an archive."""
    bad_position: int | None = None
    """The first position at which something is wrong."""
    problem: str | None = None
    """What is wrong there."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds of a query of somebody we do not know."""

    seconds: float = 10.0
    """How long it may run."""
    rows: int = 10_000
    """How many rows it gives; more are left out."""
    size: int = 256 * 1024 * 1024
    """How many bytes of memory it may take."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer to a query."""

    columns: tuple[str, ...]
    """The names of the columns; none if there is no row."""
    rows: list[tuple[Any, ...]]
    """The rows."""
    truncated: bool
    """True if there were more."""


class Queries(Protocol):
    """Reads that work the same inside a transaction, on the reader and on a watch."""

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query on the projections' own tables."""

    def payloads(
        self,
        stream: str,
        after: int = 0,
        upto: int | None = None,
        *,
        until_position: int | None = None,
        without: Sequence[str] = (),
    ) -> list[Payload]:
        """Return a stream's events with after < version <= upto, by version, not decoded.

        `until_position` leaves out what was recorded later than that position, `without` events of some topics.
        """

    def changed_streams(self, after: int, upto: int, ignoring: Sequence[str] = ()) -> list[str]:
        """Return the streams with an event at after < position <= upto whose topic is not ignored, each once."""

    def recorded(self, after: int, upto: int) -> list[Envelope]:
        """Return the events at after < position <= upto, by position."""

    def recorded_at(self, positions: Sequence[int]) -> list[Envelope]:
        """Return the events at these positions, by position; positions without an event are left out."""

    def positions_of(self, streams: Sequence[str], upto: int) -> list[int]:
        """Return the sorted positions, up to one, of all events of these streams."""


class Reader(Queries, Protocol):
    """Reads what is committed, from any thread."""

    def last_position(self) -> int:
        """Return the position of the newest event, of any process; 0 while there is none."""

    def log_id(self) -> bytes:
        """Return the log's own id, from which its first hash is made."""

    def stored(
        self, after: int, upto: int, topics: Sequence[str], limit: int, streams: Collection[str] | None = None
    ) -> list[tuple[Any, ...]]:
        """Return at most `limit` rows at after < position <= upto, in the order of `engine.log.rows.STORED`.

        Without topics those of any topic, and without streams those of any stream.
        """

    def stored_at(self, positions: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return the rows at these positions, by position, in the order of `engine.log.rows.STORED`, not decoded."""

    def stored_stream(
        self, stream: str, after: int, upto: int, limit: int, *, backwards: bool = False
    ) -> list[tuple[Any, ...]]:
        """Return at most `limit` rows of a stream with after < version <= upto, or the newest first."""

    def streams_since(self, after: int, upto: int) -> dict[str, int]:
        """Return the streams with an event at after < position <= upto, and the version of their first one there."""

    def topics_since(self, after: int, upto: int, without: Sequence[str]) -> dict[str, list[str]]:
        """Return the topics of the events at after < position <= upto by stream, in order, but for some topics."""

    def version_at(self, stream: str, position: int) -> int | None:
        """Return the version that a stream had at a position, or None if it had no events yet."""

    def undecoded(self, after: int, upto: int, without: Sequence[str] = ()) -> dict[str, list[Payload]]:
        """Return the events at after < position <= upto by stream, but for some topics; more columns may follow."""

    def streams_begun_with(self, prefix: str, field: str, values: Sequence[str]) -> list[str]:
        """Return the streams of a kind whose first event has one of these texts in a field of its payload."""


class Snapshot(Queries, Protocol):
    """Reads the log as it was at one moment."""

    def last_position(self) -> int:
        """Return the position of the newest event then."""


class Watch(Queries, Protocol):
    """Tells cheaply whether anybody has committed, so that a cache can answer without reading."""

    def changed(self) -> bool:
        """Return True if anybody, in this process or another, has committed since this was last asked."""

    def last_position(self) -> int:
        """Return the position of the newest event, as this watch sees the log."""


class StateTables(Queries, Protocol):
    """The place a projection folds into: its own tables, beside reads of the events they are folded from."""

    def attempt(self, action: Callable[["StateTables"], T]) -> T:
        """Run an action in a savepoint: if it fails it leaves nothing behind, and the rest still stands."""

    def execute(self, sql: str, bindings: Sequence[Any] = ()) -> None:
        """Run SQL to its end; rows it gives are dropped."""

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each row of bindings."""

    def define(self, statements: Sequence[str]) -> None:
        """Run portable DDL, one statement each; CREATE TABLE gets what this backend adds to a table."""


class Scratch(StateTables, Protocol):
    """Empty tables in memory, to be filled from the events of `reads` and held against those of a log."""

    reads: Queries

    def ask(self, sql: str, bounds: Bounds) -> Answer:
        """Return what a query gives that anybody may have written; raise UnsafeQueryError for one that must not run."""

    def tables_of(self, sql: str, bounds: Bounds) -> set[str]:
        """Return the tables and views that such a query reads."""

    def definition_problem(self, reads: Queries) -> str | None:
        """Return what of the tables and indexes in memory a log does not have, or has otherwise."""

    def columns_of(self, table: str) -> list[str]:
        """Return the names of the columns of a table, in their order."""

    def close(self) -> None:
        """Forget the tables."""


class Overlay(StateTables, Protocol):
    """Temporary tables over those of a log: who reads through them sees their rows in the place of the log's own.

    For one thread at a time.
    """

    def cover(
        self, definition: str, *, hidden_by: str | None = None, upto: int | None = None, own: bool = True
    ) -> None:
        """Cover a table of the log by one of the same definition; what is written here goes into that.

        Of the log's own rows those are seen that have nothing hidden in the column `hidden_by`, and no later
        position than `upto`; unless `own`, none.
        """

    def hide(self, table: str, values: Iterable[str]) -> None:
        """Hide the rows of a covered table with these values in its `hidden_by`, in the log and here."""

    def one_state(self) -> AbstractContextManager[None]:
        """Let everything that is read meanwhile see the log's own tables as they are at one moment."""

    def own_query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query on the log's own tables, of the same moment."""

    def cover_events(self, upto: int) -> None:
        """Let the log itself, and the views over it, end at a position for who reads through these tables."""

    def ask(self, sql: str, bounds: Bounds) -> Answer:
        """Return what a query gives that anybody may have written; raise UnsafeQueryError for one that must not run."""

    def close(self) -> None:
        """Forget the tables."""


class Transaction(StateTables, Protocol):
    """Everything a command may do while it holds the write lock. Valid only inside the command."""

    position: int
    """The position of the newest event, with those this transaction has appended."""

    began_at: int
    """The position of the newest event when this transaction began."""

    rollbacks: int
    """Grows whenever something that was done through this object was undone: a transaction or a savepoint."""

    @property
    def now(self) -> int:
        """Return the log's clock, in UTC microseconds."""

    def version(self, stream: str) -> int | None:
        """Return the stream's last version, or None if it has no events."""

    def attempt(self, action: Callable[["Transaction"], T]) -> T:
        """Run an action in a savepoint: if it fails it leaves nothing behind, and the rest still stands."""

    def stored_at(self, positions: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return the rows at these positions, by position, in the order of `engine.log.rows.STORED`, not decoded."""

    def replace_payload(self, position: int, state: str) -> None:
        """Put a tombstone or an archive's marker in the place of a payload, or back what a marker stands for.

        Anything else is refused.
        """

    def insert(self, envelopes: Sequence[Envelope]) -> list[int]:
        """Append events without telling the inline projections; return their positions.

        For a caller that writes the projections' rows itself.
        """

    def append(self, envelopes: Sequence[Envelope]) -> list[int]:
        """Append events to their streams and apply the inline projections; return the positions."""

    def append_rows(self, rows: Sequence[Row]) -> list[int]:
        """Append like `append` what was encoded before the write lock was taken."""


class InlineProjection(Protocol):
    """A fold that changes in the transaction that appends, so that it cannot be stale."""

    def create(self, transaction: Transaction, /) -> None:
        """Make its tables if they are missing."""

    def apply(self, transaction: Transaction, envelopes: Sequence[Envelope], /) -> None:
        """Fold the events of one command, in order, through the transaction.

        If it raises, the command fails and leaves nothing behind.
        """


Command = Callable[[Transaction], T]
"""Reads, decides and appends under the write lock, all or nothing. It may be run again."""

Together = Callable[[Transaction, Sequence[Any]], Sequence[Any]]
"""Runs neighbouring commands of one kind as one: (transaction, commands) → the result of each.

If it raises, nothing of it is kept, and the commands run one by one, each with its own answer.
"""


class Dialect(Protocol):
    """Expressions that every backend spells in its own way."""

    def json(self, column: str) -> str:
        """Return a column as JSON; NULL if it is none."""

    def iso_time(self, column: str) -> str:
        """Return UTC microseconds as ISO 8601 text; NULL for a year that text has no place for."""


class Log(Protocol):
    """An append-only log, for many threads, event loops and processes at once."""

    path: str
    payload_limit: int
    dialect: Dialect

    @property
    def reader(self) -> Reader:
        """Reads of what is committed."""

    @property
    def last_position(self) -> int:
        """Return the position of the newest event, of any process; 0 while there is none."""

    def append(self, envelopes: Sequence[Envelope]) -> list[int]:
        """Append events, to one stream or several, all or none; return their positions once they are durable."""

    def append_async(self, envelopes: Sequence[Envelope]) -> Awaitable[list[int]]:
        """Like `append`, to be awaited."""

    def transact(self, command: Command[T], *, together: Together | None = None) -> T:
        """Run a command under the write lock; with `together` it may share one call with its neighbours."""

    def transact_async(self, command: Command[T], *, together: Together | None = None) -> Awaitable[T]:
        """Like `transact`, to be awaited."""

    def erase(self, positions: Sequence[int], *, actor: str, reason: str, request: str | None = None) -> list[int]:
        """Replace payloads by tombstones and record who asked for it and why; return the positions erased now."""

    def purge(self) -> bool:
        """Leave no byte of erased content in the log's files; return False while a reader keeps it from being done."""

    def events(self, after: int = 0, upto: int | None = None, topics: Sequence[str] = ()) -> Iterator[Envelope]:
        """Yield events by position."""

    def stream(
        self, stream: str, after: int = -1, upto: int | None = None, *, backwards: bool = False
    ) -> Iterator[Envelope]:
        """Yield the events of one stream by version."""

    def version(self, stream: str) -> int | None:
        """Return the last version of a stream, or None if it has no events."""

    def head(self) -> str:
        """Return `<position>:<hash>` of the newest event, of any process: what `verify(published=…)` takes."""

    def position_at(self, time: int) -> int:
        """Return the last position recorded at or before a time in UTC microseconds; 0 if none."""

    def between(self, start: int, end: int) -> Iterator[Envelope]:
        """Yield events recorded at or after one time and before another, by position."""

    def wait(self, after: int, timeout: float | None = None, stopped: Callable[[], bool] = bool) -> bool:
        """Block until there is an event after a position, written by this or any other process."""

    def wake(self) -> None:
        """Make waiting threads check again whether they were stopped."""

    def watch(self) -> Watch:
        """Return a way to see cheaply whether anybody has committed; it ends with the log."""

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run read-only SQL on the projections' own tables."""

    def ask(self, sql: str, bounds: Bounds) -> Answer:
        """Return what a query gives that anybody may have written; raise UnsafeQueryError for one that must not run."""

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """Return reads of the log as it is now, whatever is committed meanwhile; keep it open for a short time."""

    def scratch(self) -> Scratch:
        """Return empty tables in memory over the events of this log; close them."""

    def overlay(self) -> Overlay:
        """Return temporary tables over those of this log; close them."""

    def verify(self, progress: Progress | None = None, published: "str | Iterable[str] | None" = None) -> Verification:
        """Recompute the hash chain and check the file; `published` are heads of earlier times to hold it to."""

    def backup(self, to: str | os.PathLike[str]) -> Verification:
        """Copy the log to a new file while it is written; return what verifying the copy found."""

    def health(self) -> Health:
        """Return state, size and counters."""

    def close(self, *, drain: bool = True) -> None:
        """Write what was taken, then close; with drain=False what still queues fails with ClosedLogError."""


class Term(NamedTuple):
    """A part of a question to a text index: words that follow each other, or what joins two parts."""

    kind: Literal["words", "and", "or", "not", "open", "close"]
    words: tuple[str, ...] = ()
    prefix: bool = False


class TextIndex(Protocol):
    """Full text, which every backend does in its own way."""

    def ddl(self, table: str) -> str:
        """Return what makes an index: its rows are found by number, and deleted without the text."""

    def settings(self, table: str) -> Sequence[str]:
        """Return what is run once after the index was made: what is deleted leaves no byte behind."""

    def insert(self, table: str) -> str:
        """Return the statement that indexes words under a number: (number, words)."""

    def delete(self, table: str) -> str:
        """Return the statement that takes a number out of the index."""

    def matching(self, table: str) -> str:
        """Return a query for (number, rank) of what matches a question; the best rank is the smallest."""

    def question(self, terms: Sequence[Term]) -> str:
        """Return the terms in the index's language."""


class TableTransaction(Protocol):
    """Changes to the tables of the views under their write lock, all or nothing."""

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""

    def execute(self, sql: str, bindings: Sequence[Any] = ()) -> None:
        """Run SQL to its end; rows it gives are dropped."""

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each row of bindings."""

    def define(self, statements: Sequence[str]) -> None:
        """Run portable DDL, one statement each."""

    def attempt(self, action: Callable[[], T]) -> T:
        """Run an action in a savepoint: if it fails it leaves nothing behind, and the rest still stands."""


class Tables(Protocol):
    """The tables of the views, apart from the log: deleting them loses nothing."""

    path: str
    text: TextIndex

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query on what is committed."""

    def defined(self, table: str) -> bool:
        """Return True if a table is there."""

    def one_moment(self) -> AbstractContextManager[None]:
        """Answer this thread's queries as of one moment while the block runs, whatever is written meanwhile."""

    def query_words(self, index: str, sql: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query that may read `vocabulary`: (number, word, place) of all that is in an index."""

    def transact(self, command: Callable[[TableTransaction], T]) -> T:
        """Run a command under the write lock of the tables, all or nothing."""

    def size(self) -> int:
        """Return the bytes that the tables take."""

    def purge(self) -> None:
        """Leave no byte of a deleted row behind."""

    def check_outside(self) -> None:
        """Raise NestedCommandError if this thread is inside the tables."""

    def close(self) -> None:
        """Close the connections for good."""
