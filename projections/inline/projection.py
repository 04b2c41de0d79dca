"""The inline projection: keeps the state tables at the end of the log, and rebuilds them if their definition changed.

What another program appended without them is replayed before anything is added.
"""

import logging
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from engine.domain.encoding import Unreadable
from engine.domain.events import PAYLOADS_CHANGED, ContentErased
from engine.domain.streams import LOG
from engine.log.envelope import Envelope
from engine.log.errors import (
    SAYS_NOTHING,
    CorruptLogError,
    CorruptStateError,
    LogError,
    ReadOnlyLogError,
    RefusedError,
    ReplacedTablesError,
)
from engine.log.protocol import Log, Progress, Queries, StateTables, Transaction
from engine.version import package_version
from projections.inline import quarantine
from projections.inline.changes import run
from projections.inline.erasing import fold_again
from projections.inline.fingerprint import fingerprint
from projections.inline.fold import Fold
from projections.inline.memory import HeadMemory
from projections.inline.quarantine import NAME
from projections.inline.shadow import STATE, TABLES
from projections.inline.states import ask, number, text, unusable

logger = logging.getLogger("engine.projections")

BEYOND = 1 << 62
"""As the end of a log when tables are begun: what is erased in it was erased before."""
_BATCH = 500
_PER_TRANSACTION = 5_000
BESIDE = (
    """CREATE TABLE IF NOT EXISTS projections (  -- How far the state tables are.
    name        TEXT PRIMARY KEY,  -- of a group of tables that are kept together
    fingerprint TEXT NOT NULL,     -- of the definition that made the tables
    version     TEXT NOT NULL,     -- of the package that made them
    generation  INTEGER NOT NULL,  -- how often they were replaced
    position    INTEGER NOT NULL,  -- how far they are
    began_at    INTEGER NOT NULL,  -- the end of the log when they were begun
    erased_at   INTEGER NOT NULL   -- of the last event they know of by which payloads were erased, archived or restored
)""",
    *quarantine.TABLES,
)
"""What is kept beside the state tables."""
_ADVANCE = "UPDATE projections SET position = ? WHERE name = ?"


class BehindError(Exception):
    """The tables are too far behind to be brought up to date within a command: `catch_up` comes first."""


_UNUSABLE = (RefusedError, ValueError, TypeError, KeyError, AttributeError, OverflowError)


class InlineTables:
    """The state tables of a store's log: lanes, sessions, platform message ids and open turns."""

    def __init__(self) -> None:
        self._memory = HeadMemory()
        self._known = (-1, -1)

    def create(self, transaction: Transaction) -> None:
        """Create the tables if there are none; those of another definition stay until theirs are rebuilt."""
        transaction.define(BESIDE)
        if definition(transaction, NAME) is None:
            for name in reversed(TABLES):
                transaction.execute(f"DROP TABLE IF EXISTS {name}")
            _define_state(transaction, 0, transaction.position)

    def apply(self, transaction: Transaction, events: Sequence[Envelope]) -> None:
        """Fold events that were appended past the store's commands; raise for one that no state can be made of."""
        first, last = events[0].position, events[-1].position
        if position(transaction) != first - 1:
            replay(transaction, first - 1)
        _fold_into_tables(transaction, events)
        transaction.execute(_ADVANCE, (last, NAME))

    def begin(self, transaction: Transaction) -> Fold:
        """Return the states a command decides on, with the tables brought to the end of the log."""
        here = transaction.position, transaction.rollbacks
        if self._known != here:
            if transaction.position - position(transaction) > _PER_TRANSACTION:
                raise BehindError
            if replay(transaction, transaction.position):
                self._memory.clear()
            self._known = here
        self._memory.refresh(transaction)
        return Fold(transaction, self._memory.heads)

    def forget(self) -> None:
        """Forget what is in memory: the tables were rebuilt. Under the write lock only."""
        self._memory.clear()
        self._known = (-1, -1)

    def write(self, transaction: Transaction, fold: Fold) -> None:
        """Write what a command changed. Its events are in the log, up to the transaction's position."""
        last = transaction.position
        run(transaction, [*fold.changes(), (_ADVANCE, (last, NAME))])
        self._memory.keep(fold.changed_heads, last)
        self._known = last, transaction.rollbacks


class Standing(NamedTuple):
    """The position that the tables are at, and the version of the build that made them if it is another one."""

    position: int
    other_version: str | None


def standing(reads: Queries) -> Standing:
    """Return how far the tables are, whoever made them."""
    sql = "SELECT position, fingerprint, version FROM projections WHERE name = ?"
    rows = ask(reads, "projections", sql, (NAME,))
    if not rows:
        raise unusable("projections", NAME, "it is missing")
    at, made_by, version = rows[0]
    ours = text("projections", NAME, made_by) == fingerprint()
    return Standing(number("projections", NAME, at), None if ours else str(version))


def position(reads: Queries) -> int:
    """Return how far the tables are; raise ReplacedTablesError if they are not those of this definition any more."""
    found = standing(reads)
    if found.other_version is not None:
        raise ReplacedTablesError(
            f"the state tables were rebuilt by another build of this package, version {found.other_version}, which "
            f"took the store over from this one, version {package_version()}; restart this process with that build"
        )
    return found.position


