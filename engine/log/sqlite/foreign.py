"""Reading another program's SQLite file: read-only, row by row, leaving no trace in its folder."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import apsw

from engine.log.errors import ForeignFileError
from engine.log.sqlite.locks import Patience

_AT_ONCE = 500
_PATIENCE = 2.0
_WITHOUT_LOCKS = "unix-none"
_HEADER, _VERSION, _WAL_VERSION = 20, 18, b"\2\2"
"""The bytes of a file's header up to its write and read versions, which are 2 for a file with a WAL."""


class ForeignFile:
    """A SQLite file of another program. Its rows are read in pages, so memory does not grow with it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = str(path)
        if not Path(path).is_file():
            raise ForeignFileError(f"{path} does not exist or is no file; give the path of a database")
        try:
            self._connection = self._open()
        except apsw.Error as error:
            raise self._explained(error) from error
        try:
            self.query("SELECT count(*) FROM sqlite_schema")
        except BaseException:
            self.close()
            raise

    def _open(self) -> apsw.Connection:
        """Open a file as its state allows, without making or changing anything beside it."""
        wanted, vfs = self._way()
        uri = f"file:{quote(str(Path(self.path).absolute()))}?mode=ro{wanted}"
        connection = apsw.Connection(uri, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI, vfs=vfs)
        connection.set_busy_handler(Patience(_PATIENCE))
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        if vfs is not None:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")  # the index of the WAL is kept in memory
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        return connection

    def _way(self) -> tuple[str, str | None]:
        """Return how to open: by locks, by what the writer shares, or alone where nobody can be writing."""
        if not self._has_wal():
            return "", None
        if not Path(f"{self.path}-wal").exists():
            return "&immutable=1", None
        if Path(f"{self.path}-shm").exists():
            return "&readonly_shm=1", None
        return "", _WITHOUT_LOCKS  # a writer died, or it is a copy: with locks SQLite would make a -shm

    def _has_wal(self) -> bool:
        try:
            with Path(self.path).open("rb") as file:
                return file.read(_HEADER)[_VERSION:] == _WAL_VERSION
        except OSError as error:
            raise ForeignFileError(f"{self.path} cannot be read: {error}") from error

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        try:
            return self._connection.execute(sql, bindings).fetchall()
        except apsw.Error as error:
            raise self._explained(error) from error
        except UnicodeDecodeError as error:
            raise ForeignFileError(f"{self.path} has a text that is not UTF-8: {error}") from error

    def columns(self, table: str) -> list[str]:
        """Return the names of a table's columns; none if there is no such table."""
        return [str(row[1]) for row in self.query(f"PRAGMA table_info({_quoted(table)})")]

    def rows(
        self,
        table: str,
        columns: Sequence[str],
        key: str,
        *,
        where: str = "",
        bindings: Sequence[Any] = (),
        after: Any = None,
    ) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table by a growing key, page by page, as dicts; `after` leaves out those before."""
        grows = _quoted(key)
        place = list(columns).index(key)
        while True:
            conditions = [part for part in (where, "" if after is None else f"{grows} > ?") if part]
            asked = f" WHERE {' AND '.join(conditions)}" if conditions else ""
            sql = f"SELECT {{}} FROM {_quoted(table)}{asked} ORDER BY {grows} LIMIT {_AT_ONCE}"
            page = self._page(sql, columns, grows, table, (*bindings, *(() if after is None else (after,))))
            yield from (dict(zip(columns, row, strict=True)) for row in page)
            if len(page) < _AT_ONCE:
                return
            after = page[-1][place]

    def _page(
        self, sql: str, columns: Sequence[str], grows: str, table: str, bindings: Sequence[Any]
    ) -> list[tuple[Any, ...]]:
        """Return a page of rows; a text that is not UTF-8 comes as bytes, and costs nobody else their row."""
        try:
            return self._connection.execute(sql.format(", ".join(map(_quoted, columns))), bindings).fetchall()
        except apsw.Error as error:
            raise self._explained(error) from error
        except UnicodeDecodeError:
            keys = self.query(sql.format(grows), bindings)
        one = f"SELECT {{}} FROM {_quoted(table)} WHERE {grows} = ?"
        return [tuple(self._value(one, _quoted(name), key) for name in columns) for (key,) in keys]

    def _value(self, one: str, name: str, key: Any) -> Any:
        try:
            return self._connection.execute(one.format(name), (key,)).get
        except UnicodeDecodeError:
            return self._connection.execute(one.format(f"CAST({name} AS BLOB)"), (key,)).get

    def _explained(self, error: apsw.Error) -> ForeignFileError:
        match error:
            case apsw.NotADBError():
                why = "it is not a SQLite file"
            case apsw.BusyError() | apsw.LockedError():
                why = "another program keeps it locked; stop that program or try again"
            case apsw.CorruptError():
                why = "it is damaged; let its own program repair it first"
            case apsw.ReadOnlyError() | apsw.CantOpenError():
                why = (
                    f"it was left in the middle of a change, or may not be read ({error}); open it with its own program"
                )
            case _:
                why = str(error)
        found = ForeignFileError(f"{self.path} cannot be read: {why}")
        found.damaged = isinstance(error, apsw.CorruptError)
        return found

    def close(self) -> None:
        """Close the file."""
        self._connection.close()


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
