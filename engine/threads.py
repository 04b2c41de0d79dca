"""Threads that never keep a program from ending, as those of the standard library's pools do."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from queue import SimpleQueue
from typing import Any, ParamSpec, TypeVar

from engine.log.mutex import Mutex, check_outside

P = ParamSpec("P")
T = TypeVar("T")
_Job = tuple["Future[Any]", Callable[..., Any], tuple[Any, ...], dict[str, Any]]


class DaemonThreads(Executor):
    """A pool of daemon threads: what a host's function never returns from is left behind at exit."""

    def __init__(self, most: int, name: str) -> None:
        self._most = most
        self._name = name
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._mutex = Mutex()
        self._threads = 0
        self._free = 0
        self._ended = False

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Call in a thread of the pool; start one if all are at work and there may be more."""
        future: Future[T] = Future()
        with self._mutex.once():
            if self._ended:
                raise RuntimeError("cannot schedule new futures after shutdown")
            self._free -= 1
            if self._free < 0 and self._threads < self._most:
                self._start()
            self._jobs.put((future, fn, args, kwargs))
        return future

    def _start(self) -> None:
        try:
            threading.Thread(target=self._work, name=f"{self._name}_{self._threads}", daemon=True).start()
        except RuntimeError:  # the machine has no more: those there are do it, if there are any
            if not self._threads:
                self._free += 1
                raise
        else:
            self._threads += 1
            self._free += 1

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            _do(*job)
            del job  # nothing of it is kept while the thread waits
            with self._mutex.once():
                self._free += 1

    def check_may_end(self) -> None:
        """Raise NestedCommandError if this thread is giving the pool something to do."""
        check_outside(self._mutex)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let the threads end when they have done what was given to them. Nobody waits for one that never returns."""
        del wait
        with self._mutex.once():
            self._ended = True
            threads = self._threads
            while cancel_futures and not self._jobs.empty():
                job = self._jobs.get()
                if job is not None:
                    job[0].cancel()
            for _ in range(threads):
                self._jobs.put(None)


def _do(future: "Future[Any]", function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        found = function(*args, **named)
    except StopIteration as error:  # a task that waits for it would wait for ever: its future refuses it
        told = RuntimeError(f"{getattr(function, '__name__', 'the call')} raised StopIteration")
        told.__cause__ = error
        future.set_exception(told)
    except BaseException as error:  # noqa: BLE001 - raised where it is waited for
        future.set_exception(error)
    else:
        future.set_result(found)
