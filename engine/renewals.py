"""A store's work for turns behind its callers' backs: renews their leases, and ends those that were given up."""

import heapq
import logging
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue

from engine.claims import TurnClaim

logger = logging.getLogger("engine.store")

_PER_LEASE = 3
"""How often a lease is renewed before it would run out."""
_RETRY_SECONDS = 1.0


def pause_of(lease_seconds: float) -> float:
    """Return how long to wait before a lease is renewed."""
    return lease_seconds / _PER_LEASE


class Renewals:
    """The turns that need something done, and the thread that does it, started by the first of them.

    Callers leave a word in a queue and take no lock: they may be interrupted anywhere, or be a finaliser.
    """

    def __init__(
        self, renew: Callable[[str, float], bool], end: Callable[[str], object], given_up: dict[str, TurnClaim]
    ) -> None:
        self._renew = renew
        self._end = end
        self._given_up = given_up
        self._leases: dict[str, float] = {}
        self._words: SimpleQueue[tuple[float, str] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._closed = False

    def add(self, token: str, lease_seconds: float) -> None:
        """Renew a turn from now on."""
        self._leases[token] = lease_seconds
        self._leave(time.monotonic() + pause_of(lease_seconds), token)

    def remove(self, token: str) -> None:
        """Renew a turn no more."""
        self._leases.pop(token, None)

    def give_up(self, claim: TurnClaim) -> None:
        """End a turn that nobody can end, whether it has begun, is about to, or never will."""
        claim.given_up = True
        self._given_up[claim.token] = claim
        self.remove(claim.token)
        try:
            self._leave(time.monotonic(), claim.token)
        except RuntimeError as error:
            logger.warning("no thread can start to end turn %s; the next begin_turn does: %s", claim.token, error)

    def close(self) -> None:
        """Let the thread end, and end what was given up; from now on no thread starts, which at exit would hang."""
        self._closed = True
        self._leases.clear()
        for _ in self._threads:
            self._words.put(None)
        for token in list(self._given_up):
            self._end_one(token)

    def abandon_after_fork(self) -> None:
        """Start anew in the child of a fork, where the thread is not."""
        self._leases, self._words, self._threads = {}, SimpleQueue(), []
        self._given_up.clear()

    def _leave(self, due: float, token: str) -> None:
        if not self._threads and not self._closed:
            thread = threading.Thread(target=self._loop, name="session-turns", daemon=True)
            thread.start()
            self._threads.append(thread)
        self._words.put((due, token))

    def _loop(self) -> None:
        """Do what is due. Of two threads, which callers at the same moment may start, each does what it heard of."""
        due: list[tuple[float, str]] = []
        while not self._closed:
            try:
                word = self._words.get(timeout=max(0.0, due[0][0] - time.monotonic()) if due else None)
            except Empty:
                _, token = heapq.heappop(due)
                pause = self._do(token)
                if pause is not None:
                    heapq.heappush(due, (time.monotonic() + pause, token))
            else:
                if word is None:
                    return
                heapq.heappush(due, word)

    def _do(self, token: str) -> float | None:
        """Do what a turn needs; return how long to wait before the next time."""
        if token in self._given_up:
            return None if self._end_one(token) else _RETRY_SECONDS
        lease = self._leases.get(token)
        if lease is None:
            return None
        try:
            held = self._renew(token, lease)
        except BaseException as error:  # noqa: BLE001 - a full disk may have space, a host's clock a time, at the next attempt
            logger.warning("the lease of turn %s could not be renewed: %s", token, error)
            held = True
        return pause_of(lease) if held else None

    def _end_one(self, token: str) -> bool:
        try:
            self._end(token)
        except BaseException as error:  # noqa: BLE001 - as above
            logger.warning("turn %s, which nobody holds, could not be ended: %s", token, error)
            return False
        self._given_up.pop(token, None)
        return True
