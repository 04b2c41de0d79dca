"""The rows a store writes, written by plain SQL: what its commands cost with nothing decided, checked or encoded."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

from benchmarks.gateways import message, source
from engine import SessionStore
from engine.store import FILE_NAME

Row = tuple[Any, ...]
Statement = tuple[str, Row]


class RawRows:
    """A file with a store's own tables, and commands that are lists of statements known beforehand.

    The triggers, by which the log refuses a gap and a change, are dropped: they are part of what ours costs.
    """

    def __init__(self, folder: Path) -> None:
        SessionStore(folder).close()
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
        with SessionStore(folder, synchronous="OFF") as store:
            commands(store)
        self._connection = apsw.Connection(str(folder / FILE_NAME))

    def inserts(self, table: str, order: str) -> list[Statement]:
        rows = self._connection.execute(f"SELECT * FROM {table} ORDER BY {order}").fetchall()
        return [(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row) for row in rows]

    def close(self) -> None:
        self._connection.close()


def _advance(position: int) -> Statement:
    return "UPDATE projections SET position = ? WHERE name = 'inline'", (position,)


def creations(folder: Path, count: int) -> list[list[Statement]]:
    """Per new session: two events, a lane, a session's head, and the position of the tables."""

    def create(store: SessionStore) -> None:
        for lane in range(count):
            store.get_or_create_session(source(lane), touch=False)

    done = Recorded(folder, create)
    events = done.inserts("events", "position")
    lanes = {row[0]: (sql, row) for sql, row in done.inserts("lanes", "key")}
    heads = {row[0]: (sql, row) for sql, row in done.inserts("sessions", "session_id")}
    done.close()
    assert len(events) == 2 * count == 2 * len(lanes) == 2 * len(heads)
    commands = []
    for first, second in zip(events[::2], events[1::2], strict=True):
        streams = [statement[1][1].split(":", 1) for statement in (first, second)]
        (session,), (lane,) = ([name for kind, name in streams if kind == wanted] for wanted in ("session", "lane"))
        commands.append([first, second, lanes[lane], heads[session], _advance(second[1][0])])
    return commands


def appends(folder: Path, count: int) -> tuple[list[Statement], list[list[Statement]]]:
    """What stands before, and per message: an event, the session's head, and the position of the tables."""

    def append(store: SessionStore) -> None:
        session = store.get_or_create_session(source(0), touch=False).session_id
        for number in range(count):
            store.append_to_transcript(session, message(number))

    done = Recorded(folder, append)
    events = done.inserts("events", "position")
    (head,) = done.inserts("sessions", "session_id")
    before = [*events[:2], *done.inserts("lanes", "key"), head]
    done.close()
    session, last, state = head[1][0], f'"version":{count + 1}', head[1][-1]
    assert len(events) == count + 2
    assert last in state
    commands = [
        [
            event,
            ("UPDATE sessions SET state = ? WHERE session_id = ?", (state.replace(last, f'"version":{n}'), session)),
            _advance(event[1][0]),
        ]
        for n, event in enumerate(events[2:], start=2)
    ]
    return before, commands
