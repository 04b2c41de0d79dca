"""Temporary tables over those of a log: who reads through them sees the state tables as they were."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from engine.log.mutex import Mutex
from engine.log.sqlite.reader import SQLiteReader
from engine.log.sqlite.schema import table_definition
from engine.log.sqlite.scratch import Scratch

_TABLE = re.compile(r"CREATE TABLE (?:IF NOT EXISTS )?(\w+)")


class Overlay(Scratch):
    """Tables and views in the temporary schema of a reading connection, whose names come before the log's own.

    A view cannot be written to, so reads and writes of one name lead to two.
    """

    def __init__(self, reader: SQLiteReader) -> None:
        self._reader = reader
        self._mutex = Mutex()
        super().__init__(reader, reader.connect_for_watching(self._mutex))
        self._covered: dict[str, str | None] = {}
        self._names = re.compile("((?!))")

    def cover(
        self, definition: str, *, hidden_by: str | None = None, upto: int | None = None, own: bool = True
    ) -> None:
        """Cover a table of the log by one of the same definition; what is written here goes into that."""
        found = _TABLE.match(definition)
        if found is None:
            raise ValueError(f"only a table can be covered, not this: {definition}")
        table = found[1]
        self.query(table_definition(_TABLE.sub(f"CREATE TEMP TABLE {table}_over", definition, count=1)))
        self.query(f"CREATE TEMP TABLE {table}_hidden (value ANY PRIMARY KEY) STRICT, WITHOUT ROWID")
        seen = [] if hidden_by is None else [f"{hidden_by} NOT IN (SELECT value FROM {table}_hidden)"]
        seen += [] if upto is None else [f"position <= {upto}"]
        rows = f"SELECT * FROM main.{table} WHERE {' AND '.join(seen) or '1'} UNION ALL " if own else ""
        self.query(f"CREATE TEMP VIEW {table} AS {rows}SELECT * FROM {table}_over")
        self._covered[table] = hidden_by
        self._names = re.compile(rf"\b({'|'.join(self._covered)})\b")

    def hide(self, table: str, values: Iterable[str]) -> None:
        """Hide the rows of a covered table with these values in its `hidden_by`, in the log and here."""
        rows = [(value,) for value in values]
        super().executemany(f"INSERT INTO {table}_hidden VALUES (?) ON CONFLICT DO NOTHING", rows)
        super().executemany(f"DELETE FROM {table}_over WHERE {self._covered[table]} = ?", rows)

    def cover_events(self, upto: int) -> None:
        """Let the log itself, and the views over it, end at a position."""
        self.query(f"CREATE TEMP VIEW events AS SELECT * FROM main.events WHERE position <= {upto}")
        self.query(f"CREATE TEMP VIEW clock_steps AS SELECT * FROM main.clock_steps WHERE position <= {upto}")
        for (sql,) in self.query("SELECT sql FROM main.sqlite_schema WHERE type = 'view' ORDER BY rowid"):
            self.query(str(sql).replace("CREATE VIEW", "CREATE TEMP VIEW", 1))

    @contextmanager
    def one_state(self) -> Iterator[None]:
        """Keep other threads out, and let what is read meanwhile be of one moment."""
        with self._mutex.once():
            self.query("BEGIN")
            try:
                yield
            finally:
                if self._connection.in_transaction:
                    self._connection.execute("COMMIT")

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query on what covers the log's tables."""
        return self._reader.query_on(self._connection, sql, bindings)

    def own_query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query on the log's own tables."""
        return self.query(self._names.sub(r"main.\1", sql), bindings)

    def execute(self, sql: str, bindings: Sequence[Any] = ()) -> None:
        """Run SQL to its end; rows it gives are dropped."""
        super().execute(self._names.sub(r"\1_over", sql), bindings)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each row of bindings."""
        super().executemany(self._names.sub(r"\1_over", sql), rows)

    def close(self) -> None:
        """Forget the tables."""
        self._reader.release(self._connection)
