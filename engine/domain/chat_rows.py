"""The row of a chat in a list: what stands in it, its title and its last activity (W5, W6, W18)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from engine.domain.chat import Chat
from engine.domain.session import Session

UNTITLED = "Untitled"
TEXTS = frozenset(
    {"model", "profile", "personality", "parent_session_id", "source_tag", "session_source", "source_label"}
)
NUMBERS = frozenset({"context_length", "threshold_tokens", "last_prompt_tokens", "compression_anchor_visible_idx"})
ATTRIBUTES = (
    TEXTS
    | NUMBERS
    | {"workspace", "model_provider", "compression_anchor_message_key", "enabled_toolsets", "is_cli_session"}
)
"""What `set_attributes` sets of a session's own fields."""

ROW: Mapping[str, Any] = {
    "session_id": None,
    "title": UNTITLED,
    "workspace": "",
    "model": "",
    "model_provider": None,
    "message_count": 0,
    "created_at": 0.0,
    "updated_at": 0.0,
    "last_message_at": 0.0,
    "pinned": False,
    "archived": False,
    "project_id": None,
    "profile": None,
    "input_tokens": 0,
    "output_tokens": 0,
    "estimated_cost": None,
    "personality": None,
    "compression_anchor_visible_idx": None,
    "compression_anchor_message_key": None,
    "context_length": None,
    "threshold_tokens": None,
    "last_prompt_tokens": None,
    "active_stream_id": None,
    "pending_user_message": None,
    "is_cli_session": False,
    "source_tag": None,
    "session_source": None,
    "source_label": None,
    "enabled_toolsets": None,
    "is_streaming": False,
}
"""The keys of every row of a list of chats, with what stands there if nobody said anything (W5)."""

_LONGEST_TITLE = 64
TIMES = ("_ts", "timestamp")
"""Where a message may say its time; the first that is usable counts."""


def usable_time(value: object) -> float | None:
    """Return a time in epoch seconds; None for 0, and for what is no time. Numeric text counts."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        time = float(value)
    except (ValueError, OverflowError):
        return None
    return time if math.isfinite(time) and time > 0 else None


def time_of(message: object) -> float | None:
    """Return the time that a message gives itself."""
    if not isinstance(message, Mapping):
        return None
    return next((time for name in TIMES if (time := usable_time(message.get(name))) is not None), None)


def last_message_time(newest_first: Iterable[object]) -> float | None:
    """Return the time of the newest message that is not a tool's and has one; messages are read no further (W6)."""
    for message in newest_first:
        if isinstance(message, Mapping) and message.get("role") != "tool":
            time = time_of(message)
            if time is not None:
                return time
    return None


def title_from(messages: Sequence[Any], fallback: str = UNTITLED) -> str:
    """Return a title made of the first words a user wrote (W18)."""
    for message in messages or ():
        if isinstance(message, Mapping) and message.get("role") == "user":
            text = _words(message.get("content")).strip()
            if text:
                return text[:_LONGEST_TITLE]
    return fallback


def _words(content: object) -> str:
    """Return a message's text, its text parts joined by a space."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, Mapping) and part.get("type") == "text"]
    return " ".join(text for text in texts if isinstance(text, str))


def fields_of(head: Session, chat: Chat, recorded_at: int) -> dict[str, Any]:
    """Return the fields of a session as a web client sees it, but for its messages. Times are epoch seconds.

    A session that no client has touched was updated when its newest message was recorded, or when it was created if
    that is later.
    """
    known: Mapping[str, Any] = chat.attributes
    fields = {name: value for name, value in known.items() if name in ATTRIBUTES and value is not None}
    if "parent_session_id" not in known and head.relation != "copy":
        fields["parent_session_id"] = head.parent_session_id
    return {
        **fields,
        "session_id": chat.id,
        "title": head.title or UNTITLED,
        "created_at": head.created_at / 1e6,
        "updated_at": (chat.updated_at or max(head.created_at, recorded_at)) / 1e6,
        "pinned": chat.pinned,
        "archived": chat.archived,
        "project_id": chat.project_id,
        "input_tokens": chat.input_tokens,
        "output_tokens": chat.output_tokens,
        "estimated_cost": chat.estimated_cost,
        "active_stream_id": chat.stream_id,
        "pending_user_message": chat.pending_message,
        "pending_attachments": list(chat.pending_attachments),
        "pending_started_at": chat.started_at,
        "version": head.version,
        "extra": {name: value for name, value in known.items() if name not in ATTRIBUTES},
    }


def row_of(fields: Mapping[str, Any], message_count: int, last_message_at: float) -> dict[str, Any]:
    """Return the row of a session with these fields (W5)."""
    row = {**ROW, **fields}
    for name in fields.keys() - ROW.keys():
        if name != "parent_session_id" or not fields[name]:
            del row[name]
    return row | {"message_count": message_count, "last_message_at": last_message_at, "is_streaming": False}
