"""Queries of people: they only read, and are stopped when they take too long or too much memory."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import apsw

from engine.log.errors import LogError, UnsafeQueryError
from engine.log.protocol import Answer, Bounds

_MAY = frozenset({apsw.SQLITE_SELECT, apsw.SQLITE_READ, apsw.SQLITE_FUNCTION, apsw.SQLITE_RECURSIVE})
_MAY_NOT = frozenset({"load_extension", "fts3_tokenizer", "sqlite_crypt"})
_STEPS = 10_000
"""So many steps of SQLite's machine, about a millisecond, are between two looks at the clock."""
_LARGEST_VALUE = 64 * 1024 * 1024
_READ_ONLY = "only queries that read are run here: SELECT, VALUES and WITH"


class Guard:
    """Runs queries on one connection that nobody else uses meanwhile."""

    def __init__(self, connection: apsw.Connection, bounds: Bounds, explain: Callable[[apsw.Error], LogError]) -> None:
        self._connection = connection
        self._bounds = bounds
        self._explain = explain
        self._ends = time.monotonic() + bounds.seconds
        self._statements = 0
        self._stopped = ""
        self.tables: set[str] = set()
        """The tables and views that were read."""

    def ask(self, sql: str) -> Answer:
        """Return what a query gives, up to so many rows; raise UnsafeQueryError for one that must not run."""
        with self._on():
            try:
                return self._answer(self._connection.execute(sql))
            except (apsw.AuthError, apsw.ExecTraceAbort) as error:
                raise UnsafeQueryError(self._stopped or f"this is no query that only reads: {error}") from error
            except (apsw.InterruptError, apsw.NoMemError, apsw.TooBigError) as error:
                why = self._stopped or f"a value of it is over {_LARGEST_VALUE:,} bytes"
                raise UnsafeQueryError(f"the query was stopped: {why}; ask for less, or with wider bounds") from error
            except (apsw.SQLError, apsw.BindingsError) as error:
                if "cannot modify" in str(error):  # told before the authorizer is asked
                    raise UnsafeQueryError(f"{_READ_ONLY} ({error})") from error
                raise UnsafeQueryError(f"SQLite does not understand the query: {error}") from error
            except apsw.Error as error:
                raise self._explain(error) from error
            except UnicodeError as error:
                raise UnsafeQueryError(f"a text of the query or of its answer is no UTF-8: {error}") from error

    def _answer(self, cursor: apsw.Cursor) -> Answer:
        rows: list[tuple[Any, ...]] = []
        columns: tuple[str, ...] = ()
        size = 0
        for row in cursor:
            columns = columns or tuple(name for name, *_ in cursor.get_description())
            if len(rows) == self._bounds.rows:
                return Answer(columns=columns, rows=rows, truncated=True)
            rows.append(row)
            size += sum(len(value) for value in row if isinstance(value, (str, bytes)))
            if size > self._bounds.size:
                raise UnsafeQueryError(f"the answer is over {self._bounds.size:,} bytes; ask for less")
        return Answer(columns=columns, rows=rows, truncated=False)

    @contextmanager
    def _on(self) -> Iterator[None]:
        connection = self._connection
        largest = connection.limit(apsw.SQLITE_LIMIT_LENGTH, _LARGEST_VALUE)
        self._statements, self._used = 0, apsw.memory_used()
        connection.authorizer = self._may
        connection.exec_trace = self._one_statement
        connection.set_progress_handler(self._out_of_bounds, _STEPS)
        try:
            yield
        finally:
            connection.set_progress_handler(None)
            connection.exec_trace = None
            connection.authorizer = None
            connection.limit(apsw.SQLITE_LIMIT_LENGTH, largest)

    def _may(self, operation: int, first: str | None, second: str | None, _schema: str | None, _by: str | None) -> int:
        if operation == apsw.SQLITE_READ and first:
            self.tables.add(first)
        if operation in _MAY and (operation != apsw.SQLITE_FUNCTION or str(second).lower() not in _MAY_NOT):
            return apsw.SQLITE_OK
        self._stopped = _READ_ONLY
        return apsw.SQLITE_DENY

    def _one_statement(self, _cursor: apsw.Cursor, _sql: str, _bindings: Any) -> bool:
        self._statements += 1
        if self._statements > 1:
            self._stopped = "only one query is run at a time; leave out what comes after it"
        return self._statements == 1

    def _out_of_bounds(self) -> bool:
        if time.monotonic() > self._ends:
            self._stopped = f"it did not end within {self._bounds.seconds:g} s"
        elif apsw.memory_used() - self._used > self._bounds.size:
            self._stopped = f"it took more than {self._bounds.size:,} bytes of memory"
        return bool(self._stopped)
