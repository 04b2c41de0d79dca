"""Judging recorded messages again by another reset policy, with the rules that routing judges by (R12)."""

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

import msgspec

from engine.domain import events as e
from engine.domain.encoding import Content, Erased, decode
from engine.domain.lane import AHEAD, Lane, evolve, moves, touched
from engine.domain.policy import DEFAULT_FRESHNESS_SECONDS, daily_boundary
from engine.domain.streams import LANE, LOG
from engine.domain.times import microseconds
from engine.domain.verdict import KEEP, Verdict, judge
from replay.settings import Collector, Place, Rules, Settings, clock_time, place_of

TOPICS = (
    *(e.LaneRouted.TOPIC, e.LaneReset.TOPIC, e.LaneSwitched.TOPIC, e.LaneAdvanced.TOPIC, e.LaneTouched.TOPIC),
    *(e.LaneSuspended.TOPIC, e.ResumeMarked.TOPIC, e.ResumeCleared.TOPIC, e.LaneReleased.TOPIC, e.LanePruned.TOPIC),
    *(e.ExpiryFinalized.TOPIC, e.UsageRecorded.TOPIC, e.StoreOpened.TOPIC, e.StoreClosed.TOPIC),
)
"""Topics of everything a reset hangs on."""
_USAGE = e.UsageRecorded.TOPIC
_UNSEEN = "the policy is to be looked up"
_replace = msgspec.structs.replace
_MINUTE = 60_000_000
_LONGEST_DAY = 26 * 60 * _MINUTE
_SETS = (e.LaneRouted, e.LaneReset, e.LaneSwitched)

Changed = Callable[[Rules | None, Place], Rules]
"""Returns the policy to judge by, where another one was recorded."""


class Pair:
    """A lane as it was recorded, and as it would be: one object while the two are the same."""

    __slots__ = (
        *("added", "day", "gone", "idle", "key", "known", "other", "place", "recorded", "resets", "rules", "settings"),
        "tried",
    )

    def __init__(self, lane_id: str) -> None:
        self.recorded = self.other = Lane(lane_id)
        self.key = ""
        self.place = Place(None, None)
        self.known = True
        self.settings: Settings | str | None = _UNSEEN
        self.rules: Rules | None = None
        self.tried = Rules("none")
        self.idle: float = math.inf
        self.day: _Day | None = None
        self.resets = self.gone = self.added = 0

    def touch(self, at: int) -> None:
        """Move the idle clocks."""
        same = self.other is self.recorded
        self.recorded = touched(self.recorded, at)
        self.other = self.recorded if same else touched(self.other, at)

    def goes_on(self, settings: Settings | None, at: int) -> bool:
        """Return True if no clock can have reset the lane: told by numbers, as most messages follow soon on another."""
        lane, day = self.other, self.day
        return (
            self.settings is settings
            and not (lane.suspended or lane.resume_pending)
            and not lane.ahead_at
            and -AHEAD <= at - lane.updated_at <= self.idle
            and (day is None or day.first <= lane.updated_at <= at < day.end)
        )

    def both(self, event: Content, time: int) -> None:
        """Let an event that no policy decides happen to both."""
        same = self.other is self.recorded
        self.recorded = _slim(evolve(self.recorded, event, time, 0))
        if isinstance(event, _SETS):
            self.known, same = True, True
        self.other = self.recorded if same else _slim(evolve(self.other, event, time, 0))


class Change(msgspec.Struct, frozen=True, gc=False):
    """A message that the two policies judge differently."""

    pair: Pair
    position: int
    time: int
    recorded: Verdict
    other: Verdict


