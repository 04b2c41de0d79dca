"""Waiting for the log to grow: told at once by this process's writer, found by polling for the others'."""

import threading
import time
from collections.abc import Callable

_POLL_SECONDS = 0.02


class Tail:
    """The newest position anybody here knows of, and the threads that wait for a newer one."""

    def __init__(self, last_position: Callable[[], int]) -> None:
        self._last_position = last_position
        self._changed = threading.Condition()
        self._waiting = 0
        self.position = 0

    def publish(self, position: int) -> None:
        """Called by the writer after each commit; costs nothing while nobody waits."""
        self.position = position
        if self._waiting:
            self.wake()

    def wake(self) -> None:
        """Let every waiting thread look again, at the log or at whether it was stopped."""
        with self._changed:
            self._changed.notify_all()

    def wait_beyond(self, position: int, timeout: float | None, stopped: Callable[[], bool]) -> bool:
        """Block until there is an event after a position; False if stopped, timed out or the program ends.

        The database is asked without the lock, so that a commit never waits for those who wait for it, and not
        after each commit here, whose position is known. A program's end is seen here, because the thread that
        waits may be one that the interpreter would wait for.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        told = False
        while not stopped() and threading.main_thread().is_alive():
            if self.position > position or (not told and self._last_position() > position):
                return True
            remaining = _POLL_SECONDS if deadline is None else min(_POLL_SECONDS, deadline - time.monotonic())
            if remaining <= 0:
                return False
            with self._changed:
                self._waiting += 1  # before looking at the position: no commit falls between
                try:
                    if self.position <= position and not stopped():
                        told = self._changed.wait(remaining)
                finally:
                    self._waiting -= 1
        return False
