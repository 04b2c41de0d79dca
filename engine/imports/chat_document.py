"""A chat as one JSON document, with the fields that web clients write (W1, W20)."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from engine.chat_session import ChatSession
from engine.chat_values import check_chat_id, checked_attributes, checked_chat_title, checked_flag
from engine.domain.chat_messages import kept, stored
from engine.domain.chat_rows import ATTRIBUTES, time_of
from engine.domain.encoding import mark
from engine.imports.found_message import FoundMessage
from engine.imports.times import micros
from engine.validation import checked_list, checked_name, checked_number, checked_text, checked_usage

_DERIVED = frozenset({"message_count", "last_message_at", "is_streaming", "version", "extra"})
_OWN = frozenset(ChatSession.__struct_fields__) | _DERIVED
_WHOLE = frozenset({"context_length", "threshold_tokens", "last_prompt_tokens", "compression_anchor_visible_idx"})
_encode = msgspec.json.Encoder(order="deterministic").encode


class OpenTurn(msgspec.Struct, frozen=True, kw_only=True):
    """The turn that was open in a chat."""

    stream_id: str
    started_at: float | None
    message: str | None
    attachments: list[Any]


class ChatDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A chat as a document has it, checked. Times are UTC microseconds, None where the document has none."""

    session_id: str | None
    title: str | None
    created_at: int | None
    updated_at: int | None
    attributes: dict[str, Any]
    messages: list[dict[str, Any]]
    context: list[dict[str, Any]]
    tool_calls: list[Any]
    pinned: bool
    archived: bool
    project_id: str | None
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    turn: OpenTurn | None


def read_document(document: Mapping[str, Any]) -> ChatDocument:
    """Return a document's chat; raise ValueError for a field that cannot be used. Unknown fields are kept."""
    if not isinstance(document, Mapping):
        raise ValueError(f"a session must be a dict with the fields of a ChatSession, not {document!r:.200}")
    extra = document.get("extra") or {}
    if not isinstance(extra, Mapping):
        raise ValueError(f"extra must be a dict of unknown fields, not {extra!r:.200}")
    found = {str(name): value for name, value in {**extra, **document}.items()}
    given = {name: value for name, value in found.items() if _is_attribute(name, value)}
    session_id, title, project_id = found.get("session_id"), found.get("title"), found.get("project_id")
    usage = _usage(found)
    return ChatDocument(
        session_id=None if session_id is None else check_chat_id(session_id),
        title=None if title is None else checked_chat_title(title),
        created_at=_time(found, "created_at"),
        updated_at=_time(found, "updated_at"),
        attributes=stored(checked_attributes({name: _plain(name, value) for name, value in given.items()})),
        messages=[kept(each) for each in checked_list(found.get("messages") or ())],
        context=[kept(each) for each in _list(found, "context_messages")],
        tool_calls=stored(_list(found, "tool_calls")),
        pinned=checked_flag("pinned", found.get("pinned") or False),
        archived=checked_flag("archived", found.get("archived") or False),
        project_id=check_chat_id(project_id, "project_id") if project_id else None,
        input_tokens=usage["input_tokens"],
        output_tokens=usage["output_tokens"],
        cost_usd=usage["cost_usd"],
        turn=_turn(found),
    )


def _is_attribute(name: str, value: object) -> bool:
    return value is not None if name in ATTRIBUTES else name not in _OWN


def _plain(name: str, value: Any) -> Any:
    """Return an attribute as it is meant: clients write a whole number as a float too, and any collection as a list."""
    if name in _WHOLE and isinstance(value, float) and value.is_integer():
        return int(value)
    return None if name == "enabled_toolsets" and not isinstance(value, (list, tuple)) else value


def _list(found: Mapping[str, Any], name: str) -> list[Any]:
    """Return a list of a document; what is none is an empty one (W1)."""
    value = found.get(name)
    return list(value) if isinstance(value, (list, tuple)) else []


def _time(found: Mapping[str, Any], name: str) -> int | None:
    return None if found.get(name) is None else micros(found[name])


def _usage(found: Mapping[str, Any]) -> dict[str, Any]:
    named = {"input_tokens": found.get("input_tokens") or 0, "output_tokens": found.get("output_tokens") or 0}
    cost = {"cost_usd": found.get("estimated_cost")}
    checked_usage({"last_prompt_tokens": None, "cache_read_tokens": 0, "cache_write_tokens": 0, **named, **cost})
    return named | cost


def _turn(found: Mapping[str, Any]) -> OpenTurn | None:
    """Return the open turn; that of a client that died has no stream."""
    stream_id, message = found.get("active_stream_id"), found.get("pending_user_message")
    if not stream_id and message is None:
        return None
    started_at = found.get("pending_started_at")
    return OpenTurn(
        stream_id=checked_name("active_stream_id", stream_id) if stream_id else "",
        started_at=None if started_at is None else float(checked_number("pending_started_at", started_at)),
        message=None if message is None else checked_text("pending_user_message", message),
        attachments=stored(_list(found, "pending_attachments")),
    )


def timed(messages: Iterable[dict[str, Any]], start: int, after: int = 0) -> Iterator[FoundMessage]:
    """Yield messages behind a place, each with the time it gives itself, else that of the one before it."""
    time = start
    for place, message in enumerate(messages, 1):
        said = time_of(message)
        if said is not None and said <= 1e11:
            time = micros(said)
        if place > after:
            yield FoundMessage(place, time, message)


def fingerprint(value: object) -> str:
    """Return a digest of a value, to see later whether it is another one."""
    return hashlib.blake2b(_encode(mark(value)), digest_size=16).hexdigest()
