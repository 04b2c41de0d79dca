"""Making the state tables again: behind those in use, in bounded transactions, put in their place in one step.

Where it stands is in the table `projections`, so whoever comes next goes on, after a kill too: a row for the tables
that are being built, and one for those that were replaced and wait to be emptied.
"""

import time
from collections.abc import Callable
from typing import NamedTuple

from engine.log.errors import SAYS_NOTHING, LogError
from engine.log.protocol import Log, Transaction
from engine.version import package_version
from projections.inline import quarantine
from projections.inline.fingerprint import fingerprint
from projections.inline.projection import Definition, definition, make, position, replay
from projections.inline.quarantine import NAME
from projections.inline.shadow import empty_old, put_aside, put_in_place, shadow

_BUILDING, _REPLACED = f"{NAME}.next", f"{NAME}.old"
_EVENTS, _ROWS = 2_000, 2_000
"""So much is done at a time: some 20 ms under the write lock."""
_LONGEST_PAUSE = 0.02
_PLACED = (
    "UPDATE projections SET fingerprint = ?, version = ?, generation = ?, position = ?, began_at = ?, erased_at = ? "
    "WHERE name = ?"
)

Announce = Callable[[Transaction], None]
"""Records in the log, with the last step, that the tables are those of another definition from there on."""


Around = Callable[[Transaction, Callable[[], None]], None]
"""Puts the tables in place by calling its second argument, and sees to what else is made over them."""


def _only_place(_: Transaction, place: Callable[[], None]) -> None:
    place()


class _Step(NamedTuple):
    events: int
    done: bool


def rebuild(log: Log, announce: Announce | None = None, around: Around = _only_place) -> int:
    """Make the tables again from the log alone and put them in place; return how many events that took.

    Those in use serve until then. Killed at any point, this leaves them as they were, and goes on the next time. With
    `announce` they replace those of another definition.
    """
    total = 0
    while True:
        step = _paused(log, lambda transaction: _build(transaction, announce, around))
        total += step.events
        if step.done:
            break
    discard(log)
    log.transact(quarantine.report)
    return total


def discard(log: Log, *, building: bool = False) -> None:
    """Empty and drop tables that were replaced, and with `building` those that somebody began to build too."""

    def start(transaction: Transaction) -> _Step:
        found = _clear(transaction)
        if found.done and building and definition(transaction, _BUILDING) is not None:
            _retire(transaction)
            return _Step(0, False)
        return found

    while not _paused(log, start).done:
        pass


def _paused(log: Log, step: Callable[[Transaction], _Step]) -> _Step:
    """Run a step, and leave the write lock to others for a while that is in proportion."""
    began = time.perf_counter()
    found = log.transact(step)
    if not found.done:
        time.sleep(min((time.perf_counter() - began) / 4, _LONGEST_PAUSE))
    return found


def _clear(transaction: Transaction) -> _Step:
    """Delete some of what is left of tables that were replaced."""
    if definition(transaction, _REPLACED) is None:
        return _Step(0, True)
    if not empty_old(transaction, _ROWS):
        return _Step(0, False)
    transaction.execute("DELETE FROM projections WHERE name = ?", (_REPLACED,))
    return _Step(0, True)


def _build(transaction: Transaction, announce: Announce | None, around: Around) -> _Step:
    """Apply some events to the tables that are being built, and put them in place once none is left."""
    if definition(transaction, _REPLACED) is not None:  # somebody else has just put theirs in place
        _clear(transaction)
        return _Step(0, False)
    used, building = definition(transaction, NAME), definition(transaction, _BUILDING)
    if announce is not None and used is not None and used.fingerprint == fingerprint():
        return _Step(0, True)  # and they are of this definition
    if building is not None and building.fingerprint != fingerprint():
        _retire(transaction)
        return _Step(0, False)
    building = building or _begin(transaction)
    behind = shadow(transaction, building.generation)
    done = replay(behind, transaction.position, _EVENTS)
    if position(behind) < transaction.position:
        return _Step(done, False)
    if announce is not None:
        announce(transaction)
        done += replay(behind, transaction.position)
    around(transaction, lambda: _place(transaction, building))
    return _Step(done, True)


def _begin(transaction: Transaction) -> Definition:
    """Create empty tables of the next generation beside those in use."""
    used = definition(transaction, NAME)
    generation = 1 if used is None else used.generation + 1
    try:
        transaction.attempt(lambda _: _make(transaction, generation))
    except SAYS_NOTHING:
        raise
    except LogError:  # a damaged row did not tell that those in use are of this generation
        generation += 1
        _make(transaction, generation)
    building = Definition(fingerprint(), package_version(), generation)
    _mark(transaction, _BUILDING, building)
    return building


def _make(transaction: Transaction, generation: int) -> None:
    make(shadow(transaction, generation), generation, transaction.position)


def _retire(transaction: Transaction) -> None:
    """Give up the tables that are being built, to be emptied step by step."""
    put_aside(transaction)
    _drop_companions(transaction)
    transaction.execute("UPDATE projections SET name = ? WHERE name = ?", (_REPLACED, _BUILDING))


def _place(transaction: Transaction, building: Definition) -> None:
    """Put the tables that were built in the place of those in use."""
    ((at, began_at, erased_at),) = transaction.query(
        "SELECT position, began_at, erased_at FROM projections_next WHERE name = ?", (NAME,)
    )
    used = definition(transaction, NAME) or building
    put_in_place(transaction)
    quarantine.forget(transaction)
    transaction.execute("INSERT INTO quarantine SELECT position, projection, error, reported FROM quarantine_next")
    _drop_companions(transaction)
    made_by = (building.fingerprint, building.version, building.generation)
    transaction.execute(_PLACED, (*made_by, at, began_at, erased_at, NAME))
    transaction.execute("DELETE FROM projections WHERE name = ?", (_BUILDING,))
    _mark(transaction, _REPLACED, used)


def _drop_companions(transaction: Transaction) -> None:
    """Drop what is kept beside the tables that are being built: how far they are, and their quarantine."""
    transaction.execute("DROP TABLE projections_next")
    transaction.execute("DROP TABLE quarantine_next")


def _mark(transaction: Transaction, name: str, tables: Definition) -> None:
    transaction.execute(
        "INSERT INTO projections VALUES (?,?,?,?,0,0,0)",
        (name, tables.fingerprint, tables.version, tables.generation),
    )
