"""SessionCatalog: the sessions of a store as a web chat works with them."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Literal, overload

from engine.chat_session import ChatSession, ChatSummary
from engine.chats import ChatReader
from engine.command import Command
from engine.commands import chat_history as history, chats, projects
from engine.domain.project import Project
from engine.log.protocol import Queries
from engine.store import SessionStore
from engine.validation import check_callable
from projections.inline.projects import all_projects

LiveStreams = Callable[[], Collection[str]]


class Host:
    """Asks a web host; a question that it gave no function for has an empty answer."""

    def __init__(
        self,
        live_streams: LiveStreams | None,
        last_workspace: Callable[[], str] | None,
        default_model: Callable[[], str] | None,
        active_profile: Callable[[], str | None] | None,
    ) -> None:
        check_callable("live_streams", live_streams or tuple)
        check_callable("last_workspace", last_workspace or str)
        check_callable("default_model", default_model or str)
        check_callable("active_profile", active_profile or str)
        self.live_streams: LiveStreams = live_streams or tuple
        self.last_workspace: Callable[[], str] = last_workspace or str
        self.default_model: Callable[[], str] = default_model or str
        self.active_profile: Callable[[], str | None] = active_profile or str

    def attributes(
        self, workspace: str | None, model: str | None, profile: str | None, model_provider: str | None
    ) -> dict[str, Any]:
        """Return the attributes of a new session: what was given wins over what the host says (W3)."""
        return {
            "workspace": self.last_workspace() if workspace is None else workspace,
            "model": self.default_model() if model is None else model,
            "profile": (self.active_profile() or None) if profile is None else profile,
            "model_provider": model_provider,
        }


def project_row(project: Project) -> dict[str, Any]:
    """Return a project as a web client sees it."""
    return {
        "project_id": project.project_id,
        "name": project.name,
        "color": project.color,
        "created_at": project.created_at / 1e6,
    }


class SessionCatalog:
    """The sessions of a store for a web chat; many catalogues may stand on one store.

    Every command is durable when it returns. `expected_version` is the version of the session that was read: if it has
    changed since, ConflictError is raised and nothing happens.
    """

    def __init__(
        self,
        store: SessionStore,
        *,
        live_streams: LiveStreams | None = None,
        last_workspace: Callable[[], str] | None = None,
        default_model: Callable[[], str] | None = None,
        active_profile: Callable[[], str | None] | None = None,
    ) -> None:
        """Stand on a store, which stays the host's to close.

        Args:
            store: An open store; its clock is the catalogue's.
            live_streams: Returns the ids of the streams that run in the host now; without it, none does.
            last_workspace: Returns the workspace of a new session that is given none.
            default_model: Returns the model of a new session that is given none.
            active_profile: Returns the profile of a new session that is given none.
        """
        if not isinstance(store, SessionStore):
            raise ValueError(f"store must be a SessionStore, not {store!r:.100}")
        self.store = store
        self.host = Host(live_streams, last_workspace, default_model, active_profile)
        self.reading = ChatReader(store)

    @property
    def _reads(self) -> Queries:
        return self.store.log.reader

    def _changed(self, session_id: str, command: Command[Any]) -> ChatSession:
        """Run a command; return the session as it is after it."""
        self.store.runner.run(command)
        return self.reading.whole(session_id)

    # Reading

    @overload
    def get_session(self, session_id: str, metadata_only: Literal[False] = False) -> ChatSession: ...
    @overload
    def get_session(self, session_id: str, metadata_only: Literal[True]) -> ChatSummary: ...
    @overload
    def get_session(self, session_id: str, metadata_only: bool) -> ChatSession | ChatSummary: ...
    def get_session(self, session_id: str, metadata_only: bool = False) -> ChatSession | ChatSummary:
        """Return a session, or with `metadata_only` a summary without its messages (W4).

        Raise UnknownSessionError, which is a KeyError, if there is none, also for what cannot be an id.
        """
        return self.reading.summary(session_id) if metadata_only else self.reading.whole(session_id)

    # Sessions

    def new_session(
        self,
        workspace: str | None = None,
        model: str | None = None,
        profile: str | None = None,
        model_provider: str | None = None,
    ) -> ChatSession:
        """Create a session: a draft, which no list shows until something is in it (W3)."""
        command = chats.new_session(self.host.attributes(workspace, model, profile, model_provider))
        return self.reading.whole(self.store.runner.run(command))

    def rename_session(
        self, session_id: str, title: str, *, touch: bool = True, expected_version: int | None = None
    ) -> ChatSession:
        """Give a session a title, which others may have too (W8)."""
        return self._changed(session_id, chats.rename_session(session_id, title, touch, expected_version))

    def pin_session(
        self, session_id: str, pinned: bool = True, *, touch: bool = True, expected_version: int | None = None
    ) -> ChatSession:
        """Pin a session to the top of the list, or take it from there (W8)."""
        return self._changed(session_id, chats.pin_session(session_id, pinned, touch, expected_version))

    def archive_session(
        self, session_id: str, archived: bool = True, *, touch: bool = True, expected_version: int | None = None
    ) -> ChatSession:
        """Put a session into the archive, or take it out (W8)."""
        return self._changed(session_id, chats.archive_session(session_id, archived, touch, expected_version))

    def move_to_project(
        self, session_id: str, project_id: str | None, *, touch: bool = True, expected_version: int | None = None
    ) -> ChatSession:
        """Move a session to a project, or with None out of its project (W8)."""
        return self._changed(session_id, chats.move_to_project(session_id, project_id, touch, expected_version))

    def set_attributes(
        self, session_id: str, *, touch: bool = True, expected_version: int | None = None, **attributes: Any
    ) -> ChatSession:
        """Set attributes of a session; unknown ones are kept in `extra`. Without attributes it is only touched (W8).

        Raise ValueError for what has a command of its own, say `title`.
        """
        return self._changed(session_id, chats.set_attributes(session_id, attributes, touch, expected_version))

    def record_usage(
        self,
        session_id: str,
        input_tokens: int = 0,
        output_tokens: int = 0,
        estimated_cost: float | None = None,
        *,
        touch: bool = True,
        expected_version: int | None = None,
    ) -> ChatSession:
        """Add tokens and cost to what a session used (W8)."""
        usage = {"input_tokens": input_tokens, "output_tokens": output_tokens, "estimated_cost": estimated_cost}
        return self._changed(session_id, chats.record_usage(session_id, usage, touch, expected_version))

    def save_messages(
        self,
        session_id: str,
        messages: Sequence[Mapping[str, Any]],
        context_messages: Sequence[Mapping[str, Any]] | None = None,
        tool_calls: Sequence[Any] | None = None,
        *,
        touch: bool = True,
        expected_version: int | None = None,
    ) -> ChatSession:
        """Append what is new in the whole visible list; context and tool calls replace theirs when given (W8).

        A stored message may come back with more keys. Raise ValueError for any other difference and a shorter list.
        """
        command = history.save_messages(session_id, messages, context_messages, tool_calls, touch, expected_version)
        return self._changed(session_id, command)

    def clear_session(self, session_id: str, *, expected_version: int | None = None) -> ChatSession:
        """Take title, messages, context and tool calls from a session (W9)."""
        return self._changed(session_id, history.clear_session(session_id, expected_version))

    def truncate_session(self, session_id: str, keep: int, *, expected_version: int | None = None) -> ChatSession:
        """Keep the first messages; as many user turns as go leave the context too (W9)."""
        return self._changed(session_id, history.truncate_session(session_id, keep, expected_version))

    def undo(self, session_id: str, *, expected_version: int | None = None) -> ChatSession:
        """Take the last user message away with everything after it; ValueError if there is none (W9)."""
        return self._changed(session_id, history.undo(session_id, "undo", expected_version))

    def retry(self, session_id: str, *, expected_version: int | None = None) -> dict[str, Any]:
        """Undo, and return what to send again: removed_count, text and message (W9)."""
        return self.store.runner.run(history.undo(session_id, "retry", expected_version))

    def compress_session(
        self,
        session_id: str,
        messages: Sequence[Mapping[str, Any]],
        context_messages: Sequence[Mapping[str, Any]] | None = None,
        *,
        expected_version: int | None = None,
    ) -> ChatSession:
        """Replace messages and context, and take the tool calls away; the session's id stays (W9)."""
        command = history.compress_session(session_id, messages, context_messages, expected_version)
        return self._changed(session_id, command)

    def branch_session(
        self, session_id: str, at: object = None, title: str | None = None, *, expected_version: int | None = None
    ) -> ChatSession:
        """Create a session that goes on from here: after a number of messages, a message, or its id (W9)."""
        command = history.branch_session(session_id, at, title, expected_version)
        return self.reading.whole(self.store.runner.run(command))

    def duplicate_session(self, session_id: str, *, expected_version: int | None = None) -> ChatSession:
        """Create a copy of a session, but for its pin, archive, turn and anchors (W9)."""
        command = history.duplicate_session(session_id, expected_version)
        return self.reading.whole(self.store.runner.run(command))

    def rotate_session(self, session_id: str, new_id: str, *, expected_version: int | None = None) -> ChatSession:
        """Let a session go on under another id, with its open turn; the former ids lead to it (W9)."""
        return self._changed(session_id, chats.rotate_session(session_id, new_id, expected_version))

    def delete_session(self, session_id: str, *, expected_version: int | None = None) -> None:
        """Delete a session for good: its id is never used again. `store.erase` takes its words from the log (W9)."""
        self.store.runner.run(chats.delete_session(session_id, expected_version))

    # Projects

    def list_projects(self) -> list[dict[str, Any]]:
        """Return all projects, oldest first (W19)."""
        return [project_row(each) for each in all_projects(self._reads)]

    def create_project(self, name: str, color: str | None = None) -> dict[str, Any]:
        """Create a project, to move sessions to (W19)."""
        return project_row(self.store.runner.run(projects.create_project(name, color)))

    def rename_project(self, project_id: str, name: str) -> dict[str, Any]:
        """Give a project another name (W19)."""
        return project_row(self.store.runner.run(projects.rename_project(project_id, name)))

    def recolor_project(self, project_id: str, color: str | None) -> dict[str, Any]:
        """Give a project another colour, or with None, none (W19)."""
        return project_row(self.store.runner.run(projects.recolor_project(project_id, color)))

    def delete_project(self, project_id: str) -> None:
        """Delete a project; its sessions stay, in none, and do not count as updated (W19)."""
        self.store.runner.run(projects.delete_project(project_id))

    def ensure_cron_project(self) -> str:
        """Return the id of the one project of scheduled jobs; it is made if it is not there (W19)."""
        return self.store.runner.run(projects.ensure_cron_project()).project_id
