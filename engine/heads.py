"""Published heads: what shows that the end of a log was cut off, since the log itself cannot.

A head is `<position>:<hash>`. Who has one can tell whether a log still has everything up to it, unchanged:
`verify(published=…)`. Kept beside the log it is of little use; a host sends it somewhere else.
"""

import logging
import os
import threading
from collections.abc import Callable
from pathlib import Path

import msgspec

from engine.log.mutex import Flag
from engine.log.protocol import Log

logger = logging.getLogger("engine.store")

_LAST_WAIT_SECONDS = 5.0
_PAUSE_SECONDS = 0.05


class Heads(msgspec.Struct, frozen=True, kw_only=True):
    """The place where heads of a log are published, and how often: after so many events, or so many seconds."""

    to: str | os.PathLike[str] | Callable[[str], object]
    """A file that each head is appended to as a line, or a function of the host's that gets the head."""
    events: int = 100
    """After so many events at the latest."""
    seconds: float = 10.0
    """After so many seconds at the latest, if anything was committed."""


class HeadPublisher:
    """Publishes the heads of a log, those that other processes write too, from a thread: no commit waits for it."""

    def __init__(self, log: Log, heads: Heads) -> None:
        self._log = log
        self._heads = heads
        self._publish: Callable[[str], object] = heads.to if callable(heads.to) else _Lines(heads.to)
        self._stopped = Flag()
        self._last = ""
        self._thread = threading.Thread(target=self._loop, name="session-heads", daemon=True)

    def start(self) -> None:
        """Begin with the head as it is now."""
        self._thread.start()

    def _loop(self) -> None:
        last = False
        while not last:
            last = self._stopped.is_set()  # before the head is read: the last one is that of a log that is at rest
            self._publish_new()
            if not last:
                self._wait()

    def _wait(self) -> None:
        published = int(self._last.partition(":")[0] or 0)
        try:
            if not self._log.wait(published + self._heads.events - 1, self._heads.seconds, self._stopped.is_set):
                self._stopped.wait(_PAUSE_SECONDS)  # `wait` ends at once when the program does
        except Exception as error:  # noqa: BLE001 - a disk that fails: the next look may succeed
            logger.warning("waiting for the next head of %s failed: %s", self._log.path, error)
            self._stopped.wait(self._heads.seconds)

    def _publish_new(self) -> None:
        try:
            head = self._log.head()
            if head != self._last:
                self._publish(head)
                self._last = head
        except Exception:
            logger.exception("the head of %s could not be published; it is tried again", self._log.path)

    def close(self) -> None:
        """Publish the last head and end; a function of the host's that does not return is left behind."""
        self._stopped.set()
        self._log.wake()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(_LAST_WAIT_SECONDS)
            if self._thread.is_alive():
                logger.warning("publishing the last head of %s takes too long, and is not waited for", self._log.path)


class _Lines:
    """Appends each head to a file of the owner's alone, durably."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)

    def __call__(self, head: str) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, f"{head}\n".encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def checked_heads(heads: "Heads | str | os.PathLike[str] | Callable[[str], object] | None") -> Heads | None:
    """Return the settings of published heads; raise ValueError for what cannot be one."""
    found = heads if isinstance(heads, Heads) or heads is None else Heads(to=heads)
    if found is None:
        return None
    if not callable(found.to) and (not isinstance(found.to, (str, os.PathLike)) or not str(found.to)):
        raise ValueError(f"heads must be a file, a function or Heads(to=…), not {heads!r}")
    if not isinstance(found.events, int) or found.events < 1 or not found.seconds > 0:
        raise ValueError(f"heads are published after at least 1 event and more than 0 seconds, not {found!r}")
    return found
