"""Following a log: what is there, then what comes, from any process; nothing left out, nothing told twice (V14)."""

import time
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple, Self

from engine.domain.keys import check_session_id, check_session_key
from engine.domain.streams import LOG, lane_stream, session_stream
from engine.log.envelope import Envelope
from engine.log.errors import ClosedLogError, ForkedLogError
from engine.log.protocol import Log
from engine.log.rows import to_envelopes
from engine.validation import check_size, checked_texts, checked_timeout
from projections.inline.lanes import lanes_of, sessions_of
from projections.inline.projection import position
from projections.inline.transcripts import erased_at

_BATCH = 250
_WINDOW = 20_000
"""Events that are looked at for those that are wanted, in one query."""
_STALE_SECONDS = 0.05
PAUSE_SECONDS = 0.05


class Batch(NamedTuple):
    """Some events, up to which position was looked for them, and whether more are there that cannot be judged yet."""

    events: list[Envelope]
    position: int
    erased_at: int
    held_back: bool = False


class Changes:
    """The part of a log that is followed. It is read a batch at a time, and remembers nothing."""

    def __init__(
        self, log: Log, topics: Sequence[str] | None, lanes: Sequence[str] | None, sessions: Sequence[str] | None
    ) -> None:
        self._log = log
        self._topics = () if topics is None else checked_texts("topics", topics)
        self._lanes = None if lanes is None else [check_session_key(each) for each in checked_texts("lanes", lanes)]
        given = None if sessions is None else checked_texts("sessions", sessions)
        self._sessions = None if given is None else {session_stream(check_session_id(each)) for each in given}

    def read(self, after: int, unless: int = -1) -> Batch | None:
        """Return the next events; None if the last erasure is still the one at `unless`: what was read is good."""
        reads = self._log.reader
        erased = erased_at(reads)
        if erased == unless:
            return None
        last = end = reads.last_position()
        if after > last:
            raise ValueError(
                f"position {after} is after the end of the log, which is at {last}: it is of another log, or this one "
                "was set back to a copy; follow from a position of this log"
            )
        if self._lanes is not None:  # which sessions a lane has led to is known up to there
            end = min(end, position(reads))
        upto = min(after + (_WINDOW if self._is_filtered else _BATCH), end)
        if upto <= after:
            return Batch([], after, erased, last > after)
        streams = self._streams()
        rows = reads.stored(after, upto, self._topics, _BATCH, streams)
        found = list(to_envelopes(list(zip(*rows, strict=True)))) if rows else []
        looked = found[-1].position if len(found) == _BATCH else upto
        return Batch([each for each in found if self._concerns(each, streams)], looked, erased)

    @property
    def _is_filtered(self) -> bool:
        return bool(self._topics) or self._lanes is not None or self._sessions is not None

    def _streams(self) -> frozenset[str] | None:
        """Return the streams that are followed: of sessions, and of lanes with every session they ever led to."""
        if self._lanes is None and self._sessions is None:
            return None
        found = {LOG, *(self._sessions or ())}
        for key in self._lanes or ():
            found.update(map(lane_stream, lanes_of(self._log.reader, key)))
            found.update(map(session_stream, sessions_of(self._log.reader, key)))
        return frozenset(found)

    def _concerns(self, change: Envelope, streams: frozenset[str] | None) -> bool:
        """Return False for what happened to the log, unless it happened to events that are followed."""
        if streams is None or change.stream != LOG:
            return True
        touched = getattr(change.event, "positions", ())
        return any(each.stream in streams for each in self._log.reader.recorded_at(touched))


class Place:
    """Events that were read and not handed out yet, and the position to go on from."""

    def __init__(self, after: int) -> None:
        check_size("after", after)
        self.position = self._looked = after
        self._ready: deque[Envelope] = deque()
        self._checked_at: float | None = None
        self._erased_at = -1

    def take(self) -> Envelope | None:
        """Return the next event, or None if something must be read first."""
        if not self._ready:
            self.position = self._looked
            return None
        now = time.monotonic()
        if self._checked_at is not None and now - self._checked_at > _STALE_SECONDS:  # it may have been erased since
            return None
        self._checked_at = self._checked_at or now
        change = self._ready.popleft()
        self.position = change.position
        return change

    @property
    def unless(self) -> int:
        """Return the erasure that what is here has seen, to read nothing if it is still the last."""
        return self._erased_at if self._ready else -1

    def fill(self, batch: Batch | None) -> bool:
        """Take in what was read; return False if there is nothing new."""
        self._checked_at = None  # the next event is good, however long it takes to hand it out
        if batch is None:
            return True
        moved = batch.position > self.position
        self._ready, self._looked, self._erased_at = deque(batch.events), batch.position, batch.erased_at
        return moved


class Follower:
    """Yields the changes of a store in order, then waits for more; each has the position to go on from.

    It holds nothing open, and at most 250 changes in memory, however slow its user is. Close it from any thread to end
    it. With a `timeout` the iteration ends when nothing came for so many seconds, and goes on when it is begun again.
    """

    def __init__(self, log: Log, changes: Changes, after: int, timeout: float | None) -> None:
        self._log = log
        self._changes = changes
        self._place = Place(after)
        self._timeout = checked_timeout(timeout)
        self._closed = False

    @property
    def position(self) -> int:
        """The position up to which everything was handed out: follow from there after a reconnect."""
        return self._place.position

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Envelope:
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        try:
            while not self._closed:
                change = self._place.take()
                if change is not None:
                    return change
                batch = self._changes.read(self._place.position, self._place.unless)
                if self._place.fill(batch):
                    continue
                left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
                if batch is not None and batch.held_back:
                    if left == 0:
                        break
                    self._log.wait(self._log.last_position, PAUSE_SECONDS, self._is_closed)
                elif not self._log.wait(self._place.position, left, self._is_closed):
                    break
        except ForkedLogError:
            raise
        except ClosedLogError:  # the store was closed: that is the end of what can be followed
            self._closed = True
        raise StopIteration

    def _is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """End the iteration, also one that waits in another thread."""
        self._closed = True
        self._log.wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
