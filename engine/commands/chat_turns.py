"""Commands on the turns of a chat (W16, W17)."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import count
from typing import Any, Literal

from engine.chat_values import check_chat_id, checked_version
from engine.command import Command
from engine.commands.chat_history import Given, checked_lists, compared, saved
from engine.commands.chats import changing, checked_chat_usage, touched, used
from engine.commands.turns import evidence_of, interrupt
from engine.domain import chat_events as c, events as e
from engine.domain.chat import Chat
from engine.domain.chat_messages import kept, said, stored, turns_in
from engine.domain.chat_turns import INTERRUPTED, error_message, keeps_text, user_message, whole_seconds
from engine.domain.session import Session
from engine.errors import SessionConflictError
from engine.log.protocol import Queries
from engine.validation import checked_list, checked_name, checked_number, checked_text
from engine.work import Work
from projections.inline.backwards import TooFarError, live_now, newest_first
from projections.inline.transcripts import report
from projections.inline.turns import turn_with

IsLive = Callable[[str], bool]
"""Asks the host if a stream runs. It is asked while the write lock is free."""
FromTheAgent = tuple[Given, dict[str, Any]]
FromAgent = Callable[[str], FromTheAgent | None]
"""Asks the host what the agent has of a session: lists to save, and usage."""
_DEAD = "its stream is not live"


def start_turn(
    session_id: str,
    stream_id: str,
    message: str | None,
    attachments: Sequence[Any],
    started_at: float | None,
    expected_version: int | None,
    is_live: IsLive,
) -> Command[None]:
    pending = (
        None if message is None else checked_text("user_message", message),
        stored(list(checked_list(attachments, "attachments"))),
        None if started_at is None else float(checked_number("started_at", started_at)),
    )
    arguments = check_chat_id(session_id), checked_name("stream_id", stream_id), pending
    return Command("start_turn", _start, (*arguments, checked_version(expected_version), is_live))


def _start(
    work: Work,
    session_id: str,
    stream_id: str,
    pending: tuple[str | None, list[Any], float | None],
    expected_version: int | None,
    is_live: IsLive,
) -> None:
    """Begin the turn of a stream; one whose stream is dead is interrupted first (W16)."""
    session = changing(work, session_id, expected_version)
    message, attachments, given = pending
    started_at = work.time / 1e6 if given is None else given
    if work.chat(session).stream_id == stream_id:
        event = c.PendingReplaced(token=stream_id, started_at=started_at, user_message=message, attachments=attachments)
        touched(work, work.on_session(session, event))
        return
    _make_way(work, session, stream_id, is_live)
    session = work.known(session.session_id)
    begun = e.TurnBegun(
        token=stream_id,
        conversation_id=session.conversation_id,
        started_at=started_at,
        user_message=message,
        attachments=attachments,
        visible=session.live,
    )
    touched(work, work.on_session(session, begun))


def _make_way(work: Work, session: Session, stream_id: str, is_live: IsLive) -> None:
    """End a turn that is in the way if nobody works on it any more; raise if somebody does."""
    elsewhere = turn_with(work.transaction, stream_id)
    if elsewhere is not None:
        raise SessionConflictError(
            elsewhere.session_id, f"has the open turn of stream {stream_id!r}; a stream has one turn at a time"
        )
    turn = work.fold.turn(session.conversation_id)
    if turn is None:
        return
    if turn.lane_id is not None:
        evidence = evidence_of(work, turn)
        if evidence is None:
            raise SessionConflictError(session.session_id, f"has a turn of {turn.holder} open; wait for its end")
        interrupt(work, turn, evidence)
    elif _asked(work, turn.token, is_live):
        raise SessionConflictError(
            session.session_id, f"has an open turn of stream {turn.token!r}, which is live; wait for it or cancel it"
        )
    else:
        _interrupted(work, work.known(turn.session_id))


def _asked(work: Work, stream_id: str, is_live: IsLive) -> bool:
    def ask(_reads: Queries, budget: int | None) -> bool:
        if budget is not None:
            raise TooFarError
        return is_live(stream_id)

    return work.look(("live", stream_id), ask)


def _working(work: Work, session_id: str, stream_id: str, expected_version: int | None) -> tuple[Session, Chat]:
    session = changing(work, session_id, expected_version)
    chat = work.chat(session)
    if chat.stream_id != stream_id:
        now = "no turn is open" if chat.stream_id is None else f"the open turn is that of {chat.stream_id!r}"
        raise SessionConflictError(session_id, f"has no open turn of stream {stream_id!r}: {now}; nothing was written")
    return session, chat


def finish_turn(
    session_id: str,
    stream_id: str,
    messages: Sequence[Mapping[str, Any]],
    context: Sequence[Mapping[str, Any]] | None,
    tool_calls: Sequence[Any] | None,
    usage: Mapping[str, Any],
    expected_version: int | None,
) -> Command[None]:
    given = checked_lists(checked_list(messages), context, tool_calls)
    arguments = check_chat_id(session_id), checked_name("stream_id", stream_id), given, checked_chat_usage(**usage)
    return Command("finish_turn", _finish, (*arguments, checked_version(expected_version)))


def _finish(
    work: Work, session_id: str, stream_id: str, given: Given, usage: dict[str, Any], expected_version: int | None
) -> None:
    """End a turn with what was said in it; the user's text is kept, before what is new (W16)."""
    session, chat = _working(work, session_id, stream_id, expected_version)
    messages, context, tool_calls = given
    messages = messages or []
    if not keeps_text(chat, _placed_from_end(chat, session, messages)):
        compared(work, session, messages)
        pending = user_message(chat, _time(work, chat))
        messages = [*messages[: session.live], pending, *messages[session.live :]]
    session = used(work, saved(work, session, (messages, context, tool_calls)), usage)
    touched(work, work.on_session(session, e.TurnEnded(token=stream_id)))