class Definition(NamedTuple):
    """The definition that made some tables, the version of the package it is of, and how often they were replaced."""

    fingerprint: str
    version: str
    generation: int


_UNKNOWN = Definition("", "0", 0)


def definition(reads: Queries, name: str) -> Definition | None:
    """Return what made some tables, which cannot be told of a damaged row; None if they do not exist."""
    sql = "SELECT fingerprint, version, generation FROM projections WHERE name = ?"
    try:
        rows = ask(reads, "projections", sql, (name,))
    except CorruptStateError:
        return _UNKNOWN
    found = Definition(*rows[0]) if rows else None
    return found if found is None or type(found.generation) is int else _UNKNOWN


def made_elsewhere(log: Log) -> bool:
    """Return True if another definition made the tables."""
    found = definition(log.reader, NAME)
    return found is not None and found.fingerprint != fingerprint()


def check_current(log: Log) -> None:
    """Raise ReadOnlyLogError if the tables of a log that is only read were made by another definition, or never."""
    try:
        made_by = definition(log.reader, NAME)
    except (CorruptLogError, *SAYS_NOTHING):
        raise
    except LogError:  # no such table
        made_by = None
    if made_by is None or made_by.fingerprint != fingerprint():
        raise ReadOnlyLogError(
            f"the state tables of {log.path} were made by another version of this package, or never; "
            "open it once with SessionStore, which rebuilds them"
        )


def catch_up(log: Log, progress: Progress | None = None) -> int:
    """Bring the tables to the end of the log in bounded transactions; return how many events that took."""
    total = 0
    while done := log.transact(lambda transaction: replay(transaction, transaction.position, _PER_TRANSACTION)):
        total += done
        if progress is not None:
            progress(total, max(total, log.last_position))
    log.transact(quarantine.report)
    return total


def make(tables: StateTables, generation: int = 0, began_at: int = 0) -> None:
    """Make empty tables where there are none, to be filled by `replay` from a log that ends at `began_at` now."""
    tables.define(BESIDE)
    _define_state(tables, generation, began_at)


def _define_state(tables: StateTables, generation: int, began_at: int) -> None:
    for module in STATE:
        tables.define(module.TABLES)
    mark(tables, 0, generation, began_at)


def mark(tables: StateTables, at: int, generation: int = 0, began_at: int = 0) -> None:
    """Write down how far new tables are."""
    tables.execute(
        "INSERT INTO projections VALUES (?,?,?,?,?,?,0)",
        (NAME, fingerprint(), package_version(), generation, at, began_at),
    )


def replay(transaction: StateTables, upto: int, limit: int | None = None) -> int:
    """Apply recorded events up to a position; return how many. One that cannot be used is quarantined."""
    after = position(transaction)
    ((began_at,),) = transaction.query("SELECT began_at FROM projections WHERE name = ?", (NAME,))
    stop = upto if limit is None else min(upto, after + limit)
    done = 0
    while after < stop:
        events = transaction.recorded(after, min(after + _BATCH, stop))
        apply_usable(transaction, events, began_at)
        done += len(events)
        after = min(after + _BATCH, stop)
    if done:
        transaction.execute(_ADVANCE, (stop, NAME))
    return done


def apply_usable(transaction: StateTables, events: Sequence[Envelope], began_at: int = 0) -> None:
    """Apply what others may have written: an event that cannot be used is quarantined, and the rest goes on."""
    try:
        transaction.attempt(partial(_fold_into_tables, events=events, began_at=began_at))
    except _UNUSABLE:
        for event in events:
            try:
                transaction.attempt(partial(_fold_into_tables, events=[event], began_at=began_at))
            except _UNUSABLE as error:
                why = error.__cause__ or error  # without the path of the file, so that it is the same in a copy
                aside = Unreadable(event.event.topic, b"", f"{type(error).__name__}: {why}")
                _fold_into_tables(transaction, [quarantine.replaced(event, aside)])


def _fold_into_tables(transaction: StateTables, events: Sequence[Envelope], began_at: int = 0) -> None:
    """Fold events into the tables. What was erased before the tables were begun was never in them."""
    fold = Fold(transaction)
    for each in events:
        content = each.event
        if isinstance(content, Unreadable):
            quarantine.put_aside(transaction, each.position, content.error)
        if isinstance(content, ContentErased):
            run(transaction, fold.changes())
            if each.position > began_at:
                fold_again(transaction, content.positions, each.position, apply_usable)
            transaction.execute("UPDATE projections SET erased_at = ? WHERE name = ?", (each.position, NAME))
            fold = Fold(transaction)
        elif isinstance(content, PAYLOADS_CHANGED):  # the tables say the same; what was read of the messages does not
            transaction.execute("UPDATE projections SET erased_at = ? WHERE name = ?", (each.position, NAME))
        elif each.stream != LOG:
            fold.replay(each.stream, content, each.time, each.version, each.position)
    run(transaction, fold.changes())
