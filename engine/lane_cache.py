"""Lanes in memory: bounded, and checked against the log before every answer."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from datetime import tzinfo

import msgspec

from engine.domain import events as e
from engine.domain.entry import SessionEntry
from engine.domain.lane import Lane, touched
from engine.domain.registry import Event
from engine.domain.streams import LOG, SESSION, lane_stream
from engine.log.envelope import Envelope
from engine.log.mutex import Mutex
from engine.log.protocol import Watch
from engine.work import Touch
from projections.inline.lanes import entry_of, find_lane, look_up
from projections.inline.projection import position as tables_position
from projections.inline.sessions import find_session

_TOO_MANY = 10_000
_SILENT: frozenset[type[Event]] = frozenset(
    {
        e.MessageAppended,
        e.MessageRewritten,
        e.LaneTouched,
        e.TurnBegun,
        e.TurnRenewed,
        e.TurnEnded,
        e.TurnInterrupted,
        e.StoreOpened,
        e.StoreClosed,
        e.EventQuarantined,
    }
)
"""Events that say nothing about where a lane leads."""
_SILENT_TOPICS = tuple(kind.TOPIC for kind in _SILENT)


class Kept(msgspec.Struct, frozen=True):
    """A lane in memory whose session is live: its state, and the entry to hand out copies of."""

    lane: Lane
    entry: SessionEntry


class Absent(msgspec.Struct, frozen=True):
    """That no lane has a key, at a position of the log; `used` if one had it before."""

    at: int
    used: bool


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
        self._keys_of: dict[str, tuple[str, ...]] = {}
        self._position = 0
        self._behind = False
        self._suspect = True
        self.mutex = Mutex()
        self._lock = self.mutex.lock
        self._epoch = self._epoch_seen = 0
        self.hits = 0
        self.misses = 0

    def find(self, key: str, *, fresh: bool = False) -> Kept | Absent | None:
        """Return the lane of a key, or that there is none; None if it is on an ended session.

        `fresh` reads the lane anew, for the touches of other processes.
        """
        with self.mutex.once():
            seen_at, lane = -1, None
            if fresh or key not in self._entries:
                seen_at, lane, used = look_up(self._watch, key)
                if lane is None:
                    self.misses += 1
                    return Absent(seen_at, used)
            self._check()
            if fresh:
                self._forget(key)
            found = self._entries.get(key)
            if found is not None:
                self.hits += 1
                self._entries.move_to_end(key)
                return found
            if self._behind:
                return None
            self.misses += 1
            return self._load(key, lane if seen_at == self._position else find_lane(self._watch, key))

    def touch(self, kept: Kept, at: int) -> None:
        """Move a lane's idle clock in memory; the touch itself is written behind."""
        key = kept.lane.key
        moved = Kept(touched(kept.lane, at), kept.entry)
        with self._lock:
            if self._entries.get(key) is kept:
                self._entries[key] = moved

    def committed(self, before: int, after: int, events: Iterable[Envelope]) -> None:
        """Take note of a commit of this process, so that the next answer need not read what it changed.

        Where a signal handler has interrupted another note it is not taken: the next answer reads what changed.
        """
        if self.mutex.is_mine():
            return
        with self._lock:
            if self._position == before and not self._suspect and self._epoch == self._epoch_seen:
                for each in events:
                    if type(each.event) not in _SILENT:
                        self._forget_stream(each.stream)
                self._position = after

    def forget(self) -> None:
        """Forget everything: the tables were rebuilt."""
        self._epoch += 1

    def abandon_after_fork(self) -> None:
        """Replace the lock in the child of a fork: a thread that is not there may hold it."""
        self.mutex = Mutex()
        self._lock = self.mutex.lock

    def _check(self) -> None:
        """Forget what anybody has changed since the last look.

        Whatever interrupts this, a signal or a failing read, leaves the cache suspect, and the next look forgets
        everything: a change that was seen but not acted upon would be lost for good.
        """
        epoch = self._epoch
        suspect, self._suspect = self._suspect or epoch != self._epoch_seen, True
        if self._watch.changed() or suspect or self._behind:
            self._follow(everything=suspect)
        self._epoch_seen = epoch
        self._suspect = False

    def _follow(self, *, everything: bool) -> None:
        last = self._watch.last_position()
        if everything or self._behind or last - self._position > _TOO_MANY or last < self._position:
            self._entries.clear()
            self._keys_of.clear()
        elif last > self._position:
            for stream in self._watch.changed_streams(self._position, last, _SILENT_TOPICS):
                self._forget_stream(stream)
        if everything or self._behind or last != self._position:
            self._behind = tables_position(self._watch) < last  # the next command brings them up to date
        self._position = last

    def _forget_stream(self, stream: str) -> None:
        if stream == LOG:  # an erasure may have changed any lane
            self._entries.clear()
            self._keys_of.clear()
        for key in self._keys_of.get(stream, ()):
            self._forget(key)

    def _load(self, key: str, lane: Lane | None) -> Kept | Absent | None:
        if lane is None:
            return Absent(self._position, used=True)
        session = None if lane.session_id is None else find_session(self._watch, lane.session_id)
        if session is None or session.end_reason is not None:
            return None
        touch = self._touches.get(key)
        if touch is not None:
            lane = touched(lane, touch.at)
        entry = entry_of(lane, self._zone())
        # What is to be judged is small; the rest is in the entry.
        slim = msgspec.structs.replace(lane, origin=None, display_name=None, model_override=None)
        kept = Kept(slim, entry)
        for stream in _streams(kept):  # first what will forget the lane: nothing may interrupt its being kept
            self._keys_of[stream] = (*self._keys_of.get(stream, ()), key)
        self._entries[key] = kept
        while len(self._entries) > self._size:
            self._forget(next(iter(self._entries)))
        return kept

    def _forget(self, key: str) -> None:
        found = self._entries.pop(key, None)
        if found is not None:
            for stream in _streams(found):
                others = tuple(other for other in self._keys_of.get(stream, ()) if other != key)
                if others:  # in one step: an interrupt must not leave the others without what forgets them
                    self._keys_of[stream] = others
                else:
                    self._keys_of.pop(stream, None)

    def __len__(self) -> int:
        return len(self._entries)


def _streams(kept: Kept) -> tuple[str, str]:
    """Return the streams whose events change where a lane leads."""
    return lane_stream(kept.lane.lane_id), SESSION + kept.entry.session_id
