"""Holding the state tables to the log: it is folded again into memory, and every row is compared."""

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

from engine.domain.events import EventQuarantined
from engine.domain.streams import LANE, LOG, PROJECT, SESSION
from engine.log.errors import SAYS_NOTHING, CorruptLogError, CorruptStateError, LogError
from engine.log.protocol import Log, Progress, Queries, Scratch, Snapshot
from projections.inline.projection import make, position, replay
from projections.inline.quarantine import NAME

Row = tuple[Any, ...]

_AT_ONCE = 1000
_TOLD = 5_000


class _Table(NamedTuple):
    """A state table: its key, which is its first columns, and the column that leads to the event a row is from."""

    name: str
    key: tuple[str, ...]
    stream: str = ""
    column: int = 0
    where: str = "1 = 1"
    columns: str = "*"


_STATE = (
    _Table("projections", ("name",), where=f"name = '{NAME}'", columns="name, fingerprint, position, erased_at"),
    _Table("sessions", ("session_id",), SESSION, 0),
    _Table("lanes", ("key",), LANE, 1),
    _Table("lane_sessions", ("key", "session_id"), column=3),
    _Table("message_ids", ("conversation_id", "message_id", "copied_at"), column=4),
    _Table("copies", ("position",), column=0),
    _Table("turns", ("conversation_id",), SESSION, 2),
    _Table("chats", ("session_id",), SESSION, 0),
    _Table("session_ids", ("other_id",), SESSION, 1),
    _Table("projects", ("project_id",), PROJECT, 0),
    _Table("quarantine", ("position",), where=f"projection = '{NAME}'", columns="position, error"),
)


class Difference(NamedTuple):
    """A row that is not what the log says, and the position of the last event it is made of."""

    table: str
    key: str | None
    position: int | None
    problem: str
    values: tuple[tuple[str, Any, Any], ...] = ()
    """The columns that differ: what the log says, and what the table says."""


class Differences(NamedTuple):
    """The number of rows that are as the log says, and those that are not."""

    rows: int
    differences: list[Difference]


class Comparison(NamedTuple):
    """The number of rows that were compared, and the first difference."""

    rows: int
    difference: Difference | None


def compare(log: Log, progress: Progress | None = None) -> Comparison:
    """Fold the log again in memory and compare every row of the state tables, as of one moment, up to a difference."""
    found = differences(log, 1, progress)
    return Comparison(found.rows, found.differences[0] if found.differences else None)


def differences(log: Log, most: int, progress: Progress | None = None) -> Differences:
    """Fold the log again in memory and return the rows of the state tables that it contradicts, as of one moment."""
    fresh = log.scratch()
    try:
        make(fresh, began_at=log.last_position)
        problem = fresh.definition_problem(log.reader)
        if problem is not None and _is_missing(log.reader, "projections"):  # else they may be another build's
            return Differences(0, [Difference("sqlite_schema", None, None, problem)])
        upto = position(log.reader)
        _fold(fresh, min(upto, log.last_position), progress)  # most of it, while the log may go on
        with log.snapshot() as stored:
            fresh.reads = stored
            comparing = _Comparing(fresh, stored)
            found = list(islice(comparing.run(upto), most))
            return Differences(comparing.rows, found)
    except CorruptStateError as error:
        return Differences(0, [Difference(error.table, error.key, None, error.problem)])
    finally:
        fresh.close()


def any_tables(reads: Queries) -> bool:
    """Return True if there is any of the state tables, in whatever state."""
    return not all(_is_missing(reads, table.name) for table in _STATE)


def _is_missing(reads: Queries, table: str) -> bool:
    try:
        reads.query(f"SELECT 1 FROM {table} LIMIT 1")
    except (CorruptLogError, *SAYS_NOTHING):
        return False
    except LogError:
        return True
    return False


def _fold(fresh: Scratch, upto: int, progress: Progress | None) -> None:
    done = 0
    while done < upto:
        replay(fresh, upto, _TOLD)
        done = min(done + _TOLD, upto)
        if progress is not None:
            progress(done, upto)


