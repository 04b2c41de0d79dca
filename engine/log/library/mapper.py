"""The library's mapper and stored events, without losing what an envelope holds."""

from dataclasses import dataclass
from typing import Any, cast

from eventsourcing.persistence import Mapper, Notification, StoredEvent

from engine.domain.encoding import ARCHIVED_START, TOMBSTONE_START, decode, encode
from engine.log.chain import digest
from engine.log.envelope import Envelope
from engine.log.errors import InvalidEventError
from engine.log.rows import Row, check_text, checked, too_large

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


def stored_row(stored: StoredEvent, limit: int) -> Row:
    """Return a row from an event the library's mapper encoded; JSON becomes text, anything else stays a blob."""
    stream, topic, state = str(stored.originator_id), stored.topic, stored.state
    check_text("topic", topic)
    if len(state) + len(stream) > limit:
        raise too_large(topic, stream, len(state) + len(stream), limit)
    if state.startswith((TOMBSTONE_START, ARCHIVED_START)):
        raise InvalidEventError(
            f"the payload of a {topic} event on {stream!r} looks like that of an erased or archived one"
        )
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