def _placed_from_end(chat: Chat, session: Session, messages: Sequence[Any], first: int = 0) -> list[tuple[int, object]]:
    """Return messages with their places from `first` on, newest first; a new one was never there before the turn."""
    places = (place if place < session.live else max(place, chat.visible) for place in count(first))
    return list(zip(places, messages, strict=False))[::-1]


def _time(work: Work, chat: Chat) -> float:
    return whole_seconds(chat.started_at) or work.time / 1e6


Outcome = Literal["failed", "cancelled"]


def fail_turn(
    session_id: str, stream_id: str, error: Mapping[str, Any] | str, expected_version: int | None
) -> Command[None]:
    said = error if isinstance(error, str) else kept(error)
    arguments = check_chat_id(session_id), checked_name("stream_id", stream_id), said
    return Command("fail_turn", _fail, (*arguments, checked_version(expected_version)))


def _fail(
    work: Work, session_id: str, stream_id: str, error: dict[str, Any] | str, expected_version: int | None
) -> None:
    """End a turn with what went wrong (W16)."""
    session, chat = _working(work, session_id, stream_id, expected_version)
    message = error_message(error, work.time / 1e6)
    session = _with_messages(work, session, chat, [message], _time(work, chat))
    said = error if isinstance(error, str) else None
    touched(work, work.on_session(session, e.TurnEnded(token=stream_id, outcome="failed", error=said)))


def cancel_turn(
    session_id: str, stream_id: str, partial_messages: Sequence[Mapping[str, Any]], expected_version: int | None
) -> Command[None]:
    said = [kept(each) for each in checked_list(partial_messages, "partial_messages")]
    arguments = check_chat_id(session_id), checked_name("stream_id", stream_id), said
    return Command("cancel_turn", _cancel, (*arguments, checked_version(expected_version)))


