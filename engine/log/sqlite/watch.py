"""Seeing that the log has changed, for 2 µs: what lets a cache answer without reading."""

from collections.abc import Sequence
from typing import Any

from engine.log.mutex import Mutex
from engine.log.sqlite.queries import SQLiteQueries
from engine.log.sqlite.reader import SQLiteReader


class SQLiteWatch(SQLiteQueries):
    """A reading connection of its own, which knows when any other connection has committed."""

    def __init__(self, reader: SQLiteReader) -> None:
        self._reader = reader
        self.names = reader.names
        self._data_version = -1
        mutex = Mutex()
        self._lock = mutex.lock  # between two calls, where a signal handler comes, the connection may be used again
        self._connection = reader.connect_for_watching(mutex)

    def changed(self) -> bool:
        """Return True if anybody, in this process or another, has committed since this was last asked."""
        self._reader.check_open()  # before the lock, which after a fork nobody may be there to release
        with self._lock:
            ((version,),) = self._reader.query_on(self._connection, "PRAGMA data_version")
            known, self._data_version = self._data_version, int(version)
            return known != self._data_version

    def last_position(self) -> int:
        """Return the position of the newest event, as this connection sees the log."""
        return self.query("SELECT max(position) FROM events")[0][0] or 0

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query on the watching connection."""
        self._reader.check_open()
        with self._lock:
            return self._reader.query_on(self._connection, sql, bindings)
