"""Salvaging: what can be read of a damaged log, in a new store, and a report of what cannot (R19)."""

import os
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import msgspec

from engine.acting import acting_now
from engine.clock import local_now
from engine.domain import events as e
from engine.domain.encoding import archived_digest, decode, tombstone_digest
from engine.domain.registry import Event
from engine.domain.streams import LOG
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.log.protocol import Progress, Transaction
from engine.log.rows import Row, SalvagedRows, to_row
from engine.log.sqlite.eventlog import DEFAULT_PAYLOAD_LIMIT, EventLog
from replay.folders import new_store
from replay.opening import ACTOR

_AT_ONCE = 1000
_TOLD = 200
_WHY = "what could be read of a damaged log"
_UNSAID = "the event that said so could not be read"
_UNKNOWN = "an archive whose name was lost"


class Damage(msgspec.Struct, frozen=True):
    """A run of positions that were lost or changed in the same way."""

    first: int
    last: int
    problem: str


class Salvage(msgspec.Struct, frozen=True, kw_only=True):
    """A store that was made of what could be read of a damaged one."""

    path: str
    events: int
    """How many events were brought over."""
    lost: int
    """How many could not be read, or did not match their hash; an event that says so stands at each position."""
    changed: int = 0
    """How many were brought over although they do not match their hash, as was asked for."""
    unchecked: int = 0
    """How many stand behind a lost one, so that no hash tells whether they are as they were."""
    damage: tuple[Damage, ...] = ()
    """Where, up to 200 runs of it."""
    end_known: bool = True
    """False if the end of the log was cut off, so that nobody can say how much stood there."""
    dry_run: bool = False


def salvage(
    log: EventLog,
    folder: str | os.PathLike[str],
    *,
    keep_changed: bool = False,
    dry_run: bool = False,
    progress: Progress | None = None,
    clock: Callable[[], datetime] = local_now,
) -> Salvage:
    """Make a store in a new folder of what can be read of a log; the log is only read.

    Each event keeps its position, id, time, actor and reason; the hashes are new, and the log has an id of its own.
    What is lost is replaced by `log.lost`, and what was changed too, unless `keep_changed`. At the end `log.salvaged`
    says how much of either, and payloads whose erasure was lost have it recorded again.
    """
    found = log.salvaged()
    taken = _Taken(keep_changed)
    rows = taken.rows(found, progress)
    if dry_run:
        for _ in rows:
            pass
    else:
        actor, reason = acting_now() or (ACTOR, None)
        with new_store(folder, clock, progress) as made:
            while some := list(islice(rows, _AT_ONCE)):
                made.transact(partial(_append, rows=some))
            said = taken.said(reason)
            made.append([Envelope(LOG, NEXT_VERSION, event, 0, actor, "salvage", why) for event, why in said])
    return taken.report(folder, found, dry_run=dry_run)


def _append(transaction: Transaction, rows: list[Row]) -> None:
    transaction.append_rows(rows)


class _Tally(NamedTuple):
    events: int = 0
    lost: int = 0
    changed: int = 0
    unchecked: int = 0


class _Taken:
    """The part of a damaged log that is taken over, and what was wrong with the rest."""

    def __init__(self, keep_changed: bool) -> None:
        self._keep_changed = keep_changed
        self._tally = _Tally()
        self._damage: list[Damage] = []
        self._versions: dict[str, int] = {}
        self._time = 1
        self._erased: set[int] = set()
        self._archived: set[int] = set()

    def rows(self, found: SalvagedRows, progress: Progress | None) -> Iterator[Row]:
        """Yield the rows of the new log, one for each position of the old one."""
        for each in found.rows:
            if progress is not None:
                progress(each.position, found.last)
            row, problem = each.row, each.problem
            if row is None or (problem is not None and not self._keep_changed):
                yield self._lost(each.position, problem or "it cannot be read")
                continue
            if problem is not None:
                self._note(each.position, problem)
            self._count(events=1, changed=problem is not None, unchecked=problem is None and not each.checked)
            self._look_at(each.position, row)
            yield self._placed(row)

    def _lost(self, position: int, problem: str) -> Row:
        self._note(position, problem)
        self._count(lost=1)
        event = e.EventLost(error=problem)
        return self._placed(to_row(Envelope(LOG, 1, event, self._time, ACTOR, "salvage", _WHY), DEFAULT_PAYLOAD_LIMIT))

    def _placed(self, row: Row) -> Row:
        """Return a row with the version that is next in its stream, which has a gap where something was lost."""
        before = self._versions.get(row.stream)
        version = before + 1 if before is not None else row.version if row.version in (0, 1) else 1
        self._versions[row.stream] = version
        self._time = row.time or 1
        return row._replace(version=version, time=self._time)

    def _look_at(self, position: int, row: Row) -> None:
        """Remember which payloads are gone, and of which it is recorded why."""
        if tombstone_digest(row.state):
            self._erased.add(position)
        elif archived_digest(row.state):
            self._archived.add(position)
        event = decode(row.topic, row.state) if row.topic in _SAYING else None
        if isinstance(event, e.ContentErased):
            self._erased.difference_update(event.positions)
        elif isinstance(event, e.ContentArchived):
            self._archived.difference_update(event.positions)

    def said(self, reason: str | None) -> list[tuple[Event, str]]:
        """Return the events that end the new log, each with its reason."""
        done, said = self._tally, list[tuple[Event, str]]()
        if self._erased:
            said.append((e.ContentErased(positions=sorted(self._erased)), _UNSAID))
        if self._archived:
            said.append((e.ContentArchived(positions=sorted(self._archived), archive=_UNKNOWN), _UNSAID))
        said.append((e.LogSalvaged(events=done.events, lost=done.lost, changed=done.changed), reason or _WHY))
        return said

    def report(self, folder: str | os.PathLike[str], found: SalvagedRows, *, dry_run: bool) -> Salvage:
        """Return what was taken over, and what was not."""
        path, damage = str(Path(folder).absolute()), tuple(self._damage)
        return Salvage(path=path, damage=damage, end_known=found.end_known, dry_run=dry_run, **self._tally._asdict())

    def _count(self, events: int = 0, lost: int = 0, changed: bool = False, unchecked: bool = False) -> None:
        was = self._tally
        self._tally = _Tally(was.events + events, was.lost + lost, was.changed + changed, was.unchecked + unchecked)

    def _note(self, position: int, problem: str) -> None:
        last = self._damage[-1] if self._damage else None
        if last is not None and last.last == position - 1 and last.problem == problem:
            self._damage[-1] = Damage(last.first, position, problem)
        elif len(self._damage) < _TOLD:
            self._damage.append(Damage(position, position, problem))


_SAYING = (e.ContentErased.TOPIC, e.ContentArchived.TOPIC)
