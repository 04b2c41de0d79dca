"""Commands on a session as a whole: end, reopen, compress, fork, name (G42 to G44)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from engine.command import Command
from engine.commands.routing import end
from engine.domain import events as e
from engine.domain.encoding import encode
from engine.domain.keys import check_session_id
from engine.domain.messages import appended, same_message
from engine.domain.session import ACCIDENTAL, COMPRESSION, Session
from engine.domain.titles import following, numbered
from engine.domain.transcript import as_loaded, objects_of
from engine.errors import SessionStateError
from engine.log.protocol import Queries
from engine.validation import checked_history, checked_name, checked_title
from engine.work import Work
from projections.inline.backwards import live_now, newest_first
from projections.inline.lanes import lanes_on
from projections.inline.sessions import highest_number, titled
from projections.inline.transcripts import history_at, report


def end_session(session_id: str, reason: str) -> Command[bool]:
    if reason == COMPRESSION:
        raise ValueError("a session ends by compression only with a child; use compress_session()")
    return Command("end_session", _end, (check_session_id(session_id), checked_name("reason", reason)))


def _end(work: Work, session_id: str, reason: str) -> bool:
    session = work.known(session_id)
    end(work, session, reason, "ended by the host")
    return work.known(session_id) is not session


def reopen_session(session_id: str) -> Command[bool]:
    return Command("reopen_session", _reopen, (check_session_id(session_id),))


def _reopen(work: Work, session_id: str) -> bool:
    session = work.known(session_id)
    if session.end_reason is None:
        return False
    work.on_session(session, e.SessionReopened(previous_end_reason=session.end_reason), "reopened by the host")
    return True


def compress_session(
    session_id: str,
    child_id: str | None,
    summary_messages: Sequence[Mapping[str, Any]],
    covers: int | None,
    turn: str | None,
) -> Command[str]:
    if covers is not None and (isinstance(covers, bool) or not isinstance(covers, int) or covers < 0):
        raise ValueError(f"covers must be a number of messages, not {covers!r}")
    child = None if child_id is None else check_session_id(child_id, "child_id")
    summary = checked_history(summary_messages, "summary_messages")
    return Command("compress_session", _compress, (check_session_id(session_id), child, summary, covers, turn))


def _compress(
    work: Work,
    session_id: str,
    child_id: str | None,
    summary: list[dict[str, Any]],
    covers: int | None,
    turn: str | None,
) -> str:
    """Close a session into a child that goes on with a summary: one step, or nothing (G42).

    The summary stands for the first `covers` live messages; what was appended after them is carried over.
    """
    parent = work.known(session_id)
    work.check_turn(turn, parent)
    if parent.end_reason is not None and parent.end_reason not in ACCIDENTAL:
        into = f" into {parent.child_session_id!r}" if parent.compressed_into else ""
        raise SessionStateError(
            f"session {session_id!r} cannot be compressed: it ended by {parent.end_reason}{into}; use the live session"
        )
    if child_id is not None and work.session(child_id) is not None:
        raise SessionStateError(f"session {child_id!r} exists already; give the child another id")
    carried = None if covers is None or covers >= parent.live else taken(parent, covers, parent.live)
    child = Session(child_id or work.new_session_id())
    created = e.SessionCreated(
        conversation_id=parent.conversation_id,
        lane=parent.lane,
        source=parent.source if parent.lane is None else None,
        parent_session_id=session_id,
        relation="compression",
        family_id=parent.family_id,
    )
    why = "the session was compressed"
    compressed = e.SessionCompressed(child_session_id=child.session_id, carried=0 if carried is None else len(carried))
    work.on_session(parent, compressed, "compressed by the host")
    child = work.on_session(child, created, why)
    if parent.lane is not None and parent.source is not None:
        # Apart from what makes it a segment: erasing the person must not tear a conversation that others share.
        child = work.on_session(child, e.SessionClaimed(lane=parent.lane, source=parent.source), why)
    child = _name_after(work, parent, child, why)
    work.on_session(child, e.TranscriptRewritten(messages=summary, cause="compress", inherited=carried), why)
    for found in lanes_on(work.transaction, session_id):
        lane = work.lane(found.key)
        if lane is not None and lane.session_id == session_id:
            event = e.LaneAdvanced(session_id=child.session_id, previous_session_id=session_id)
            work.on_lane(lane, event, why)
    return child.session_id


def taken(session: Session, first: int, last: int) -> e.Inherited:
    """Return some of a session's live messages, to be inherited."""
    return e.Inherited(
        session.session_id, session.history_from, session.version, first, last, beyond=session.live - last
    )


