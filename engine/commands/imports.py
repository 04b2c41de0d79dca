"""Imports: what was found in another program's files becomes events, each with its own time (V18)."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

from engine.command import Command
from engine.commands.chat_imports import begun, seen_of, settled
from engine.commands.sessions import free_title
from engine.domain import events as e
from engine.domain.entry import SessionEntry
from engine.domain.keys import check_session_id
from engine.domain.messages import appended
from engine.domain.session import COMPRESSION, Imported, Session
from engine.domain.times import microseconds
from engine.errors import SessionConflictError
from engine.imports.found import FoundSession
from engine.imports.found_message import FoundMessage
from engine.work import Work

_WHY = "imported"
_Relation = Literal["root", "compression", "child"]


class Begun(NamedTuple):
    """The state of a session after earlier imports: if it is there, and the last row of its messages."""

    known: bool
    row: int


def begin_import(found: FoundSession) -> Command[Begun]:
    """Return the command that makes a session, or says how far an earlier import came."""
    check_session_id(found.session_id)
    return Command("import", _begin, (found,))


def imported_before(session: Session | None, found: FoundSession) -> Begun:
    """Return how far an earlier import of the same source came; raise if the session is not this source's to fill."""
    if session is None:
        return Begun(False, 0)
    if session.deleted or session.gone:
        raise SessionConflictError(found.session_id, "was deleted here; it is not imported again")
    before = session.imported.get(found.key)
    if before is None:
        raise SessionConflictError(found.session_id, "is here already, and did not come from this source; it stays")
    return Begun(True, before.row)


def _begin(work: Work, found: FoundSession) -> Begun:
    before = imported_before(work.session(found.session_id), found)
    if before.known:
        return before
    work.time = found.created_at
    session = _created(work, found) if found.chat is None else begun(work, found.session_id, found.chat)
    work.on_session(session, e.SessionImported(source=found.key, row=0), _WHY)
    return before


def _created(work: Work, found: FoundSession) -> Session:
    parent = None if found.parent_session_id is None else work.session(found.parent_session_id)
    goes_on = parent is not None and found.relation == COMPRESSION
    created = e.SessionCreated(
        conversation_id=parent.conversation_id if parent is not None and goes_on else found.session_id,
        lane=found.lane,
        source=found.origin,
        parent_session_id=None if parent is None else parent.session_id,
        relation=cast(_Relation, found.relation if parent is not None else "root"),
        family_id=None if parent is None else parent.family_id,
    )
    session = work.on_session(Session(found.session_id), created, _WHY)
    if found.title is not None:
        title = e.SessionTitled(title=free_title(work, found.title, session))
        session = work.on_session(session, title, _WHY)
    return session


def import_messages(found: FoundSession, messages: Sequence[FoundMessage]) -> Command[int]:
    """Return the command that appends a batch of a session's messages; it counts those that were new."""
    return Command("import", _append, (found, messages))


def _append(work: Work, into: FoundSession, messages: Sequence[FoundMessage]) -> int:
    session = work.known(into.session_id)
    row = _before(session, into).row
    new = 0
    for found in messages:
        if found.row <= row:
            continue
        event = appended(found.message) if into.chat is None else e.MessageAppended(message=found.message)
        if event.message_id is not None and not work.reserve_message_id(session, event.message_id):
            continue
        work.time = found.time
        session = work.on_session(session, event, _WHY)
        if found.state != "live":
            session = _hide(work, session, found)
        new += 1
    last = messages[-1]
    if last.row > row:
        work.on_session(session, e.SessionImported(source=into.key, row=last.row), _WHY)
    return new


def _before(session: Session, found: FoundSession) -> Imported:
    """Return how far the same source was imported; raise if the session was deleted meanwhile, say."""
    imported_before(session, found)
    return session.imported[found.key]


def _hide(work: Work, session: Session, found: FoundMessage) -> Session:
    """Hide a message that was undone; one that a summary stands for leaves the history."""
    if found.state == "undone":
        event = e.TranscriptRewound(keep=session.live - 1, rewound_count=1, turns_undone=1, before=session.undone_at)
        return work.on_session(session, event, _WHY)
    return work.on_session(session, e.TranscriptRewritten(messages=[], cause="compress"), _WHY)


