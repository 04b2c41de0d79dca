"""Lanes in memory: bounded, and checked against the log before every answer."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import tzinfo
from typing import NamedTuple

import msgspec

from engine.domain.entry import SessionEntry
from engine.domain.envelope import LOG_STREAM
from engine.domain.events import LaneTouched, MessageAppended
from engine.domain.lane import Lane, entry_of
from engine.log.watch import Watch
from engine.work import Touch
from projections.inline import NAME as INLINE
from projections.routing import PREFIX as LANE
from projections.routing import find_lane
from projections.sessions import PREFIX as SESSION
from projections.sessions import find_session

_TOO_MANY = 10_000
_CHANGES = (
    "SELECT DISTINCT stream FROM events WHERE position > ? AND position <= ? "
    f"AND topic NOT IN ('{MessageAppended.TOPIC}', '{LaneTouched.TOPIC}') AND topic NOT LIKE 'turn.%'"
)
"""Messages and turns say nothing about where a lane leads."""
_ENDS = (
    "SELECT (SELECT coalesce(max(position), 0) FROM events), "
    f"(SELECT position FROM projections WHERE name = '{INLINE}')"
)


class Kept(NamedTuple):
    """A lane in memory whose session is live: how it stands, and the entry to hand out copies of."""

    lane: Lane
    entry: SessionEntry


class LaneCache:
    """Lanes that lead to live sessions. Any commit of any process is seen before the next answer.

    But for touches: a lane whose idle clock another process has moved may look staler here than it is.
    That only makes the store look again, under the write lock, before it decides anything.
    """

    def __init__(
        self, watch: Watch, size: int, touches: Mapping[str, Touch], zone: Callable[[], tzinfo | None]
    ) -> None:
        self._zone = zone
        self._watch = watch
        self._size = size
        self._touches = touches
        self._entries: OrderedDict[str, Kept] = OrderedDict()
        self._lanes_of: dict[str, tuple[str, ...]] = {}
        self._position = 0
        self._behind = False
        self._mutex = threading.Lock()
        self.hits = 0
        self.misses = 0

    def find(self, key: str, *, load: bool = True, fresh: bool = False) -> Kept | None:
        """A lane on a live session; None if it is on none, or is not in memory and not to be read.

        `fresh` reads it in any case, for the touches of other processes.
        """
        with self._mutex:
            if self._watch.changed():
                self._follow()
            if fresh:
                self._forget(key)
            found = self._entries.get(key)
            if found is not None:
                self.hits += 1
                self._entries.move_to_end(key)
                return found
            if not load or self._behind:
                return None
            self.misses += 1
            return self._load(key)

    def touch(self, kept: Kept, at: int) -> None:
        """Move a lane's idle clock in memory; the touch itself is written behind."""
        key = kept.lane.key
        touched = Kept(msgspec.structs.replace(kept.lane, updated_at=at), kept.entry)
        with self._mutex:
            if self._entries.get(key) is kept:
                self._entries[key] = touched

    def forget(self, key: str) -> None:
        """Read a lane again when it is next asked for."""
        with self._mutex:
            self._forget(key)

    def abandon_after_fork(self) -> None:
        """In the child of a fork: a thread that is not there may hold the lock."""
        self._mutex = threading.Lock()

    def _load(self, key: str) -> Kept | None:
        lane = find_lane(self._watch.query, key)
        session = None if lane is None or lane.session_id is None else find_session(self._watch.query, lane.session_id)
        if lane is None or session is None or session.end_reason is not None:
            return None
        touch = self._touches.get(key)
        if touch is not None and touch.at > lane.updated_at:
            lane = msgspec.structs.replace(lane, updated_at=touch.at)
        entry = entry_of(lane, self._zone())
        # What is to be judged is small; the rest is in the entry.
        slim = msgspec.structs.replace(lane, origin=None, display_name=None, model_override=None)
        kept = self._entries[key] = Kept(slim, entry)
        self._lanes_of[session.session_id] = (*self._lanes_of.get(session.session_id, ()), key)
        while len(self._entries) > self._size:
            self._forget(next(iter(self._entries)))
        return kept

    def _forget(self, key: str) -> None:
        found = self._entries.pop(key, None)
        if found is not None:
            session_id = found.entry.session_id
            others = tuple(other for other in self._lanes_of.get(session_id, ()) if other != key)
            self._lanes_of.pop(session_id, None)
            if others:
                self._lanes_of[session_id] = others

    def _follow(self) -> None:
        """Forget what the events since the last look have changed."""
        ((last, tables),) = self._watch.query(_ENDS)
        after, self._position = self._position, last
        self._behind = tables < last  # another program has appended; the next command brings them up to date
        if self._behind or last - after > _TOO_MANY:
            self._entries.clear()
            self._lanes_of.clear()
            return
        for (stream,) in self._watch.query(_CHANGES, (after, last)):
            if stream == LOG_STREAM:  # an erasure may have changed any lane
                self._entries.clear()
                self._lanes_of.clear()
            elif stream.startswith(LANE):
                self._forget(stream.removeprefix(LANE))
            elif stream.startswith(SESSION):
                for key in self._lanes_of.get(stream.removeprefix(SESSION), ()):
                    self._forget(key)

    def __len__(self) -> int:
        return len(self._entries)
