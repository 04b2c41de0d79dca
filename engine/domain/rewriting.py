"""Rewriting a history: which of its messages stood in the former one, and where those were recorded first."""

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

from engine.domain.encoding import archived_digest, encode
from engine.domain.errors import ArchivedError
from engine.domain.events import MessageAppended
from engine.domain.transcript import Row


class Place(NamedTuple):
    """A message of the former history: its own time if it has one, when it was recorded, where, and where first."""

    timestamp: Any
    time: int
    position: int
    origin: int


class _Recorded(msgspec.Struct):
    """A message as JSON: equal texts say the same, whatever the order of their keys is."""

    message: dict[str, Any]
    message_id: Any = None
    copy_of: int = 0


_read = msgspec.json.Decoder(_Recorded).decode
_write = msgspec.json.Encoder(order="deterministic").encode


class FormerHistory:
    """The live messages of a history, to be recognised when they are given back, and what it inherited with an id."""

    def __init__(self, live: Iterable[Row], inherited: Sequence[int]) -> None:
        self._inherited = inherited
        self._places: defaultdict[bytes, deque[Place]] = defaultdict(deque)
        for row in live:
            if archived_digest(row[2]) is not None:  # which messages are copies of it cannot be told
                raise ArchivedError(row[3])
            try:
                recorded = _read(row[2])
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                continue  # erased, or it cannot be read: nobody can have got it from here
            name, timestamp = _taken_apart(recorded)
            self._places[name].append(Place(timestamp, row[4], row[3], recorded.copy_of or row[3]))

    def recognised(self, messages: Sequence[MessageAppended]) -> list[Place | None]:
        """Return the place each message had, each place once; None for a message that is new or was changed."""
        return [self._place_of(message) for message in messages]

    def left_out(self, places: Iterable[Place | None]) -> tuple[int, ...]:
        """Return the positions of the messages with platform ids that were inherited and are not among these."""
        kept = {place.position for place in places if place is not None}
        return tuple(position for position in self._inherited if position not in kept)

    def _place_of(self, message: MessageAppended) -> Place | None:
        name, timestamp = _taken_apart(_read(encode(message)))
        places = self._places[name]
        for index, place in enumerate(places):
            if timestamp is None or timestamp == (place.time / 1e6 if place.timestamp is None else place.timestamp):
                del places[index]
                return place
        return None


def _taken_apart(recorded: _Recorded) -> tuple[bytes, Any]:
    """Return what a message says, with its platform id wherever that stands, and its own time."""
    message = {key: value for key, value in recorded.message.items() if key not in ("timestamp", "message_id")}
    named = recorded.message_id or recorded.message.get("message_id")
    return _write([message, named]), recorded.message.get("timestamp")
