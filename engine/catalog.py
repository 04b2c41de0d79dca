"""SessionCatalog: the sessions of a store as a web chat works with them."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Literal, overload

from engine.agent_sessions import AgentSessions, FilePath, Rows
from engine.chat_following import ChatChanges, ChatFollower
from engine.chat_session import ChatSession, ChatSummary
from engine.chat_values import checked_flag
from engine.chats import ChatReader
from engine.command import Command
from engine.commands import chat_history as history, chat_imports as importing, chat_turns as turns, chats, projects
from engine.domain.errors import EngineError
from engine.domain.project import Project
from engine.log.protocol import Queries
from engine.store import SessionStore
from engine.validation import check_callable, checked_number
from projections.inline.chats import possible_drafts, sessions_with_turns
from projections.inline.projects import all_projects

logger = logging.getLogger("engine.catalog")

LiveStreams = Callable[[], Collection[str]]
AgentTranscript = Callable[[ChatSession], Mapping[str, Any] | None]
_PART = 500


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

    def is_live(self, stream_id: str) -> bool:
        """Return True if a stream runs in the host; no answer means that it does."""
        try:
            return stream_id in self.live_streams()
        except Exception:
            logger.exception("live_streams raised; stream %r counts as live", stream_id)
            return True

    def saying_what_runs(self, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Return rows with what the host runs now; if it does not say, what was started runs (W7)."""
        started = [row for row in rows if row["active_stream_id"] is not None]
        if started:
            live: Collection[str] | None
            try:
                live = self.live_streams()
            except Exception:
                logger.exception("live_streams raised; every stream that was started counts as live")
                live = None
            for row in started:
                row["is_streaming"] = live is None or row["active_stream_id"] in live
        return rows

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
        self.agent = AgentSessions(store, self.host.last_workspace, self.host.active_profile)

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

    # The list

    def all_sessions(
        self, include_hidden: bool = False, limit: int | None = None, after: Mapping[str, Any] | None = None
    ) -> list[dict[str, Any]]:
        """Return the rows of the list: pinned ones first, then by last activity, newest first (W11).

        What was commanded before is in it, by any process. Conversations that were compressed are one row (W12).
        Drafts and the sessions of timers are hidden.

        Args:
            include_hidden: True lists those too.
            limit: The most rows to return; None for all.
            after: The last row of the page before; None begins with the first.
        """
        rows = self.store.chat_list.page(checked_flag("include_hidden", include_hidden), limit, after)
        return self.host.saying_what_runs(rows)

    def follow(self, after: int = 0, *, include_hidden: bool = False, timeout: float | None = None) -> ChatFollower:
        """Return an iterator over rows that have changed and chats that are listed no more, that waits for more (W15).

        Nothing is missed from a position of before. After `views.db` was made anew, or after an erasure, rows may come
        again, and a chat that was never listed may be said to be gone.

        Args:
            after: The position of the last change that was handled; 0 begins with all there is.
            include_hidden: True follows drafts and the sessions of timers too.
            timeout: Seconds without a change after which the iteration ends; begun again it goes on. None waits.
        """
        return ChatFollower(self.store.log, self.changes(include_hidden), after, timeout)

    def changes(self, include_hidden: bool) -> ChatChanges:
        """Return the list as it can be followed."""
        return ChatChanges(self.store.log, self.store.chat_list, checked_flag("include_hidden", include_hidden))

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

    def sweep_drafts(self, older_than: float = 86_400) -> list[str]:
        """Delete the drafts that nobody has touched for so many seconds; return their ids (W3)."""
        return [each for command in self.sweeping(older_than) for each in self.store.runner.run(command)]

    def sweeping(self, older_than: float) -> list[Command[list[str]]]:
        """Return the commands that each delete some drafts, so that others go on in between."""
        before = self.store.runner.now - int(checked_number("older_than", older_than) * 1e6)
        found = possible_drafts(self._reads, before)
        return [chats.sweep_drafts(found[first : first + _PART], before) for first in range(0, len(found), _PART)]

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

    # Turns

    def start_turn(
        self,
        session_id: str,
        stream_id: str,
        user_message: str | None,
        attachments: Sequence[Any] = (),
        started_at: float | None = None,
        *,
        expected_version: int | None = None,
    ) -> ChatSession:
        """Open the turn of a stream, durable before any worker starts (W16).

        The same stream again replaces what is pending. A turn whose stream is not live is interrupted first; over one
        whose stream is, ConflictError is raised.
        """
        arguments = session_id, stream_id, user_message, attachments, started_at, expected_version
        return self._changed(session_id, turns.start_turn(*arguments, self.host.is_live))

    def finish_turn(
        self,
        session_id: str,
        stream_id: str,
        messages: Sequence[Mapping[str, Any]],
        context_messages: Sequence[Mapping[str, Any]] | None = None,
        tool_calls: Sequence[Any] | None = None,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        estimated_cost: float | None = None,
        expected_version: int | None = None,
    ) -> ChatSession:
        """End a turn with the whole visible list, as `save_messages` takes it, and what it used (W16).

        The user's text is added before what is new, unless it is in the last user message. Raise ConflictError if the
        open turn is not that of the stream.
        """
        usage = {"input_tokens": input_tokens, "output_tokens": output_tokens, "estimated_cost": estimated_cost}
        command = turns.finish_turn(
            session_id, stream_id, messages, context_messages, tool_calls, usage, expected_version
        )
        return self._changed(session_id, command)

    def fail_turn(
        self,
        session_id: str,
        stream_id: str,
        error: str | Mapping[str, Any],
        *,
        expected_version: int | None = None,
    ) -> ChatSession:
        """End a turn with an error, a text or a message, which is added as an assistant's (W16)."""
        return self._changed(session_id, turns.fail_turn(session_id, stream_id, error, expected_version))

    def cancel_turn(
        self,
        session_id: str,
        stream_id: str,
        partial_messages: Sequence[Mapping[str, Any]] = (),
        *,
        expected_version: int | None = None,
    ) -> ChatSession:
        """End a turn that the user gave up, with what was said until then (W16)."""
        return self._changed(session_id, turns.cancel_turn(session_id, stream_id, partial_messages, expected_version))

    def repair_stale_turn(
        self,
        session_id: str,
        grace_seconds: float = 30,
        agent_transcript: AgentTranscript | None = None,
        *,
        stream_id: str | None = None,
        stream_is_dead: bool = False,
    ) -> bool:
        """Interrupt a turn whose stream is not live, once, after the grace; return True if that was done (W17).

        Args:
            session_id: The session.
            grace_seconds: How long after its start a turn is left alone.
            agent_transcript: Asked for what the agent has of a session without messages: a dict with messages,
                tool_calls, input_tokens, output_tokens and estimated_cost, or None.
            stream_id: Only the turn of this stream is meant.
            stream_is_dead: The caller knows that the stream is dead: neither the host nor the grace is asked.
        """
        command = self.repairing(session_id, grace_seconds, agent_transcript, stream_id, stream_is_dead)
        return self.store.runner.run(command)

    def repairing(
        self,
        session_id: str,
        grace_seconds: float,
        agent_transcript: AgentTranscript | None,
        stream_id: str | None,
        stream_is_dead: bool,
    ) -> Command[bool]:
        """Return the command that repairs a turn."""
        check_callable("agent_transcript", agent_transcript or bool)
        is_live = None if stream_is_dead else self.host.is_live
        from_agent = None if agent_transcript is None else partial(self._from_agent, agent_transcript)
        return turns.repair_stale_turn(session_id, grace_seconds, from_agent, stream_id, is_live)

    def repair_stale_turns(
        self, grace_seconds: float = 30, agent_transcript: AgentTranscript | None = None
    ) -> list[str]:
        """Interrupt every turn whose stream is not live, after the grace; return the ids of their sessions (W17).

        A session that cannot be repaired is logged, and the others are.
        """
        repaired = []
        for session_id in sessions_with_turns(self._reads):
            try:
                if self.repair_stale_turn(session_id, grace_seconds, agent_transcript):
                    repaired.append(self.reading.id_of(session_id))
            except EngineError as error:
                logger.warning("the open turn of session %s was not repaired: %s", session_id, error)
        return repaired

    def _from_agent(self, agent_transcript: AgentTranscript, session_id: str) -> turns.FromTheAgent | None:
        """Ask the host what the agent has of a session; what fails counts as nothing."""
        try:
            return turns.from_document(agent_transcript(self.reading.whole(session_id)))
        except Exception:
            logger.exception("the agent's transcript of session %s cannot be used", session_id)
            return None

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

    # Importing, and the agent's own sessions

    def import_session(self, document: Mapping[str, Any]) -> ChatSession:
        """Create a session from a document with any fields of a ChatSession, as it was there (W20).

        Times, unknown fields and an open turn are kept; without a `session_id` it gets a new one. Raise ConflictError
        if a session of the id exists, or was deleted.
        """
        return self.reading.whole(self.store.runner.run(importing.import_session(document)))

    def import_cli_session(
        self,
        session_id: str,
        title: str | None,
        messages: Sequence[Mapping[str, Any]],
        model: str = "unknown",
        profile: str | None = None,
        created_at: float | None = None,
        updated_at: float | None = None,
        source: str = "cli",
    ) -> ChatSession:
        """Bring a session of the agent here; again, and only what is new there is added (W20).

        A message is known by its source, session and `_row_id`, or without one by its place. A session that is here
        keeps its title and attributes. Raise ConflictError for one that was deleted.

        Args:
            session_id: The id it has there, and here.
            title: Its title, if it is new.
            messages: All of its messages, as `get_cli_session_messages` gives them.
            model: The model it talks to.
            profile: The profile it belongs to.
            created_at: When it was created, in epoch seconds; without it, the time of its first message.
            updated_at: When it was updated; without it, the time of its last message.
            source: The program it came from.
        """
        told = session_id, title, messages, model, profile, created_at, updated_at, source
        return self._changed(session_id, self.bringing(*told))

    def bringing(
        self,
        session_id: str,
        title: str | None,
        messages: Sequence[Mapping[str, Any]],
        model: str,
        profile: str | None,
        created_at: float | None,
        updated_at: float | None,
        source: str,
    ) -> Command[None]:
        """Return the command that brings a session of the agent here."""
        attributes = {"workspace": self.host.last_workspace(), "model": model, "profile": profile}
        return importing.import_cli_session(session_id, title, messages, attributes, created_at, updated_at, source)

    def get_cli_sessions(self, db_path: FilePath) -> Rows:
        """Return the newest 200 conversations of an agent's `state.db` as rows of a list, newest first (W21).

        Not those of source webui, nor those deleted here. A missing file has none; for one that cannot be read, a
        warning names it.
        """
        return self.agent.rows(db_path)

    def get_cli_lineage(self, db_path: FilePath, session_ids: Iterable[str]) -> dict[str, dict[str, Any]]:
        """Return what an agent's `state.db` knows of the lineage of sessions, by id: only those that have one (W21)."""
        return self.agent.lineage(db_path, session_ids)

    def get_cli_session_messages(self, db_path: FilePath, session_id: str) -> Rows:
        """Return the messages of a session in an agent's `state.db`, ordered by row, each with its `_row_id` (W21)."""
        return self.agent.messages(db_path, session_id)

    def delete_cli_session(self, db_path: FilePath, session_id: str) -> bool:
        """Delete a session from an agent's `state.db`; return True only if it was there (W21).

        It is not listed or imported from there again, whoever writes its row anew. What was imported of it stays here.
        """
        return self.agent.delete(db_path, session_id)
