"""Touches are written behind: routing answers at once, and what moved the idle clocks follows in a batch.

A touch that a power cut loses moves an idle clock back by a blink. Everything else a store does is
acknowledged only when it is durable.
"""

import logging
import threading
from collections.abc import Callable, Mapping
from types import MappingProxyType

from engine.domain.errors import EngineError
from engine.work import Touch

logger = logging.getLogger("engine.store")

DELAY_SECONDS = 0.05
_RETRY_SECONDS = 1.0
TOUCHES_AT_ONCE = 500


class Touches:
    """The newest touch of each lane that is not in the log yet, and the thread that puts it there."""

    def __init__(self, write: Callable[[], None], delay: float = DELAY_SECONDS) -> None:
        self._write = write
        self._delay = delay
        self._pending: dict[str, Touch] = {}
        self._flushing = threading.Lock()
        self._work = threading.Event()
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()

    @property
    def pending(self) -> Mapping[str, Touch]:
        return MappingProxyType(self._pending)

    def add(self, key: str, touch: Touch) -> None:
        """Remember a touch; a later one of the same lane takes its place."""
        self._pending[key] = touch
        if not self._work.is_set():
            self._work.set()
            if self._thread is None:
                self._start()

    def _start(self) -> None:
        with self._starting:
            if self._thread is None and not self._stopped.is_set():
                self._thread = threading.Thread(target=self._loop, name="session-touches", daemon=True)
                self._thread.start()

    def settle(self, written: Mapping[str, Touch]) -> None:
        """Forget touches that are in the log now, unless a newer one came."""
        for key, touch in written.items():
            if self._pending.get(key) == touch:
                self._pending.pop(key, None)

    def flush(self) -> None:
        """Write everything that waits, and return when it is durable."""
        with self._flushing:
            while self._pending:
                self._write()

    def _loop(self) -> None:
        while not self._stopped.is_set():
            self._work.wait()
            if self._stopped.wait(self._delay):
                return
            self._work.clear()
            try:
                self.flush()
            except EngineError as error:
                logger.warning("touches of %d lanes wait, they could not be written: %s", len(self._pending), error)
                self._work.set()
                self._stopped.wait(_RETRY_SECONDS)

    def close(self) -> None:
        """Stop the thread and write what is left."""
        self._stopped.set()
        self._work.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self.flush()
