"""Following for tasks: one thread waits for all of them until the log has grown."""

import asyncio
import threading
import time
from concurrent.futures import Executor
from contextlib import suppress
from functools import partial
from types import TracebackType
from typing import NamedTuple, Self

from engine.domain.errors import EngineError
from engine.following import PAUSE_SECONDS, Changes, Place
from engine.log.envelope import Envelope
from engine.log.errors import ClosedLogError, ForkedLogError
from engine.log.mutex import Mutex
from engine.log.protocol import Log
from engine.runner import in_thread
from engine.validation import checked_timeout

_LOOK_SECONDS = 1.0


class _Waiting(NamedTuple):
    """A task that waits for an event after a position, by the future that tells it, and the loop it runs on."""

    loop: asyncio.AbstractEventLoop
    position: int


class Arrivals:
    """Tells tasks, of any loop, that the log has grown. Its thread is there while somebody waits."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._mutex = Mutex()
        self._waiting: dict[asyncio.Future[None], _Waiting] = {}
        self._thread: threading.Thread | None = None
        self.closed = False

    async def beyond(self, position: int, timeout: float | None) -> bool:
        """Wait until there may be an event after a position, or somebody says to look; False if it took too long."""
        loop = asyncio.get_running_loop()
        told: asyncio.Future[None] = loop.create_future()
        with self._mutex.once():
            self._waiting[told] = _Waiting(loop, position)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._watch, name="session-following", daemon=True)
                self._thread.start()
        self._log.wake()  # the thread may wait for a later position
        try:
            await asyncio.wait_for(told, timeout)
        except TimeoutError:
            return False
        finally:
            with self._mutex.once():
                self._waiting.pop(told, None)
        return True

    def look_again(self) -> None:
        """Let every waiting task look, because something else than the log has changed."""
        with self._mutex.once():
            self._tell(None)

    def close(self) -> None:
        """Let every task that follows come to its end."""
        self.closed = True
        self.look_again()
        self._log.wake()

    def _watch(self) -> None:
        while True:
            with self._mutex.once():
                if not self._waiting or not threading.main_thread().is_alive():
                    self._thread = None
                    return
                first = self._first()
            grown = self._log.wait(first, _LOOK_SECONDS, partial(self._is_not, first))
            try:
                last = self._log.last_position
            except EngineError:  # a closed log, or one that cannot be read: the tasks find out themselves
                last = None
            if grown or last is None:
                with self._mutex.once():
                    self._tell(last)

    def _is_not(self, first: int) -> bool:
        return self._first() != first

    def _first(self) -> int:
        return min((each.position for each in list(self._waiting.values())), default=-1)

    def _tell(self, last: int | None) -> None:
        """Tell those who wait for what came up to a position, or all; with the lock held."""
        for told, each in list(self._waiting.items()):
            if last is None or last > each.position:
                del self._waiting[told]
                with suppress(RuntimeError):  # its loop is closed, and so is the task
                    each.loop.call_soon_threadsafe(_tell_one, told)


def _tell_one(told: "asyncio.Future[None]") -> None:
    if not told.done():
        told.set_result(None)


class AsyncFollower:
    """Yields the changes of a store in order, then waits for more; each has the position to go on from.

    It holds nothing open, and at most 250 changes in memory, however slow its user is. `aclose`, or closing the store,
    ends it; a cancelled wait loses nothing. With a `timeout` the iteration ends when nothing came for so many seconds,
    and goes on when it is begun again.
    """

    def __init__(
        self, arrivals: Arrivals, changes: Changes, threads: Executor, after: int, timeout: float | None
    ) -> None:
        self._arrivals = arrivals
        self._changes = changes
        self._threads = threads
        self._place = Place(after)
        self._timeout = checked_timeout(timeout)
        self._closed = False

    @property
    def position(self) -> int:
        """The position up to which everything was handed out: follow from there after a reconnect."""
        return self._place.position

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Envelope:
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        try:
            while not (self._closed or self._arrivals.closed):
                change = self._place.take()
                if change is not None:
                    return change
                # What is read is taken in by the task, not by the thread: a cancelled await loses nothing.
                batch = await in_thread(self._threads, self._changes.read, self._place.position, self._place.unless)
                if self._place.fill(batch):
                    continue
                left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
                if batch is not None and batch.held_back:
                    if left == 0:
                        break
                    await asyncio.sleep(PAUSE_SECONDS)
                elif self._closed or not await self._arrivals.beyond(self._place.position, left):
                    break
        except ForkedLogError:
            raise
        except ClosedLogError:  # the store was closed: that is the end of what can be followed
            self._closed = True
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """End the iteration, also one that waits in another task."""
        self._closed = True
        self._arrivals.look_again()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
