"""The one runner of all views: a thread that follows the log, in every process that has the store open (V3 to V6)."""

import logging
import threading
import time
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter

import msgspec

from engine.log.errors import LogError
from engine.log.mutex import Flag, Waiters
from engine.log.protocol import Log, Tables
from projections.views import progress
from projections.views.catchup import CatchUp
from projections.views.progress import NEXT, SERVING, Progress
from projections.views.view import View

logger = logging.getLogger("engine.views")

_START_SECONDS = 0.1
"""A store that is closed at once never makes the file."""
_GATHER_SECONDS = 0.02
"""How long events gather before they are applied: batches cost less, and appends go first."""
_REST = 3.0
"""So much longer than it worked the runner rests while nobody waits for it: appends and routes go first."""
_LONGEST_REST = 0.25
_IDLE_SECONDS = 1.0
_RETRY_SECONDS = 1.0
_POLL_SECONDS = 0.02


class ViewStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The position of a view (V4), and of the one that is made behind it (V6)."""

    name: str
    position: int
    lag_events: int
    lag_seconds: float
    building_position: int | None = None
    events_per_second: float = 0.0
    seconds_left: float | None = None
    quarantined: int = 0
    error: str | None = None


class ViewRunner:
    """Keeps views at the end of the log. What goes wrong with them never reaches an append."""

    def __init__(self, log: Log, tables: Tables, views: Sequence[View]) -> None:
        self._log = log
        self._tables = tables
        self._names = [view.name for view in views]
        self._catch_up = CatchUp(log, tables, views)
        self._prepared = False
        self._stopped = Flag()
        self._asked = Waiters()
        self._changed = Waiters()
        self._asking: set[object] = set()
        self._thread: threading.Thread | None = None
        self._error: str | None = None
        self._rate = 0.0

    def start(self) -> None:
        """Follow the log from a thread of its own."""
        if self._thread is None and self._names:
            self._thread = threading.Thread(target=self._loop, name="session-views", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop following; a batch that is being applied is finished first."""
        self._stopped.set()
        self._asked.wake()
        self._log.wake()
        self._changed.wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._tables.close()

    def abandon_after_fork(self) -> None:
        """Give up the thread in the child of a fork: it is the parent's, and may have held the lock."""
        self._stopped, self._asked, self._changed, self._thread = Flag(), Waiters(), Waiters(), None
        self._stopped.set()

    # Following

    def _loop(self) -> None:
        self._stopped.wait(_START_SECONDS)
        while not self._stopped.is_set():
            started = time.monotonic()
            try:
                done = self.step()
                self._error = None
                if done:
                    self._rest(time.monotonic() - started)
                else:
                    self._wait_for_events()
            except Exception as error:  # noqa: BLE001 - a full disk, a damaged file: told, and tried again
                self._failed(error)

    def step(self) -> int:
        """Apply at most a batch to every view; return how many events were applied."""
        if not self._prepared:
            self._catch_up.prepare()
            self._prepared = True
        end = self._log.reader.last_position()
        parts = self._catch_up.behind()
        if len(parts) < len(self._names):  # the file was deleted, or a view is new
            self._catch_up.prepare()
            parts = self._catch_up.behind()
        behind = sorted((each for each in parts.values() if each.position < end), key=attrgetter("position"))
        done = 0
        for _, group in groupby(behind, key=attrgetter("position")):
            done += self._advance(list(group), end)
        if done:
            self._changed.wake()
        return done

    def _advance(self, parts: list[Progress], end: int) -> int:
        started = time.monotonic()
        done = self._catch_up.advance(parts, end)
        seconds = time.monotonic() - started
        if done and seconds:
            self._rate = 0.8 * self._rate + 0.2 * done / seconds if self._rate else done / seconds
        return done

    def _failed(self, error: Exception) -> None:
        if self._prepared and self._was_deleted():
            self._prepared = False
            return
        said = f"{type(error).__name__}: {error}"
        if said != self._error:
            logger.warning("the views stand still, the store goes on: %s", said)
        self._error, self._prepared = said, False
        self._stopped.wait(_RETRY_SECONDS)

    def _was_deleted(self) -> bool:
        """Return True if the file was deleted under a step, and is a new one without tables: that is no error."""
        try:
            return not self._tables.defined("views")
        except LogError:
            return False

    def _rest(self, worked: float) -> None:
        self._pause(min(_REST * worked, _LONGEST_REST))

    def _wait_for_events(self) -> None:
        behind = self.position()
        if self._log.wait(behind, _IDLE_SECONDS, self._stopped.is_set):
            self._pause(_GATHER_SECONDS)

    def _pause(self, seconds: float) -> None:
        """Do nothing for a time, unless somebody waits for the views or they are stopped."""
        self._asked.wait(seconds, lambda: self._asking or self._stopped.is_set())

    # Asking

    @property
    def error(self) -> str | None:
        """Return what keeps the views from following; None if nothing does."""
        return self._error

    @property
    def stopped(self) -> bool:
        """Return True once the views follow no more."""
        return self._stopped.is_set()

    def position(self, names: Sequence[str] = ()) -> int:
        """Return how far the view that is furthest behind serves, of all views or of some."""
        parts = progress.progress_of(self._tables)
        found = [parts.get((name, SERVING)) for name in names or self._names]
        return min((0 if each is None else each.position for each in found), default=self._log.last_position)

    def wait(self, position: int, timeout: float | None = None, names: Sequence[str] = ()) -> bool:
        """Block until all views, or some, have seen a position; return False if that took too long (V4)."""
        if self._reached(position, names):
            return True
        deadline = None if timeout is None else time.monotonic() + timeout
        self._tables.check_outside()  # a signal handler that waits there would keep the runner from them
        me = object()
        self._asking.add(me)
        self._asked.wake()
        try:
            self._log.wake()
            while not self._stopped.is_set():
                if self._reached(position, names):
                    return True
                left = _POLL_SECONDS if deadline is None else min(_POLL_SECONDS, deadline - time.monotonic())
                if left <= 0:
                    return False
                self._changed.wait(left, self._stopped.is_set)
            return False
        finally:
            self._asking.discard(me)

    def _reached(self, position: int, names: Sequence[str]) -> bool:
        try:
            return not self._stopped.is_set() and self.position(names) >= position
        except LogError:  # the runner tells what is wrong with the file
            return False

    def rebuild(self, names: Sequence[str] = ()) -> None:
        """Make views anew behind those that serve; all of them without names (V6)."""
        self.check_names(names)
        self._catch_up.prepare()  # the thread may not have begun yet
        for name in names or self._names:
            self._catch_up.begin_rebuild(name)
        self._log.wake()

    def check_names(self, names: Sequence[str]) -> None:
        """Raise ValueError for a name that no view has."""
        unknown = sorted(set(names) - set(self._names))
        if unknown:
            raise ValueError(f"there is no view {unknown[0]!r}; there are {', '.join(self._names)}")

    def status(self, now: int) -> list[ViewStatus]:
        """Return how far each view is; `now` is in UTC microseconds."""
        try:
            parts = progress.progress_of(self._tables)
            aside = [name for name, _, _ in progress.quarantined(self._tables)]
        except LogError as error:
            parts, aside = {}, []
            self._error = self._error or f"{type(error).__name__}: {error}"
        last = self._log.last_position
        return [self._status_of(name, parts, aside.count(name), last, now) for name in self._names]

    def _status_of(
        self, name: str, parts: dict[tuple[str, str], Progress], aside: int, last: int, now: int
    ) -> ViewStatus:
        serving, following = parts.get((name, SERVING)), parts.get((name, NEXT))
        position = 0 if serving is None else serving.position
        behind = last - (position if following is None else following.position)
        return ViewStatus(
            name=name,
            position=position,
            lag_events=max(last - position, 0),
            lag_seconds=self._lag_seconds(position, last, now),
            building_position=None if following is None else following.position,
            events_per_second=round(self._rate, 1),
            seconds_left=round(behind / self._rate, 1) if behind > 0 and self._rate else None,
            quarantined=aside,
            error=self._error,
        )

    def _lag_seconds(self, position: int, last: int, now: int) -> float:
        """Return for how long the oldest event that the view has not seen waits."""
        if position >= last:
            return 0.0
        oldest = self._log.reader.recorded_at([position + 1])
        return max((now - oldest[0].time) / 1e6, 0.0) if oldest else 0.0
