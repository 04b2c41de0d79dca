"""Tables in memory over the events of a log: what the state tables ought to be, folded again."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import apsw

from engine.log.envelope import Envelope
from engine.log.errors import LogError
from engine.log.protocol import Answer, Bounds, Payload, Queries, StateTables
from engine.log.sqlite import structure
from engine.log.sqlite.errors import translate
from engine.log.sqlite.guard import Guard
from engine.log.sqlite.schema import table_definition

T = TypeVar("T")


class Scratch:
    """Projections' tables in memory; the events they are folded from are read from `reads`."""

    def __init__(self, reads: Queries, connection: apsw.Connection | None = None) -> None:
        self.reads = reads
        self._connection = apsw.Connection(":memory:") if connection is None else connection

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query on the tables in memory."""
        try:
            return self._connection.execute(sql, bindings).fetchall()
        except apsw.Error as error:
            raise _explained(error) from error

    def execute(self, sql: str, bindings: Sequence[Any] = ()) -> None:
        """Run SQL to its end; rows it gives are dropped."""
        self.query(sql, bindings)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each row of bindings."""
        try:
            self._connection.executemany(sql, rows).fetchall()
        except apsw.Error as error:
            raise _explained(error) from error

    def define(self, statements: Sequence[str]) -> None:
        """Run portable DDL like a transaction of the log."""
        for statement in statements:
            self.execute(table_definition(statement))

    def attempt(self, action: Callable[[StateTables], T]) -> T:
        """Run an action in a savepoint: if it fails it leaves nothing behind."""
        self.execute("SAVEPOINT attempt")
        try:
            result = action(self)
        except BaseException:
            self.execute("ROLLBACK TO attempt")
            raise
        finally:
            self.execute("RELEASE attempt")
        return result

    def definition_problem(self, reads: Queries) -> str | None:
        """Return what of the tables and indexes in memory a log does not have, or has otherwise."""
        return structure.difference(structure.definitions(self.query), structure.definitions(reads.query))

    def columns_of(self, table: str) -> list[str]:
        """Return the names of the columns of a table, in their order."""
        return [str(row[0]) for row in self.query("SELECT name FROM pragma_table_info(?) ORDER BY cid", (table,))]

    def ask(self, sql: str, bounds: Bounds) -> Answer:
        """Return what a query gives that anybody may have written; raise UnsafeQueryError for one that must not run."""
        return Guard(self._connection, bounds, _explained).ask(sql)

    def tables_of(self, sql: str, bounds: Bounds) -> set[str]:
        """Return the tables and views that such a query reads."""
        guard = Guard(self._connection, bounds, _explained)
        guard.ask(f"EXPLAIN {sql}")
        return guard.tables

    # Events

    def payloads(
        self,
        stream: str,
        after: int = 0,
        upto: int | None = None,
        *,
        until_position: int | None = None,
        without: Sequence[str] = (),
    ) -> list[Payload]:
        """Return a stream's events with after < version <= upto, by version, not decoded."""
        return self.reads.payloads(stream, after, upto, until_position=until_position, without=without)

    def changed_streams(self, after: int, upto: int, ignoring: Sequence[str] = ()) -> list[str]:
        """Return the streams with an event at after < position <= upto whose topic is not ignored, each once."""
        return self.reads.changed_streams(after, upto, ignoring)

    def recorded(self, after: int, upto: int) -> list[Envelope]:
        """Return the events at after < position <= upto, by position."""
        return self.reads.recorded(after, upto)

    def recorded_at(self, positions: Sequence[int]) -> list[Envelope]:
        """Return the events at these positions, by position."""
        return self.reads.recorded_at(positions)

    def positions_of(self, streams: Sequence[str], upto: int) -> list[int]:
        """Return the sorted positions, up to one, of all events of these streams."""
        return self.reads.positions_of(streams, upto)

    def close(self) -> None:
        """Forget the tables."""
        self._connection.close()


def _explained(error: apsw.Error) -> LogError:
    return translate(error, "tables in memory", "folding the log again")
