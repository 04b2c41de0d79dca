"""Commands that bring chats from elsewhere: a document, or a session of the agent's own database (W20, W21)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from engine.chat_values import check_chat_id, checked_attributes, checked_chat_title
from engine.command import Command
from engine.commands.chat_history import saved
from engine.commands.chats import SOURCE, used
from engine.domain import chat_events as c, events as e
from engine.domain.chat_messages import kept
from engine.domain.keys import check_session_id
from engine.domain.project import CRON_NAME, Project
from engine.domain.session import Session
from engine.domain.session_sources import normalize_source
from engine.domain.streams import project_stream
from engine.errors import SessionConflictError
from engine.imports.chat_document import ChatDocument, fingerprint, read_document, timed
from engine.imports.found import FoundProject
from engine.imports.times import micros
from engine.log.protocol import Queries
from engine.validation import checked_list, checked_name
from engine.work import Work
from projections.inline.imported import ImportedRows, imported_rows
from projections.inline.projects import project_named
from projections.inline.turns import turn_with

_WHY = "imported"
_PLACES = " places"
"""What is put behind the name of a source whose messages have no rows: they are counted by their places."""

Seen = dict[str, Any]


def import_session(document: Mapping[str, Any]) -> Command[str]:
    return Command("import_session", _import_document, (read_document(document),))


def _import_document(work: Work, chat: ChatDocument) -> str:
    """Create the session of a document, as it was there (W20)."""
    session_id = chat.session_id or work.new_id()
    check_is_new(work, session_id)
    if chat.created_at is not None:
        work.time = chat.created_at
    session = begun(work, session_id, chat)
    for found in timed(chat.messages, work.time):
        work.time = found.time
        session = work.on_session(session, e.MessageAppended(message=found.message), _WHY)
    usage = {name: getattr(chat, name) for name in ("input_tokens", "output_tokens", "cost_usd")}
    settled(work, used(work, session, usage), chat, None, chat.project_id)
    return session_id


def check_is_new(work: Work, session_id: str) -> None:
    """Raise SessionConflictError if a session is there, or was."""
    there = work.session(session_id)
    if there is not None and there.deleted:
        raise SessionConflictError(session_id, "was deleted; its id is never used again: import it under another one")
    if there is not None:
        raise SessionConflictError(session_id, "exists already; import it under another id, or delete the one here")


def begun(work: Work, session_id: str, chat: ChatDocument) -> Session:
    """Create the session of a document with its title and attributes, at the time of the work."""
    created = e.SessionCreated(conversation_id=session_id, source=SOURCE)
    session = work.on_session(Session(session_id), created, _WHY)
    if chat.title is not None:
        session = work.on_session(session, e.SessionTitled(title=chat.title), _WHY)
    if chat.attributes:
        session = work.on_session(session, c.AttributesSet(attributes=chat.attributes), _WHY)
    return session


def seen_of(chat: ChatDocument) -> Seen:
    """Return what is compared when a document is imported again."""
    seen: Seen = {
        "context": fingerprint(chat.context) if chat.context else None,
        "tool_calls": fingerprint(chat.tool_calls) if chat.tool_calls else None,
        "turn": None if chat.turn is None else chat.turn.stream_id or _OF_NOBODY,
    }
    return {name: value for name, value in seen.items() if value is not None}


_OF_NOBODY = "?"


def settled(work: Work, session: Session, chat: ChatDocument, before: Seen | None, project_id: str | None) -> Session:
    """Bring what stands beside the messages to what a document says; only the first import sets the place of a chat."""
    now = seen_of(chat)
    if chat.updated_at is not None:
        work.time = chat.updated_at
    if before is None:
        session = _placed(work, session, chat, project_id)
    changed = {name: now.get(name) != (before or {}).get(name) for name in ("context", "tool_calls", "turn")}
    context = chat.context if changed["context"] else None
    session = saved(work, session, (None, context, chat.tool_calls if changed["tool_calls"] else None))
    if chat.updated_at is not None and chat.updated_at > work.chat(session).updated_at:
        session = work.on_session(session, c.SessionTouched(at=chat.updated_at), _WHY)
    return _with_turn(work, session, chat, before) if changed["turn"] else session


def _placed(work: Work, session: Session, chat: ChatDocument, project_id: str | None) -> Session:
    if project_id is not None:
        session = work.on_session(session, c.SessionMoved(project_id=project_id), _WHY)
    if chat.pinned:
        session = work.on_session(session, c.SessionPinned(), _WHY)
    return work.on_session(session, c.SessionArchived(), _WHY) if chat.archived else session


def _with_turn(work: Work, session: Session, chat: ChatDocument, before: Seen | None) -> Session:
    """Open the turn of a document; the one that an earlier import opened is over in the source too."""
    own = _token(session, (before or {}).get("turn"))
    if own is not None and work.chat(session).stream_id == own:
        session = work.on_session(session, e.TurnEnded(token=own), "it was over when the session was imported again")
    turn = chat.turn
    if turn is None or work.fold.turn(session.conversation_id) is not None:
        return session
    started_at = work.time / 1e6 if turn.started_at is None else turn.started_at
    token = _token(session, turn.stream_id or _OF_NOBODY)
    if turn_with(work.transaction, token or "") is not None:
        token = _token(session, _OF_NOBODY)
    event = e.TurnBegun(
        token=token or "",
        conversation_id=session.conversation_id,
        started_at=started_at,
        user_message=turn.message,
        attachments=turn.attachments,
        visible=session.live,
    )
    return work.on_session(session, event, _WHY)


def _token(session: Session, stream_id: str | None) -> str | None:
    """Return the token of an imported turn: its stream, or one that nobody has if it had none, or shared it."""
    return f"imported:{session.session_id}" if stream_id == _OF_NOBODY else stream_id


def import_project(found: FoundProject) -> Command[str]:
    return Command("import", _import_project, (found,))


def _import_project(work: Work, found: FoundProject) -> str:
    """Create a project that is not there and never was; return its id here. The one of timers stays one (W19)."""
    if work.transaction.version(project_stream(found.project_id)) is not None:
        return found.project_id
    known = project_named(work.transaction, CRON_NAME) if found.name == CRON_NAME else None
    if known is not None:
        return known.project_id
    work.time = found.created_at
    event = c.ProjectCreated(name=found.name, color=found.color)
    return work.on_project(Project(found.project_id), event, _WHY).project_id


class AgentSession(NamedTuple):
    """A session of an agent, as its host has read it. Times are UTC microseconds, None where there is none."""

    session_id: str
    title: str | None
    messages: Sequence[tuple[int | None, dict[str, Any]]]
    attributes: dict[str, Any]
    created_at: int | None
    updated_at: int | None
    source: str


def import_cli_session(
    session_id: str,
    title: str | None,
    messages: Sequence[Mapping[str, Any]],
    attributes: Mapping[str, Any],
    created_at: float | None,
    updated_at: float | None,
    source: str,
) -> Command[None]:
    told = normalize_source(checked_name("source", source))
    of_source = {"is_cli_session": True, "source_tag": source, **told._asdict()}
    of_source.pop("raw_source")
    found = AgentSession(
        check_chat_id(session_id),
        None if title is None else checked_chat_title(title),
        [_keyed(each) for each in checked_list(messages)],
        checked_attributes({**attributes, **of_source}),
        None if created_at is None else micros(created_at),
        None if updated_at is None else micros(updated_at),
        source,
    )
    return Command("import_cli_session", _import_cli, (found,))


def _keyed(message: object) -> tuple[int | None, dict[str, Any]]:
    """Return a message with its row, which is its key and is not stored in it."""
    found = kept(message)
    row = found.pop("_row_id", None)
    if row is not None and (isinstance(row, bool) or not isinstance(row, int) or row < 1):
        raise ValueError(f"_row_id must be the number of a row, not {row!r:.100}")
    return row, found


def _import_cli(work: Work, found: AgentSession) -> None:
    """Bring a session to what its agent has: what is new there is appended, and nothing twice (W20)."""
    session = work.session(found.session_id)
    if session is not None and (session.deleted or session.gone):
        raise SessionConflictError(found.session_id, "was deleted; it is not imported again")
    is_new = session is None
    started = work.time if found.created_at is None else found.created_at
    said = list(timed([message for _, message in found.messages], started))
    if session is None:
        work.time = min([started, *[each.time for each in said]]) if found.created_at is None else started
        session = _began(work, found)
    new = _new_rows(work, session, found)
    for place in new:
        work.time = said[place].time
        session = work.on_session(session, e.MessageAppended(message=said[place].message), _WHY)
    for source in dict.fromkeys(source for source, _ in new.values()):
        rows = [row for of, row in new.values() if of == source]
        before = session.imported[source].row if source in session.imported else 0
        event = e.SessionImported(source=source, row=max(before, *rows), rows=rows)
        session = work.on_session(session, event, _WHY)
    at = found.updated_at or (said[-1].time if said else None)
    if at is not None and (new or is_new) and at > work.chat(session).updated_at:
        work.on_session(session, c.SessionTouched(at=at), _WHY)


def _began(work: Work, found: AgentSession) -> Session:
    event = e.SessionCreated(conversation_id=found.session_id, source={"platform": found.source})
    session = work.on_session(Session(found.session_id), event, _WHY)
    if found.title is not None:
        session = work.on_session(session, e.SessionTitled(title=found.title), _WHY)
    session = work.on_session(session, c.AttributesSet(attributes=found.attributes), _WHY)
    return work.on_session(session, e.SessionImported(source=found.source, row=0), _WHY)


def _new_rows(work: Work, session: Session, found: AgentSession) -> dict[int, tuple[str, int]]:
    """Return the places of messages that are not there yet, each with its key: a source, and a row there."""
    keys = [
        (found.source + _PLACES, place) if row is None else (found.source, row)
        for place, (row, _) in enumerate(found.messages, 1)
    ]
    known = {source: _rows_of(work, session, source) for source in {source for source, _ in keys}}
    new: dict[tuple[str, int], int] = {}
    for place, (source, row) in enumerate(keys):
        if row not in known[source]:
            new.setdefault((source, row), place)
    return {place: key for key, place in new.items()}


def _rows_of(work: Work, session: Session, source: str) -> ImportedRows:
    key = "imported rows", session.session_id, source, session.version
    return work.look(key, partial(_read_rows, session, source))


def _read_rows(session: Session, source: str, reads: Queries, budget: int | None) -> ImportedRows:
    return imported_rows(reads, session, source, budget)


def forget_at_agent(session_id: str) -> Command[None]:
    return Command("delete_cli_session", _forget, (check_session_id(session_id),))


def _forget(work: Work, session_id: str) -> None:
    """Remember that an agent's session is not to be seen again, whether or not it was ever here (W21)."""
    session = work.session(session_id) or Session(session_id)
    if not session.gone:
        work.on_session(session, c.AgentSessionDeleted(), "deleted from its agent's database")
