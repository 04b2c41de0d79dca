"""Turns of a chat: what is kept of the user's text when one ends, however it ends (W16, W17)."""

import math
from collections.abc import Iterable, Mapping
from typing import Any

from engine.domain.chat import Chat
from engine.domain.chat_rows import time_of
from engine.domain.messages import text_of

INTERRUPTED = "Previous turn did not complete"


def whole_seconds(time: float | None) -> int | None:
    """Return a time in whole seconds; None if it is none, or not after the epoch."""
    return None if time is None or not math.isfinite(time) or time < 1 else int(time)


def keeps_text(chat: Chat, newest_first: Iterable[tuple[int, object]]) -> bool:
    """Return True if the last user message, of messages with their places, is what the open turn answers (W16).

    It contains the text and is not older than the start, by its own time, else by whether it was there before.
    """
    wanted = (chat.pending_message or "").strip()
    if not wanted:
        return True
    for place, message in newest_first:
        if isinstance(message, Mapping) and message.get("role") == "user":
            time = time_of(message)
            recent = place >= chat.visible if time is None else time >= math.floor(chat.started_at or 0)
            return recent and wanted in text_of(message.get("content"))
    return False


def user_message(chat: Chat, time: float, **marks: Any) -> dict[str, Any]:
    """Return what the open turn answers, as a message."""
    message = {"role": "user", "content": chat.pending_message, "timestamp": time, **marks}
    return {**message, "attachments": list(chat.pending_attachments)} if chat.pending_attachments else message


def error_message(error: Mapping[str, Any] | str, time: float) -> dict[str, Any]:
    """Return an assistant's message that says what went wrong."""
    said = {"content": error} if isinstance(error, str) else dict(error)
    return {"timestamp": time, **said, "role": "assistant", "_error": True}