def fork_session(session_id: str, at: object) -> Command[str]:
    return Command("fork_session", _fork, (check_session_id(session_id), at))


def _fork(work: Work, session_id: str, at: object) -> str:
    """Create a session with the history up to a message or a position of the log (G43)."""
    parent = work.known(session_id)
    inherited, position = history_of(work, parent, at)
    fork_id = work.new_session_id()
    created = e.SessionCreated(
        conversation_id=fork_id,
        source=parent.source,
        parent_session_id=session_id,
        relation="fork",
        family_id=parent.family_id,
    )
    why = f"forked from {session_id}"
    child = _name_after(work, parent, work.on_session(Session(fork_id), created, why), why)
    event = e.SessionForked(inherited=inherited, conversation_id=parent.conversation_id, position=position)
    work.on_session(child, event, why)
    return fork_id


def history_of(work: Work, parent: Session, at: object) -> tuple[e.Inherited, int]:
    """Return what a fork inherits, and the position of the last of it."""
    log = work.transaction
    if at is None:
        return taken(parent, 0, parent.live), log.position
    if isinstance(at, int) and not isinstance(at, bool):
        if not 0 < at <= log.position:
            raise ValueError(f"at must be a position of the log, from 1 to {log.position}, not {at!r:.100}")
        then = work.look(("history", parent.session_id, at), partial(_history_at, parent, at))
        return taken(then, 0, then.live), at
    if not isinstance(at, (str, Mapping)):
        raise ValueError(f"at must be a message, a message id or a position in the log, not {at!r}")
    wanted = at if isinstance(at, str) else appended(at)
    named = wanted if isinstance(wanted, str) else encode(wanted)
    key = "message", parent.session_id, parent.version, parent.live, named
    found = work.look(key, partial(_find, parent, wanted))
    if found is None:
        raise SessionStateError(f"session {parent.session_id!r} has no live message {at!r:.200}")
    after, position = found
    return taken(parent, 0, parent.live - after), position


def _history_at(parent: Session, at: int, reads: Queries, budget: int | None) -> Session:
    return history_at(reads, parent.session_id, at, budget)


def _find(
    parent: Session, wanted: str | e.MessageAppended, reads: Queries, budget: int | None
) -> tuple[int, int] | None:
    """Return how many live messages stand after the one that is meant, and its position."""
    meant = wanted if isinstance(wanted, str) else wanted.message_id
    message = None if isinstance(wanted, str) or meant is not None else as_loaded(wanted)
    for after, row in enumerate(newest_first(reads, live_now(parent), report, budget)):
        found = objects_of([row], report)[0]
        if found is None:
            continue
        if found.get("message_id") == meant if message is None else same_message(found, message):
            return after, row[3]
    return None


def set_session_title(session_id: str, title: str | None, *, auto: bool) -> Command[str | None]:
    name = "set_auto_title" if auto else "set_session_title"
    return Command(name, _set_title, (check_session_id(session_id), checked_title(title), auto))


def _set_title(work: Work, session_id: str, title: str | None, auto: bool) -> str | None:
    """Name a session; an automatic name does not replace one somebody chose (G44)."""
    session = work.known(session_id)
    if auto and session.title is not None and not session.title_is_auto:
        return session.title
    free = None if title is None else free_title(work, title, session)
    if free != session.title or session.title_is_auto != auto:
        work.on_session(session, e.SessionTitled(title=free, auto=auto))
    return free


def _name_after(work: Work, parent: Session, child: Session, why: str) -> Session:
    """Give a child its parent's title with the next number; one that somebody chose stays chosen."""
    if parent.title is None:
        return child
    others = highest_number(work.transaction, parent.title, child.session_id)
    event = e.SessionTitled(title=following(parent.title, others), auto=parent.title_is_auto)
    return work.on_session(child, event, why)


def free_title(work: Work, title: str, session: Session) -> str:
    """Return the title, numbered if another session has it; a closed segment of the conversation gives it up (G44a)."""
    reads, own = work.transaction, session.session_id
    holders = [holder for each in titled(reads, title, own) if (holder := work.session(each)) is not None]
    closed = [each for each in holders if each.conversation_id == session.conversation_id and each.compressed_into]
    for holder in closed:
        work.on_session(holder, e.SessionTitled(title=None), f"its title went to {own}")
    if len(closed) == len(holders):
        return title
    kept = session.title
    if kept is not None and numbered(kept).name == numbered(title).name and not titled(reads, kept, own):
        return kept
    return following(title, highest_number(reads, title, own))