class _Comparing:
    def __init__(self, fresh: Scratch, stored: Snapshot) -> None:
        self._fresh = fresh
        self._stored = stored
        self._position = 0
        self.rows = 0

    def run(self, least: int) -> Iterator[Difference]:
        problem = self._fresh.definition_problem(self._stored)
        if problem is not None:
            yield Difference("sqlite_schema", None, None, problem)
            return
        self._position = position(self._stored)
        last = self._stored.last_position()
        if not least <= self._position <= last:
            problem = f"the tables are said to be at position {self._position}, and the log at {last}"
            yield Difference("projections", NAME, self._position, problem)
            return
        replay(self._fresh, self._position)
        for table in _STATE:
            yield from self._of(table)

    def _of(self, table: _Table) -> Iterator[Difference]:
        """Yield the differences of a table, by key."""
        try:
            for right, here in _pairs(table, self._rows_of(self._fresh, table), self._rows_of(self._stored, table)):
                if right == here or self._same_quarantine(table, right, here):
                    self.rows += 1
                else:
                    yield self._differ(table, right, here)
        except CorruptLogError as error:
            bad = self._first_unreadable(table)
            yield Difference(table.name, _key(table, bad), self._origin(table, bad), f"it cannot be read: {error}")

    def _first_unreadable(self, table: _Table) -> Row | None:
        """Return how the first row ought to be that cannot be read by its key; None if its key is what is damaged."""
        by_key = " AND ".join(f"{column} = ?" for column in table.key)
        for right in self._rows_of(self._fresh, table):
            try:
                self._stored.query(f"SELECT {table.columns} FROM {table.name} WHERE {by_key}", _values(table, right))
            except CorruptLogError:
                return right
        return None

    def _rows_of(self, reads: Queries, table: _Table) -> Iterator[Row]:
        """Yield the rows of a table by key, in bounded batches."""
        key = ", ".join(table.key)
        select = f"SELECT {table.columns} FROM {table.name} WHERE {table.where}"
        behind = f"AND ({key}) > ({', '.join('?' * len(table.key))})"
        rows = reads.query(f"{select} ORDER BY {key} LIMIT {_AT_ONCE}")
        while rows:
            yield from rows
            bindings = rows[-1][: len(table.key)]
            rows = reads.query(f"{select} {behind} ORDER BY {key} LIMIT {_AT_ONCE}", bindings)

    def _same_quarantine(self, table: _Table, right: Row | None, here: Row | None) -> bool:
        """Return True for an event that is quarantined as the log itself says, in the words of another version."""
        if table.name != "quarantine" or right is None or here is None or right[0] != here[0]:
            return False
        log = self._stored.recorded_at([each[3] for each in self._stored.payloads(LOG)])
        reported = (each.event for each in log if isinstance(each.event, EventQuarantined))
        return any(each.position == here[0] and each.error == here[1] for each in reported)

    def _differ(self, table: _Table, right: Row | None, here: Row | None) -> Difference:
        """Return the difference between the row that ought to be and the one that is there."""
        if here is None:
            return Difference(table.name, _key(table, right), self._origin(table, right), "the row is missing")
        if right is None:
            return Difference(table.name, _key(table, here), None, "the log knows nothing of the row")
        names = self._columns(table)
        values = tuple(
            (name, ours, theirs) for name, ours, theirs in zip(names, right, here, strict=True) if ours != theirs
        )
        problem = "the row is not what the log says"
        return Difference(table.name, _key(table, here), self._origin(table, right), problem, values)

    def _columns(self, table: _Table) -> list[str]:
        """Return the names of the columns that are compared."""
        if table.columns != "*":
            return table.columns.split(", ")
        return self._fresh.columns_of(table.name)

    def _origin(self, table: _Table, row: Row | None) -> int | None:
        """Return the position of the last event that a row is made of."""
        if row is None or table.name == "projections":
            return None
        if not table.stream:
            return int(row[table.column])
        positions = self._stored.positions_of([table.stream + str(row[table.column])], self._position)
        return positions[-1] if positions else None


def _pairs(table: _Table, right: Iterator[Row], here: Iterator[Row]) -> Iterator[tuple[Row | None, Row | None]]:
    """Yield the rows of two tables that are sorted by their keys, side by side; None where one has no such row."""
    ours, theirs = next(right, None), next(here, None)
    while ours is not None or theirs is not None:
        same = ours == theirs
        before = not same and (theirs is None or (ours is not None and _order(table, ours) < _order(table, theirs)))
        after = not same and (ours is None or (theirs is not None and _order(table, theirs) < _order(table, ours)))
        yield None if after else ours, None if before else theirs
        ours = ours if after else next(right, None)
        theirs = theirs if before else next(here, None)


def _order(table: _Table, row: Row) -> list[tuple[int, Any]]:
    """Return a key as SQLite sorts it, whatever the types of its columns are."""
    return [
        (0, 0)
        if value is None
        else (2, value.encode("utf-8", "surrogatepass"))
        if isinstance(value, str)
        else (3, value)
        if isinstance(value, bytes)
        else (1, value)
        for value in _values(table, row)
    ]


def _values(table: _Table, row: Row) -> Row:
    return row[: len(table.key)]


def _key(table: _Table, row: Row | None) -> str | None:
    return None if row is None else " ".join(str(value) for value in _values(table, row))
