"""Commands on a session as a web client gives them: its title, place and attributes (W3, W8 to W10)."""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.chat_values import (
    check_chat_id,
    checked_attributes,
    checked_chat_title,
    checked_flag,
    checked_version,
)
from engine.command import Command
from engine.domain import chat_events as c, events as e
from engine.domain.chat import is_draft
from engine.domain.registry import Event
from engine.domain.session import Session
from engine.errors import SessionConflictError
from engine.validation import checked_usage
from engine.work import Work

SOURCE = {"platform": "webui"}
"""Where the sessions of a catalogue come from: views tell platforms apart by it."""


def new_session(attributes: Mapping[str, Any]) -> Command[str]:
    return Command("new_session", _new, (checked_attributes(attributes),))


def _new(work: Work, attributes: dict[str, Any]) -> str:
    """Create a session of its own; return its id (W3)."""
    return begin_session(work, attributes, "a new chat").session_id


def begin_session(work: Work, attributes: dict[str, Any], why: str, **created: Any) -> Session:
    """Create a session with attributes; its id is new."""
    session_id = work.new_id()
    event = e.SessionCreated(conversation_id=session_id, source=SOURCE, **created)
    session = work.on_session(Session(session_id), event, why)
    return work.on_session(session, c.AttributesSet(attributes=attributes), why)


def changing(work: Work, session_id: str, expected_version: int | None) -> Session:
    """Return the session that a command changes; raise if it is not as the caller has read it (W10)."""
    session = work.known(session_id)
    if expected_version is not None and session.version != expected_version:
        raise SessionConflictError(
            session_id, f"is at version {session.version}, not {expected_version}; read it again and decide anew"
        )
    return session


def touched(work: Work, session: Session, touch: bool = True) -> Session:
    """Move the time at which a session was updated to now."""
    return work.on_session(session, c.SessionTouched(at=work.time)) if touch else session


def _simple(name: str, session_id: str, event: Event, touch: bool, expected_version: int | None) -> Command[None]:
    """Return a command that lets one event happen if it changes anything."""
    version = checked_version(expected_version)
    return Command(name, _let, (check_chat_id(session_id), event, checked_flag("touch", touch), version))


def _let(work: Work, session_id: str, event: Event, touch: bool, expected_version: int | None) -> None:
    session = changing(work, session_id, expected_version)
    if not _says_nothing_new(work, session, event):
        session = work.on_session(session, event)
    touched(work, session, touch)


def _says_nothing_new(work: Work, session: Session, event: Event) -> bool:
    match event:
        case e.SessionTitled():
            return session.title == event.title and session.title_is_auto == event.auto
        case c.SessionPinned():
            return work.chat(session).pinned == event.pinned
        case c.SessionArchived():
            return work.chat(session).archived == event.archived
        case c.SessionMoved():
            if event.project_id is not None:
                work.known_project(event.project_id)
            return work.chat(session).project_id == event.project_id
        case c.AttributesSet():
            return event.attributes.items() <= work.chat(session).attributes.items() if event.attributes else True
    return False


def rename_session(session_id: str, title: str, touch: bool, expected_version: int | None) -> Command[None]:
    event = e.SessionTitled(title=checked_chat_title(title))
    return _simple("rename_session", session_id, event, touch, expected_version)


def pin_session(session_id: str, pinned: bool, touch: bool, expected_version: int | None) -> Command[None]:
    event = c.SessionPinned(pinned=checked_flag("pinned", pinned))
    return _simple("pin_session", session_id, event, touch, expected_version)


def archive_session(session_id: str, archived: bool, touch: bool, expected_version: int | None) -> Command[None]:
    event = c.SessionArchived(archived=checked_flag("archived", archived))
    return _simple("archive_session", session_id, event, touch, expected_version)


def move_to_project(
    session_id: str, project_id: str | None, touch: bool, expected_version: int | None
) -> Command[None]:
    event = c.SessionMoved(project_id=check_chat_id(project_id, "project_id") if project_id else None)
    return _simple("move_to_project", session_id, event, touch, expected_version)


