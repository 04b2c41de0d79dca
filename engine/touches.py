"""Touches are written behind: routing answers at once, and what moved the idle clocks follows in a batch.

A touch that a power cut loses moves an idle clock back by a blink. Everything else a store does is
acknowledged only when it is durable.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType

from engine.domain.lane import moves
from engine.log.mutex import Flag, Mutex, check_outside
from engine.work import Touch

logger = logging.getLogger("engine.store")

DELAY_SECONDS = 0.05
_RETRY_SECONDS = 1.0
_AT_ONCE = 500


class Touches:
    """The newest touch of each lane that is not in the log yet, and the thread that puts it there."""

    def __init__(self, write: Callable[[list[str]], None], delay: float = DELAY_SECONDS) -> None:
        self._write = write
        self._delay = delay
        self._pending: dict[str, Touch] = {}
        self.pending: Mapping[str, Touch] = MappingProxyType(self._pending)
        self._flushing = Mutex()
        self._work = Flag()
        self._stopped = Flag()
        self._thread: threading.Thread | None = None
        self._starting = Mutex()

    def add(self, key: str, touch: Touch) -> None:
        """Remember a touch; a later one of the same lane takes its place."""
        known = self._pending.get(key)
        if known is None or known.at == touch.at or moves(known.at, touch.at):
            self._pending[key] = touch
        if not self._work.is_set():
            self._work.set()
            if self._thread is None:
                self._start()

    def _start(self) -> None:
        if self._starting.is_mine():  # a signal handler has interrupted who starts it
            return
        with self._starting.once():
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._loop, name="session-touches", daemon=True)
                self._thread.start()

    def settle(self, written: Mapping[str, Touch]) -> None:
        """Forget touches that are in the log now, unless a newer one came."""
        for key, touch in written.items():
            if self._pending.get(key) == touch:
                self._pending.pop(key, None)

    def flush(self) -> None:
        """Flush pending touches, and return when they are durable; those added meanwhile go with the next batch."""
        with self._flushing.once():
            waiting = list(self._pending)
            for start in range(0, len(waiting), _AT_ONCE):
                self._write(waiting[start : start + _AT_ONCE])

    def _loop(self) -> None:
        while not self._stopped.is_set():
            self._work.wait()
            if self._stopped.wait(self._delay):
                return
            self._work.clear()
            try:
                self.flush()
            except Exception as error:  # noqa: BLE001 - also a clock that failed: the next attempt may succeed
                logger.warning("touches of %d lanes stay pending, not written: %s", len(self._pending), error)
                self._work.set()
                self._stopped.wait(_RETRY_SECONDS)

    def abandon_after_fork(self) -> None:
        """Drop pending touches in the child of a fork: the parent writes them, and its thread may hold any lock."""
        self._pending.clear()
        self._flushing, self._starting = Mutex(), Mutex()
        self._work, self._stopped, self._thread = Flag(), Flag(), None
        self._stopped.set()

    def check_may_close(self) -> None:
        """Raise NestedCommandError if this thread is flushing: the other one may wait for it."""
        check_outside(self._flushing, self._starting)

    def close(self) -> None:
        """Stop the thread and write what is left."""
        self._stopped.set()
        self._work.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self.flush()
