"""Messages: what is kept of one, its platform id, its words, and where an undo cuts (G46, G47, G51)."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from engine.domain.events import MessageAppended

_IDS = frozenset({"platform_message_id", "message_id"})
_TEXT = frozenset({str})
_ASSISTANT_ONLY = frozenset(
    {"reasoning", "reasoning_content", "reasoning_details", "codex_reasoning_items", "codex_message_items"}
)


def normalised(message: object) -> tuple[dict[str, Any], str | None]:
    """Return what is stored of a message, and its platform id. Unknown keys are kept as they are.

    A missing role becomes "unknown". Reasoning belongs to the assistant; on another role it is a copying
    mistake and is dropped.
    """
    if type(message) is not dict and not isinstance(message, Mapping):
        raise ValueError(f"a message must be a dict, not {type(message).__name__}: {message!r:.200}")
    if _IDS.isdisjoint(message) and _TEXT.issuperset(map(type, message)):
        kept, message_id = dict(message), None
    else:
        kept = {key if type(key) is str else str(key): value for key, value in message.items() if key not in _IDS}
        message_id = platform_id(message)
    role = kept.get("role")
    if type(role) is not str:
        kept["role"] = "unknown" if role is None else str(role)
    if role != "assistant" and not _ASSISTANT_ONLY.isdisjoint(kept):
        kept = {key: value for key, value in kept.items() if key not in _ASSISTANT_ONLY}
    return kept, message_id


def platform_id(message: Mapping[str, Any]) -> str | None:
    """Return the id that makes an append idempotent (G47); an empty one is none."""
    for name in ("platform_message_id", "message_id"):
        value = message.get(name)
        if value is not None and value != "":
            if isinstance(value, (bool, float)) or not isinstance(value, (str, int)):
                raise ValueError(f"{name} must be text or a whole number, not {value!r}")
            return str(value)
    return None


def appended(message: object) -> MessageAppended:
    """Return the event of one message."""
    kept, message_id = normalised(message)
    return MessageAppended(message=kept, message_id=message_id)


def whole(message: object) -> dict[str, Any]:
    """Return a message as it stands in a rewritten history: with its platform id inside."""
    kept, message_id = normalised(message)
    return kept if message_id is None else {**kept, "message_id": message_id}


def same_message(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Return True if two messages say the same, whether or not reading has added a time to one of them (G49b)."""
    if "timestamp" not in one or "timestamp" not in other:
        one, other = ({key: value for key, value in each.items() if key != "timestamp"} for each in (one, other))
    return one == other


class UndoPoint(NamedTuple):
    """The cut of an undo: how many messages it hides, how many turns, and the first message that it hides."""

    hidden: int
    turns: int
    target: Mapping[str, Any]


def undo_point(newest_first: Iterable[Mapping[str, Any] | None], turns: int) -> UndoPoint | None:
    """Return where an undo of so many turns cuts, at the most of all; None without a user's message (G51).

    The messages are read no further than needed.
    """
    found: UndoPoint | None = None
    for hidden, message in enumerate(newest_first, 1):
        if message is not None and message.get("role") == "user":
            found = UndoPoint(hidden, 1 if found is None else found.turns + 1, message)
            if found.turns >= turns:
                break
    return found


def text_of(content: object) -> str:
    """Return the words of a message's content: a text, or its text parts joined by newlines."""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) and part.get("type") == "text" else part for part in parts]
    return "\n".join(text for text in texts if isinstance(text, str) and text)
