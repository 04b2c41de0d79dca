"""The row of a chat in a list: its title, its last activity, and whether it is a scheduled one (W6, W18)."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

UNTITLED = "Untitled"
CRON = "cron"
_CRON_ID = "cron_"
_LONGEST_TITLE = 64
_TIMES = ("_ts", "timestamp")


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
    return next((time for name in _TIMES if (time := usable_time(message.get(name))) is not None), None)


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


def is_cron_session(session_id: object, source_tag: object = None) -> bool:
    """Return True for the session of a scheduled job, told by where it came from or by its id (W11)."""
    return source_tag == CRON or (isinstance(session_id, str) and session_id.startswith(_CRON_ID))
