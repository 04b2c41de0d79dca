"""The tables of an agent's `state.db`, as queries by name."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any, NamedTuple

import apsw

from engine.log.errors import ForeignFileError
from engine.log.sqlite.errors import translate
from engine.log.sqlite.foreign import ForeignFile
from engine.log.sqlite.locks import Patience

_NEEDED = {"sessions": {"id", "source", "started_at"}, "messages": {"id", "session_id", "role", "content", "timestamp"}}
_ENDS = {"parent_session_id", "end_reason", "ended_at"}
_ROUTES = {"session_key", "entry_json", "updated_at"}
_BRIEF = ("id", "source", "parent_session_id", "started_at", "ended_at", "end_reason", "message_count", "title")
_SPOKEN = "(SELECT max(m.timestamp) FROM messages AS m WHERE m.session_id = sessions.id)"
_PATIENCE = 5.0


class BriefSession(NamedTuple):
    """A session's row in short, as it was written there: any of it may be something else than it ought to be."""

    id: Any
    source: Any
    parent_session_id: Any
    started_at: Any
    ended_at: Any
    end_reason: Any
    message_count: Any
    title: Any
    last_spoken: Any


class AgentFile(ForeignFile):
    """An agent's database. Columns that it lacks are absent, those it has beside them are passed over."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__(path)
        try:
            self._columns = {table: self._checked(table) for table in _NEEDED}
        except BaseException:
            self.close()
            raise
        self._has_ends = set(self._columns["sessions"]) >= _ENDS

    def _checked(self, table: str) -> list[str]:
        found = self.columns(table)
        missing = sorted(_NEEDED[table] - set(found))
        if missing:
            raise ForeignFileError(
                f"{self.path} is not an agent's database: its table {table!r} has no {', '.join(missing)}; "
                "give the path of a state.db"
            )
        return found

    def parents(self) -> dict[str, str | None]:
        """Return every session with its parent, the oldest first."""
        parent = "parent_session_id" if self._has_ends else "NULL"
        return dict(self.query(f"SELECT id, {parent} FROM sessions ORDER BY started_at, id"))

    def session(self, session_id: str) -> dict[str, Any] | None:
        """Return the row of a session."""
        return next(
            self.rows("sessions", self._columns["sessions"], "id", where="id = ?", bindings=(session_id,)), None
        )

    def end_of(self, session_id: str) -> tuple[Any, Any]:
        """Return the reason and the time of a session's end."""
        if not self._has_ends:
            return None, None
        rows = self.query("SELECT end_reason, ended_at FROM sessions WHERE id = ?", (session_id,))
        return rows[0] if rows else (None, None)

    def children_of(self, session_id: str) -> list[tuple[str, Any]]:
        """Return the children of a session with their starts, the oldest first."""
        sql = "SELECT id, started_at FROM sessions WHERE parent_session_id = ? ORDER BY started_at, id"
        return self.query(sql, (session_id,)) if self._has_ends else []

    def messages(self, session_id: str, after: int) -> Iterator[dict[str, Any]]:
        """Yield the messages of a session behind a row, in the order of their rows."""
        columns = self._columns["messages"]
        return self.rows("messages", columns, "id", where="session_id = ?", bindings=(session_id,), after=after)

    def brief(self, where: str = "", bindings: Sequence[Any] = ()) -> list[BriefSession]:
        """Return sessions in short: all of them, or those that a condition on an index finds."""
        there = self._columns["sessions"]
        columns = ", ".join(name if name in there else f"NULL AS {name}" for name in _BRIEF)
        asked = f" WHERE {where}" if where else ""
        return [BriefSession(*row) for row in self.query(f"SELECT {columns}, {_SPOKEN} FROM sessions{asked}", bindings)]

    def brief_of(self, session_id: str) -> BriefSession | None:
        """Return one session in short."""
        return next(iter(self.brief("id = ?", (session_id,))), None)

    def brief_children_of(self, session_id: str) -> list[BriefSession]:
        """Return the children of a session in short."""
        return self.brief("parent_session_id = ?", (session_id,)) if self._has_ends else []

    def count_messages(self, session_id: str) -> int:
        """Return how many messages a session has."""
        ((count,),) = self.query("SELECT count(*) FROM messages WHERE session_id = ?", (session_id,))
        return int(count)

    def routes(self) -> list[tuple[str, str]]:
        """Return each lane's key with its entry, if the agent keeps them here."""
        if not set(self.columns("gateway_routing")) >= _ROUTES:
            return []
        return self.query("SELECT session_key, entry_json FROM gateway_routing ORDER BY updated_at, session_key")


def delete_session(path: str | os.PathLike[str], session_id: str) -> bool:
    """Delete a session with its messages from an agent's database; return False if it is not there.

    Its children stay and have no parent, as when the agent deletes it.
    """
    with closing(AgentFile(path)) as found:
        if found.brief_of(session_id) is None:
            return False
        has_parents = "parent_session_id" in found.columns("sessions")
    orphaned = "UPDATE sessions SET parent_session_id = NULL WHERE parent_session_id = ?"
    try:
        with closing(apsw.Connection(os.fspath(path), flags=apsw.SQLITE_OPEN_READWRITE)) as connection:
            connection.set_busy_handler(Patience(_PATIENCE))
            connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
            connection.execute("BEGIN IMMEDIATE")
            for sql in (orphaned,) * has_parents + ("DELETE FROM messages WHERE session_id = ?",):
                connection.execute(sql, (session_id,))
            connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
            existed = connection.changes() > 0
            connection.execute("COMMIT")
    except apsw.Error as error:
        raise translate(error, os.fspath(path), "deleting a session of") from error
    return existed
