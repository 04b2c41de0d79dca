"""Stand-ins for `threading`, `time` and thread pools, on simulated threads and simulated time."""

import asyncio
import concurrent.futures
import contextlib
import queue
import random
import secrets
import selectors
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from engine.domain.errors import EngineError
from tests.simulation.scheduler import Doomed, Scheduler, StuckError, Task, here


class Lock:
    """A lock whose holder and waiters are simulated threads."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._taken = False

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        self._scheduler.pause("lock")
        if self._taken and (not blocking or not self._wait(None if timeout < 0 else timeout)):
            return False
        self._taken = True
        return True

    def _wait(self, timeout: float | None) -> bool:
        return self._scheduler.wait(lambda: not self._taken, timeout, "locked")

    def release(self) -> None:
        if not self._taken:
            raise RuntimeError("release unlocked lock")
        self._taken = False

    def locked(self) -> bool:
        return self._taken

    def take_back(self) -> None:
        """Acquire after a wait, whatever signal comes; a thread that is doomed takes it by force, to release it."""
        task = here()
        interruptible = task is not None and task.interruptible
        try:
            if task is not None:
                task.interruptible = False
            while self._taken:
                self._wait(None)
        finally:
            self._taken = True
            if task is not None:
                task.interruptible = interruptible

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class RLock(Lock):
    """A lock that its holder may take again."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self._holder: Task | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if self._count and self._holder is here():
            self._count += 1
            return True
        if not super().acquire(blocking, timeout):
            return False
        self._holder, self._count = here(), 1
        return True

    def release(self) -> None:
        self._count -= 1
        if not self._count:
            self._holder = None
            super().release()

    def take_back(self) -> None:
        super().take_back()
        self._holder, self._count = here(), 1

    def _is_owned(self) -> bool:
        return bool(self._count) and self._holder is here()


class Condition:
    """A condition over a lock that its holder has taken once, which is how the engine uses them."""

    def __init__(self, scheduler: Scheduler, lock: Lock | None = None) -> None:
        self._scheduler = scheduler
        self._lock = Lock(scheduler) if lock is None else lock
        self._waiters: deque[list[bool]] = deque()
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def wait(self, timeout: float | None = None) -> bool:
        woken = [False]
        self._waiters.append(woken)
        self._lock.release()
        try:
            return self._scheduler.wait(lambda: woken[0], timeout, "condition")
        finally:
            self._lock.take_back()
            if not woken[0]:
                self._waiters.remove(woken)

    def notify(self, n: int = 1) -> None:
        for _ in range(min(n, len(self._waiters))):
            self._waiters.popleft()[0] = True

    def notify_all(self) -> None:
        self.notify(len(self._waiters))

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


class Event:
    """A flag to wait for."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._set = False

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        return self._scheduler.wait(self.is_set, timeout, "event")


class Queue:
    """In the place of a SimpleQueue."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._items: deque[Any] = deque()

    def put(self, item: Any) -> None:
        self._items.append(item)

    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        if not self._scheduler.wait(lambda: bool(self._items), timeout if block else 0.0, "queue"):
            raise queue.Empty
        return self._items.popleft()


