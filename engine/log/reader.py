"""Reading: by position, stream, topic and time, in bounded batches, never holding a read transaction open."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import apsw

from engine.domain.encoding import decode_many
from engine.domain.envelope import Envelope
from engine.log.database import close_connection
from engine.log.errors import ClosedLogError, CorruptLogError, InvalidEventError, LogError
from engine.log.schema import EVENT_ID

_COLUMNS = f"stream, version, topic, time, actor, command, reason, position, {EVENT_ID}, metadata, state"
_BATCH = 250
_TOPIC_WINDOW = 20_000
_IDLE_CONNECTIONS = 8
_BEYOND = 1 << 62
_LONGEST_LOOK = 5.0


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
        self._watching: list[tuple[apsw.Connection, threading.Lock]] = []
        self._closed: LogError | None = None
        self._mutex = threading.Lock()

    def rows(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one query to its end on a connection of the pool."""
        self.check_open()
        try:
            connection = self._idle.popleft()
        except IndexError:
            connection = self._connect()
        try:
            return self.rows_of(connection, sql, bindings)
        finally:
            self._give_back(connection)

    def rows_of(self, connection: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one query to its end on a connection of this reader's."""
        self.check_open()
        try:
            return connection.execute(sql, bindings).fetchall()
        except apsw.Error as error:
            translated = self._explain(error, "reading")
            if isinstance(translated, CorruptLogError):
                self._damaged(translated)
            raise translated from error
        except UnicodeDecodeError as error:
            raise CorruptLogError(f"the log has a text that is not UTF-8: {error}") from error
        except UnicodeEncodeError as error:
            raise InvalidEventError(f"no name in the log has lone surrogates: {error}") from error

    def check_open(self) -> None:
        """Raise why nothing can be read any more."""
        if self._closed is not None:
            raise self._closed.with_traceback(None)

    def connect_for_watching(self, mutex: threading.Lock) -> apsw.Connection:
        """A connection that stays with one user until the log is closed; who uses it holds the lock."""
        connection = self._connect()
        with self._mutex:
            if self._closed is None:
                self._watching.append((connection, mutex))
                return connection
        close_connection(connection)
        raise self._closed.with_traceback(None)

    def value(self, sql: str, bindings: Sequence[Any] = ()) -> Any:
        """The single value of a query, or None."""
        found = self.rows(sql, bindings)
        return found[0][0] if found else None

    def _give_back(self, connection: apsw.Connection) -> None:
        if connection.in_transaction:  # a query that was a BEGIN: the next one would see an old state
            connection.execute("ROLLBACK")
        with self._mutex:
            if self._closed is None and len(self._idle) < _IDLE_CONNECTIONS:
                self._idle.append(connection)
                return
        close_connection(connection)

    def last_position(self) -> int:
        return self.value("SELECT max(position) FROM events") or 0

    def end(self) -> int:
        """The last position; if the page that holds it is damaged, one beyond any."""
        try:
            return self.last_position()
        except CorruptLogError:
            return _BEYOND

    def by_position(self, after: int, upto: int | None, topics: Sequence[str]) -> Iterator[Envelope]:
        """Events after a position up to the end as it is now; a topic filter reads bounded windows too."""
        if isinstance(topics, str):
            raise TypeError(f"topics is a list of topics, not the text {topics!r}")
        where = f" AND topic IN ({','.join('?' * len(topics))})" if topics else ""
        window = _TOPIC_WINDOW if topics else _BATCH
        end = self.end() if upto is None else min(upto, self.end())
        while after < end:
            stop = min(after + window, end)
            empty = True
            for rows in self.window(_COLUMNS, after + 1, stop, where, topics):
                empty = empty and not rows
                yield from _envelopes(rows)
            if empty and stop < end:  # a gap, which only damage leaves, can be very long
                stop = (self.value("SELECT min(position) FROM events WHERE position > ?", (stop,)) or end + 1) - 1
            after = stop

    def window(
        self, columns: str, first: int, last: int, where: str = "", bindings: Sequence[Any] = ()
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Rows by position; those of a damaged window one by one up to the first that cannot be read."""
        select = f"SELECT {columns} FROM events WHERE position"
        try:
            found = self.rows(f"{select} >= ? AND position <= ?{where} ORDER BY position", (first, last, *bindings))
        except CorruptLogError:
            for position in range(first, last + 1):
                yield self._readable(f"{select} = ?{where}", (position, *bindings), position)
        else:
            yield found

    def _readable(self, sql: str, bindings: Sequence[Any], position: int | None) -> list[tuple[Any, ...]]:
        try:
            return self.rows(sql, bindings)
        except CorruptLogError as error:
            where = "an event" if position is None else f"position {position}"
            raise CorruptLogError(f"{error}; {where} cannot be read, what is after it may be", position) from error

    def by_stream(self, stream: str, after: int, upto: int | None, *, backwards: bool = False) -> Iterator[Envelope]:
        """Events of one stream with a version above `after`, in order or newest first."""
        order = "DESC" if backwards else "ASC"
        sql = (
            f"SELECT {_COLUMNS} FROM events WHERE stream = ? AND version > ? AND version <= ? "
            f"ORDER BY version {order} LIMIT {_BATCH}"
        )
        low, high = after, _BEYOND if upto is None else upto
        while True:
            try:
                rows = self.rows(sql, (stream, low, high))
            except CorruptLogError:
                yield from self._by_stream_until_damage(stream, low, high, backwards)
                return
            yield from _envelopes(rows)
            if len(rows) < _BATCH:
                return
            if backwards:
                high = rows[-1][1] - 1
            else:
                low = rows[-1][1]

    def _by_stream_until_damage(self, stream: str, low: int, high: int, backwards: bool) -> Iterator[Envelope]:
        """Serve a stream event by event; the index, which also holds the positions, may still be whole."""
        high = min(high, self.stream_version(stream) or 0)
        for version in range(high, low, -1) if backwards else range(low + 1, high + 1):
            position = self.value("SELECT position FROM events WHERE stream = ? AND version = ?", (stream, version))
            yield from _envelopes(
                self._readable(f"SELECT {_COLUMNS} FROM events WHERE position = ?", (position,), position)
            )

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
            recorded = self.value("SELECT time FROM events WHERE position = ?", (middle,))
            if recorded is None:
                raise CorruptLogError(f"position {middle} is missing; verify() the log", middle)
            if recorded <= time:
                found, first = middle, middle + 1
            else:
                last = middle - 1
        return found

    def close(self, reason: LogError | None = None) -> None:
        with self._mutex:
            self._closed = reason or ClosedLogError("the log is closed; open it again to use it")
            idle, self._idle = self._idle, deque()
            watching, self._watching = self._watching, []
        for connection in idle:
            close_connection(connection)
        for connection, mutex in watching:
            # Longer than any look takes; not for ever, because a signal handler may have interrupted its holder.
            if mutex.acquire(timeout=_LONGEST_LOOK):
                close_connection(connection)
                mutex.release()

    def abandon(self, reason: LogError) -> list[apsw.Connection]:
        """After a fork, in the child: give up the connections without closing or locking anything."""
        self._closed = reason
        connections = [*self._idle, *(connection for connection, _ in self._watching)]
        self._idle, self._watching = deque(), []
        return connections


def _envelopes(rows: list[tuple[Any, ...]]) -> Iterator[Envelope]:
    """Envelopes of rows, column by column: the loops run in C."""
    if not rows:
        return iter(())
    streams, versions, topics, times, actors, commands, reasons, positions, ids, metadata, states = zip(
        *rows, strict=True
    )
    contents = decode_many(topics, states)
    return map(Envelope, streams, versions, contents, times, actors, commands, reasons, positions, ids, metadata)
