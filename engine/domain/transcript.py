"""Messages: what is kept of one, how a transcript's events fold, and where an undo cuts (G46 to G51)."""

from collections.abc import Mapping, Sequence
from typing import Any

from engine.domain.events import MessageAppended

_IDS = ("platform_message_id", "message_id")
_ASSISTANT_ONLY = frozenset(
    {"reasoning", "reasoning_content", "reasoning_details", "codex_reasoning_items", "codex_message_items"}
)


def normalised(message: object) -> tuple[dict[str, Any], str | None]:
    """What is stored of a message, and its platform id. Unknown keys are kept as they are.

    Reasoning belongs to the assistant; on another role it is a copying mistake and is dropped.
    """
    if not isinstance(message, Mapping):
        raise ValueError(f"a message must be a dict, not {type(message).__name__}: {message!r:.200}")
    kept = {key if type(key) is str else str(key): value for key, value in message.items() if key not in _IDS}
    role = kept.get("role")
    kept["role"] = "unknown" if role is None else str(role)
    if kept["role"] != "assistant" and not _ASSISTANT_ONLY.isdisjoint(kept):
        kept = {key: value for key, value in kept.items() if key not in _ASSISTANT_ONLY}
    return kept, platform_id(message)


def platform_id(message: Mapping[str, Any]) -> str | None:
    """The id that makes an append idempotent (G47); an empty one is none."""
    for name in _IDS:
        value = message.get(name)
        if value is not None and value != "":
            if isinstance(value, (bool, float)) or not isinstance(value, (str, int)):
                raise ValueError(f"{name} must be text or a whole number, not {value!r}")
            return str(value)
    return None


def appended(message: object) -> MessageAppended:
    """The event of one message."""
    kept, message_id = normalised(message)
    return MessageAppended(message=kept, message_id=message_id)


def whole(message: object) -> dict[str, Any]:
    """A message as it stands in a rewritten history: with its platform id inside."""
    kept, message_id = normalised(message)
    return kept if message_id is None else {**kept, "message_id": message_id}


def undo_point(roles: Sequence[str | None], turns: int) -> tuple[int, int] | None:
    """Where an undo of some turns cuts: how many messages stay, how many turns go; None without a user's (G51)."""
    asked = [index for index, role in enumerate(roles) if role == "user"]
    if not asked:
        return None
    undone = min(max(turns, 1), len(asked))
    return asked[-undone], undone


def text_of(content: object) -> str:
    """The words of a message's content: a text, or its text parts joined by newlines."""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else part for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str) and text)
