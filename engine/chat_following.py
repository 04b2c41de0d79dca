"""Following the list of chats: rows that have changed, and what is in it no more (W15)."""

import time
from collections import deque
from concurrent.futures import Executor
from itertools import pairwise
from types import TracebackType
from typing import Any, NamedTuple, Self

import msgspec

from engine.arrivals import Arrivals
from engine.chat_list import ChatList
from engine.log.errors import ClosedLogError, ForkedLogError
from engine.log.protocol import Log
from engine.runner import in_thread
from engine.validation import check_size, checked_timeout
from projections.views.listed import Changed

_BATCH = 100
_STALE_SECONDS = 0.05


class ChatChange(msgspec.Struct, frozen=True):
    """A chat that stands in the list otherwise than before, or with `row` None, in the list no more."""

    position: int
    """The position to follow from, once this was handled."""
    session_id: str
    """The id it stands in the list with."""
    row: dict[str, Any] | None
    """Its row as `all_sessions` gives it, but for what runs: `is_streaming` is False."""


class Mark(NamedTuple):
    """A place up to which the list was followed: all before a position, and what was written there up to an id."""

    position: int
    session_id: str = ""


class Batch(NamedTuple):
    """Changes that were read, each with the mark after it, and the mark after all of them."""

    changes: list[tuple[ChatChange, Mark]]
    mark: Mark


class ChatChanges:
    """The list that is followed. It is read a batch at a time, and remembers nothing."""

    def __init__(self, log: Log, chats: ChatList, hidden: bool) -> None:
        self._log = log
        self._chats = chats
        self._hidden = hidden

    def read(self, mark: Mark) -> Batch | None:
        """Return what has changed since a mark; None if the log has nothing new."""
        last = self._log.last_position
        if mark.position > last + 1:
            raise ValueError(
                f"position {mark.position - 1} is after the end of the log, which is at {last}: it is of another log, "
                "or this one was set back to a copy; follow from a position of this log"
            )
        if mark.position > last:
            return None
        found, upto = self._chats.changed(self._hidden, mark, _BATCH)
        end = Mark(max(upto, mark.position - 1) + 1)
        if len(found) == _BATCH:
            end = Mark(found[-1].position, found[-1].session_id)
        last_of_all = [(found[-1], end)] if found else []
        marks = [(each, _after(each, following)) for each, following in pairwise(found)] + last_of_all
        return Batch([(ChatChange(to.position - 1, each.session_id, each.row), to) for each, to in marks], end)


def _after(change: Changed, following: Changed) -> Mark:
    """Return how far a change leads: what was written with it is still to come."""
    if following.position == change.position:
        return Mark(change.position, change.session_id)
    return Mark(change.position + 1)


class ChatPlace:
    """Changes that were read and not handed out yet, and the mark to go on from."""

    def __init__(self, after: int) -> None:
        check_size("after", after)
        self.mark = self._end = Mark(after + 1)
        self._ready: deque[tuple[ChatChange, Mark]] = deque()
        self._read_at = 0.0

    @property
    def position(self) -> int:
        """Return the position up to which everything was handed out."""
        return self.mark.position - 1

    def take(self) -> ChatChange | None:
        """Return the next change, or None if something must be read first: a row may be erased once it was read."""
        if not self._ready:
            self.mark = self._end
            return None
        if time.monotonic() - self._read_at > _STALE_SECONDS:
            self._ready.clear()
            return None
        change, self.mark = self._ready.popleft()
        return change

    def fill(self, batch: Batch | None) -> ChatChange | None:
        """Take in what was read; return the first of it, which is good however long it took to get here."""
        if batch is None:
            return None
        self._ready, self._end, self._read_at = deque(batch.changes), batch.mark, time.monotonic()
        if not self._ready:
            self.mark = self._end
            return None
        change, self.mark = self._ready.popleft()
        return change


class ChatFollower:
    """Yields changes of the list of chats, then waits for more; each has the position to go on from.

    A row that changes often is given once with what it says last. It holds at most 100 rows in memory, however slow
    its user is. Close it from any thread to end it. With a `timeout` the iteration ends when nothing came for so many
    seconds, and goes on when it is begun again.
    """

    def __init__(self, log: Log, changes: ChatChanges, after: int, timeout: float | None) -> None:
        self._log = log
        self._changes = changes
        self._place = ChatPlace(after)
        self._timeout = checked_timeout(timeout)
        self._closed = False

    @property
    def position(self) -> int:
        """The position up to which everything was handed out: follow from there after a reconnect."""
        return self._place.position

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> ChatChange:
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        try:
            while not self._closed:
                change = self._place.take()
                if change is None:
                    batch = self._changes.read(self._place.mark)
                    change = self._place.fill(batch)
                    if change is None and batch is None:
                        left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
                        if not self._log.wait(self._place.position, left, self._is_closed):
                            break
                if change is not None:
                    return change
        except ForkedLogError:
            raise
        except ClosedLogError:  # the store was closed: that is the end of what can be followed
            self._closed = True
        raise StopIteration

    def _is_closed(self) -> bool:
        return self._closed

    def close(self) -> None:
        """End the iteration, also one that waits in another thread."""
        self._closed = True
        self._log.wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncChatFollower:
    """Yields changes of the list of chats to a task, as a ChatFollower does.

    `aclose`, or closing the store, ends it; a cancelled wait loses nothing.
    """

    def __init__(
        self, arrivals: Arrivals, changes: ChatChanges, threads: Executor, after: int, timeout: float | None
    ) -> None:
        self._arrivals = arrivals
        self._changes = changes
        self._threads = threads
        self._place = ChatPlace(after)
        self._timeout = checked_timeout(timeout)
        self._closed = False

    @property
    def position(self) -> int:
        """The position up to which everything was handed out: follow from there after a reconnect."""
        return self._place.position

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ChatChange:
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        try:
            while not (self._closed or self._arrivals.closed):
                change = self._place.take()
                if change is None:
                    # What is read is taken in by the task, not by the thread: a cancelled await loses nothing.
                    batch = await in_thread(self._threads, self._changes.read, self._place.mark)
                    change = self._place.fill(batch)
                    if change is None and batch is None:
                        left = None if deadline is None else max(deadline - time.monotonic(), 0.0)
                        if self._closed or not await self._arrivals.beyond(self._place.position, left):
                            break
                if change is not None:
                    return change
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
