"""The tables of an agent's `state.db`, as queries by name."""

from collections.abc import Iterator
from typing import Any

from engine.log.errors import ForeignFileError
from engine.log.sqlite.foreign import ForeignFile

_NEEDED = {"sessions": {"id", "source", "started_at"}, "messages": {"id", "session_id", "role", "content", "timestamp"}}
_ENDS = {"parent_session_id", "end_reason", "ended_at"}
_ROUTES = {"session_key", "entry_json", "updated_at"}


class AgentFile(ForeignFile):
    """An agent's database. Columns that it lacks are absent, those it has beside them are passed over."""

    def __init__(self, path: str) -> None:
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

    def routes(self) -> list[tuple[str, str]]:
        """Return each lane's key with its entry, if the agent keeps them here."""
        if not set(self.columns("gateway_routing")) >= _ROUTES:
            return []
        return self.query("SELECT session_key, entry_json FROM gateway_routing ORDER BY updated_at, session_key")
