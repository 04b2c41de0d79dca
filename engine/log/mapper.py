"""Between envelopes and rows: the part of the hot path that the writer's lock need not cover."""

import os
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from eventsourcing.persistence import Mapper, Notification, StoredEvent

from engine.domain.encoding import decode, encode
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
    event_id: bytes
    metadata: str | None
    state: str | bytes
    digest: bytes
    event: Event | None


def to_row(envelope: Envelope, limit: int) -> Row:
    """Encode an envelope; refuses what the log could not give back."""
    event = checked(envelope)
    return make_row(
        envelope.stream,
        envelope.version,
        event.TOPIC,
        encode(event),
        limit,
        envelope.time,
        envelope.actor,
        envelope.command,
        envelope.reason,
        envelope.event_id,
        envelope.metadata,
        event,
    )


def checked(envelope: Envelope) -> Event:
    """The envelope's event, if it is one: what could not be decoded is not written again."""
    event = envelope.event
    if not isinstance(event, Event):
        raise InvalidEventError(f"only events of the vocabulary can be written, not {type(event).__name__}")
    return event


def make_row(
    stream: str,
    version: int,
    topic: str,
    state: bytes,
    limit: int,
    time: int = 0,
    actor: str = "",
    command: str = "",
    reason: str | None = None,
    event_id: bytes | None = None,
    metadata: str | None = None,
    event: Event | None = None,
) -> Row:
    """Build a row from encoded state; JSON is stored as text so that any SQLite client can read it."""
    if len(state) > limit:
        raise PayloadTooLargeError(
            f"a {topic} event of {len(state):,} bytes on {stream!r} is over the limit of {limit:,} bytes; "
            "store large content elsewhere and append a reference"
        )
    content: str | bytes = state
    if state[:1] == b"{" and b"\0" not in state:
        try:
            content = state.decode()
        except UnicodeDecodeError:
            content = state
    return Row(
        stream,
        version,
        topic,
        time,
        actor,
        command,
        reason,
        event_id or os.urandom(16),
        metadata,
        content,
        digest(state),
        event,
    )


def check_row(row: Row) -> None:
    """Explain why a row cannot be stored: only called when the database or the encoder refused it."""
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
        value = getattr(row, name)
        if not isinstance(value, int) or not -(1 << 63) <= value < 1 << 63:
            raise InvalidEventError(f"{name} must be a 64-bit integer, not {value!r}")
    if not isinstance(row.event_id, bytes) or len(row.event_id) != 16:
        raise InvalidEventError("event_id must be the 16 bytes of a UUID")


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
