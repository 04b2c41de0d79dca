"""Between envelopes and rows: the part of the hot path that the writer's lock need not cover."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from eventsourcing.persistence import Mapper, Notification, StoredEvent

from engine.domain.encoding import TOMBSTONE_START, decode, encode
from engine.domain.envelope import Envelope
from engine.domain.registry import Event
from engine.log.chain import digest
from engine.log.errors import InvalidEventError, PayloadTooLargeError


class Row(msgspec.Struct, frozen=True, gc=False):
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


def to_row(envelope: Envelope, limit: int) -> Row:
    """Encode an envelope; refuses what the log could not give back."""
    event, stream, metadata = envelope.event, envelope.stream, envelope.metadata
    if not isinstance(event, Event):
        raise _not_an_event(event)
    state = encode(event)
    topic, size = event.TOPIC, len(state) + len(stream)
    if metadata is not None:
        size += len(metadata)
    if size > limit:
        raise _too_large(topic, stream, size, limit)
    return Row(
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


def to_rows(envelopes: Sequence[Envelope], limit: int) -> list[Row]:
    """Encode what one command appends."""
    try:
        return [to_row(envelope, limit) for envelope in envelopes]
    except (TypeError, AttributeError) as error:
        raise not_envelopes(error) from error


def not_envelopes(error: Exception) -> InvalidEventError:
    return InvalidEventError(f"append takes a list of envelopes, each with a text as its stream: {error}")


def _too_large(topic: str, stream: str, size: int, limit: int) -> PayloadTooLargeError:
    return PayloadTooLargeError(
        f"a {topic} event of {size:,} bytes on {stream[:200]!r} is over the limit of {limit:,} bytes; "
        "store large content elsewhere and append a reference"
    )


def _not_an_event(content: object) -> InvalidEventError:
    return InvalidEventError(f"only events of the vocabulary can be written, not {type(content).__name__}")


def checked(envelope: Envelope) -> Event:
    """The envelope's event, if it is one: what could not be decoded is not written again."""
    event = envelope.event
    if not isinstance(event, Event):
        raise _not_an_event(event)
    return event


def stored_row(stored: StoredEvent, limit: int) -> Row:
    """A row from an event the library's mapper encoded; JSON becomes text, anything else stays a blob."""
    stream, topic, state = str(stored.originator_id), stored.topic, stored.state
    if len(state) + len(stream) > limit:
        raise _too_large(topic, stream, len(state) + len(stream), limit)
    if state.startswith(TOMBSTONE_START):
        raise InvalidEventError(f"the payload of a {topic} event on {stream!r} looks like that of an erased one")
    if stored.originator_version < 0 and not isinstance(stored, EnvelopedEvent):
        raise InvalidEventError(f"{stored.originator_version} is not a version of stream {stream!r}")
    content: str | bytes = state
    if state[:1] == b"{" and b"\0" not in state:
        try:
            content = state.decode()
        except UnicodeDecodeError:
            content = state
    columns: Columns = stored.columns if isinstance(stored, EnvelopedEvent) else (0, "", "", None, None, None)
    return Row(stream, stored.originator_version, topic, *columns, content, digest(state), None)


def check_row(row: Row) -> None:
    """Raise what is wrong with a row that the database or the encoder refused, or that looks unusual."""
    for name in ("stream", "topic", "actor", "command", "reason", "metadata"):
        value = getattr(row, name)
        if value is None and name in ("reason", "metadata"):
            continue
        if not isinstance(value, str):
            raise InvalidEventError(f"{name} must be text, not {type(value).__name__}")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidEventError(
                f"{name} {value!r} has lone surrogates; clean it before it becomes a name"
            ) from None
    for name in ("version", "time"):
        if not _is_64_bit(getattr(row, name)):
            raise InvalidEventError(f"{name} must be a 64-bit integer, not {getattr(row, name)!r}")
    if row.event_id is not None and (not isinstance(row.event_id, bytes) or len(row.event_id) != 16):
        raise InvalidEventError("event_id must be the 16 bytes of a UUID")


def check_time(time: object) -> None:
    """Raise if the log's clock gave something else than a time: the hash chain needs integers."""
    if not _is_64_bit(time):
        raise InvalidEventError(f"the log's clock must give UTC microseconds as an int, not {time!r}")


def _is_64_bit(value: object) -> bool:
    return type(value) is int and -(1 << 63) <= value < 1 << 63


Columns = tuple[int, str, str, str | None, bytes | None, str | None]
"""Time, actor, command, reason, event id and metadata: what the library's stored events have no room for."""


class _SameEvent:
    """Equality by the library's four fields, so that a row read back equals the plain event written."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StoredEvent) and _four(cast(StoredEvent, self)) == _four(other)

    def __hash__(self) -> int:
        return hash(_four(cast(StoredEvent, self)))


def _four(stored: StoredEvent) -> tuple[object, ...]:
    return stored.originator_id, stored.originator_version, stored.topic, stored.state


@dataclass(frozen=True, eq=False)
class EnvelopedEvent(_SameEvent, StoredEvent):
    """A stored event that keeps its envelope."""

    columns: Columns


@dataclass(frozen=True, eq=False)
class EnvelopedNotification(_SameEvent, Notification):
    """A notification that keeps its envelope."""

    columns: Columns


class EventMapper(Mapper[str]):
    """The library's mapper contract over the vocabulary's own encoding.

    The stock mapper spends most of an append and of a replay in Python; here the tagged union does the
    work in C, and there are no transcodings to look up and no classes to resolve.
    """

    def to_stored_event(self, domain_event: Any) -> StoredEvent:
        envelope: Envelope = domain_event
        columns = (
            envelope.time,
            envelope.actor,
            envelope.command,
            envelope.reason,
            envelope.event_id,
            envelope.metadata,
        )
        event = checked(envelope)
        return EnvelopedEvent(envelope.stream, envelope.version, event.TOPIC, encode(event), columns)

    def to_domain_event(self, stored_event: StoredEvent) -> Any:
        content = decode(stored_event.topic, stored_event.state)
        position = stored_event.id if isinstance(stored_event, Notification) else 0
        stream, version = str(stored_event.originator_id), stored_event.originator_version
        if isinstance(stored_event, (EnvelopedEvent, EnvelopedNotification)):
            time, actor, command, reason, event_id, metadata = stored_event.columns
            return Envelope(stream, version, content, time, actor, command, reason, position, event_id, metadata)
        return Envelope(stream, version, content, position=position)
