"""The rows a store writes, written by plain SQL: what its commands cost with nothing decided, checked or encoded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from benchmarks.gateways import message, source, store_at
from engine import SessionStore
from engine.store import FILE_NAME

Row = tuple[Any, ...]
Statement = tuple[str, Row]


class RawRows:
    """A file with a store's own tables, and commands that are lists of statements known beforehand.

    The triggers, by which the log refuses a gap and a change, are dropped: they are part of what ours costs.
    """

    def __init__(self, folder: Path) -> None:
        store_at(folder).close()
        self._connection = apsw.Connection(str(folder / FILE_NAME))
        self._connection.pragma("journal_mode", "wal")
        self._connection.pragma("synchronous", "FULL")
        for (name,) in self._connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
            self._connection.execute(f"DROP TRIGGER {name}")

    def commit(self, statements: list[Statement]) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        for sql, bindings in statements:
            execute(sql, bindings)
        execute("COMMIT")

    def rows(self, table: str) -> int:
        return int(self._connection.execute(f"SELECT count(*) FROM {table}").get)

    def close(self) -> None:
        self._connection.close()


class Recorded:
    """A store that did some commands, and the rows they left, to be written again elsewhere."""

    def __init__(self, folder: Path, commands: Callable[[SessionStore], None]) -> None:
        with store_at(folder, synchronous="OFF") as store:
            commands(store)
        self._connection = apsw.Connection(str(folder / FILE_NAME))

    def inserts(self, table: str) -> list[Statement]:
        rows = self._connection.execute(f"SELECT * FROM {table}").fetchall()
        return [(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row) for row in rows]

    def events(self) -> list[list[Statement]]:
        """Return the events by position, each after the names that it is the first to use."""
        names = {row[0]: (sql, row) for sql, row in self.inserts("names")}
        found = []
        for sql, row in self.inserts("events"):
            stream, actor, command = row[1], row[5], row[6]
            new = [names.pop(each) for each in (stream, actor, command) if each in names]
            found.append([*new, (sql, row)])
        return found

    def tables(self) -> dict[str, list[Statement]]:
        """Return the rows of lanes and sessions by the stream they were folded from."""
        found: dict[str, list[Statement]] = {}
        for table, kind, column in (("sessions", "session", 0), ("lanes", "lane", 1), ("lane_sessions", "lane", 2)):
            for sql, row in self.inserts(table):
                found.setdefault(f"{kind}:{row[column]}", []).append((sql, row))
        return found

    def close(self) -> None:
        self._connection.close()


def _advance(position: int) -> Statement:
    return "UPDATE projections SET position = ? WHERE name = 'inline'", (position,)


def creations(folder: Path, count: int) -> tuple[list[Statement], list[list[Statement]]]:
    """Return what stands before, and the rows of each new session.

    They are two events and the names of their streams, the lane, the session it leads to, the session's head, and the
    position of the tables.
    """

    def create(store: SessionStore) -> None:
        for lane in range(count):
            store.get_or_create_session(source(lane), touch=False)

    done = Recorded(folder, create)
    opened, *events = done.events()[: 1 + 2 * count]
    tables = done.tables()
    done.close()
    assert len(events) == len(tables) == 2 * count
    commands = []
    for first, second in zip(events[::2], events[1::2], strict=True):
        streams = [named[0][1][1] for named in (first, second)]
        folded = [statement for stream in streams for statement in tables[stream]]
        commands.append([*first, *second, *folded, _advance(second[-1][1][0])])
    return opened, commands


def appends(folder: Path, count: int) -> tuple[list[Statement], list[list[Statement]]]:
    """Return what stands before, and per message an event, the session's head, and the position of the tables."""

    def append(store: SessionStore) -> None:
        session = store.get_or_create_session(source(0), touch=False).session_id
        for number in range(count):
            store.append_to_transcript(session, message(number))

    done = Recorded(folder, append)
    opened, created, routed, *events = done.events()[: 3 + count]
    tables = done.tables()
    (((_, head),),) = [tables[stream] for stream in tables if stream.startswith("session:")]
    done.close()
    session, state, last = head[0], head[-1], f'"version":{count + 1}'
    assert len(events) == count
    assert last in state
    commands = [
        [
            *event,
            ("UPDATE sessions SET state = ? WHERE session_id = ?", (state.replace(last, f'"version":{n}'), session)),
            _advance(event[-1][1][0]),
        ]
        for n, event in enumerate(events, start=2)
    ]
    return [*opened, *created, *routed, *(each for rows in tables.values() for each in rows)], commands
