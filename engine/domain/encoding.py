"""Events to JSON and back, without failing on hostile text and without ever stopping a replay.

JSON cannot hold a lone surrogate, NaN or an infinity, and Python refuses to print an int of over 4,300
digits. Such a value is stored as an object with one marker key, and comes back as the value it was:

    {"$text": "a\\ud800"}      a string with lone surrogates, in JSON's own escapes
    {"$float": "nan"}         nan, inf, -inf
    {"$int": "0x1f…"}         an int too long to print in decimal
    {"$pairs": [[k, v], …]}   a dict with a key that is such a string
    {"$dict": {…}}            a dict that itself looks like a marker
    {"$repr": "<object …>"}   something JSON has no word for, or nested deeper than 200 levels; it stays marked

The topic stands beside the payload, not in it: a second copy would cost space and could disagree.
NUL and ints of any usual size are plain JSON and need no marker. Bytes become base64 text, tuples and
sets become lists, keys become text: that is what JSON does to them.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from operator import call
from typing import Any, TypeVar, cast

import msgspec

from engine.domain import events as _vocabulary  # noqa: F401 - importing it fills the registry
from engine.domain.registry import EVENTS, UPCASTS, Event

_MAX_DEPTH = 200
_DEEP = 2 * _MAX_DEPTH
"""The bytes that the least payload of more levels has."""
_LONGEST_INT = 1 << 4096
_ERASED = "$erased"
_DOLLAR = ord("$")
_COMMA = ord(",")
TOMBSTONE_START = b'{"$erased":'
_TOMBSTONE = re.compile(rb'\{"\$erased":"([0-9a-f]{64})","at":(-?[0-9]{1,19})\}')
_ARCHIVED = "$archived"
ARCHIVED_START = b'{"$archived":'
_MARKER = re.compile(rb'\{"\$archived":"([0-9a-f]{64})","at":(-?[0-9]{1,19})[,}]')

_encode = msgspec.json.encode
_decode = msgspec.json.decode


class Unknown(msgspec.Struct, frozen=True):
    """An event of a tag this version does not know: kept whole, so that replay goes on."""

    topic: str
    data: dict[str, Any]


class Unreadable(msgspec.Struct, frozen=True):
    """A payload that does not fit its tag or is not JSON: kept raw, to be quarantined and reported."""

    topic: str
    raw: bytes
    error: str


class Erased(msgspec.Struct, frozen=True):
    """A payload that was erased on request; the digest still proves what stood there."""

    topic: str
    digest: str
    erased_at: int


class Archived(msgspec.Struct, frozen=True):
    """A message that was moved into an archive; its ids stay for the tables, and the digest proves what stood there."""

    topic: str
    digest: str
    archived_at: int
    message_id: str | None = None
    copy_of: int = 0


Content = Event | Unknown | Unreadable | Erased | Archived


_DECODERS: dict[str, Callable[[str | bytes], Event]] = {
    topic: msgspec.json.Decoder(cls).decode for topic, cls in EVENTS.items()
}
_call = cast("Callable[[Callable[[str | bytes], Event], str | bytes], Event]", call)
_TAGGED: dict[type[msgspec.Struct], int] = {cls: len(_encode({"type": topic})) - 1 for topic, cls in EVENTS.items()}
"""How many bytes msgspec's own tag takes at the start of each event."""


S = TypeVar("S", bound=msgspec.Struct)


def maybe_marked(data: str | bytes) -> bool:
    """Return True if JSON may hold a marked value. Looking for one character first is ten times as fast as for two."""
    if isinstance(data, str):
        return "$" in data and '"$' in data
    return _DOLLAR in data and b'"$' in data


def encode(event: msgspec.Struct) -> bytes:
    """Encode an event or a state; what JSON cannot hold is stored in marked form (G52)."""
    try:
        data = _encode(event)
        # msgspec writes NaN as null, so only a payload with a null can have lost one.
        unusual = b"null" in data or (_DOLLAR in data and b'"$' in data) or (len(data) > _DEEP and _maybe_deep(data))
        if unusual and _needs_marks(event):
            data = _encode(mark(event))
    except (UnicodeEncodeError, ValueError, TypeError, RecursionError):
        data = _encode(mark(event))
    start = _TAGGED.get(type(event))
    if start is None:  # a state, which has no tag
        return data
    return b"{" + data[start + (data[start] == _COMMA) :]


