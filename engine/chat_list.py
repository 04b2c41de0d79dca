"""The list of chats of a store: asked from its view, and without one from tables in memory (W11, W14)."""

import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from engine.log.errors import LogError
from engine.log.mutex import Mutex, check_outside
from engine.log.protocol import Log, Tables
from engine.log.sqlite.tables import SQLiteTables
from engine.validation import checked_limit
from engine.views import StoreViews
from projections.views import listed
from projections.views.catalogue import Catalogue
from projections.views.catchup import CatchUp
from projections.views.listed import FIRST, Changed

T = TypeVar("T")
_TRIES = 2

logger = logging.getLogger("engine.catalog")


class ChatList:
    """Answers from the view with everything that is in the log by then.

    Where a store keeps no views, or they cannot follow, the same tables are made in memory: the first question then
    reads the whole log, and the others what came since.
    """

    def __init__(self, log: Log, views: StoreViews | None) -> None:
        self._log = log
        self._views = views
        self._mutex = Mutex()
        self._memory: tuple[SQLiteTables, CatchUp] | None = None

    def page(self, hidden: bool, limit: int | None, after: Mapping[str, Any] | None) -> list[dict[str, Any]]:
        """Return the rows after one, at most so many."""
        place = FIRST if after is None else listed.place_of(after)
        most = None if limit is None else checked_limit(limit)
        return self._ask(lambda tables: listed.page(tables, hidden, place, most))

    def changed(self, hidden: bool, after: tuple[int, str], limit: int) -> tuple[list[Changed], int]:
        """Return what was written after a position and an id, and up to which position it was looked for."""

        def ask(tables: Tables) -> tuple[list[Changed], int]:
            upto = listed.position(tables)
            return listed.changed(tables, hidden, after, upto, limit), upto

        return self._ask(ask)

    def _ask(self, question: Callable[[Tables], T]) -> T:
        """Ask the view; a file that is deleted meanwhile is asked once more when it was made again."""
        for _ in range(_TRIES):
            tables = None if self._views is None else self._views.chats()
            if tables is None:
                break
            with suppress(LogError):
                found = question(tables)
                self._memory = None  # whoever still reads it has it
                return found
        return question(self._in_memory())

    def _in_memory(self) -> Tables:
        with self._mutex.once():
            if self._memory is None:
                if self._views is not None:
                    logger.warning(
                        "the views of %s stand still: chats are listed from memory meanwhile", self._log.path
                    )
                tables = SQLiteTables(":memory:")
                self._memory = tables, CatchUp(self._log, tables, [Catalogue(self._log.reader)])
                self._memory[1].prepare()
            tables, catch_up = self._memory
            end = self._log.last_position
            while parts := [each for each in catch_up.behind().values() if each.position < end]:
                catch_up.advance(parts, end)
            return tables

    def check_may_close(self) -> None:
        """Raise NestedCommandError if this thread is making the tables in memory."""
        check_outside(self._mutex)

    def let_go(self) -> None:
        """Take what was erased out of what is in memory."""
        if self._memory is not None:
            self._in_memory()

    def close(self) -> None:
        """Let go of what is in memory."""
        with self._mutex.once():
            memory, self._memory = self._memory, None
            if memory is not None:
                memory[0].close()

    def abandon_after_fork(self) -> None:
        """Give up what is in memory in the child of a fork."""
        self._mutex = Mutex()
        if self._memory is not None:
            self._memory[0].abandon_after_fork()
            self._memory = None
