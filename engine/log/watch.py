"""Seeing that the log has changed, for 2 µs: what lets a cache answer without reading."""

import threading
from collections.abc import Sequence
from typing import Any

from engine.log.reader import Reader


class Watch:
    """A reading connection of its own, which knows when any other connection has committed."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._data_version = -1
        self._mutex = threading.Lock()
        self._connection = reader.connect_for_watching(self._mutex)

    def changed(self) -> bool:
        """Whether anybody, in this process or another, has committed since this was last asked."""
        self._reader.check_open()  # before the lock, which after a fork nobody may be there to release
        with self._mutex:
            ((version,),) = self._reader.rows_of(self._connection, "PRAGMA data_version")
            known, self._data_version = self._data_version, int(version)
            return known != self._data_version

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Read on the watching connection."""
        self._reader.check_open()
        with self._mutex:
            return self._reader.rows_of(self._connection, sql, bindings)
