"""Restoring: a store as it was at a moment, made anew from the log of another (R20)."""

import os
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path

import msgspec

from engine.acting import acting_now
from engine.clock import local_now
from engine.domain import events as e
from engine.domain.streams import LOG
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.log.protocol import Progress
from engine.log.sqlite.eventlog import EventLog
from replay.folders import new_store
from replay.opening import ACTOR
from replay.past import check_position

_WHY = "restored as of a position"


class RestoredStore(msgspec.Struct, frozen=True, kw_only=True):
    """A store that was made of a part of another one's log."""

    path: str
    position: int
    """The last event that was taken over, with the hash it had: the chain is the same up to there."""
    head: str
    left_out: int
    """How many events came later."""
    erased_since: int = 0
    """How many of the events taken over were erased later. They stay erased, and that is recorded again."""
    dry_run: bool = False


def restore(
    log: EventLog,
    folder: str | os.PathLike[str],
    position: int | None = None,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
    clock: Callable[[], datetime] = local_now,
) -> RestoredStore:
    """Make a store in a new folder of a log's events up to a position, by default all; the log is only read.

    The events have their positions, ids and hashes, so a head that was published before holds for both. What was erased
    or archived since stays so. Then `store.restored` says where it comes from, and the state tables are made.
    """
    last = log.last_position
    upto = last if position is None else position
    check_position(log, upto)
    later = [] if upto == last else _told_later(log, upto)
    erased = {at for each in later if isinstance(each.event, e.ContentErased) for at in each.event.positions}
    found = RestoredStore(
        path=str(Path(folder).absolute()),
        position=upto,
        head=log.head(upto),
        left_out=last - upto,
        erased_since=len(erased),
        dry_run=dry_run,
    )
    if dry_run:
        return found
    actor, reason = acting_now() or (ACTOR, None)
    origin = e.StoreRestored(position=upto, head=found.head, last_position=last)
    said = [*later, Envelope(LOG, NEXT_VERSION, origin, 0, actor, "restore", reason or _WHY)]
    copy = partial(log.copy_until, position=upto, progress=progress)
    with new_store(folder, clock, progress, copy) as made:
        made.append(said)
    return found


def _told_later(log: EventLog, upto: int) -> list[Envelope]:
    """Return what the log says, after a position, about the content of events up to it: erasures and archives."""
    found = []
    for each in log.events(after=upto, topics=[kind.TOPIC for kind in e.PAYLOADS_CHANGED]):
        event = each.event
        if isinstance(event, e.PAYLOADS_CHANGED):
            positions = [at for at in event.positions if at <= upto]
            if positions:
                kept = msgspec.structs.replace(event, positions=positions)
                found.append(Envelope(LOG, NEXT_VERSION, kept, each.time, each.actor, each.command, each.reason))
    return found
