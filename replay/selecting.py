"""Events by who, where, when and what: the filters that every question about a log shares (R3)."""

from collections.abc import Callable, Iterator
from datetime import datetime, tzinfo
from typing import Any

import msgspec

from engine.domain.encoding import Archived, Content, Erased, Unknown, Unreadable
from engine.domain.events import LaneRouted, SessionCreated
from engine.domain.streams import LANE, SESSION
from engine.domain.times import moment
from engine.log.envelope import Envelope
from engine.log.protocol import Log

_BATCH = 500
_MUCH = 5_000
"""Events that are read one after another rather than that streams are looked for."""
_ENOUGH = 50_000
"""Streams whose names are remembered."""
_OF_LANES = ("session_id", "previous_session_id")


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a log. Each filter takes any of its values, and all filters must hold; an empty one takes all."""

    after: int = 0
    upto: int | None = None
    platforms: tuple[str, ...] = ()
    chats: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()
    users: tuple[str, ...] = ()
    lanes: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    actors: tuple[str, ...] = ()


class EventRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An event with where it happened. `payload` is what it says, and of an erased one what is left."""

    position: int
    time: datetime
    type: str
    actor: str
    command: str
    reason: str | None
    lane: str | None
    session_id: str | None
    platform: str | None
    chat_id: str | None
    thread_id: str | None
    user_id: str | None
    stream: str
    version: int
    payload: dict[str, Any]


class _Place(msgspec.Struct, frozen=True):
    lane: str | None = None
    session_id: str | None = None
    platform: str | None = None
    chat_id: str | None = None
    thread_id: str | None = None
    user_id: str | None = None


def select_events(
    log: Log, selection: Selection, zone: tzinfo | None, *, backwards: bool = False
) -> Iterator[EventRecord]:
    """Yield the events of a part of a log by position, or the newest first."""
    places = _Places(log)
    holds = _filters(selection)
    for envelope in _envelopes(log, selection, backwards=backwards):
        record = places.record(envelope, zone)
        if all(hold(record) for hold in holds):
            yield record


def _envelopes(log: Log, selection: Selection, *, backwards: bool) -> Iterator[Envelope]:
    upto = log.last_position if selection.upto is None else min(selection.upto, log.last_position)
    if selection.lanes and upto - selection.after > _MUCH:
        return _of_lanes(log, selection, upto, backwards=backwards)
    return _newest_first(log, selection) if backwards else _oldest_first(log, selection)


def _of_lanes(log: Log, selection: Selection, upto: int, *, backwards: bool) -> Iterator[Envelope]:
    """Yield the events of the lanes that are asked for: their streams are found first, and nothing else is read."""
    reads, types = log.reader, selection.types
    streams = reads.streams_begun_with(LANE, "key", selection.lanes)
    streams += reads.streams_begun_with(SESSION, "lane", selection.lanes)
    positions = [each for each in reads.positions_of(streams, upto) if each > selection.after]
    if backwards:
        positions.reverse()
    for first in range(0, len(positions), _BATCH):
        found = reads.recorded_at(positions[first : first + _BATCH])
        yield from (each for each in (found[::-1] if backwards else found) if not types or each.event.topic in types)


def _oldest_first(log: Log, selection: Selection) -> Iterator[Envelope]:
    return log.events(selection.after, selection.upto, selection.types)


def _newest_first(log: Log, selection: Selection) -> Iterator[Envelope]:
    upto = log.last_position if selection.upto is None else min(selection.upto, log.last_position)
    while upto > selection.after:
        after = max(upto - _BATCH, selection.after)
        found = list(log.events(after, upto, selection.types))
        yield from reversed(found)
        upto = after


def stream_filter(log: Log, selection: Selection) -> Callable[[str], bool]:
    """Return what tells whether a stream is of a place that is asked for; of sessions, lanes are not told apart."""
    holds = [_one_of(field, frozenset(values)) for field, values in _placed(selection).items() if values]
    if not (holds or selection.sessions):
        return lambda _: True
    places, wanted = _Places(log), {f"{SESSION}{each}" for each in selection.sessions}

    def is_there(stream: str) -> bool:
        asked = stream in wanted if wanted and stream.startswith(SESSION) else stream.startswith((LANE, SESSION))
        return asked and all(hold(places.of(stream)) for hold in holds)

    return is_there