def set_attributes(
    session_id: str, attributes: Mapping[str, Any], touch: bool, expected_version: int | None
) -> Command[None]:
    event = c.AttributesSet(attributes=checked_attributes(attributes))
    return _simple("set_attributes", session_id, event, touch, expected_version)


def record_usage(session_id: str, usage: Mapping[str, Any], touch: bool, expected_version: int | None) -> Command[None]:
    arguments = check_chat_id(session_id), checked_chat_usage(**usage), checked_flag("touch", touch)
    return Command("record_usage", _record, (*arguments, checked_version(expected_version)))


def checked_chat_usage(
    input_tokens: int = 0, output_tokens: int = 0, estimated_cost: float | None = None
) -> dict[str, Any]:
    """Return what was used, as it is recorded; None for a number of tokens is 0."""
    named = {"input_tokens": input_tokens or 0, "output_tokens": output_tokens or 0, "cost_usd": estimated_cost}
    unsaid = {"last_prompt_tokens": None, "cache_read_tokens": 0, "cache_write_tokens": 0}
    checked_usage({**unsaid, **named})
    return named


def _record(work: Work, session_id: str, usage: dict[str, Any], touch: bool, expected_version: int | None) -> None:
    session = changing(work, session_id, expected_version)
    touched(work, used(work, session, usage), touch)


def used(work: Work, session: Session, usage: dict[str, Any]) -> Session:
    """Add to what a session used, for the model it talks to."""
    if not any(usage.values()):
        return session
    known = work.chat(session).attributes
    model, provider = known.get("model") or None, known.get("model_provider")
    event = e.UsageRecorded(session_id=session.session_id, model=model, provider=provider, **usage)
    return work.on_session(session, event)


def rotate_session(session_id: str, new_id: str, expected_version: int | None) -> Command[None]:
    arguments = check_chat_id(session_id), check_chat_id(new_id, "new_id"), checked_version(expected_version)
    return Command("rotate_session", _rotate, arguments)


def _rotate(work: Work, session_id: str, new_id: str, expected_version: int | None) -> None:
    """Let a session go on under another id, with everything that is going on in it (W9)."""
    session = changing(work, session_id, expected_version)
    if work.chat(session).id == new_id:
        return
    if work.session(new_id) is not None:
        raise SessionConflictError(new_id, f"exists already; {session_id!r} must go on under an id that nobody had")
    work.on_session(session, c.SessionRotated(session_id=new_id), "the agent goes on under another id")


def delete_session(session_id: str, expected_version: int | None) -> Command[None]:
    return Command("delete_session", _delete, (check_chat_id(session_id), checked_version(expected_version)))


def _delete(work: Work, session_id: str, expected_version: int | None) -> None:
    """Delete a session for good; a turn that is open in it is over (W9)."""
    session = changing(work, session_id, expected_version)
    turn = work.fold.turn(session.conversation_id)
    why = "the session was deleted"
    if turn is not None and turn.session_id == session.session_id:
        session = work.on_session(session, e.TurnInterrupted(token=turn.token, evidence=why), why)
    work.on_session(session, c.SessionDeleted())


def sweep_drafts(session_ids: Sequence[str], before: int) -> Command[list[str]]:
    return Command("sweep_drafts", _sweep, (session_ids, before))


def _sweep(work: Work, session_ids: Sequence[str], before: int) -> list[str]:
    """Delete those of some sessions that are drafts nobody has touched since a time; return their ids (W3)."""
    swept = []
    for session_id in session_ids:
        session = work.session(session_id)
        if session is None or session.deleted:
            continue
        chat = work.chat(session)
        if is_draft(session, chat) and max(chat.updated_at, session.created_at) < before:
            work.on_session(session, c.SessionDeleted(), "a draft that nobody went on with")
            swept.append(chat.id)
    return swept
