"""Waiting for the log to grow: told at once by this process's writer, found by polling for the others'."""

import threading
import time
from collections.abc import Callable

from engine.log.mutex import Waiters

_POLL_SECONDS = 0.02


class Tail:
    """The newest position anybody here knows of, and the threads that wait for a newer one."""

    def __init__(self, last_position: Callable[[], int]) -> None:
        self._last_position = last_position
        self._waiters = Waiters()
        self.position = 0

    def publish(self, position: int) -> None:
        """Called by the writer after each commit; costs nothing while nobody waits."""
        self.position = position
        if self._waiters:
            self.wake()

    def wake(self) -> None:
        """Let every waiting thread look again, at the log or at whether it was stopped."""
        self._waiters.wake()

    def wait_beyond(self, position: int, timeout: float | None, stopped: Callable[[], bool]) -> bool:
        """Block until there is an event after a position; False if stopped, timed out or the program ends.

        A commit never waits for those who wait for it. The database is not asked after each commit here, whose
        position is known. A program's end is seen here, because the thread that waits may be one that the interpreter
        would wait for.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        told = False
        while not stopped() and threading.main_thread().is_alive():
            if self.position > position or (not told and self._last_position() > position):
                return True
            remaining = _POLL_SECONDS if deadline is None else min(_POLL_SECONDS, deadline - time.monotonic())
            if remaining <= 0:
                return False
            told = self._waiters.wait(remaining, lambda: self.position > position or stopped())
        return False
