"""A chat: what a web client decides on of a session, beyond its head, as its events make it (W1).

Messages, context and tool calls are folds of the same stream, read when asked for; this is small.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from engine.domain import chat_events as c, events as e
from engine.domain.encoding import Content, Erased
from engine.domain.registry import Event
from engine.domain.session import Session

_replace = msgspec.structs.replace


class Chat(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state that chat events make of a session; a session without any has the defaults.

    `updated_at` is 0 while nobody has touched it. `aliases` are the ids it went on under, the last is the present one.
    `context_from` and `tool_calls_from` are the versions from which on these are folded, 0 if they are empty. An open
    turn is that of `stream_id`; `visible` messages were there when it began.
    """

    session_id: str
    aliases: tuple[str, ...] = ()
    attributes: dict[str, Any] = {}
    updated_at: int = 0
    pinned: bool = False
    archived: bool = False
    project_id: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    estimated_cost: float | None = None
    context_from: int = 0
    tool_calls_from: int = 0
    stream_id: str | None = None
    started_at: float | None = None
    pending_message: str | None = None
    pending_attachments: tuple[Any, ...] = ()
    visible: int = 0

    @property
    def id(self) -> str:
        """Return the id that the session goes by now."""
        return self.aliases[-1] if self.aliases else self.session_id


def _attributed(chat: Chat, event: c.AttributesSet, _version: int) -> Chat:
    return _replace(chat, attributes={**chat.attributes, **event.attributes})


def _touched(chat: Chat, event: c.SessionTouched, _version: int) -> Chat:
    return _replace(chat, updated_at=event.at)


def _pinned(chat: Chat, event: c.SessionPinned, _version: int) -> Chat:
    return _replace(chat, pinned=event.pinned)


def _archived(chat: Chat, event: c.SessionArchived, _version: int) -> Chat:
    return _replace(chat, archived=event.archived)


def _moved(chat: Chat, event: c.SessionMoved, _version: int) -> Chat:
    return _replace(chat, project_id=event.project_id)


def _rotated(chat: Chat, event: c.SessionRotated, _version: int) -> Chat:
    return _replace(chat, aliases=(*chat.aliases, event.session_id))


def _used(chat: Chat, event: e.UsageRecorded | c.UsageCarried, _version: int) -> Chat:
    cost = chat.estimated_cost if event.cost_usd is None else (chat.estimated_cost or 0) + event.cost_usd
    return _replace(
        chat,
        input_tokens=chat.input_tokens + event.input_tokens,
        output_tokens=chat.output_tokens + event.output_tokens,
        estimated_cost=cost,
    )


def _context(chat: Chat, event: c.ContextReplaced, version: int) -> Chat:
    return _replace(chat, context_from=_begins(chat.context_from, event.keep, bool(event.messages), version))


def _tool_calls(chat: Chat, event: c.ToolCallsReplaced, version: int) -> Chat:
    return _replace(chat, tool_calls_from=_begins(chat.tool_calls_from, event.keep, bool(event.tool_calls), version))


def _begins(before: int, keep: int, added: bool, version: int) -> int:
    """Return the version from which on a list is folded, after some of it was kept and something added."""
    if keep:
        return before
    return version if added else 0


def _pending(chat: Chat, event: e.TurnBegun | c.PendingReplaced) -> Chat:
    return _replace(
        chat,
        stream_id=event.token,
        started_at=event.started_at,
        pending_message=event.user_message,
        pending_attachments=tuple(event.attachments),
    )


def _begun(chat: Chat, event: e.TurnBegun, _version: int) -> Chat:
    return chat if event.started_at is None else _replace(_pending(chat, event), visible=event.visible)


def _pending_replaced(chat: Chat, event: c.PendingReplaced, _version: int) -> Chat:
    return _pending(chat, event) if event.token == chat.stream_id else chat


def _over(chat: Chat, event: e.TurnEnded | e.TurnInterrupted, _version: int) -> Chat:
    return without_turn(chat) if event.token == chat.stream_id else chat


def without_turn(chat: Chat) -> Chat:
    """Return a chat as it is once its turn is over."""
    return _replace(chat, stream_id=None, started_at=None, pending_message=None, pending_attachments=(), visible=0)


def _erased(chat: Chat, event: Erased, version: int) -> Chat:
    """Let go of what an erased event had replaced: it does not come back."""
    if event.topic in _ENDS:  # its error may have repeated somebody's words; the turn is over anyway
        return without_turn(chat)
    if event.topic == c.ContextReplaced.TOPIC:
        return _replace(chat, context_from=version)
    return _replace(chat, tool_calls_from=version)


def is_draft(session: Session, chat: Chat) -> bool:
    """Return True for a chat that is nobody's yet: untitled, without messages and without a turn (W3)."""
    return session.title is None and not session.live and session.lane is None and chat.stream_id is None


_EVOLVE: dict[type, Callable[[Chat, Any, int], Chat]] = {
    c.AttributesSet: _attributed,
    c.SessionTouched: _touched,
    c.SessionPinned: _pinned,
    c.SessionArchived: _archived,
    c.SessionMoved: _moved,
    c.SessionRotated: _rotated,
    c.ContextReplaced: _context,
    c.ToolCallsReplaced: _tool_calls,
    c.UsageCarried: _used,
    c.PendingReplaced: _pending_replaced,
    e.TurnBegun: _begun,
    e.TurnEnded: _over,
    e.TurnInterrupted: _over,
    e.UsageRecorded: _used,
}
KINDS: frozenset[type[Event]] = frozenset(_EVOLVE)
"""Events that say something of a chat."""

TOPICS = frozenset(kind.TOPIC for kind in KINDS)
_ENDS = frozenset({e.TurnEnded.TOPIC, e.TurnInterrupted.TOPIC})
_LASTING = frozenset({c.ContextReplaced.TOPIC, c.ToolCallsReplaced.TOPIC, *_ENDS})


def says_something(event: Content) -> bool:
    """Return True for an event that may change a chat."""
    if isinstance(event, e.TurnBegun):
        return event.started_at is not None
    return type(event) in KINDS or (isinstance(event, Erased) and event.topic in _LASTING)


def evolve(chat: Chat, event: Content, version: int) -> Chat:
    """Return the chat after an event; of one that was erased, it counts that a list was replaced or a turn over."""
    step = _EVOLVE.get(type(event))
    if step is not None:
        return step(chat, event, version)
    return _erased(chat, event, version) if isinstance(event, Erased) and event.topic in _LASTING else chat
