"""Healing: what the state tables and the views have otherwise than the log, and making them again from it (R19)."""

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from engine.acting import acting_now
from engine.domain import events as e
from engine.domain.streams import LOG
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.log.errors import CorruptLogError, LogError, NotALogError
from engine.log.protocol import Log, Progress
from engine.log.sqlite.eventlog import EventLog
from engine.log.sqlite.structure import definition_problem
from engine.store import SessionStore
from engine.verification import not_compared, verify_store
from engine.views import VIEWS_FILE
from projections.inline.comparison import Difference, differences
from replay.opening import ACTOR, open_log, open_store, open_views

_MOST = 100
_WHY = "the state tables disagreed with the log"
_WAIT_SECONDS = 0.2
_SALVAGE = "`sessions salvage TO` brings what can be read into a new store, or restore a backup"
_RESTORE = "its events are sound: `sessions restore FROM TO` makes a new store of them"


class Disagreement(msgspec.Struct, frozen=True, kw_only=True):
    """A row that is not what the log says."""

    table: str
    key: str | None
    problem: str
    position: int | None = None
    """The last event that the row is made of."""
    event: str | None = None
    """The type of that event."""
    values: dict[str, tuple[Any, Any]] = {}
    """The columns that differ: what the log says, and what the table says."""


class Healing(msgspec.Struct, frozen=True, kw_only=True):
    """The result of `heal`: what differed, and whether it was made again."""

    rows: int
    """How many rows were as the log says."""
    found: tuple[Disagreement, ...] = ()
    """What was not, at most a hundred rows."""
    views: tuple[str, ...] = ()
    """The views that were not what the log says; `views.db` if that cannot be read.

    They are made of the tables too, so where those differ a dry run does not look at them.
    """
    healed: bool = False
    """True if something was made again."""
    events: int = 0
    """How many events that took."""
    dry_run: bool = False
    not_compared: str | None = None
    """The reason, if the tables were not compared: another build made them, and opening the store makes them again."""


def heal(where: str | os.PathLike[str], *, dry_run: bool = False, progress: Progress | None = None) -> Healing:
    """Make the state tables and the views of a store again from its log if they differ from it, and record it.

    Others may go on using the store. Raise CorruptLogError, and change nothing, if the log itself is damaged: nothing
    can be made of it; `salvage` takes what can be read.
    """
    with open_log(where) as log:
        beside = _damage_beside(log, progress)
        why = not_compared(log)
        rows, found = (0, ()) if why is not None else _compared(log, progress)
        found = found or beside
        views = () if found or why is not None else _other_views(log)
    healing = Healing(rows=rows, found=found, views=views, dry_run=dry_run, not_compared=why)
    if dry_run or not (found or views):
        return healing
    events = 0
    if found:
        with open_store(where) as store:
            events = _made_again(store, found)
        with open_log(where) as log:
            views = _other_views(log)  # they are made of the tables too
    if views:
        _make_views(where, views, progress)
    with open_log(where) as log:
        left = verify_store(log, progress, None)
    if not left.ok:
        raise CorruptLogError(f"the tables were made again, and still: {left.problem}; {_RESTORE}", left.bad_position)
    return msgspec.structs.replace(healing, healed=True, events=events, views=views)


def _made_again(store: SessionStore, found: tuple[Disagreement, ...]) -> int:
    """Make the state tables again and say so in the log; return how many events that took."""
    try:
        events = store.rebuild()
    except CorruptLogError as error:
        raise CorruptLogError(f"the tables cannot be made again in this file; {_RESTORE}: {error}") from error
    store.log.append([_said(found)])
    return events


def _damage_beside(log: EventLog, progress: Progress | None) -> tuple[Disagreement, ...]:
    """Return the damage of the file that is in no row of the log; raise CorruptLogError for any other."""
    found = log.verify(progress)
    if found.ok:
        return ()
    sound = found.bad_position is None and _rows_are_sound(log, progress)
    if sound and definition_problem(log.reader) is None:
        return (Disagreement(table="sqlite_schema", key=None, problem=str(found.problem)),)
    raise CorruptLogError(
        f"the log itself is damaged, so nothing was changed: {found.problem}; {_RESTORE if sound else _SALVAGE}",
        found.bad_position,
    )


def _rows_are_sound(log: EventLog, progress: Progress | None) -> bool:
    """Return True if only what is made of the events is damaged: a table or an index beside them."""
    found = log.salvaged()
    for each in found.rows:
        if each.problem is not None:
            return False
        if progress is not None and not each.position % 1000:
            progress(each.position, found.last)
    return True


def _compared(log: Log, progress: Progress | None) -> tuple[int, tuple[Disagreement, ...]]:
    try:
        rows, found = differences(log, _MOST, progress)
    except CorruptLogError as error:  # a page of a state table: the log was looked at before
        return 0, (Disagreement(table="sqlite_schema", key=None, problem=str(error)),)
    return rows, tuple(_told(log, each) for each in found)


def _told(log: Log, each: Difference) -> Disagreement:
    event = None
    if each.position is not None:
        event = next((row.event.topic for row in log.reader.recorded_at([each.position])), None)
    values = {name: (ours, theirs) for name, ours, theirs in each.values}
    return Disagreement(
        table=each.table, key=each.key, problem=each.problem, position=each.position, event=event, values=values
    )


def _other_views(log: EventLog) -> tuple[str, ...]:
    """Return the views beside a log that are not what it says, or their file if it cannot be read."""
    if not Path(log.path).with_name(VIEWS_FILE).exists():
        return ()
    try:
        with closing(open_views(log)) as views:
            difference = views.verify().difference
    except (CorruptLogError, NotALogError):
        return (VIEWS_FILE,)
    return () if difference is None else (difference.view,)


def _said(found: tuple[Disagreement, ...]) -> Envelope:
    actor, reason = acting_now() or (ACTOR, None)
    first = found[0]
    event = e.TablesHealed(
        table=first.table, rows=len(found), key=first.key, position=first.position, problem=first.problem
    )
    return Envelope(LOG, NEXT_VERSION, event, 0, actor, "heal", reason or _WHY)


def _make_views(where: str | os.PathLike[str], names: tuple[str, ...], progress: Progress | None) -> None:
    """Make views again behind those that serve; a file that cannot be read is deleted, and made anew."""
    if VIEWS_FILE in names:
        folder = Path(where) if Path(where).is_dir() else Path(where).parent
        for end in ("-wal", "-shm", ""):
            (folder / f"{VIEWS_FILE}{end}").unlink(missing_ok=True)
    with open_store(where) as store:
        last = store.log.last_position
        store.wait_for_views(last, None)
        if VIEWS_FILE in names:
            return
        store.rebuild_views(*names)
        while behind := [each for each in store.health().views if each.building_position is not None]:
            if any(each.error for each in behind):
                raise LogError(f"the view {behind[0].name} cannot be made again: {behind[0].error}")
            if progress is not None:
                progress(min(each.building_position or 0 for each in behind), last)
            store.wait_for_views(last + 1, _WAIT_SECONDS)
