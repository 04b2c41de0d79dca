"""Holding the state tables to the log: it is folded again into memory, and every row is compared."""

from collections.abc import Iterator
from itertools import zip_longest
from typing import Any, NamedTuple

from engine.domain.events import EventQuarantined
from engine.domain.streams import LANE, LOG, PROJECT, SESSION
from engine.log.errors import CorruptLogError, CorruptStateError
from engine.log.protocol import Log, Queries, Scratch, Snapshot
from projections.inline.projection import make, position, replay
from projections.inline.quarantine import NAME

Row = tuple[Any, ...]

_AT_ONCE = 1000


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
    """The first row that is not what the log says, and the position of the last event it is made of."""

    table: str
    key: str | None
    position: int | None
    problem: str


class Comparison(NamedTuple):
    """The number of rows that were compared, and the first difference."""

    rows: int
    difference: Difference | None


def compare(log: Log) -> Comparison:
    """Fold the log again in memory and compare every row of the state tables, as of one moment."""
    fresh = log.scratch()
    try:
        make(fresh, began_at=log.last_position)
        upto = position(log.reader)
        replay(fresh, min(upto, log.last_position))  # most of it, while the log may go on
        with log.snapshot() as stored:
            fresh.reads = stored
            return _Comparing(fresh, stored).run(upto)
    except CorruptStateError as error:
        return Comparison(0, Difference(error.table, error.key, None, error.problem))
    finally:
        fresh.close()


class _Comparing:
    def __init__(self, fresh: Scratch, stored: Snapshot) -> None:
        self._fresh = fresh
        self._stored = stored
        self._position = 0
        self._rows = 0

    def run(self, least: int) -> Comparison:
        problem = self._fresh.definition_problem(self._stored)
        if problem is not None:
            return self._found("sqlite_schema", None, None, problem)
        self._position = position(self._stored)
        last = self._stored.last_position()
        if not least <= self._position <= last:
            problem = f"the tables are said to be at position {self._position}, and the log at {last}"
            return self._found("projections", NAME, self._position, problem)
        replay(self._fresh, self._position)
        for table in _STATE:
            found = self._first_difference(table)
            if found is not None:
                return found
        return Comparison(self._rows, None)

    def _first_difference(self, table: _Table) -> Comparison | None:
        pairs = zip_longest(self._rows_of(self._fresh, table), self._rows_of(self._stored, table))
        try:
            for right, here in pairs:
                if right != here and not self._same_quarantine(table, right, here):
                    return self._differ(table, right, here)
                self._rows += 1
        except CorruptLogError as error:
            bad = self._first_unreadable(table)
            return self._found(table.name, _key(table, bad), self._origin(table, bad), f"it cannot be read: {error}")
        return None

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

    def _differ(self, table: _Table, right: Row | None, here: Row | None) -> Comparison:
        """Return the difference between the row that ought to be and the one that is there."""
        if here is None or (right is not None and repr(_values(table, right)) < repr(_values(table, here))):
            return self._found(table.name, _key(table, right), self._origin(table, right), "the row is missing")
        if right is None or _values(table, right) != _values(table, here):
            return self._found(table.name, _key(table, here), None, "the log knows nothing of the row")
        problem = "the row is not what the log says"
        return self._found(table.name, _key(table, here), self._origin(table, right), problem)

    def _origin(self, table: _Table, row: Row | None) -> int | None:
        """Return the position of the last event that a row is made of."""
        if row is None or table.name == "projections":
            return None
        if not table.stream:
            return int(row[table.column])
        positions = self._stored.positions_of([table.stream + str(row[table.column])], self._position)
        return positions[-1] if positions else None

    def _found(self, table: str, key: str | None, at: int | None, problem: str) -> Comparison:
        return Comparison(self._rows, Difference(table, key, at, problem))


def _values(table: _Table, row: Row) -> Row:
    return row[: len(table.key)]


def _key(table: _Table, row: Row | None) -> str | None:
    return None if row is None else " ".join(str(value) for value in _values(table, row))
