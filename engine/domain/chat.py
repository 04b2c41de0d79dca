"""A chat: what a web client decides on of a session, beyond its head, as its events make it (W1).

Messages, context and tool calls are folds of the same stream, read when asked for; this is small.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from engine.domain import chat_events as c, events as e
from engine.domain.encoding import Content
from engine.domain.registry import Event

_replace = msgspec.structs.replace


class Chat(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state that chat events make of a session; a session without any has the defaults.

    `updated_at` is 0 while nobody has touched it. `aliases` are the ids it went on under, the last is the present one.
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

    @property
    def id(self) -> str:
        """Return the id that the session goes by now."""
        return self.aliases[-1] if self.aliases else self.session_id


def _attributed(chat: Chat, event: c.AttributesSet) -> Chat:
    return _replace(chat, attributes={**chat.attributes, **event.attributes})


def _touched(chat: Chat, event: c.SessionTouched) -> Chat:
    return _replace(chat, updated_at=event.at)


def _pinned(chat: Chat, event: c.SessionPinned) -> Chat:
    return _replace(chat, pinned=event.pinned)


def _archived(chat: Chat, event: c.SessionArchived) -> Chat:
    return _replace(chat, archived=event.archived)


def _moved(chat: Chat, event: c.SessionMoved) -> Chat:
    return _replace(chat, project_id=event.project_id)


def _rotated(chat: Chat, event: c.SessionRotated) -> Chat:
    return _replace(chat, aliases=(*chat.aliases, event.session_id))


def _used(chat: Chat, event: e.UsageRecorded) -> Chat:
    cost = chat.estimated_cost if event.cost_usd is None else (chat.estimated_cost or 0) + event.cost_usd
    return _replace(
        chat,
        input_tokens=chat.input_tokens + event.input_tokens,
        output_tokens=chat.output_tokens + event.output_tokens,
        estimated_cost=cost,
    )


_EVOLVE: dict[type, Callable[[Chat, Any], Chat]] = {
    c.AttributesSet: _attributed,
    c.SessionTouched: _touched,
    c.SessionPinned: _pinned,
    c.SessionArchived: _archived,
    c.SessionMoved: _moved,
    c.SessionRotated: _rotated,
    e.UsageRecorded: _used,
}
KINDS: frozenset[type[Event]] = frozenset(_EVOLVE)
"""Events that say something of a chat."""

TOPICS = frozenset(kind.TOPIC for kind in KINDS)


def evolve(chat: Chat, event: Content) -> Chat:
    """Return the chat after an event; one that was erased says nothing."""
    step = _EVOLVE.get(type(event))
    return chat if step is None else step(chat, event)
