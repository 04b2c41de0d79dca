"""The agent's own sessions beside those of a store: what is listed of them, and deleting one for good (W21)."""

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from engine.bridge import HostRow, cli_lineage, cli_messages, cli_sessions, has_session
from engine.commands.chat_imports import forget_at_agent
from engine.domain.project import CRON_ID, CRON_NAME
from engine.domain.streams import project_stream
from engine.log.sqlite.agent import delete_session
from engine.store import SessionStore
from engine.validation import check_file, checked_texts
from projections.inline.projects import project_named
from projections.inline.sessions import find_sessions

logger = logging.getLogger("engine.catalog")

Rows = list[dict[str, Any]]
FilePath = str | os.PathLike[str]


class AgentSessions:
    """Reads an agent's database as the host of a store sees it. Reading writes nowhere."""

    def __init__(self, store: SessionStore, workspace: Callable[[], str], profile: Callable[[], str | None]) -> None:
        self._store = store
        self._reads = store.log.reader
        self._workspace = workspace
        self._profile = profile

    def rows(self, db_path: FilePath) -> Rows:
        """Return the rows of the newest conversations that nobody has deleted here."""
        check_file("db_path", db_path)
        host = HostRow(self._workspace(), self._profile() or None, self._cron_project)
        return cli_sessions(db_path, self._gone, host)

    def _gone(self, session_ids: Sequence[str]) -> set[str]:
        return {each.session_id for each in find_sessions(self._reads, session_ids) if each.deleted or each.gone}

    def _cron_project(self) -> str | None:
        """Return the project of timers; before anybody has made it, the id that it will have."""
        found = project_named(self._reads, CRON_NAME)
        if found is not None:
            return found.project_id
        return None if self._store.log.version(project_stream(CRON_ID)) else CRON_ID

    def lineage(self, db_path: FilePath, session_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return the lineage of those sessions that have one there."""
        check_file("db_path", db_path)
        return cli_lineage(db_path, checked_texts("session_ids", session_ids))

    def messages(self, db_path: FilePath, session_id: str) -> Rows:
        """Return the live messages of a session there."""
        check_file("db_path", db_path)
        return cli_messages(db_path, session_id)

    def delete(self, db_path: FilePath, session_id: str) -> bool:
        """Delete a session there; the tombstone here comes first, so that no crash lets it come back."""
        check_file("db_path", db_path)
        command = forget_at_agent(session_id)
        if not has_session(db_path, session_id):
            return False
        self._store.runner.run(command)
        return delete_session(db_path, session_id)