class Thread:
    """A thread of the process that starts it."""

    def __init__(
        self,
        scheduler: Scheduler,
        target: Callable[..., object],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        name: str = "thread",
        daemon: bool | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._call = target, tuple(args), dict(kwargs or {})
        self.name = name
        self.daemon = bool(daemon)
        self._task: Task | None = None

    def start(self) -> None:
        starter = here()
        if starter is None:
            raise StuckError(f"{self.name} is started by nobody who is simulated")
        self._task = self._scheduler.start(starter.process, self.name, self._run)

    def _run(self) -> None:
        target, args, kwargs = self._call
        _current.thread = self
        target(*args, **kwargs)

    def is_alive(self) -> bool:
        return self._task is not None and not self._task.done

    def join(self, timeout: float | None = None) -> None:
        self._scheduler.wait(lambda: not self.is_alive(), timeout, "join")


_current = threading.local()


class Threading:
    """In the place of the module `threading`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def Lock(self) -> Any:  # noqa: N802 - the module's name
        return Lock(self._scheduler)

    def RLock(self) -> Any:  # noqa: N802
        return RLock(self._scheduler)

    def Condition(self, lock: Any = None) -> Any:  # noqa: N802
        return Condition(self._scheduler, lock)

    def Event(self) -> Any:  # noqa: N802
        return Event(self._scheduler)

    def Thread(self, **given: Any) -> Any:  # noqa: N802
        return Thread(self._scheduler, **given)

    def current_thread(self) -> Any:
        return getattr(_current, "thread", None) or threading.current_thread()

    def __getattr__(self, name: str) -> Any:
        return getattr(threading, name)


class Time:
    """In the place of the module `time`."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def monotonic(self) -> float:
        return self._scheduler.now

    perf_counter = monotonic

    def sleep(self, seconds: float) -> None:
        self._scheduler.sleep(seconds)

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


class Secrets:
    """In the place of the module `secrets`: the same tokens from the same seed."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def token_bytes(self, count: int) -> bytes:
        return self._chance.randbytes(count)

    def token_hex(self, count: int) -> str:
        return self._chance.randbytes(count).hex()

    def __getattr__(self, name: str) -> Any:
        return getattr(secrets, name)


class Pool:
    """In the place of `DaemonThreads`."""

    def __init__(self, scheduler: Scheduler, max_workers: int, thread_name_prefix: str = "pool") -> None:
        self._scheduler = scheduler
        self._limit = min(max_workers, 4)
        self._name = thread_name_prefix
        self._jobs: deque[tuple[concurrent.futures.Future[Any], Callable[[], Any]]] = deque()
        self._workers = 0
        self._idle = 0
        self._ended = False

    def submit(self, function: Callable[..., Any], *arguments: Any) -> "concurrent.futures.Future[Any]":
        starter = here()
        if self._ended or starter is None:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        self._jobs.append((future, lambda: function(*arguments)))
        if len(self._jobs) > self._idle and self._workers < self._limit:
            self._workers += 1
            self._scheduler.start(starter.process, self._name, self._work)
        return future

    def _work(self) -> None:
        while True:
            self._idle += 1
            try:
                self._scheduler.wait(lambda: bool(self._jobs) or self._ended, None, "idle")
            finally:
                self._idle -= 1
            if not self._jobs:
                return
            future, job = self._jobs.popleft()
            if future.set_running_or_notify_cancel():
                try:
                    found = job()
                except Doomed:
                    raise
                except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                    future.set_exception(error)
                else:
                    future.set_result(found)

    def check_may_end(self) -> None:
        pass

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._ended = True
        while cancel_futures and self._jobs:
            self._jobs.popleft()[0].cancel()


class _Selector(selectors.SelectSelector):
    """Waits for what other simulated threads tell the loop, never for the operating system."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__()
        self._scheduler = scheduler
        self.woken = False

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self._scheduler.wait(lambda: self.woken, timeout, "select")
        else:
            self._scheduler.pause("turn of the loop")
        self.woken = False
        return []


class Loop(asyncio.SelectorEventLoop):
    """An event loop in a simulated thread."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._chosen = _Selector(scheduler)
        self._scheduler = scheduler
        super().__init__(self._chosen)
        self.set_exception_handler(self._failed)

    def _failed(self, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not isinstance(error, Doomed | EngineError):
            self._scheduler.fail(error or RuntimeError(context["message"]))

    def time(self) -> float:
        return self._scheduler.now

    def _write_to_self(self) -> None:
        self._chosen.woken = True

    def run(self, main: Any) -> None:
        """Run a coroutine, and close the loop."""
        asyncio.set_event_loop(self)
        try:
            self.run_until_complete(main)
        finally:
            for task in asyncio.all_tasks(self):
                _kill(task)
            asyncio.set_event_loop(None)
            self.close()


def _kill(task: "asyncio.Task[Any]") -> None:
    """End a task as the death of its process does, here and now, and not when the interpreter finds it."""
    task._log_destroy_pending = False  # type: ignore[attr-defined]
    with contextlib.suppress(BaseException):
        task.get_coro().close()  # type: ignore[union-attr]
