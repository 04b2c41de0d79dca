"""Following the log from a position: what is there, then what comes, from any process."""

from collections import deque
from collections.abc import Sequence

from eventsourcing.persistence import ApplicationRecorder, Notification, Subscription

from engine.log.protocol import Log

_BATCH = 500
_WINDOW = 20_000


class LogSubscription(Subscription[ApplicationRecorder]):
    """An iterator that never ends by itself, has no thread of its own and misses nothing.

    The library's subscription pulls in a thread that is started before it listens, so that an event in
    between waits for the next one, and that blocks the interpreter's exit. This one pulls in the thread
    that iterates: there is nothing to register, to hand over or to join.
    """

    def __init__(self, recorder: ApplicationRecorder, log: Log, gt: int | None, topics: Sequence[str]) -> None:
        super().__init__(recorder, gt, topics)
        self._log = log
        self._position = gt or 0
        self._ready: deque[Notification] = deque()

    def stop(self) -> None:
        super().stop()
        self._log.wake()

    def __next__(self) -> Notification:
        while not self._has_been_stopped:
            if self._ready:
                return self._ready.popleft()
            if not self._pull() and not self._log.wait(self._position, stopped=lambda: self._has_been_stopped):
                break
        raise StopIteration

    def _pull(self) -> bool:
        """Fetch the next events; False when the subscription is at the end of the log."""
        end = min(self._position + _WINDOW, self._log.last_position)
        if end <= self._position:
            return False
        found = self._recorder.select_notifications(
            self._position, _BATCH, stop=end, topics=self._topics, inclusive_of_start=False
        )
        self._ready.extend(found)
        self._position = found[-1].id if len(found) == _BATCH else end
        return True
