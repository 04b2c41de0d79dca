"""A chat's messages as its client gave them, told apart and compared by their places (W8)."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from engine.domain import events as e
from engine.domain.chat_events import ContextReplaced, ToolCallsReplaced
from engine.domain.encoding import Archived, Content, Erased, decode, mark, restore
from engine.domain.errors import ArchivedError
from engine.domain.messages import undo_point
from engine.domain.transcript import Report, Row

LEFT: dict[str, Any] = {"role": "unknown", "content": "", "_erased": True}
"""In the place of a message that was erased or cannot be read: the places of the others stay."""

_json = msgspec.json.Encoder(order="deterministic").encode


def said(rows: Sequence[Row], report: Report) -> list[dict[str, Any]]:
    """Return fresh objects of messages, as they were given: nothing is added but a platform's id."""
    return [_said(row, report) for row in rows]


def _said(row: Row, report: Report) -> dict[str, Any]:
    found = decode(row[1], row[2])
    if isinstance(found, (e.MessageAppended, e.MessageRewritten)):
        return found.message if found.message_id is None else {**found.message, "message_id": found.message_id}
    if isinstance(found, Archived):
        raise ArchivedError(row[3])
    if not isinstance(found, Erased):
        report(row[3], getattr(found, "error", "not a message"))
    return dict(LEFT)


def kept(message: object) -> dict[str, Any]:
    """Return a message as it comes back once it was stored."""
    if not isinstance(message, Mapping):
        raise ValueError(f"a message must be a dict, not {type(message).__name__}: {message!r:.200}")
    found: dict[str, Any] = stored({str(key): value for key, value in message.items()})
    return found


def stored(value: object) -> Any:
    """Return a value as it comes back once it was stored."""
    return restore(msgspec.json.decode(msgspec.json.encode(mark(value))))


def same(one: object, other: object) -> bool:
    """Return True if two stored values are the same; unlike for `==`, NaN is itself and 1 is not True."""
    return _json(mark(one)) == _json(mark(other))


def rewritten(message: dict[str, Any]) -> e.MessageAppended:
    """Return a message of a history that is rewritten: a platform's id stays one."""
    message_id = message.get("message_id")
    if not isinstance(message_id, str) or not message_id:
        return e.MessageAppended(message=message)
    return e.MessageAppended(
        message={key: value for key, value in message.items() if key != "message_id"}, message_id=message_id
    )


class Difference(NamedTuple):
    """The way a visible list goes on from the stored one: keys added to stored messages by place, and what is new."""

    added: dict[int, dict[str, Any]]
    new: list[dict[str, Any]]


def difference(before: Sequence[dict[str, Any]], given: Sequence[dict[str, Any]]) -> Difference:
    """Return how a list goes on from the stored one; raise ValueError if it does not (W8)."""
    if len(given) < len(before):
        raise ValueError(
            f"messages has {len(given)} of the {len(before)} stored ones; nothing is taken away because a list is "
            "shorter: give all of them, or use truncate_session(), undo() or compress_session()"
        )
    added = {}
    for place, (old, new) in enumerate(zip(before, given, strict=False)):
        if old != new and not same(old, new):
            added[place] = _added(place, old, new)
    return Difference(added, list(given[len(before) :]))


def _added(place: int, old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    for key, value in old.items():
        if key not in new or not same(new[key], value):
            raise ValueError(
                f"messages[{place}] has another {key!r} than the stored one; a stored message may only get more keys. "
                "Read the session again, or use compress_session() for another history"
            )
    return {key: value for key, value in new.items() if key not in old}


def replacing(before: Sequence[Any], given: Sequence[Any]) -> tuple[int, list[Any]] | None:
    """Return how many of a list stay and what comes after them; None if it stays as it is."""
    keep = 0
    while keep < min(len(before), len(given)) and same(before[keep], given[keep]):
        keep += 1
    return None if keep == len(before) == len(given) else (keep, list(given[keep:]))


def folded(events: Iterable[Content]) -> list[Any]:
    """Return a context or tool calls as their events made them; what stood on an erased one does not come back."""
    found: list[Any] | None = []
    for event in events:
        match event:
            case ContextReplaced() | ToolCallsReplaced() if found is not None or not event.keep:
                new = event.messages if isinstance(event, ContextReplaced) else event.tool_calls
                found = [*(found or ())[: event.keep], *new]
            case Erased():
                found = None
    return found or []


def without_turns(context: Sequence[Any], turns: int) -> int:
    """Return how many messages of a context stay when so many user turns are taken off it (W9)."""
    point = undo_point(reversed(context), turns) if turns else None
    return len(context) if point is None else len(context) - point.hidden


def turns_in(messages: Iterable[object]) -> int:
    """Return how many user turns begin in messages."""
    return sum(isinstance(message, Mapping) and message.get("role") == "user" for message in messages)