class Judge:
    """Judges message by message, and counts what the log cannot know."""

    def __init__(self, changed: Changed, platforms: frozenset[str] | None) -> None:
        self._changed = changed
        self._platforms = platforms
        self.pairs: dict[str, Pair] = {}
        self._settings = Collector()
        self._days: dict[tuple[tzinfo, int], _Day] = {}
        self._in_force: Settings | None = None
        self._freshness = DEFAULT_FRESHNESS_SECONDS
        self._freshness_recorded = False
        self.changes: list[Change] = []
        self.messages = self.erased = self.unrecorded = self.assumed = self.finalized = self.elsewhere = 0

    def add(self, row: Sequence[Any]) -> None:
        """Take in a row of the log, in the order of its columns as they are stored."""
        stream, _, topic, time, _, _, _, position, _, _, state = row
        if not stream.startswith(LANE):
            if stream == LOG:
                self._settings.add(decode(topic, state), position, time)
                self._in_force = self._settings.found[-1] if self._settings.found else None
            return
        pair = self.pairs.get(stream)
        if pair is None:
            pair = self.pairs[stream] = Pair(stream.removeprefix(LANE))
        if topic == _USAGE:  # that somebody spoke is all of it that counts here
            pair.touch(time)
            return
        event = decode(topic, state)
        if type(event) is e.LaneTouched:
            self._touched(pair, event, position)
        elif isinstance(event, e.LaneReset) and event.automatic:
            self._was_reset(pair, event, position, time)
        elif isinstance(event, e.LaneReleased):
            self._was_released(pair, event, position, time)
        elif isinstance(event, Erased):
            self._lose(pair, time)
        else:
            if isinstance(event, e.LaneRouted):
                self._name(pair, event.origin, event.key)
            self.finalized += isinstance(event, e.ExpiryFinalized)
            pair.both(event, time)

    def _touched(self, pair: Pair, event: e.LaneTouched, position: int) -> None:
        at, lane = event.at, pair.recorded
        other = KEEP
        if moves(lane.updated_at, at) and lane.session_id is not None:
            if event.held is None and pair.known and pair.goes_on(self._in_force, at):
                self.messages += 1
            else:
                recorded = KEEP if event.held is None else Verdict(None, event.held, event.saw)
                other = self._judge(pair, position, at, recorded)
        pair.touch(at)
        if other.reason is not None:
            pair.other = _fresh(pair, at)

    def _was_reset(self, pair: Pair, event: e.LaneReset, position: int, time: int) -> None:
        self._name(pair, event.origin, None)
        other = self._judge(pair, position, time, Verdict(event.cause, None, event.saw))
        before = pair.other
        pair.both(event, time)
        if other.reason is None:
            pair.other = touched(before, time)

    def _was_released(self, pair: Pair, event: e.LaneReleased, position: int, time: int) -> None:
        other = self._judge(pair, position, time, KEEP)
        pair.both(event, time)
        if other.reason is not None:
            pair.other = _fresh(pair, time)

    def _name(self, pair: Pair, origin: dict[str, Any] | None, key: str | None) -> None:
        pair.key = key or pair.key
        if origin is not None or key is not None:
            pair.place = place_of(Lane("", pair.key, origin=origin))
            pair.settings = _UNSEEN

    def _lose(self, pair: Pair, time: int) -> None:
        """Go on after an erased event: somebody was there, and what was decided is not known."""
        self.erased += 1
        pair.known = False
        pair.recorded = pair.other = _fresh(pair, max(pair.recorded.updated_at, time))

    def _judge(self, pair: Pair, position: int, at: int, recorded: Verdict) -> Verdict:
        """Return the verdict of the other policy, and take note if it differs from the recorded one."""
        if not pair.known or (self._platforms is not None and pair.place.platform not in self._platforms):
            return recorded
        self.messages += 1
        saw = recorded.saw
        if saw is not None and pair.recorded.resume_pending:
            self._freshness_recorded = True
            self._freshness = math.inf if saw.freshness_seconds is None else saw.freshness_seconds
        rules, tried = self._rules(pair, saw, at)
        self.unrecorded += rules is None
        pair.resets += recorded.reason is not None
        if _same_question(pair, rules, tried):
            return recorded
        other = self._verdict(pair, tried, at, recorded)
        if other.reason != recorded.reason:
            pair.gone += other.reason is None
            pair.added += recorded.reason is None
            self.changes.append(Change(pair, position, at, recorded, other))
        return other

    def _verdict(self, pair: Pair, tried: Rules, at: int, recorded: Verdict) -> Verdict:
        self.assumed += pair.other.resume_pending and not self._freshness_recorded
        held = recorded.held is not None
        return judge(pair.other, tried, self._now(recorded.saw, at), self._freshness, lambda: held)

    def _rules(self, pair: Pair, saw: e.DecisionInputs | None, at: int) -> tuple[Rules | None, Rules]:
        """Return the policy a message was judged by, which its decision saw or else was in force, and the other one."""
        settings = self._in_force
        if pair.settings is not settings:
            pair.settings, pair.rules = settings, None if settings is None else settings.rules(pair.place)
            pair.tried = tried = self._changed(pair.rules, pair.place)
            pair.idle = tried.idle_minutes * _MINUTE if tried.mode in ("idle", "both") else math.inf
            pair.day = self._day(_zone(settings), tried.at_hour) if tried.mode in ("daily", "both") else None
        if pair.day is not None:
            pair.day.move_to(min(pair.other.updated_at, at))  # one that is still to come would be its day for ever
        if saw is not None and saw.at_hour is not None and saw.idle_minutes is not None:
            rules = Rules(saw.mode, saw.at_hour, saw.idle_minutes)
            if rules != pair.rules:
                return rules, self._changed(rules, pair.place)
        return pair.rules, pair.tried

    def _day(self, zone: tzinfo, at_hour: int) -> "_Day":
        """Return the day that all lanes of a zone and an hour are in."""
        found = self._days.get((zone, at_hour))
        if found is None:
            found = self._days[zone, at_hour] = _Day(zone, at_hour)
        return found

    def _now(self, saw: e.DecisionInputs | None, at: int) -> datetime:
        settings = self._in_force
        now = clock_time(at, _zone(settings))
        offset = None if saw is None else saw.zone_offset_minutes
        if offset is not None and now.utcoffset() != timedelta(minutes=offset):
            return clock_time(at, timezone(timedelta(minutes=offset)))
        self.elsewhere += offset is None and (settings is None or settings.zone is None)
        return now


