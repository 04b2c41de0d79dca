"""Between envelopes and rows: the part of the hot path that the write lock need not cover."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from engine.domain.encoding import decode_many, encode
from engine.domain.registry import Event
from engine.log.chain import digest
from engine.log.envelope import Envelope
from engine.log.errors import InvalidEventError, PayloadTooLargeError

STORED = (
    "stream",
    "version",
    "topic",
    "time",
    "actor",
    "command",
    "reason",
    "position",
    "event_id",
    "metadata",
    "state",
)
"""The columns of a row as it is read, in this order: an envelope's fields, its event not decoded."""


class Row(NamedTuple):
    """A row ready to be written: everything but its position, its hash and, if 0, its time."""

    stream: str
    version: int
    topic: str
    time: int
    actor: str
    command: str
    reason: str | None
    event_id: bytes | None
    metadata: str | None
    state: str | bytes
    digest: bytes
    event: Event | None


class SalvagedRow(NamedTuple):
    """A position of a damaged log: its row as far as it can be read, and what is wrong with it."""

    position: int
    row: Row | None
    """None if it cannot be read."""
    problem: str | None = None
    """Why it cannot be read, or that it does not match its hash."""
    checked: bool = True
    """True if it matches its hash; what follows a row that is lost cannot be held against one."""


class SalvagedRows(NamedTuple):
    """All that can be read of a damaged log."""

    last: int
    """Its last position."""
    end_known: bool
    """False if its end was cut off, so that nobody can say how much stood behind the last position."""
    rows: Iterator[SalvagedRow]


_new: Callable[[type[Row], Sequence[Any]], Row] = tuple.__new__
"""Makes a row in one step; a NamedTuple's own constructor is a function in Python."""


def to_row(envelope: Envelope, limit: int) -> Row:
    """Encode an envelope. Raise for what the log could not give back."""
    event, stream, metadata = envelope.event, envelope.stream, envelope.metadata
    if not isinstance(event, Event):
        raise _not_an_event(event)
    state = encode(event)
    topic, size = event.TOPIC, len(state) + len(stream)
    if metadata is not None:
        size += len(metadata)
    if size > limit:
        raise too_large(topic, stream, size, limit)
    fields = (
        stream,
        envelope.version,
        topic,
        envelope.time,
        envelope.actor,
        envelope.command,
        envelope.reason,
        envelope.event_id,
        metadata,
        state.decode(),
        digest(state),
        event,
    )
    return _new(Row, fields)


def to_rows(envelopes: Sequence[Envelope], limit: int) -> list[Row]:
    """Encode what one command appends."""
    try:
        return [to_row(envelope, limit) for envelope in envelopes]
    except (TypeError, AttributeError) as error:
        raise not_envelopes(error) from error


def to_envelopes(columns: Sequence[Sequence[Any]]) -> Iterator[Envelope]:
    """Return the envelopes of rows that are given column by column, in the order of STORED: the loops run in C."""
    streams, versions, topics, *others, states = columns
    return map(Envelope, streams, versions, decode_many(topics, states), *others)


def checked(envelope: Envelope) -> Event:
    """Return the envelope's event. Raise if it is none: what could not be decoded is not written again."""
    event = envelope.event
    if not isinstance(event, Event):
        raise _not_an_event(event)
    return event


def check_row(row: Row) -> None:
    """Raise what is wrong with a row that the database or the encoder refused, or that looks unusual."""
    for name in ("stream", "topic", "actor", "command", "reason", "metadata"):
        value = getattr(row, name)
        if value is not None or name not in ("reason", "metadata"):
            check_text(name, value)
    for name in ("version", "time"):
        if not _is_64_bit(getattr(row, name)):
            raise InvalidEventError(f"{name} must be a 64-bit integer, not {getattr(row, name)!r}")
    if row.event_id is not None and (not isinstance(row.event_id, bytes) or len(row.event_id) != 16):
        raise InvalidEventError("event_id must be the 16 bytes of a UUID")


def check_text(name: str, value: object) -> None:
    """Raise if a value cannot stand in a text column of every backend."""
    if not isinstance(value, str):
        raise InvalidEventError(f"{name} must be text, not {type(value).__name__}")
    if "\0" in value:
        raise InvalidEventError(
            f"{name} {value[:200]!r} has a NUL character; not every database can store it, remove it"
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidEventError(f"{name} {value[:200]!r} has lone surrogates; replace them first") from None


def check_time(time: object) -> None:
    """Raise if the log's clock gave something else than a time: the hash chain needs integers."""
    if not _is_64_bit(time):
        raise InvalidEventError(f"the log's clock must give UTC microseconds as an int, not {time!r}")


def not_envelopes(error: Exception) -> InvalidEventError:
    """Return the error for an argument of `append` that is no list of envelopes."""
    return InvalidEventError(f"append takes a list of envelopes, each with a text as its stream: {error}")


def too_large(topic: str, stream: str, size: int, limit: int) -> PayloadTooLargeError:
    """Return the error for an event over the payload limit."""
    return PayloadTooLargeError(
        f"a {topic} event of {size:,} bytes on {stream[:200]!r} is over the limit of {limit:,} bytes; "
        "store large content elsewhere and append a reference"
    )


def _not_an_event(content: object) -> InvalidEventError:
    return InvalidEventError(f"only events of the vocabulary can be written, not {type(content).__name__}")


def _is_64_bit(value: object) -> bool:
    return type(value) is int and -(1 << 63) <= value < 1 << 63
