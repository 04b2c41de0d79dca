"""What a host does to a session as a whole: end, reopen, compress, fork, name (G42 to G44)."""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.commands.routing import end
from engine.domain import events as e
from engine.domain.session import ACCIDENTAL, Session, next_title
from engine.domain.transcript import platform_id, whole
from engine.errors import SessionStateError
from engine.work import Work
from projections.routing import lanes_on
from projections.sessions import titles_like
from projections.transcripts import messages_of, stored, transcript_at


def end_session(work: Work, session_id: str, reason: str) -> bool:
    """End a session; False if an earlier reason stands."""
    session = work.known(session_id)
    end(work, session, reason)
    return work.known(session_id) is not session


def reopen(work: Work, session_id: str) -> bool:
    """Make an ended session live again; False if it is."""
    session = work.known(session_id)
    if session.end_reason is None:
        return False
    work.on_session(session, e.SessionReopened(previous_end_reason=session.end_reason), "reopened by the host")
    return True


def compress(
    work: Work, session_id: str, child_id: str | None, summary: Sequence[dict[str, Any]], covers: int | None
) -> str:
    """Close a session into a child that goes on with a summary: one step, or nothing (G42).

    The summary stands for the first `covers` live messages; what was appended after them is carried over.
    """
    parent = work.known(session_id)
    if parent.end_reason is not None and parent.end_reason not in ACCIDENTAL:
        into = f" into {parent.child_session_id!r}" if parent.compressed_into else ""
        raise SessionStateError(
            f"session {session_id!r} cannot be compressed: it ended by {parent.end_reason}{into}; use the live session"
        )
    if child_id is not None and work.session(child_id) is not None:
        raise SessionStateError(f"session {child_id!r} exists already; give the child another id")
    carried = [] if covers is None else messages_of(work.live(parent))[covers:]
    child = Session(child_id or work.new_session_id())
    created = e.SessionCreated(
        conversation_id=parent.conversation_id,
        lane=parent.lane,
        source=parent.source,
        parent_session_id=session_id,
        relation="compression",
    )
    why = "the session was compressed"
    work.on_session(
        parent, e.SessionCompressed(child_session_id=child.session_id, carried=len(carried)), "compressed by the host"
    )
    child = _name_after(work, parent, work.on_session(child, created, why), why)
    work.on_session(child, e.TranscriptRewritten(messages=[*summary, *carried], cause="compress"), why)
    for lane in lanes_on(work.query, session_id):
        event = e.LaneAdvanced(session_id=child.session_id, previous_session_id=session_id)
        work.on_lane(work.lane(lane.key), event, why)
    return child.session_id


def fork(work: Work, session_id: str, at: object) -> str:
    """A new session with the history up to a message or a position of the log (G43)."""
    parent = work.known(session_id)
    messages = _history(work, parent, at)
    fork_id = work.new_session_id()
    created = e.SessionCreated(
        conversation_id=fork_id,
        source=parent.source,
        parent_session_id=session_id,
        relation="fork",
    )
    why = f"forked from {session_id}"
    child = _name_after(work, parent, work.on_session(Session(fork_id), created, why), why)
    event = e.SessionForked(parent_session_id=session_id, parent_version=parent.version, messages=messages)
    work.on_session(child, event, why)
    return fork_id


def _history(work: Work, parent: Session, at: object) -> list[dict[str, Any]]:
    if isinstance(at, int) and not isinstance(at, bool):
        if not 0 < at <= work.position:
            raise ValueError(f"at must be a position of the log, from 1 to {work.position}, not {at!r:.100}")
        return transcript_at(work.query, parent.session_id, at)
    messages = messages_of(work.live(parent))
    if at is None:
        return messages
    if not isinstance(at, (str, Mapping)):
        raise ValueError(f"at must be a message, a message id or a position in the log, not {at!r}")
    wanted = at if isinstance(at, str) else platform_id(at)
    meant = None if isinstance(at, str) else stored(at)
    for index in range(len(messages) - 1, -1, -1):
        found = messages[index]
        if found.get("message_id") == wanted if wanted is not None else found == meant:
            return messages[: index + 1]
    raise SessionStateError(f"session {parent.session_id!r} has no live message {at!r:.200}")


def set_title(work: Work, session_id: str, title: str, auto: bool) -> str:
    """Name a session; the name it has then. An automatic name does not replace one somebody chose (G44)."""
    session = work.known(session_id)
    if auto and session.title is not None and not session.title_is_auto:
        return session.title
    free = _free_title(work, title, session_id, session.title)
    if free != session.title or session.title_is_auto != auto:
        work.on_session(session, e.SessionTitled(title=free, auto=auto))
    return free


def _name_after(work: Work, parent: Session, child: Session, why: str) -> Session:
    """Give a child its parent's title with the next number; one that somebody chose stays chosen."""
    if parent.title is None:
        return child
    title = _free_title(work, parent.title, child.session_id)
    return work.on_session(child, e.SessionTitled(title=title, auto=parent.title_is_auto), why)


def _free_title(work: Work, title: str, session_id: str, own: str | None = None) -> str:
    return next_title(title, titles_like(work.query, title, session_id), own)


def checked_summary(messages: object) -> list[dict[str, Any]]:
    """The messages of a new history, each as it will be stored."""
    if isinstance(messages, (str, bytes, dict)) or not isinstance(messages, Sequence):
        raise ValueError(f"messages must be a list of dicts, not {messages!r:.200}")
    return [whole(message) for message in messages]
