"""Reading: by position, stream, topic and time, in bounded batches, never holding a read transaction open."""

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from json import dumps
from typing import Any

import apsw

from engine.log.chain import genesis
from engine.log.envelope import Envelope
from engine.log.errors import ClosedLogError, CorruptLogError, InvalidEventError, LogError
from engine.log.mutex import Mutex, check_outside
from engine.log.protocol import Payload
from engine.log.rows import STORED
from engine.log.sqlite.database import close_connection
from engine.log.sqlite.names import ID, IDS, Names
from engine.log.sqlite.queries import BEYOND, COLUMNS, SQLiteQueries, not_text

_BATCH = 250
_POSITION = STORED.index("position")
_TOPIC_WINDOW = 20_000
_BY_STREAM = "events INDEXED BY sqlite_autoindex_events_1"
_FEW = 8
_IDLE_CONNECTIONS = 8


class SQLiteReader(SQLiteQueries):
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
        self.names = Names()
        self._idle: deque[apsw.Connection] = deque()
        self._watching: list[tuple[apsw.Connection, Mutex]] = []
        self._closed: LogError | None = None
        self._mutex = Mutex()

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run one query to its end on a connection of the pool."""
        self.check_open()
        try:
            connection = self._idle.popleft()
        except IndexError:
            connection = self._connect()
        try:
            return self.query_on(connection, sql, bindings)
        finally:
            self._give_back(connection)

    def query_on(self, connection: apsw.Connection, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
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
            raise not_text(error) from error
        except UnicodeEncodeError as error:
            raise InvalidEventError(f"no name in the log has lone surrogates: {error}") from error

    @contextmanager
    def snapshot(self) -> Iterator["Snapshot"]:
        """Return reads of one state of the log. While it is open the WAL cannot begin again."""
        self.check_open()
        connection = self._connect()
        try:
            self.query_on(connection, "BEGIN")
            self.query_on(connection, "SELECT 1 FROM sqlite_schema")  # only a read begins what BEGIN announces
            yield Snapshot(self, connection)
        finally:
            close_connection(connection)

    def check_open(self) -> None:
        """Raise why nothing can be read any more."""
        if self._closed is not None:
            raise self._closed.with_traceback(None)

    def connect_for_watching(self, mutex: Mutex) -> apsw.Connection:
        """Return a connection that stays with one user until the log is closed; who uses it holds the lock."""
        connection = self._connect()
        with self._mutex.once():
            if self._closed is None:
                self._watching.append((connection, mutex))
                return connection
        close_connection(connection)
        raise self._closed.with_traceback(None)

    def release(self, connection: apsw.Connection) -> None:
        """Close a connection that was for watching before the log is."""
        with self._mutex.once():
            mine = [each for each in self._watching if each[0] is connection]
            self._watching = [each for each in self._watching if each[0] is not connection]
        for each, mutex in mine:
            with mutex.once():
                close_connection(each)

    def value(self, sql: str, bindings: Sequence[Any] = ()) -> Any:
        """Return the single value of a query, or None."""
        found = self.query(sql, bindings)
        return found[0][0] if found else None

    def _give_back(self, connection: apsw.Connection) -> None:
        if connection.in_transaction:  # a query that was a BEGIN: the next one would see an old state
            connection.execute("ROLLBACK")
        if self._closed is not None or len(self._idle) >= _IDLE_CONNECTIONS:
            close_connection(connection)
            return
        self._idle.append(connection)
        if self._closed is not None:  # meanwhile
            self._close_idle()

    def last_position(self) -> int:
        return self.value("SELECT max(position) FROM events") or 0

    def head(self, upto: int | None = None) -> str:
        """Return the position and the hash of the newest row up to a position, or those that stand before the first."""
        sql = "SELECT position, hash FROM events WHERE position <= ? ORDER BY position DESC LIMIT 1"
        found = self.query(sql, (BEYOND if upto is None else upto,))
        position, hash_ = found[0] if found else (0, genesis(self.value("SELECT value FROM meta WHERE key = 'log_id'")))
        return f"{position}:{hash_.hex()}"

    def log_id(self) -> bytes:
        """Return the log's own id, from which its first hash is made."""
        found = self.value("SELECT value FROM meta WHERE key = 'log_id'")
        if not isinstance(found, bytes):
            raise CorruptLogError("the log's own id is missing; verify() the log")
        return found

    def end(self) -> int:
        """Return the last position; if the page that holds it is damaged, one beyond any."""
        try:
            return self.last_position()
        except CorruptLogError:
            return BEYOND

    def by_position(self, after: int, upto: int | None, topics: Sequence[str]) -> Iterator[Envelope]:
        """Yield events after a position up to the end as it is now; a topic filter reads bounded windows too."""
        if isinstance(topics, str):
            raise TypeError(f"topics is a list of topics, not the text {topics!r}")
        where = f" AND topic IN ({','.join('?' * len(topics))})" if topics else ""
        window = _TOPIC_WINDOW if topics else _BATCH
        end = self.end() if upto is None else min(upto, self.end())
        while after < end:
            stop = min(after + window, end)
            empty = True
            for rows in self.window(COLUMNS, after + 1, stop, where, topics):
                empty = empty and not rows
                yield from self._served(rows)
            if empty and stop < end:  # a gap, which only damage leaves, can be very long
                stop = (self.value("SELECT min(position) FROM events WHERE position > ?", (stop,)) or end + 1) - 1
            after = stop

    def window(
        self, columns: str, first: int, last: int, where: str = "", bindings: Sequence[Any] = ()
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Rows by position; those of a damaged window one by one up to the first that cannot be read."""
        select = f"SELECT {columns} FROM events WHERE position"
        try:
            found = self.query(f"{select} >= ? AND position <= ?{where} ORDER BY position", (first, last, *bindings))
        except CorruptLogError:
            for position in range(first, last + 1):
                yield self._readable(f"{select} = ?{where}", (position, *bindings), position)
        else:
            yield found

    def _readable(self, sql: str, bindings: Sequence[Any], position: int | None) -> list[tuple[Any, ...]]:
        try:
            return self.query(sql, bindings)
        except CorruptLogError as error:
            raise _unreadable(error, position) from error

    def _served(self, rows: list[tuple[Any, ...]]) -> Iterator[Envelope]:
        """Return the envelopes of rows; if a name cannot be read, those up to the first that needs it."""
        try:
            return self.envelopes(rows)
        except CorruptLogError:
            return self._served_one_by_one(rows)

    def _served_one_by_one(self, rows: list[tuple[Any, ...]]) -> Iterator[Envelope]:
        for row in rows:
            try:
                yield from self.envelopes([row])
            except CorruptLogError as error:
                raise _unreadable(error, row[_POSITION]) from error

    def stored(
        self, after: int, upto: int, topics: Sequence[str], limit: int, streams: Collection[str] | None = None
    ) -> list[tuple[Any, ...]]:
        """Return at most `limit` rows at after < position <= upto, not decoded."""
        where = f" AND topic IN ({','.join('?' * len(topics))})" if topics else ""
        if streams is not None:  # "+": by position, not by stream from its first event on
            where += f" AND +stream IN {IDS}"
        rows = self.query(
            f"SELECT {COLUMNS} FROM events WHERE position > ? AND position <= ?{where} ORDER BY position LIMIT ?",
            (after, upto, *topics, *(() if streams is None else (dumps(list(streams)),)), limit),
        )
        return self.with_names(rows)

    def stored_stream(
        self, stream: str, after: int, upto: int, limit: int, *, backwards: bool = False
    ) -> list[tuple[Any, ...]]:
        """Return at most `limit` rows of a stream with after < version <= upto, or the newest first."""
        return self.with_names(self._of_stream(stream, after, upto, limit, backwards))

    def _of_stream(self, stream: str, after: int, upto: int, limit: int, backwards: bool) -> list[tuple[Any, ...]]:
        return self.query(
            f"SELECT {COLUMNS} FROM events WHERE stream = {ID} AND version > ? AND version <= ? "
            f"ORDER BY version {'DESC' if backwards else 'ASC'} LIMIT ?",
            (stream, after, upto, limit),
        )

    def streams_since(self, after: int, upto: int) -> dict[str, int]:
        """Return the streams with an event at after < position <= upto, and the version of their first one there."""
        # The index of the streams holds the positions too, in a tenth of the pages of the rows.
        much = (upto - after) * _FEW > upto
        source, within = (_BY_STREAM, "+position") if much else ("events", "position")
        rows = self.query(
            f"SELECT stream, min(version) FROM {source} WHERE {within} > ? AND {within} <= ? GROUP BY stream",
            (after, upto),
        )
        names = self.names.named([stream for stream, _ in rows], self.query)
        return dict(zip(names, (version for _, version in rows), strict=True))

    def topics_since(self, after: int, upto: int, without: Sequence[str]) -> dict[str, list[str]]:
        """Return the topics of the events at after < position <= upto by stream, in order, but for some topics."""
        by_stream: defaultdict[int, list[str]] = defaultdict(list)
        for first in range(after, upto, _TOPIC_WINDOW):
            for stream, topic in self.query(
                f"SELECT stream, topic FROM events WHERE position > ? AND position <= ? "
                f"AND topic NOT IN ({','.join('?' * len(without))}) ORDER BY position",
                (first, min(first + _TOPIC_WINDOW, upto), *without),
            ):
                by_stream[stream].append(topic)
        return dict(zip(self.names.named(list(by_stream), self.query), by_stream.values(), strict=True))

    def version_at(self, stream: str, position: int) -> int | None:
        """Return the version that a stream had at a position, or None if it had no events yet."""
        sql = f"SELECT max(version) FROM {_BY_STREAM} WHERE stream = {ID} AND +position <= ?"
        version: int | None = self.value(sql, (stream, position))
        return version

    def undecoded(self, after: int, upto: int, without: Sequence[str] = ()) -> dict[str, list[Payload]]:
        """Return the events at after < position <= upto by stream, but for some topics; more columns may follow."""
        by_stream: defaultdict[int, list[Payload]] = defaultdict(list)
        for row in self.query(
            "SELECT version, topic, state, position, time, stream FROM events WHERE position > ? AND position <= ? "
            f"AND topic NOT IN ({','.join('?' * len(without))}) ORDER BY position",
            (after, upto, *without),
        ):
            by_stream[row[5]].append(row)  # to cut the stream off costs as much as the row
        return dict(zip(self.names.named(list(by_stream), self.query), by_stream.values(), strict=True))

    def streams_begun_with(self, prefix: str, field: str, values: Sequence[str]) -> list[str]:
        """Return the streams of a kind whose first event has one of these texts in a field of its payload."""
        return [
            name
            for (name,) in self.query(
                "SELECT name FROM names JOIN events ON events.stream = names.id AND events.version = 1 "
                "WHERE name >= ? AND name < ? AND json_valid(state) "
                "AND state ->> ? IN (SELECT value FROM json_each(?)) ORDER BY position",
                (prefix, prefix[:-1] + chr(ord(prefix[-1]) + 1), field, dumps(list(values))),
            )
        ]

    def by_stream(self, stream: str, after: int, upto: int | None, *, backwards: bool = False) -> Iterator[Envelope]:
        """Yield events of one stream with a version above `after`, in order or newest first."""
        low, high = after, BEYOND if upto is None else upto
        while True:
            try:
                rows = self._of_stream(stream, low, high, _BATCH, backwards)
            except CorruptLogError:
                yield from self._by_stream_until_damage(stream, low, high, backwards)
                return
            yield from self._served(rows)
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
            position = self.value(f"SELECT position FROM events WHERE stream = {ID} AND version = ?", (stream, version))
            yield from self._served(
                self._readable(f"SELECT {COLUMNS} FROM events WHERE position = ?", (position,), position)
            )

    def stream_version(self, stream: str) -> int | None:
        version: int | None = self.value(f"SELECT max(version) FROM events WHERE stream = {ID}", (stream,))
        return version

    def position_at(self, time: int) -> int:
        """Return the last position recorded at or before a time; 0 if there is none."""
        for first, last in self._runs():
            found = self._last_until(time, first, last)
            if found:
                return found
        return 0

    def by_time(self, start: int, end: int) -> Iterator[Envelope]:
        """Yield events with start <= time < end, in the order of their positions."""
        for first, last in reversed(list(self._runs())):
            low = self._last_until(start - 1, first, last) or first - 1
            high = self._last_until(end - 1, first, last)
            if high:
                yield from self.by_position(low, high, ())

    def _runs(self) -> Iterator[tuple[int, int]]:
        """Stretches of positions over which the clock did not go back, newest first."""
        last = self.last_position()
        for (step,) in self.query("SELECT position FROM clock_steps ORDER BY position DESC"):
            if step <= last:
                yield step, last
                last = step - 1
        if last:
            yield 1, last

    def _last_until(self, time: int, first: int, last: int) -> int:
        """Return the last position of a run with at most this time, by halving; 0 if the run starts later."""
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

    def check_may_close(self) -> None:
        """Raise if this thread is where `close` would wait for it: a signal handler may have interrupted it there."""
        check_outside(self._mutex, *(mutex for _, mutex in list(self._watching)))

    def close(self, reason: LogError | None = None) -> None:
        """Let nobody read any more. Cut off by an interrupt, it goes on when it is called again."""
        with self._mutex.once():
            if self._closed is None:
                self._closed = reason or ClosedLogError("the log is closed; open it again to use it")
        self._close_idle()
        while self._watching:
            connection, mutex = self._watching[-1]
            with mutex.once():  # whoever comes after sees that this is closed
                close_connection(connection)
            with self._mutex.once():
                self._watching = [each for each in self._watching if each[0] is not connection]

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                close_connection(self._idle.popleft())

    def abandon(self, reason: LogError) -> list[apsw.Connection]:
        """Give up the connections in the child of a fork, without closing or locking anything."""
        self._closed = reason
        connections = [*self._idle, *(connection for connection, _ in self._watching)]
        self._idle, self._watching = deque(), []
        return connections


class Snapshot(SQLiteQueries):
    """Reads of the log as it was at one moment."""

    def __init__(self, reader: SQLiteReader, connection: apsw.Connection) -> None:
        self._reader = reader
        self.names = reader.names
        self.connection = connection

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query on the one state."""
        return self._reader.query_on(self.connection, sql, bindings)

    def last_position(self) -> int:
        """Return the position of the newest event."""
        return self.query("SELECT max(position) FROM events")[0][0] or 0


def _unreadable(error: CorruptLogError, position: int | None) -> CorruptLogError:
    where = "an event" if position is None else f"position {position}"
    return CorruptLogError(f"{error}; {where} cannot be read, what is after it may be", position)