def _placed(selection: Selection) -> dict[str, tuple[str, ...]]:
    return {
        "platform": selection.platforms,
        "chat_id": selection.chats,
        "thread_id": selection.threads,
        "user_id": selection.users,
        "lane": selection.lanes,
    }


def _filters(selection: Selection) -> list[Callable[[EventRecord], bool]]:
    """Return what must hold of an event; the types are asked of the log itself."""
    named = {**_placed(selection), "actor": selection.actors}
    holds: list[Callable[[EventRecord], bool]] = [
        _one_of(field, frozenset(values)) for field, values in named.items() if values
    ]
    if selection.sessions:
        wanted = frozenset(selection.sessions)
        holds.append(lambda record: record.session_id in wanted or not wanted.isdisjoint(_mentioned(record)))
    return holds


def _one_of(field: str, values: frozenset[str]) -> "Callable[[EventRecord | _Place], bool]":
    return lambda record: getattr(record, field) in values


def _mentioned(record: EventRecord) -> set[str]:
    """Return the sessions that an event of a lane leads to or leaves."""
    found = (record.payload.get(name) for name in _OF_LANES)
    return {each for each in found if isinstance(each, str)}


class _Places:
    """Knows where the events of a stream happen: its first event says so."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[str, _Place] = {}

    def record(self, envelope: Envelope, zone: tzinfo | None) -> EventRecord:
        place = self._known.get(envelope.stream) or self._of(envelope)
        payload = payload_of(envelope.event)
        session_id = place.session_id or payload.get("session_id")
        return EventRecord(
            position=envelope.position,
            time=moment(envelope.time, zone),
            type=envelope.event.topic,
            actor=envelope.actor,
            command=envelope.command,
            reason=envelope.reason,
            lane=place.lane,
            session_id=session_id if isinstance(session_id, str) else None,
            platform=place.platform,
            chat_id=place.chat_id,
            thread_id=place.thread_id,
            user_id=place.user_id,
            stream=envelope.stream,
            version=envelope.version,
            payload=payload,
        )

    def of(self, stream: str) -> _Place:
        """Return the place of a stream by its name."""
        found = self._known.get(stream)
        if found is None:
            first = next(iter(self._log.stream(stream, 0, 1)), None)
            found = _Place() if first is None else self._keep(stream, first.event)
        return found

    def _of(self, envelope: Envelope) -> _Place:
        stream = envelope.stream
        first = envelope
        if envelope.version > 1:
            first = next(iter(self._log.stream(stream, 0, 1)), envelope)
        return self._keep(stream, first.event)

    def _keep(self, stream: str, event: Content) -> _Place:
        place = _place(stream, event)
        if len(self._known) >= _ENOUGH:
            self._known.clear()
        self._known[stream] = place
        return place


def _place(stream: str, event: Content) -> _Place:
    session_id = stream.removeprefix(SESSION) if stream.startswith(SESSION) else None
    match event:
        case LaneRouted() if stream.startswith(LANE):
            return _from(event.origin, event.key, None)
        case SessionCreated():
            return _from(event.source, event.lane, session_id)
        case _:
            return _Place(session_id=session_id)


def _from(source: dict[str, Any] | None, lane: str | None, session_id: str | None) -> _Place:
    given = source or {}
    names = ("platform", "chat_id", "thread_id", "user_id")
    found = [str(given[name]) if given.get(name) not in (None, "") else None for name in names]
    return _Place(lane, session_id, *found)


def payload_of(event: Content) -> dict[str, Any]:
    """Return what an event says, as JSON's types."""
    match event:
        case Unknown():
            return event.data
        case Unreadable():
            return {"unreadable": event.error, "raw": event.raw.decode("utf-8", "replace")}
        case Erased():
            return {"erased": True, "digest": event.digest}
        case Archived():
            return {"archived": True, "digest": event.digest}
        case _:
            payload: dict[str, Any] = msgspec.to_builtins(event)
            payload.pop("type", None)
            return payload