def decode(topic: str, data: bytes | str) -> Content:
    """Decode a payload; an unknown tag is kept as a dict and a broken payload as it is, never raised."""
    try:
        if not maybe_marked(data):
            return _DECODERS[topic](data)
    except (KeyError, msgspec.MsgspecError, UnicodeError, RecursionError, TypeError):
        pass  # told apart below, off the hot path
    return _decode_slowly(topic, data)


def decode_many(topics: Sequence[str], states: Sequence[str | bytes]) -> list[Content]:
    """Decode a batch, with loops in C if it is all plain, current events, which it nearly always is."""
    try:
        joined = "".join(states)  # type: ignore[arg-type] # a blob makes it a TypeError
        if not maybe_marked(joined):
            return list(map(_call, map(_DECODERS.__getitem__, topics), states))
    except (KeyError, msgspec.MsgspecError, UnicodeError, RecursionError, TypeError):
        pass  # one of them is special: found below
    return list(map(decode, topics, states))


def state_decoder(kind: type[S]) -> Callable[[str], S]:
    """Return a function that reads what `encode` wrote of one struct."""
    plain = msgspec.json.Decoder(kind)

    def read(data: str) -> S:
        return plain.decode(data) if not maybe_marked(data) else msgspec.convert(restore(_decode(data)), kind)

    return read


def _decode_slowly(topic: str, data: bytes | str) -> Content:
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    try:
        if raw.startswith(TOMBSTONE_START):
            return _erased(topic, raw)
        if raw.startswith(ARCHIVED_START):
            return _archived(topic, raw)
        tag, value = _upcast(topic, restore(_decode(raw)))
        cls = EVENTS.get(tag)
        return Unknown(topic, value) if cls is None else msgspec.convert(value, cls)
    except Exception as error:  # noqa: BLE001 - an upcast may raise anything, and replay must not stop
        kept = raw if isinstance(raw, bytes) else repr(raw).encode()
        return Unreadable(topic, kept, f"{type(error).__name__}: {error}")


def _upcast(topic: str, value: Any) -> tuple[str, dict[str, Any]]:
    """Return a payload in its current form and the tag of that form, which an upcast names as its "type"."""
    tag, done = topic, set()
    while True:
        if not isinstance(value, dict):
            raise TypeError("payload is not a JSON object")
        if tag not in UPCASTS:
            return tag, value
        if tag in done:
            raise ValueError(f"the upcast of {tag!r} leads back to it")
        done.add(tag)
        value = UPCASTS[tag](value)
        tag = value["type"]


def _erased(topic: str, raw: bytes) -> Erased:
    found = _TOMBSTONE.fullmatch(raw)
    if found is None:
        raise ValueError("neither an event nor the tombstone of one")
    return Erased(topic, found[1].decode(), int(found[2]))


def tombstone(digest: str, erased_at: int) -> str:
    """Return the payload that takes the place of an erased one and keeps its digest."""
    return _encode({_ERASED: digest, "at": erased_at}).decode()


def tombstone_digest(data: bytes | str) -> bytes | None:
    """Return the digest a tombstone keeps, or None for a payload that was not erased."""
    raw = data.encode() if isinstance(data, str) else data
    found = _TOMBSTONE.fullmatch(raw) if raw.startswith(TOMBSTONE_START) else None
    return bytes.fromhex(found[1].decode()) if found else None


class _Ids(msgspec.Struct, omit_defaults=True):
    """The ids that stay of an archived message, as they are written."""

    message_id: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    copy_of: int = 0


_read_ids = msgspec.json.Decoder(_Ids).decode


def archive_marker(payload: str, digest: str, archived_at: int) -> str:
    """Return the payload that takes the place of a message's in an archive; raise ValueError if that is no message."""
    if payload.startswith('{"$'):
        raise ValueError("this payload stands for another one already")
    stays = _encode(_read_ids(payload)).decode()[1:-1]
    return f'{{"{_ARCHIVED}":"{digest}","at":{archived_at}{"," if stays else ""}{stays}}}'