def end_import(found: FoundSession, project_id: str | None = None) -> Command[bool]:
    """Return the command that counts what a session used and ends it as it had ended; False if that was done before.

    A web chat gets its place, context and turn; `project_id` is that of its project here.
    """
    return Command("import", _finish, (found, project_id))


_SPENT = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost_usd")


def _finish(work: Work, found: FoundSession, project_id: str | None) -> bool:
    session = work.known(found.session_id)
    seen = {name: value for name in _SPENT if (value := getattr(found, name))}
    seen |= {name: value for name in ("end_reason", "child_session_id") if (value := getattr(found, name)) is not None}
    if found.chat is not None:
        seen |= seen_of(found.chat)
    imported = _before(session, found)
    before = imported.seen
    if before == seen:
        return False
    work.time = found.ended_at or found.created_at
    usage = {name: seen[name] - (before or {}).get(name, 0) for name in _SPENT if name in seen}
    if any(value > 0 for value in usage.values()):
        spent = {name: max(value, 0) for name, value in usage.items()}
        used = e.UsageRecorded(session_id=session.session_id, model=found.model, provider=found.provider, **spent)
        session = work.on_session(session, used, _WHY)
    if found.title is not None and session.title is None and before is not None:
        session = work.on_session(session, e.SessionTitled(title=free_title(work, found.title, session)), _WHY)
    end = _end_of(session, found, before or {})
    if end is not None:
        session = work.on_session(session, end, _WHY)
    if found.chat is not None:
        session = settled(work, session, found.chat, before, project_id)
    event = e.SessionImported(source=found.key, row=imported.row, seen=seen)
    work.on_session(session, event, _WHY)
    return True


def _end_of(
    session: Session, found: FoundSession, before: Mapping[str, Any]
) -> e.SessionEnded | e.SessionCompressed | None:
    """Return how a session ended, if it did and nobody here has said so, or has reopened it."""
    if found.child_session_id is not None and "child_session_id" not in before:
        open_end = session.end_reason == COMPRESSION and session.child_session_id is None
        if session.end_reason is None or open_end:
            return e.SessionCompressed(child_session_id=found.child_session_id)
    if found.end_reason is not None and "end_reason" not in before and session.end_reason is None:
        return e.SessionEnded(end_reason=found.end_reason)
    return None


def import_lane(entry: SessionEntry) -> Command[bool]:
    """Return the command that leads a lane to its session; False if the lane leads somewhere already."""
    return Command("import", _route, (entry,))


def _route(work: Work, entry: SessionEntry) -> bool:
    lane = work.lane(entry.session_key)
    if (lane is not None and lane.session_id is not None) or work.session(entry.session_id) is None:
        return False
    lane = lane or work.new_lane(entry.session_key, None)
    origin = None if entry.origin is None else entry.origin.known()
    work.time = microseconds(entry.updated_at)
    first = lane.version == 0
    routed = e.LaneRouted(
        session_id=entry.session_id,
        how="imported",
        key=entry.session_key if first else None,
        origin=origin,
        display_name=entry.display_name,
        began_at=microseconds(entry.created_at),
    )
    lane = work.on_lane(lane, routed, _WHY)
    for event in _flags(entry):
        lane = work.on_lane(lane, event, _WHY)
    return True


def _flags(entry: SessionEntry) -> list[e.AnyEvent]:
    events: list[e.AnyEvent] = []
    if entry.last_prompt_tokens:
        events.append(e.UsageRecorded(session_id=entry.session_id, last_prompt_tokens=entry.last_prompt_tokens))
    if entry.model_override:
        events.append(e.ModelOverrideSet(override=entry.model_override))
    if entry.resume_pending:
        events.append(e.ResumeMarked(session_id=entry.session_id, resume_reason=entry.resume_reason or _WHY))
    if entry.suspended:
        events.append(e.LaneSuspended(session_id=entry.session_id))
    if entry.expiry_finalized:
        events.append(e.ExpiryFinalized(session_id=entry.session_id))
    return events


def say_imported(source: str, sessions: int, messages: int, skipped: int) -> Command[None]:
    """Return the command that records an import in the log."""
    event = e.ImportFinished(source=source, sessions=sessions, messages=messages, skipped=skipped)
    return Command("import", _say, (event,))


def _say(work: Work, event: e.ImportFinished) -> None:
    work.on_log(event, _WHY)
