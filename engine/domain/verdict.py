"""Verdicts on a lane's session when a message arrives: it goes on, or is stale (G22 to G24, G29, G30)."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from engine.domain import events as e
from engine.domain.lane import AHEAD, Lane, idle_since
from engine.domain.policy import ResetRules, reset_reason
from engine.domain.times import microseconds, moment


class Verdict(msgspec.Struct, frozen=True):
    """The outcome of a decision about a lane's session: a reset, one held back by running work, or neither."""

    reason: str | None = None
    held: str | None = None
    saw: e.DecisionInputs | None = None


KEEP = Verdict()


def judge(lane: Lane, policy: ResetRules, now: datetime, freshness: float, busy: Callable[[], bool]) -> Verdict:
    """Decide whether the lane needs an automatic reset. `busy` is only asked when it does.

    Suspension wins over everything (G22), also over running work: somebody asked for it. Otherwise the
    policy decides, and for a lane that waits to resume, the freshness window (G23). Running work holds
    back what a clock would do (G30).
    """
    if lane.suspended:
        return Verdict("suspended", None, _inputs(lane, policy, now, freshness))
    reason: str | None = None
    if policy.mode != "none":
        reason = reset_reason(policy, moment(idle_since(lane, microseconds(now)), UTC), now)
        if reason is None and lane.resume_pending and _stale_mark(lane, now, freshness):
            reason = "resume_pending_expired"
    if reason is None:
        return KEEP
    saw = _inputs(lane, policy, now, freshness)
    if busy():
        return Verdict(None, reason, msgspec.structs.replace(saw, busy=True))
    return Verdict(reason, None, saw)


def _stale_mark(lane: Lane, now: datetime, freshness: float) -> bool:
    return freshness > 0 and pending_seconds(lane, microseconds(now)) > freshness


def pending_seconds(lane: Lane, now: int) -> float:
    """Return how long the lane has waited to be resumed; a mark far ahead of now tells nothing."""
    marked = lane.last_resume_marked_at
    return (now - (idle_since(lane, now) if marked is None or marked > now + AHEAD else marked)) / 1e6


def _inputs(lane: Lane, policy: ResetRules, now: datetime, freshness: float) -> e.DecisionInputs:
    offset = now.utcoffset() or timedelta(0)
    return e.DecisionInputs(
        mode=policy.mode,
        at_hour=policy.at_hour,
        idle_minutes=policy.idle_minutes,
        idle_seconds=(microseconds(now) - idle_since(lane, microseconds(now))) / 1e6,
        freshness_seconds=freshness if lane.resume_pending and math.isfinite(freshness) else None,
        pending_seconds=pending_seconds(lane, microseconds(now)) if lane.resume_pending else None,
        zone_offset_minutes=int(offset.total_seconds()) // 60,
    )


def automatic_reset(
    lane: Lane, verdict: Verdict, session_id: str, source: dict[str, Any], display_name: str | None
) -> e.LaneReset:
    """Return the event of a lane's automatic reset (G25)."""
    return e.LaneReset(
        session_id=session_id,
        previous_session_id=lane.session_id or "",
        cause=verdict.reason or "",
        automatic=True,
        had_activity=lane.last_prompt_tokens > 0,
        origin=source,
        display_name=display_name,
        saw=verdict.saw,
    )


def recently_active(lane: Lane, now: int, max_age_seconds: float) -> bool:
    """Return True if a restart may have cut this lane off (G36)."""
    cut_off = not lane.suspended and not lane.resume_pending
    return cut_off and lane.updated_at >= now - int(max_age_seconds * 1e6)