def _cancel(
    work: Work, session_id: str, stream_id: str, messages: list[dict[str, Any]], expected_version: int | None
) -> None:
    """End a turn that the user gave up, with what was said until then (W16)."""
    session, chat = _working(work, session_id, stream_id, expected_version)
    session = _with_messages(work, session, chat, messages, _time(work, chat))
    touched(work, work.on_session(session, e.TurnEnded(token=stream_id, outcome="cancelled")))


def _with_messages(
    work: Work, session: Session, chat: Chat, messages: list[dict[str, Any]], time: float, **marks: Any
) -> Session:
    """Append messages, after the user's text if that is not there."""
    key = "kept", session.session_id, session.version, session.live
    if turns_in(messages):
        there = keeps_text(chat, _placed_from_end(chat, session, messages, session.live))
    else:
        there = work.look(key, partial(_keeps_text, session, chat))
    if not there:
        messages = [user_message(chat, time, **marks), *messages]
    for message in messages:
        session = work.on_session(session, e.MessageAppended(message=message))
    return session


def _keeps_text(session: Session, chat: Chat, reads: Queries, budget: int | None) -> bool:
    rows = enumerate(newest_first(reads, live_now(session), report, budget), 1)
    return keeps_text(chat, ((session.live - after, said([row], report)[0]) for after, row in rows))


def repair_stale_turn(
    session_id: str,
    grace_seconds: float,
    from_agent: FromAgent | None,
    stream_id: str | None,
    is_live: IsLive | None,
) -> Command[bool]:
    grace = float(checked_number("grace_seconds", grace_seconds))
    return Command("repair_stale_turn", _repair, (check_chat_id(session_id), grace, from_agent, stream_id, is_live))


def _repair(
    work: Work,
    session_id: str,
    grace: float,
    from_agent: FromAgent | None,
    stream_id: str | None,
    is_live: IsLive | None,
) -> bool:
    """Interrupt a turn whose stream is dead, once, after the grace; return True if that was done (W17)."""
    session = work.known(session_id)
    chat = work.chat(session)
    if chat.stream_id is None or stream_id not in (None, chat.stream_id):
        return False
    in_grace = work.time / 1e6 - (chat.started_at or 0) < grace
    if is_live is not None and (in_grace or _asked(work, chat.stream_id, is_live)):
        return False
    found = None if session.live or from_agent is None else _from_agent(work, session, from_agent)
    if found is None:
        _interrupted(work, session)
    else:
        given, usage = found
        session = used(work, saved(work, session, given), usage)
        event = e.TurnInterrupted(token=chat.stream_id, evidence=_DEAD)
        work.on_session(session, event, "the agent has what was said")
    return True


def _from_agent(work: Work, session: Session, from_agent: FromAgent) -> FromTheAgent | None:
    def ask(_reads: Queries, budget: int | None) -> FromTheAgent | None:
        if budget is not None:
            raise TooFarError
        return from_agent(session.session_id)

    return work.look(("agent", session.session_id, session.version), ask)


def _interrupted(work: Work, session: Session) -> None:
    """Record that a turn was interrupted: what the user said is kept, and a marker says that nothing came of it."""
    chat = work.chat(session)
    if chat.stream_id is None:
        return
    time = whole_seconds(chat.started_at) or (chat.updated_at or session.created_at) / 1e6
    marker = error_message(INTERRUPTED, time)
    session = _with_messages(work, session, chat, [marker], time, _recovered=True)
    work.on_session(session, e.TurnInterrupted(token=chat.stream_id, evidence=_DEAD), _DEAD)


def from_document(document: Mapping[str, Any] | None) -> FromTheAgent | None:
    """Return what an agent's transcript has, checked; None if nothing was said in it."""
    if not document or not document.get("messages"):
        return None
    names = ("input_tokens", "output_tokens", "estimated_cost")
    usage = checked_chat_usage(**{name: document[name] for name in names if document.get(name) is not None})
    return checked_lists(document["messages"], None, document.get("tool_calls")), usage
