"""Lanes in memory: bounded, and checked against the log before every answer."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import tzinfo
from typing import NamedTuple

import msgspec

from engine.domain.encoding import decode
from engine.domain.entry import SessionEntry
from engine.domain.events import LaneTouched, MessageAppended
from engine.domain.lane import Lane, entry_of
from engine.domain.session import Session
from engine.log.watch import Watch
from engine.work import Touch
from projections.inline import NAME as INLINE
from projections.routing import PREFIX as LANE
from projections.routing import find_lane
from projections.sessions import PREFIX as SESSION
from projections.sessions import find_session

_TOO_MANY = 10_000
_CHANGES = (
    "SELECT stream, topic, iif(topic = ?, state, NULL) FROM events WHERE position > ? AND position <= ? "
    f"AND topic <> '{MessageAppended.TOPIC}' AND topic NOT LIKE 'turn.%' ORDER BY position"
)
"""Messages and turns say nothing about where a lane leads."""
_ENDS = (
    "SELECT (SELECT coalesce(max(position), 0) FROM events), "
    f"(SELECT position FROM projections WHERE name = '{INLINE}')"
)


class Known(NamedTuple):
    """A lane in memory: how it stands, its session's head, and the entry to hand out copies of."""

    lane: Lane
    session: Session
    entry: SessionEntry


class LaneCache:
    """Where lanes lead, with their sessions' heads. Any commit of any process is seen before the next answer."""

    def __init__(
        self, watch: Watch, size: int, touches: Mapping[str, Touch], zone: Callable[[], tzinfo | None]
    ) -> None:
        self._zone = zone
        self._watch = watch
        self._size = size
        self._touches = touches
        self._entries: OrderedDict[str, Known] = OrderedDict()
        self._lanes_of: dict[str, set[str]] = {}
        self._position = 0
        self._behind = False
        self._mutex = threading.Lock()
        self.hits = 0
        self.misses = 0

    def find(self, key: str, *, load: bool = True) -> Known | None:
        """A lane with its session; None if it leads nowhere, or is not in memory and not to be read."""
        with self._mutex:
            if self._watch.changed():
                self._follow()
            found = self._entries.get(key)
            if found is not None:
                self.hits += 1
                self._entries.move_to_end(key)
                return found
            if not load or self._behind:
                return None
            self.misses += 1
            return self._load(key)

    def touch(self, known: Known, at: int) -> None:
        """Move a lane's idle clock in memory; the touch itself is written behind."""
        key = known.lane.key
        touched = Known(msgspec.structs.replace(known.lane, updated_at=at), known.session, known.entry)
        with self._mutex:
            if self._entries.get(key) is known:
                self._entries[key] = touched

    def _load(self, key: str) -> Known | None:
        lane = find_lane(self._watch.query, key)
        session = None if lane is None or lane.session_id is None else find_session(self._watch.query, lane.session_id)
        if lane is None or session is None:
            return None
        touch = self._touches.get(key)
        if touch is not None and touch.at > lane.updated_at:
            lane = msgspec.structs.replace(lane, updated_at=touch.at)
        known = Known(lane, session, entry_of(lane, self._zone()))
        self._entries[key] = known
        self._lanes_of.setdefault(session.session_id, set()).add(key)
        while len(self._entries) > self._size:
            self._forget(next(iter(self._entries)))
        return known

    def _forget(self, key: str) -> None:
        found = self._entries.pop(key, None)
        if found is not None:
            keys = self._lanes_of.get(found.session.session_id, set())
            keys.discard(key)
            if not keys:
                self._lanes_of.pop(found.session.session_id, None)

    def _follow(self) -> None:
        """Forget what the events since the last look have changed."""
        ((last, tables),) = self._watch.query(_ENDS)
        after, self._position = self._position, last
        self._behind = tables < last  # another program has appended; the next command brings them up to date
        if self._behind or last - after > _TOO_MANY:
            self._entries.clear()
            self._lanes_of.clear()
            return
        for stream, topic, state in self._watch.query(_CHANGES, (LaneTouched.TOPIC, after, last)):
            if topic == LaneTouched.TOPIC:
                self._apply_touch(stream.removeprefix(LANE), decode(topic, state))
            elif stream.startswith(LANE):
                self._forget(stream.removeprefix(LANE))
            elif stream.startswith(SESSION):
                for key in list(self._lanes_of.get(stream.removeprefix(SESSION), ())):
                    self._forget(key)

    def _apply_touch(self, key: str, event: object) -> None:
        found = self._entries.get(key)
        if found is not None and isinstance(event, LaneTouched) and event.at > found.lane.updated_at:
            touched = msgspec.structs.replace(found.lane, updated_at=event.at)
            self._entries[key] = Known(touched, found.session, found.entry)

    def __len__(self) -> int:
        return len(self._entries)
