"""Puts the simulation under the engine: its transactions, caches and commands, for one run."""

import contextlib
import random
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from types import FunctionType
from typing import Any

from engine import holders, runner
from engine.lane_cache import LaneCache
from engine.log.sqlite.backend import SQLiteBackend
from engine.log.sqlite.database import Database
from engine.log.sqlite.eventlog import EventLog
from engine.log.sqlite.tables import SQLiteTables
from engine.log.sqlite.transaction import SQLiteTransaction
from projections.inline.memory import HeadMemory
from projections.inline.projection import InlineTables
from projections.inline.transcripts import Transcripts
from tests.simulation.journal import Journal, Recorded
from tests.simulation.replaced import ENGINE, Replaced
from tests.simulation.scheduler import Scheduler

CACHES = (LaneCache, HeadMemory, InlineTables, Transcripts)


class Seams(Replaced):
    """Everything that is replaced while a simulation runs, and put back afterwards."""

    def __init__(self, scheduler: Scheduler, journal: Journal) -> None:
        super().__init__()
        self.scheduler = scheduler
        self.journal = journal
        self.connected: Callable[[Any], None] = lambda _connection: None
        self.opened: Callable[[EventLog], None] = lambda _log: None

    @contextlib.contextmanager
    def in_place(self, seed: int) -> Iterator[None]:
        """Replace what is to be replaced, until the end."""
        with self.put_back():
            self.modules(self.scheduler, random.Random(f"tokens {seed}"), ENGINE)
            self._transactions()
            self._caches()
            self._commands()
            yield

    def _transactions(self) -> None:
        journal, point = self.journal, self.scheduler.pause

        def begin(plain: Callable[..., Any], transaction: Any) -> None:
            point("begin")
            plain(transaction)
            journal.begun(transaction)

        def committed(plain: Callable[..., Any], transaction: Any) -> None:
            journal.committed(transaction)
            point("committed")
            plain(transaction)

        def undone(plain: Callable[..., Any], transaction: Any) -> None:
            journal.undone(transaction)
            plain(transaction)

        def attempt(plain: Callable[..., Any], transaction: Any, action: Any) -> Any:
            mark = journal.mark(transaction)
            try:
                return plain(transaction, action)
            except BaseException:
                journal.taken_back(transaction, mark, action)
                raise

        def commit(plain: Callable[..., Any], backend: Any) -> Any:
            point("commit")
            journal.committing(backend._transaction)
            return plain(backend)

        def connect(plain: Callable[..., Any], file: Any, flags: int) -> Any:
            connection = plain(file, flags)
            self.connected(connection)
            return connection

        def opened(plain: Callable[..., Any], log: Any, *arguments: Any, **named: Any) -> None:
            self.opened(log)
            plain(log, *arguments, **named)

        for owner, name, wrapper in (
            (EventLog, "__init__", opened),
            (SQLiteTransaction, "begin", begin),
            (SQLiteTransaction, "committed", committed),
            (SQLiteTransaction, "undone", undone),
            (SQLiteTransaction, "attempt", attempt),
            (SQLiteBackend, "commit", commit),
            (Database, "_connect", connect),
            (SQLiteTables, "_connect", connect),
        ):
            self.set(owner, name, self._around(vars(owner)[name], wrapper))

    def _caches(self) -> None:
        for owner in CACHES:
            for name, method in list(vars(owner).items()):
                if isinstance(method, FunctionType) and not name.startswith("__"):
                    self.set(owner, name, self._pointed(method, f"{owner.__name__}.{name}"))

    def _pointed(self, method: Callable[..., Any], label: str) -> Callable[..., Any]:
        point = self.scheduler.pause

        @wraps(method)
        def pointed(*arguments: Any, **named: Any) -> Any:
            point(label)
            return method(*arguments, **named)

        return pointed

    def _commands(self) -> None:
        recorded = type("RecordedHere", (Recorded,), {"journal": self.journal, "__slots__": ()})
        self.set(runner, "PendingCommand", recorded)
        plain = holders.is_gone

        def is_gone(holder: str | None) -> bool:
            gone = plain(holder)
            if holder is not None:
                self.journal.asked_if_gone(holder, gone)
            return gone

        for name, module in list(sys.modules.items()):
            if name.partition(".")[0] == "engine" and vars(module).get("is_gone") is plain:
                self.set(module, "is_gone", is_gone)

    def _around(self, plain: Callable[..., Any], wrapper: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(plain)
        def wrapped(*arguments: Any, **named: Any) -> Any:
            try:
                return wrapper(plain, *arguments, **named)
            except AssertionError as error:
                self.scheduler.fail(error)  # whoever catches it
                raise

        return wrapped
