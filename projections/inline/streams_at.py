"""The states of streams as they were at a position, folded from their own events, of which most need not be read.

Messages are the most of a log, and of them a head knows only the number: they are counted by their versions. So are the
turns of a session whose last one is over: a turn that ends is the one that is open. Touches and usage before a lane
was led to its session say nothing about it any more, and those after it are taken together.
"""

from collections.abc import Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, cast

from engine.domain import events as e
from engine.domain.encoding import Content, Unreadable, decode_many
from engine.domain.lane import SPENT, Lane
from engine.domain.streams import LANE, LOG, SESSION
from engine.domain.transcript import MESSAGES
from engine.log.protocol import Payload, Queries, Reader
from projections.inline.fold import TURNS, Fold

_WINDOW = 20_000
_COUNTED = sorted(MESSAGES)
_OPEN = frozenset({e.TurnBegun.TOPIC, e.TurnRenewed.TOPIC})
_SPENT = frozenset({e.LaneTouched.TOPIC, e.UsageRecorded.TOPIC})
_LED = frozenset({e.LaneRouted.TOPIC, e.LaneReset.TOPIC, e.LaneSwitched.TOPIC})
_topic, _state, _position = itemgetter(1), itemgetter(2), itemgetter(3)

Bad = Mapping[int, str]
"""Events in quarantine with their errors: they say nothing."""


class _Nothing:
    """Reads of tables in which nothing is: every state begins with the first event of its stream."""

    def query(self, _sql: str, _bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return []


def fold_streams(
    reads: Reader, versions: Mapping[str, int], position: int, bad: Bad, *, in_order: bool = False
) -> Fold:
    """Return the states that streams had at a position, when each had the version given.

    The events are read stream by stream, or with `in_order` as they stand in the log, which most of it is cheaper for.
    """
    fold = Fold(cast(Queries, _Nothing()))
    aside = _bad_messages(reads, versions, position, bad)
    for stream, rows in (_in_order if in_order else _by_stream)(reads, versions, position):
        if stream in aside:
            rows = sorted([*(row[:5] for row in rows), *aside[stream]])
        if stream.startswith(SESSION):
            _fold_session(fold, stream.removeprefix(SESSION), rows, versions[stream], bad)
        elif stream.startswith(LANE):
            _fold_lane(fold, stream.removeprefix(LANE), rows, bad)
        elif stream != LOG:
            for row, content in zip(rows, _read(rows, bad), strict=True):
                fold.replay(stream, content, row[4], row[0], row[3])
    return fold


def _by_stream(reads: Reader, versions: Mapping[str, int], position: int) -> Iterator[tuple[str, list[Payload]]]:
    for stream, version in versions.items():
        yield stream, reads.payloads(stream, -1, version, until_position=position, without=_COUNTED)


def _in_order(reads: Reader, versions: Mapping[str, int], position: int) -> Iterator[tuple[str, list[Payload]]]:
    rows: dict[str, list[Payload]] = {stream: [] for stream in versions}
    nothing: list[Payload] = []
    for first in range(0, position, _WINDOW):
        for stream, some in reads.undecoded(first, min(first + _WINDOW, position), _COUNTED).items():
            rows.get(stream, nothing).extend(some)
        nothing.clear()
    while rows:
        yield rows.popitem()


def _bad_messages(reads: Queries, versions: Mapping[str, int], position: int, bad: Bad) -> dict[str, list[Payload]]:
    """Return the messages that are in quarantine, by stream: they are not to be counted."""
    found: dict[str, list[Payload]] = {}
    for each in reads.recorded_at([at for at in bad if at <= position]) if bad else ():
        if each.stream in versions and each.event.topic in MESSAGES:
            row = each.version, each.event.topic, "{}", each.position, each.time
            found.setdefault(each.stream, []).append(row)
    return found


def _fold_session(fold: Fold, session_id: str, rows: list[Payload], upto: int, bad: Bad) -> None:
    kept = [row for row in rows if row[1] not in TURNS]
    passed = [row[0] for row in rows if row[1] in TURNS] if len(kept) < len(rows) else []
    if passed and next(row[1] for row in reversed(rows) if row[1] in TURNS) in _OPEN:
        kept, passed = rows, []
    others = 0
    for row, content in zip(kept, _read(kept, bad), strict=True):
        version, before = row[0], others
        while others < len(passed) and passed[others] < version:
            others += 1
        fold.pass_messages(session_id, version - 1, others - before)
        fold.on_session(fold.session_to_be(session_id), content, row[4], version, row[3])
    fold.pass_messages(session_id, upto, len(passed) - others)


def _fold_lane(fold: Fold, lane_id: str, rows: list[Payload], bad: Bad) -> None:
    led = [at for at, row in enumerate(rows) if row[1] in _LED]
    last = led[-1] if led else 0
    kept = [row for row in rows[:last] if row[1] not in _SPENT] + rows[last:] if last else rows
    contents, lane, first = _read(kept, bad), Lane(lane_id), 0
    while first < len(kept):
        end = first
        while end < len(kept) and type(contents[end]) in SPENT:
            end += 1
        if end > first:
            lane = fold.on_spent_lane(lane, contents[first:end], [row[4] for row in kept[first:end]], kept[end - 1][0])
            first = end
        else:
            version, _, _, position, time = kept[first][:5]
            lane = fold.on_lane(fold.lane_with_id(lane_id) or lane, contents[first], time, version, position)
            first += 1


def _read(rows: Sequence[Payload], bad: Bad) -> Sequence[Content]:
    """Return what rows say."""
    contents: Sequence[Content] = decode_many(list(map(_topic, rows)), list(map(_state, rows)))
    if bad and not bad.keys().isdisjoint(map(_position, rows)):
        return [
            Unreadable(row[1], b"", bad[row[3]]) if row[3] in bad else content
            for row, content in zip(rows, contents, strict=True)
        ]
    return contents
