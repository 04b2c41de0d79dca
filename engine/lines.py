"""Lines of threads that wait for the same lane, first come first served."""

import threading
import weakref
from collections import deque
from collections.abc import Hashable

_LOOK_SECONDS = 0.5
"""How often somebody who waits looks whether those before are still there: one may have been interrupted."""


class Place:
    """A thread's place in a line. It counts until `left` is set, or until an interrupted thread has dropped it."""

    __slots__ = ("__weakref__", "left", "thread", "turn")

    def __init__(self) -> None:
        self.left = False
        self.thread = threading.current_thread()
        self.turn = threading.Lock()
        self.turn.acquire()


class Lines:
    """The lines of a store; one exists while somebody stands in it."""

    def __init__(self) -> None:
        self._mutex = threading.RLock()
        self._waiting: dict[Hashable, deque[weakref.ref[Place]]] = {}

    def join(self, key: Hashable, place: Place) -> bool:
        """Stand in a line. Return False if this thread stands in it already: it would wait for itself."""
        with self._mutex:
            line = self._waiting.setdefault(key, deque())
            if any(_there(each, place.thread) for each in line):
                return False
            line.append(weakref.ref(place))
            self._advance(key, line)
            return True

    def wait(self, key: Hashable, place: Place, timeout: float | None) -> bool:
        """Wait for the head of the line; return False if that took too long."""
        left = timeout
        while left is None or left > 0:
            pause = _LOOK_SECONDS if left is None else min(left, _LOOK_SECONDS)
            if place.turn.acquire(timeout=pause):
                return True
            self.look(key)
            left = None if left is None else left - pause
        return place.turn.acquire(blocking=False)

    def look(self, key: Hashable) -> None:
        """Let those who have left go, and tell the first of the others that it is their turn."""
        with self._mutex:
            line = self._waiting.get(key)
            if line is not None:
                self._advance(key, line)

    def _advance(self, key: Hashable, line: "deque[weakref.ref[Place]]") -> None:
        while line:
            first = line[0]()
            if first is not None and not first.left:
                if first.turn.locked():
                    first.turn.release()
                return
            line.popleft()
        self._waiting.pop(key, None)

    def abandon_after_fork(self) -> None:
        """Start anew in the child of a fork, where the threads are not."""
        self._mutex, self._waiting = threading.RLock(), {}


def _there(place: "weakref.ref[Place]", thread: threading.Thread) -> bool:
    found = place()
    return found is not None and not found.left and found.thread is thread
