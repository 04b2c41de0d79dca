"""Reading: by position, stream, topic and time, in bounded batches, never holding a read transaction open."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apsw

from engine.domain.encoding import decode
from engine.domain.envelope import Envelope
from engine.log.errors import ClosedLogError, CorruptLogError, LogError

_COLUMNS = "stream, version, topic, time, actor, command, reason, position, event_id, metadata, state"
_BATCH = 1000
_TOPIC_WINDOW = 20_000
_IDLE_CONNECTIONS = 8


class Reader:
    """A small pool of reading connections and the queries that run on them."""

    def __init__(
        self,
        connect: Callable[[], apsw.Connection],
        explain: Callable[[apsw.Error, str], LogError],
        damaged: Callable[[LogError], None],
    ) -> None:
        self._connect = connect
        self._explain = explain
        self._damaged = damaged
        self._idle: deque[apsw.Connection] = deque()
        self._closed: LogError | None = None
        self._mutex = threading.Lock()

    def rows(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one query to its end on a connection of the pool."""
        if self._closed is not None:
            raise self._closed
        try:
            connection = self._idle.popleft()
        except IndexError:
            connection = self._connect()
        try:
            return connection.execute(sql, bindings).fetchall()
        except apsw.Error as error:
            translated = self._explain(error, "reading")
            if isinstance(translated, CorruptLogError):
                self._damaged(translated)
            raise translated from error
        finally:
            self._give_back(connection)

    def value(self, sql: str, bindings: Sequence[Any] = ()) -> Any:
        """The single value of a query, or None."""
        found = self.rows(sql, bindings)
        return found[0][0] if found else None

    def _give_back(self, connection: apsw.Connection) -> None:
        with self._mutex:
            if self._closed is None and len(self._idle) < _IDLE_CONNECTIONS:
                self._idle.append(connection)
                return
        connection.close()

    def last_position(self) -> int:
        return self.value("SELECT max(position) FROM events") or 0

    def by_position(self, after: int, upto: int | None, topics: Sequence[str]) -> Iterator[Envelope]:
        """Events after a position up to the end as it is now; a topic filter reads bounded windows too."""
        where = f" AND topic IN ({','.join('?' * len(topics))})" if topics else ""
        sql = f"SELECT {_COLUMNS} FROM events WHERE position > ? AND position <= ?{where} ORDER BY position"
        window = _TOPIC_WINDOW if topics else _BATCH
        end = self.last_position() if upto is None else min(upto, self.last_position())
        while after < end:
            stop = min(after + window, end)
            yield from map(_envelope, self._readable(sql, after, stop, tuple(topics)))
            after = stop

    def _readable(self, sql: str, after: int, stop: int, topics: tuple[str, ...]) -> list[tuple[Any, ...]]:
        """The rows of a window; on a damaged page, an error that names the first one that cannot be read."""
        try:
            return self.rows(sql, (after, stop, *topics))
        except CorruptLogError as error:
            for position in range(after, stop):
                try:
                    self.rows(sql, (position, position + 1, *topics))
                except CorruptLogError:
                    message = f"{error}; first unreadable position {position + 1}, read on after it"
                    raise CorruptLogError(message, position + 1) from error
            raise

    def by_stream(self, stream: str, after: int, upto: int | None, *, backwards: bool = False) -> Iterator[Envelope]:
        """Events of one stream with a version above `after`, in order or newest first."""
        order = "DESC" if backwards else "ASC"
        sql = (
            f"SELECT {_COLUMNS} FROM events WHERE stream = ? AND version > ? AND version <= ? "
            f"ORDER BY version {order} LIMIT {_BATCH}"
        )
        low, high = after, (1 << 62) if upto is None else upto
        while True:
            rows = self.rows(sql, (stream, low, high))
            yield from map(_envelope, rows)
            if len(rows) < _BATCH:
                return
            if backwards:
                high = rows[-1][1] - 1
            else:
                low = rows[-1][1]

    def stream_version(self, stream: str) -> int | None:
        version: int | None = self.value("SELECT max(version) FROM events WHERE stream = ?", (stream,))
        return version

    def position_at(self, time: int) -> int:
        """The last position recorded at or before a time; 0 if there is none."""
        for first, last in self._runs():
            found = self._last_until(time, first, last)
            if found:
                return found
        return 0

    def by_time(self, start: int, end: int) -> Iterator[Envelope]:
        """Events with start <= time < end, in the order of their positions."""
        for first, last in reversed(list(self._runs())):
            low = self._last_until(start - 1, first, last) or first - 1
            high = self._last_until(end - 1, first, last)
            if high:
                yield from self.by_position(low, high, ())

    def _runs(self) -> Iterator[tuple[int, int]]:
        """Stretches of positions over which the clock did not go back, newest first."""
        last = self.last_position()
        for (step,) in self.rows("SELECT position FROM clock_steps ORDER BY position DESC"):
            if step <= last:
                yield step, last
                last = step - 1
        if last:
            yield 1, last

    def _last_until(self, time: int, first: int, last: int) -> int:
        """The last position of a run with at most this time, by halving; 0 if the run starts later."""
        found = 0
        while first <= last:
            middle = (first + last) // 2
            if self.value("SELECT time FROM events WHERE position = ?", (middle,)) <= time:
                found, first = middle, middle + 1
            else:
                last = middle - 1
        return found

    def close(self, reason: LogError | None = None) -> None:
        with self._mutex:
            self._closed = reason or ClosedLogError("the log is closed; open it again to use it")
            idle, self._idle = self._idle, deque()
        for connection in idle:
            connection.close()

    def abandon(self, reason: LogError) -> list[apsw.Connection]:
        """After a fork, in the child: give up the connections without closing or locking anything."""
        self._closed = reason
        idle, self._idle = list(self._idle), deque()
        return idle


def _envelope(row: tuple[Any, ...]) -> Envelope:
    stream, version, topic, time, actor, command, reason, position, event_id, metadata, state = row
    return Envelope(stream, version, decode(topic, state), time, actor, command, reason, position, event_id, metadata)
