"""Locks that know their owner, and ways to wait that hold none: for threads that a signal handler may interrupt.

A handler runs on the thread it interrupts, anywhere between two calls of it. If it comes back into the store, a plain
lock that the thread holds would make it wait for itself.
"""

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from engine.log.errors import NestedCommandError

_INSIDE = (
    "this thread is inside the log or the store already, by a command or because a signal handler has interrupted it "
    "there: it would wait for itself, and neither can be closed meanwhile; nothing was done: set a flag in the "
    "handler, or ask the event loop, and do it when what was interrupted has returned"
)


class Mutex:
    """A lock for `with mutex.once():`, which raises NestedCommandError where its thread would wait for itself.

    The lock itself is the interpreter's: no interrupt comes between taking it and knowing who took it.
    """

    __slots__ = ("is_mine", "lock")

    def __init__(self) -> None:
        lock: Any = threading.RLock()
        self.lock = lock
        self.is_mine: Callable[[], bool] = lock._is_owned  # what a Condition asks it too
        """Returns True if this thread holds the lock."""

    def once(self) -> Any:
        """Return the lock, to be taken by `with`; raise if this thread holds it."""
        if self.is_mine():
            raise NestedCommandError(_INSIDE)
        return self.lock


def check_outside(*mutexes: Mutex) -> None:
    """Raise NestedCommandError if this thread holds one of these: it would wait for itself."""
    for mutex in mutexes:
        mutex.once()


class Waiters:
    """Threads that wait for something to be said. Neither they nor who says it hold a lock meanwhile."""

    def __init__(self) -> None:
        self._latches: deque[Any] = deque()
        # One call takes a latch and releases it: an interrupt in between would leave its thread asleep.
        self._wake_next = partial(next, map(type(threading.Lock()).release, iter(self._latches.popleft, None)))

    def __len__(self) -> int:
        return len(self._latches)

    def wake(self) -> None:
        """Let everybody go on who waits."""
        with suppress(IndexError):
            for _ in range(len(self._latches)):
                self._wake_next()

    def wait(self, seconds: float | None, unless: Callable[[], object]) -> bool:
        """Wait until somebody says it; not at all if that is so already. Return False if it took too long."""
        latch = threading.Lock()
        latch.acquire()
        self._latches.append(latch)  # before looking: nothing that is said falls between
        try:
            return bool(unless()) or latch.acquire(timeout=-1 if seconds is None else max(seconds, 0.0))
        finally:
            with suppress(ValueError):
                self._latches.remove(latch)


class Flag:
    """An event to wait for, like `threading.Event`; a handler that interrupts its setting may set it too."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiters = Waiters()

    def is_set(self) -> bool:
        """Return True once it is set."""
        return self._is_set

    def set(self) -> None:
        """Set it; let everybody go on who waits for it."""
        self._is_set = True
        self._waiters.wake()

    def clear(self) -> None:
        """Take it back."""
        self._is_set = False

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is set; return False if that took too long."""
        if not self._is_set:
            self._waiters.wait(seconds, self.is_set)
        return self._is_set