def _same_question(pair: Pair, recorded: Rules | None, tried: Rules) -> bool:
    """Return True if nothing differs from what was asked then: the recorded answer is better than a second one."""
    return tried == (recorded or Rules("none")) and pair.other == pair.recorded


class _Day:
    """A day from boundary to boundary, in microseconds: most messages in a row are of the same one."""

    def __init__(self, zone: tzinfo, at_hour: int) -> None:
        self._zone, self._at_hour = zone, at_hour
        self.first = self.end = 0

    def move_to(self, at: int) -> None:
        """Become the day of a time, unless it is a day that has gone by."""
        if at < self.end:
            return
        first = self._boundary(at)
        end = self._boundary(first + _LONGEST_DAY)
        # The boundary never goes back, so it is the same from the first moment to the last if it is at both.
        if self._boundary(end - 1) == first:
            self.first, self.end = first, end

    def _boundary(self, at: int) -> int:
        return microseconds(daily_boundary(clock_time(at, self._zone), self._at_hour))


def _zone(settings: Settings | None) -> tzinfo:
    return UTC if settings is None or settings.zone is None else settings.zone


def _fresh(pair: Pair, at: int) -> Lane:
    """Return a lane that was just led to a session."""
    return Lane(pair.recorded.lane_id, session_id="?", updated_at=at)


def _slim(lane: Lane) -> Lane:
    """Return what a verdict depends on, so that a million lanes fit into memory and equal ones are equal."""
    return Lane(
        lane.lane_id,
        session_id=None if lane.session_id is None else "?",
        updated_at=lane.updated_at,
        suspended=lane.suspended,
        resume_pending=lane.resume_pending,
        last_resume_marked_at=lane.last_resume_marked_at,
        ahead_at=lane.ahead_at,
        before_leap=lane.before_leap,
    )
