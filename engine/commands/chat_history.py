"""Commands on what is said in a chat: the visible messages, the model's context and the tool calls (W8, W9)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from engine.chat_values import check_chat_id, checked_chat_title, checked_flag, checked_version
from engine.command import Command
from engine.commands.chats import begin_session, changing, touched
from engine.commands.sessions import history_of, taken
from engine.commands.transcripts import Cause, rewrite
from engine.domain import chat_events as c, events as e
from engine.domain.chat import Chat
from engine.domain.chat_messages import (
    Difference,
    difference,
    kept,
    replacing,
    rewritten,
    said,
    stored,
    turns_in,
    without_turns,
)
from engine.domain.chat_rows import UNTITLED
from engine.domain.messages import text_of, undo_point
from engine.domain.session import Session
from engine.domain.transcript import MESSAGES, Row
from engine.errors import SessionStateError
from engine.log.protocol import Queries
from engine.validation import checked_list
from engine.work import Work
from projections.inline.backwards import Stretch, live_now, newest_first
from projections.inline.chat_lists import context_of, tool_calls_of
from projections.inline.transcripts import report

Given = tuple[list[dict[str, Any]] | None, list[dict[str, Any]] | None, list[Any] | None]
"""Visible messages, context and tool calls, as they are stored; None for what is not given."""


def checked_lists(messages: object, context: object = None, tool_calls: object = None) -> Given:
    """Return messages, context and tool calls as they are stored."""
    return (
        None if messages is None else [kept(each) for each in checked_list(messages)],
        None if context is None else [kept(each) for each in checked_list(context, "context_messages")],
        None if tool_calls is None else stored(list(checked_list(tool_calls, "tool_calls"))),
    )


def save_messages(
    session_id: str,
    messages: Sequence[Mapping[str, Any]],
    context: Sequence[Mapping[str, Any]] | None,
    tool_calls: Sequence[Any] | None,
    touch: bool,
    expected_version: int | None,
) -> Command[None]:
    given = checked_lists(checked_list(messages), context, tool_calls)
    arguments = check_chat_id(session_id), given, checked_flag("touch", touch), checked_version(expected_version)
    return Command("save_messages", _save, arguments)


def _save(work: Work, session_id: str, given: Given, touch: bool, expected_version: int | None) -> None:
    session = changing(work, session_id, expected_version)
    touched(work, saved(work, session, given), touch)


def saved(work: Work, session: Session, given: Given) -> Session:
    """Bring a session to the lists that its host has, as far as they are given."""
    messages, context, tool_calls = given
    if messages is not None:
        session = _go_on(work, session, messages)
    if context is not None:
        session = _set_context(work, session, context)
    return session if tool_calls is None else _set_tool_calls(work, session, tool_calls)


def _go_on(work: Work, session: Session, messages: list[dict[str, Any]]) -> Session:
    """Append what is new and add keys that stored messages came back with (W8)."""
    found, extensions = compared(work, session, messages)
    if extensions is None:
        return rewrite(work, session, [rewritten(message) for message in messages])
    for event in extensions:
        session = work.on_session(session, event, "it came back with more keys")
    for message in found.new:
        session = work.on_session(session, e.MessageAppended(message=message))
    return session


Compared = tuple[Difference, list[c.MessageExtended] | None]
"""How a list goes on, and the additions as events; None if a message cannot be told by its position."""


def compared(work: Work, session: Session, messages: list[dict[str, Any]]) -> Compared:
    """Return how a visible list goes on from the stored one; raise ValueError if it does not."""
    key = "compared", session.session_id, session.version, len(messages)
    return work.look(key, partial(_compare, session, messages))


def _compare(session: Session, messages: list[dict[str, Any]], reads: Queries, budget: int | None) -> Compared:
    rows = list(newest_first(reads, live_now(session), report, budget))[::-1]
    found = difference(said(rows, report), messages)
    changed = {rows[place][3]: added for place, added in found.added.items()}
    recorded = reads.recorded_at(sorted(changed))
    if len(changed) < len(found.added) or any(each.event.topic not in MESSAGES for each in recorded):
        return found, None
    return found, [
        c.MessageExtended(
            position=each.position,
            origin=getattr(each.event, "copy_of", 0) or each.position,
            added=changed[each.position],
        )
        for each in recorded
    ]


def _context(work: Work, session: Session) -> list[Any]:
    chat = work.chat(session)
    key = "context", session.session_id, session.version
    return work.look(key, partial(_read_context, chat, session.version))


def _read_context(chat: Chat, version: int, reads: Queries, budget: int | None) -> list[Any]:
    return context_of(reads, chat, version, budget)


def _read_tool_calls(chat: Chat, version: int, reads: Queries, budget: int | None) -> list[Any]:
    return tool_calls_of(reads, chat, version, budget)


def _set_context(work: Work, session: Session, context: list[dict[str, Any]]) -> Session:
    change = replacing(_context(work, session), context)
    if change is None:
        return session
    return work.on_session(session, c.ContextReplaced(keep=change[0], messages=change[1]))


def _set_tool_calls(work: Work, session: Session, tool_calls: list[Any]) -> Session:
    key = "tool calls", session.session_id, session.version
    before = work.look(key, partial(_read_tool_calls, work.chat(session), session.version))
    change = replacing(before, tool_calls)
    if change is None:
        return session
    return work.on_session(session, c.ToolCallsReplaced(keep=change[0], tool_calls=change[1]))


def clear_session(session_id: str, expected_version: int | None) -> Command[None]:
    return Command("clear_session", _clear, (check_chat_id(session_id), checked_version(expected_version)))


def _clear(work: Work, session_id: str, expected_version: int | None) -> None:
    """Empty a session; its settings stay (W9)."""
    session = changing(work, session_id, expected_version)
    if session.title is not None:
        session = work.on_session(session, e.SessionTitled())
    touched(work, _rewritten(work, session, ([], [], [])))


def _rewritten(work: Work, session: Session, given: Given) -> Session:
    """Make another history of a session, with another context and other tool calls."""
    messages, context, tool_calls = given
    if session.live or messages:
        session = rewrite(work, session, [rewritten(message) for message in messages or ()])
    return saved(work, session, (None, context or [], tool_calls))


def compress_session(
    session_id: str,
    messages: Sequence[Mapping[str, Any]],
    context: Sequence[Mapping[str, Any]] | None,
    expected_version: int | None,
) -> Command[None]:
    given = checked_lists(checked_list(messages), context, ())
    return Command("compress_session", _compress, (check_chat_id(session_id), given, checked_version(expected_version)))


def _compress(work: Work, session_id: str, given: Given, expected_version: int | None) -> None:
    """Replace what is said in a session by a shorter history; its id stays (W9)."""
    touched(work, _rewritten(work, changing(work, session_id, expected_version), given))


def truncate_session(session_id: str, keep: int, expected_version: int | None) -> Command[None]:
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 0:
        raise ValueError(f"keep must be a number of messages of at least 0, not {keep!r:.100}")
    return Command("truncate_session", _truncate, (check_chat_id(session_id), keep, checked_version(expected_version)))


def _truncate(work: Work, session_id: str, keep: int, expected_version: int | None) -> None:
    """Hide everything after the first messages (W9)."""
    session = changing(work, session_id, expected_version)
    if keep < session.live:
        key = "truncated", session.session_id, session.version, session.live, keep
        turns = work.look(key, partial(_turns_after, session, keep))
        session = _hide(work, session, session.live - keep, turns, "truncate")
    touched(work, session)


def _turns_after(session: Session, keep: int, reads: Queries, budget: int | None) -> int:
    rows = newest_first(reads, live_now(session)._replace(most=session.live - keep), report, budget)
    return turns_in(said(list(rows), report))


def _hide(work: Work, session: Session, count: int, turns: int, cause: Cause) -> Session:
    """Hide the last messages, and take as many user turns off the context."""
    event = e.TranscriptRewound(
        keep=session.live - count, rewound_count=count, turns_undone=turns, cause=cause, before=session.undone_at
    )
    session = work.on_session(session, event, f"{turns} turn(s) taken off by the host")
    context = _context(work, session)
    stays = without_turns(context, turns)
    return session if stays == len(context) else work.on_session(session, c.ContextReplaced(keep=stays))


def undo(session_id: str, cause: Cause, expected_version: int | None) -> Command[dict[str, Any]]:
    return Command(cause, _undo, (check_chat_id(session_id), cause, checked_version(expected_version)))


def _undo(work: Work, session_id: str, cause: Cause, expected_version: int | None) -> dict[str, Any]:
    """Hide the last user message and everything after it; return it (W9)."""
    session = changing(work, session_id, expected_version)
    key = "undo", session.session_id, session.version, session.live
    point = work.look(key, partial(_last_turn, session))
    if point is None:
        raise SessionStateError(f"session {session_id!r} has no message of a user to {cause}")
    touched(work, _hide(work, session, point.hidden, 1, cause))
    message = dict(point.target)
    return {"removed_count": point.hidden, "text": text_of(message.get("content")), "message": message}


def _last_turn(session: Session, reads: Queries, budget: int | None) -> Any:
    rows = newest_first(reads, live_now(session), report, budget)
    return undo_point((said([row], report)[0] for row in rows), 1)


_OF_A_BRANCH = ("workspace", "model", "model_provider", "profile")
_NOT_OF_A_COPY = ("compression_anchor_visible_idx", "compression_anchor_message_key", "last_prompt_tokens")


def branch_session(session_id: str, at: object, title: str | None, expected_version: int | None) -> Command[str]:
    name = None if title is None else checked_chat_title(title)
    return Command("branch_session", _branch, (check_chat_id(session_id), at, name, checked_version(expected_version)))


def _branch(work: Work, session_id: str, at: object, title: str | None, expected_version: int | None) -> str:
    """Create a session that goes on from a message of another one (W9)."""
    parent = changing(work, session_id, expected_version)
    inherited, position = _history(work, parent, at)
    known = work.chat(parent).attributes
    attributes = {name: known[name] for name in _OF_A_BRANCH if name in known}
    why = f"branched from {session_id}"
    child = _began_from(work, parent, attributes, "fork", why)
    child = work.on_session(child, e.SessionTitled(title=title or f"{parent.title or UNTITLED} (fork)"), why)
    event = e.SessionForked(inherited=inherited, conversation_id=parent.conversation_id, position=position)
    return work.on_session(child, event, why).session_id


def _began_from(work: Work, parent: Session, attributes: dict[str, Any], relation: str, why: str) -> Session:
    return begin_session(
        work,
        attributes,
        why,
        parent_session_id=parent.session_id,
        relation=relation,
        family_id=parent.family_id,
    )


def _history(work: Work, parent: Session, at: object) -> tuple[e.Inherited, int]:
    """Return what a branch inherits, and the position of the last of it; a number is that of its messages."""
    if isinstance(at, bool) or not isinstance(at, int):
        return history_of(work, parent, at)
    if not 0 <= at <= parent.live:
        raise ValueError(f"at must be a number of messages, from 0 to {parent.live}, a message or its id, not {at!r}")
    key = "branch", parent.session_id, parent.version, at
    return taken(parent, 0, at), work.look(key, partial(_position_of, parent, at)) if at else 0


def _position_of(parent: Session, at: int, reads: Queries, budget: int | None) -> int:
    wanted = Stretch(parent.session_id, parent.history_from, parent.version, parent.live - at, 1)
    row: Row = next(iter(newest_first(reads, wanted, report, budget)))
    return row[3]


def duplicate_session(session_id: str, expected_version: int | None) -> Command[str]:
    return Command("duplicate_session", _duplicate, (check_chat_id(session_id), checked_version(expected_version)))


def _duplicate(work: Work, session_id: str, expected_version: int | None) -> str:
    """Create a copy of a session, with the same history (W9)."""
    parent = changing(work, session_id, expected_version)
    chat = work.chat(parent)
    attributes = {name: value for name, value in chat.attributes.items() if name not in _NOT_OF_A_COPY}
    if parent.relation != "copy" and parent.parent_session_id is not None:
        attributes.setdefault("parent_session_id", parent.parent_session_id)
    context = _context(work, parent)
    key = "tool calls", parent.session_id, parent.version
    tool_calls = work.look(key, partial(_read_tool_calls, chat, parent.version))
    inherited, position = history_of(work, parent, None)
    why = f"copied from {session_id}"
    child = _began_from(work, parent, attributes, "copy", why)
    events: list[Any] = [
        e.SessionTitled(title=f"{parent.title or UNTITLED} (copy)"),
        e.SessionForked(inherited=inherited, conversation_id=parent.conversation_id, position=position),
    ]
    if chat.project_id is not None:
        events.append(c.SessionMoved(project_id=chat.project_id))
    used = chat.input_tokens, chat.output_tokens, chat.estimated_cost
    if any(used):
        events.append(c.UsageCarried(input_tokens=used[0], output_tokens=used[1], cost_usd=used[2]))
    if context:
        events.append(c.ContextReplaced(messages=context))
    if tool_calls:
        events.append(c.ToolCallsReplaced(tool_calls=tool_calls))
    for event in events:
        child = work.on_session(child, event, why)
    return child.session_id
