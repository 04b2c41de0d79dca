"""Routing for tasks: lanes are looked for in a thread, those of many tasks in one hop."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context, copy_context
from typing import Any, NamedTuple

from engine.command import Command
from engine.domain.entry import SessionEntry
from engine.domain.sources import SessionSource
from engine.log.mutex import Mutex

Found = SessionEntry | Command[SessionEntry]


class _Question(NamedTuple):
    """A source whose lane is looked for, and the task that waits for it."""

    source: SessionSource
    force_new: bool
    touch: bool
    context: Context
    future: "asyncio.Future[Found]"


class RouteQueue:
    """Looks for lanes in a thread, because looking reads tables and files."""

    def __init__(self, find: Callable[[SessionSource, bool, bool], Found], threads: Executor) -> None:
        self._find = find
        self._threads = threads
        self._mutex = Mutex()
        self._waiting: list[_Question] = []
        self._answering = False

    def ask(self, source: SessionSource, force_new: bool, touch: bool) -> "asyncio.Future[Found]":
        """Return the lane's entry or the command that decides, to be awaited."""
        future: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        with self._mutex.once():
            self._waiting.append(_Question(source, force_new, touch, copy_context(), future))
            start, self._answering = not self._answering, True
        if start:
            self._threads.submit(self._answer)
        return future

    def _answer(self) -> None:
        """Answer what waits, and what comes meanwhile."""
        while True:
            with self._mutex.once():
                questions, self._waiting = self._waiting, []
                if not questions:
                    self._answering = False
                    return
            answers: dict[asyncio.AbstractEventLoop, list[tuple[asyncio.Future[Found], Any, bool]]] = {}
            for each in questions:
                answer = each.context.run(self._found, each)
                answers.setdefault(each.future.get_loop(), []).append((each.future, *answer))
            for loop, those in answers.items():
                try:
                    loop.call_soon_threadsafe(_resolve, those)
                except RuntimeError:  # the loop was closed while its tasks waited
                    continue

    def _found(self, question: _Question) -> tuple[Any, bool]:
        """Return the answer, or the error and True."""
        try:
            return self._find(question.source, question.force_new, question.touch), False
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            return error, True


def _resolve(answers: "list[tuple[asyncio.Future[Found], Any, bool]]") -> None:
    for future, found, failed in answers:
        if future.done():
            continue
        if not failed:
            future.set_result(found)
        elif isinstance(found, StopIteration):  # a future refuses it
            future.set_exception(RuntimeError("looking for a lane raised StopIteration"))
        else:
            future.set_exception(found)
