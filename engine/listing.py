"""The list of lanes, newest first, page by page: what is in the tables, moved by the touches that are still pending."""

from collections.abc import Iterator, Mapping
from datetime import datetime
from heapq import merge

from engine.domain.entry import SessionEntry
from engine.domain.lane import Lane, moves, touched as lane_touched
from engine.domain.streams import LANE
from engine.domain.times import microseconds
from engine.log.protocol import Queries, Snapshot
from engine.work import Touch
from projections.inline.lanes import Place, find_usable_lane, lanes_after, usable_lane_with_id

_PAGE = 500


def touched(lane: Lane, pending: Mapping[str, Touch]) -> Lane:
    """Return the lane with its pending touch."""
    touch = pending.get(lane.key)
    return lane if touch is None else lane_touched(lane, touch.at)


def place_of(entry: SessionEntry) -> Place:
    """Return where a lane stands in the list."""
    return Place(microseconds(entry.updated_at), entry.session_key)


def all_lanes(reads: Snapshot, pending: Mapping[str, Touch], since: int) -> Iterator[Lane]:
    """Yield every lane touched at or after a time once, newest first, a page in memory at a time.

    Those that somebody changes meanwhile, which may move them to where the list has been, follow at the end if they
    were not given yet. The log tells which: clocks of two processes differ, and one may have gone back.
    """
    begun = reads.last_position()
    given: set[int] = set()
    for lane in lanes_from(reads, pending, since):
        given.add(hash(lane.key))
        yield lane
    for stream in reads.changed_streams(begun, reads.last_position()):
        found = usable_lane_with_id(reads, stream.removeprefix(LANE)) if stream.startswith(LANE) else None
        moved = None if found is None else touched(found, pending)
        if moved is not None and moved.updated_at >= since and hash(moved.key) not in given:
            yield moved


def lanes_from(
    reads: Queries, pending: Mapping[str, Touch], since: int, after: Place | None = None, limit: int | None = None
) -> Iterator[Lane]:
    """Yield lanes touched at or after a time, newest first, beginning after a place; read few more than the limit."""
    page = _PAGE if limit is None else min(limit, _PAGE)
    there, moved = _there(reads, pending, since, after, page), _moved(reads, pending, since, after)
    return merge(there, moved, key=_order)


def _order(lane: Lane) -> tuple[int, str]:
    return -lane.updated_at, lane.key


def _there(reads: Queries, pending: Mapping[str, Touch], since: int, after: Place | None, page: int) -> Iterator[Lane]:
    """Yield the lanes that stand where the tables have them."""
    while page and (found := lanes_after(reads, after, since, page)):
        for lane in found:
            touch = pending.get(lane.key)
            if touch is None or not _stands_at(touch.at, lane):
                yield lane
        after = Place(found[-1].updated_at, found[-1].key)


def _moved(reads: Queries, pending: Mapping[str, Touch], since: int, after: Place | None) -> Iterator[Lane]:
    """Yield the lanes that stand where their pending touch has moved them, also if it was written meanwhile."""
    first = None if after is None else (-after.updated_at, after.key)
    for at, key in sorted((-touch.at, key) for key, touch in pending.items() if touch.at >= since):
        if first is None or (at, key) > first:
            lane = find_usable_lane(reads, key)
            if lane is not None and _stands_at(-at, lane):
                yield touched(lane, pending)


def _stands_at(at: int, lane: Lane) -> bool:
    """Return True if a lane stands at its pending touch, and not where the tables have it."""
    return at == lane.updated_at or moves(lane.updated_at, at)


def newest_entries_first(entries: list[SessionEntry]) -> list[SessionEntry]:
    """Return entries in order: those that moved while they were listed stood at the end."""
    entries.sort(key=lambda entry: entry.session_key)
    entries.sort(key=_updated_at, reverse=True)
    return entries


def _updated_at(entry: SessionEntry) -> datetime:
    return entry.updated_at
