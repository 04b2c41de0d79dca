"""The views of a store: search, usage and the list of chats, which follow the log in `views.db`."""

import os
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

from engine.domain.times import microseconds
from engine.log.protocol import Log, Tables
from engine.log.sqlite.tables import SQLiteTables
from projections.views.bill import UsageRow, usage
from projections.views.catalogue import Catalogue
from projections.views.find import Hits, Question, checked_place, find
from projections.views.runner import ViewRunner, ViewStatus
from projections.views.search import Search
from projections.views.usage import Usage
from projections.views.verify import ViewVerification, verify_views
from projections.views.view import View

VIEWS_FILE = "views.db"
_IN_MEMORY = ":memory:"
_LOOK_SECONDS = 0.5
_MOMENT_SECONDS = 0.02


class ViewAnswers:
    """Answers questions from what the views have seen of a log."""

    def __init__(self, log: Log, tables: SQLiteTables, clock: Callable[[], datetime]) -> None:
        self._log = log
        self._tables = tables
        self._clock = clock

    @classmethod
    def read_only(cls, log: Log, folder: str | os.PathLike[str], clock: Callable[[], datetime]) -> "ViewAnswers":
        """Return answers from the views in a folder, which a store follows with or has left there."""
        return cls(log, SQLiteTables(Path(folder) / VIEWS_FILE, read_only=True), clock)

    def search(self, question: Question, limit: int, cursor: str | None) -> Hits:
        """Return live messages that match a question."""
        checked_place(cursor, question)
        if not self._made("search_words"):
            return Hits([])
        return find(self._tables, self._log.reader, question, limit, cursor, self._clock().tzinfo)

    def usage(self, by: Sequence[str], since: datetime | None, until: datetime | None) -> list[UsageRow]:
        """Return what was used, for the days of the store's zone from one time up to another."""
        if not self._made("usage"):
            return []
        return usage(self._tables, by, self._day(since), self._day(until))

    def _made(self, table: str) -> bool:
        """Return True if a view's table is there; raise ValueError if nobody will make it."""
        if not self._tables.defined(table):
            raise ValueError(
                f"{self._tables.path} has no table {table}: no store has followed there yet, or it does so without; "
                "open a SessionStore on the folder, with views and search switched on"
            )
        return True

    def _day(self, time: datetime | None) -> str | None:
        return None if time is None else f"{time.astimezone(self._clock().tzinfo):%Y-%m-%d}"

    def check_may_close(self) -> None:
        """Raise NestedCommandError if this thread is inside the tables: who follows may wait for it."""
        self._tables.check_outside()

    def close(self) -> None:
        """Close the file."""
        self._tables.close()


class StoreViews(ViewAnswers):
    """Follows the log of one store and answers questions from what it has seen."""

    def __init__(
        self,
        log: Log,
        folder: str | os.PathLike[str],
        clock: Callable[[], datetime],
        *,
        search: bool,
        read_only: bool = False,
    ) -> None:
        """Take the views of a folder; read-only they can be looked at and verified, but are not started."""
        super().__init__(log, SQLiteTables(Path(folder) / VIEWS_FILE, read_only=read_only), clock)
        self._kinds: list[View] = [Usage(lambda: clock().tzinfo), Catalogue(log.reader)]
        self._searches = search
        if search:
            self._kinds.append(Search(self._tables.text))
        self._runner = ViewRunner(log, self._tables, self._kinds)

    def start(self) -> None:
        """Follow the log from a thread of its own."""
        self._runner.start()

    def search(self, question: Question, limit: int, cursor: str | None) -> Hits:
        """Return live messages that match a question."""
        if not self._searches:
            raise ValueError("this store was opened with search=False; open it with search=True to search")
        return super().search(question, limit, cursor)

    def _made(self, table: str) -> bool:
        """Return True if a view's table is there: the runner is about to make one that is not."""
        return self._tables.defined(table)

    def wait(self, position: int | None, timeout: float | None) -> bool:
        """Block until the views have seen a position, by default the newest; return False if that took too long."""
        return self._runner.wait(self._log.last_position if position is None else position, timeout)

    def chats(self) -> Tables | None:
        """Return the tables of the list of chats with all that is in the log; None if they cannot be brought there."""
        end = self._log.last_position
        while not (self._runner.wait(end, _LOOK_SECONDS, (Catalogue.name,)) and (end or self._is_made())):
            if self._runner.error is not None or self._runner.stopped:
                return None
        return self._tables

    def _is_made(self) -> bool:
        """Return True if the tables are there before anything is in the log; if not, give the runner a moment."""
        return self._tables.defined("catalogue_rows") or self._runner.wait(1, _MOMENT_SECONDS, (Catalogue.name,))

    def rebuild(self, names: Sequence[str]) -> None:
        """Make views anew behind those that serve."""
        self._runner.rebuild(names)

    def check_names(self, names: Sequence[str]) -> None:
        """Raise ValueError for a name that no view has."""
        self._runner.check_names(names)

    def verify(self) -> ViewVerification:
        """Compare every view with a fresh fold of the log."""
        return verify_views(self._log, self._tables, self._kinds, lambda: SQLiteTables(_IN_MEMORY))

    def status(self) -> list[ViewStatus]:
        """Return how far each view is."""
        return self._runner.status(microseconds(self._clock()))

    def purge(self) -> None:
        """Leave no byte of an erased message in the file."""
        self._tables.purge()

    def close(self) -> None:
        """Stop following."""
        self._runner.stop()

    def abandon_after_fork(self) -> None:
        """Give up thread and connections in the child of a fork."""
        self._runner.abandon_after_fork()
        self._tables.abandon_after_fork()
