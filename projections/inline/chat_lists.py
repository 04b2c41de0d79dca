"""The context and the tool calls of a chat: folds of its stream, made when asked for."""

from collections.abc import Sequence
from typing import Any

from engine.domain.chat import Chat
from engine.domain.chat_events import ContextReplaced, ToolCallsReplaced
from engine.domain.chat_messages import folded
from engine.domain.encoding import decode
from engine.domain.streams import session_stream
from engine.domain.transcript import MESSAGES
from engine.log.protocol import Queries
from projections.inline.backwards import TooFarError
from projections.inline.quarantine import quarantined

_WITHOUT: Sequence[str] = sorted(MESSAGES)


def context_of(reads: Queries, chat: Chat, version: int, budget: int | None = None) -> list[Any]:
    """Return what the model reads instead of the messages, at a version of the session's stream."""
    return _list(reads, chat, ContextReplaced.TOPIC, chat.context_from, version, budget)


def tool_calls_of(reads: Queries, chat: Chat, version: int, budget: int | None = None) -> list[Any]:
    """Return what the host shows of tool calls, at a version of the session's stream."""
    return _list(reads, chat, ToolCallsReplaced.TOPIC, chat.tool_calls_from, version, budget)


def _list(reads: Queries, chat: Chat, topic: str, first: int, version: int, budget: int | None) -> list[Any]:
    """Fold a list; raise TooFarError where more rows than the budget may have to be read."""
    if not first:
        return []
    if budget is not None and version - first > budget:
        raise TooFarError
    bad = {at for at, _ in quarantined(reads)}
    rows = reads.payloads(session_stream(chat.session_id), first - 1, version, without=_WITHOUT)
    return folded(decode(kind, state) for _, kind, state, at, _ in rows if kind == topic and at not in bad)