def archived_digest(data: bytes | str) -> bytes | None:
    """Return the digest of an archived payload that its marker keeps, or None for any other payload."""
    raw = data.encode() if isinstance(data, str) else data
    found = _MARKER.match(raw) if raw.startswith(ARCHIVED_START) else None
    return bytes.fromhex(found[1].decode()) if found else None


def _archived(topic: str, raw: bytes) -> Archived:
    found = _MARKER.match(raw)
    if found is None:
        raise ValueError("neither an event nor the marker of an archived one")
    value = restore(_decode(raw))
    return msgspec.convert({**value, "topic": topic, "digest": value[_ARCHIVED], "archived_at": value["at"]}, Archived)


def _is_marker(value: dict[Any, Any]) -> bool:
    return len(value) == 1 and next(iter(value)) in _RESTORE


def _maybe_deep(data: bytes) -> bool:
    return data.count(b"[") + data.count(b"{") > _MAX_DEPTH


def _needs_marks(value: Any, depth: int = 0) -> bool:
    if isinstance(value, float):
        return not math.isfinite(value)
    if isinstance(value, msgspec.Struct):
        items: Iterable[Any] = [getattr(value, name) for name in value.__struct_fields__]
    elif isinstance(value, dict):
        if _is_marker(value):
            return True
        items = value.values()
    elif isinstance(value, (list, tuple, set, frozenset)):
        items = value
    else:
        return False
    return depth > _MAX_DEPTH or any(_needs_marks(item, depth + 1) for item in items)


def mark(value: Any, path: tuple[int, ...] = ()) -> Any:
    """Turn any value into one JSON can hold, marking what it could not; `path` is what contains it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value) if encodable(value) else {"$text": json.dumps(value)[1:-1]}
    if isinstance(value, int):
        return int(value) if -_LONGEST_INT < value < _LONGEST_INT else {"$int": hex(value)}
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": repr(value)}
    if len(path) > _MAX_DEPTH:
        return {"$repr": f"nested deeper than {_MAX_DEPTH} levels"}
    if id(value) in path:
        return {"$repr": "what contains it"}
    path = (*path, id(value))
    if isinstance(value, dict):
        return _mark_dict(value, path)
    if isinstance(value, (list, tuple, set, frozenset)):
        return [mark(item, path) for item in value]
    if isinstance(value, msgspec.Struct):
        return _mark_struct(value, path)
    try:
        return msgspec.to_builtins(value, str_keys=True)
    except (TypeError, ValueError, RecursionError):
        return {"$repr": _printable(value)}


def _mark_dict(value: dict[Any, Any], path: tuple[int, ...]) -> Any:
    if not all(encodable(str(key)) for key in value):
        return {"$pairs": [[mark(str(key)), mark(item, path)] for key, item in value.items()]}
    marked = {str(key): mark(item, path) for key, item in value.items()}
    return {"$dict": marked} if _is_marker(value) else marked


def _mark_struct(value: msgspec.Struct, path: tuple[int, ...]) -> dict[str, Any]:
    config = value.__struct_config__
    marked: dict[str, Any] = {config.tag_field: config.tag} if config.tag_field else {}
    for field in msgspec.structs.fields(value):
        item = getattr(value, field.name)
        if not (config.omit_defaults and item is field.default):
            marked[field.encode_name] = mark(item, path)
    return marked


def encodable(text: str) -> bool:
    """Return True if a text is without lone surrogates."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _printable(value: Any) -> str:
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a foreign __repr__ may raise anything; the message must not be lost for it
        text = f"<{type(value).__name__}, whose repr failed: {type(error).__name__}>"
    return text.encode("utf-8", "backslashreplace").decode()


def restore(value: Any) -> Any:
    """Turn marked values back into what they were."""
    if isinstance(value, list):
        return [restore(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _is_marker(value):
        [(marker, item)] = value.items()
        return _RESTORE[marker](item)
    return {key: restore(item) for key, item in value.items()}


_RESTORE: dict[str, Any] = {
    "$text": lambda item: json.loads(f'"{item}"'),
    "$float": float,
    "$int": lambda item: int(item, 16),
    "$pairs": lambda item: {restore(key): restore(each) for key, each in item},
    "$dict": lambda item: {key: restore(each) for key, each in item.items()},
    "$repr": lambda item: {"$repr": item},
}
