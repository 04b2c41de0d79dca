"""What a host does to a lane (G34 to G41, G45)."""

import msgspec

from engine.commands.routing import create_session, end
from engine.domain import events as e
from engine.domain.entry import SessionEntry, sanitize_model_override
from engine.domain.lane import recently_active
from engine.domain.session import claiming
from engine.errors import UnknownLaneError
from engine.work import Work
from projections.routing import lanes_before, lanes_since

RESTART_INTERRUPTED = "restart_interrupted"


class Notices(msgspec.Struct, frozen=True):
    """What is to be told to the user of a lane, once. False when there is nothing to tell."""

    was_auto_reset: bool = False
    auto_reset_reason: str | None = None
    reset_had_activity: bool = False
    is_fresh_reset: bool = False

    def __bool__(self) -> bool:
        return self.was_auto_reset or self.is_fresh_reset


def record_usage(work: Work, key: str, usage: dict[str, int | float | None]) -> None:
    lane = work.lane(key)
    if lane.session_id is not None:
        work.on_lane(lane, e.UsageRecorded(session_id=lane.session_id, **usage))  # type: ignore[arg-type]


def suspend(work: Work, key: str) -> bool:
    lane = work.lane(key)
    if lane.session_id is not None and not lane.suspended:
        work.on_lane(lane, e.LaneSuspended(session_id=lane.session_id), "suspended by the host")
    return lane.session_id is not None


def mark_resume(work: Work, key: str, reason: str) -> bool:
    lane = work.lane(key)
    if lane.session_id is None or lane.suspended:
        return False
    work.on_lane(lane, e.ResumeMarked(session_id=lane.session_id, resume_reason=reason), reason)
    return True


def clear_resume(work: Work, key: str) -> bool:
    lane = work.lane(key)
    if lane.session_id is None or not lane.resume_pending:
        return False
    work.on_lane(lane, e.ResumeCleared(session_id=lane.session_id), "resumed, or given up")
    return True


def mark_recently_active(work: Work, max_age_seconds: float) -> int:
    work.write_touches()
    recorded = [lane.key for lane in lanes_since(work.query, work.time - int(max_age_seconds * 1e6))]
    return sum(
        mark_resume(work, key, RESTART_INTERRUPTED)
        for key in dict.fromkeys([*recorded, *work.touched])
        if recently_active(work.lane(key), work.time, max_age_seconds)
    )


def reset(work: Work, key: str, display_name: str | None) -> SessionEntry | None:
    """Start over because somebody asked (G37)."""
    lane = work.lane(key)
    if lane.session_id is None:
        return None
    end(work, work.session(lane.session_id), "session_reset", "reset by the host")
    created = create_session(work, key, lane.origin, "reset by the host")
    event = e.LaneReset(
        session_id=created.session_id,
        previous_session_id=lane.session_id,
        cause="session_reset",
        automatic=False,
        had_activity=lane.last_prompt_tokens > 0,
        display_name=lane.display_name if display_name is None else display_name,
    )
    return work.entry(work.on_lane(lane, event, "reset by the host"))


def switch(work: Work, key: str, target: str) -> SessionEntry | None:
    """Point a lane at another session that exists (G38)."""
    lane = work.lane(key)
    if lane.session_id is None:
        return None
    if lane.session_id == target:
        return work.entry(lane)
    session = work.known(target)
    end(work, work.session(lane.session_id), "session_switch", f"the lane was switched to {target}")
    claim = claiming(session, key, lane.origin)
    if claim is not None:
        work.on_session(session, claim, "a lane was switched to it")
    event = e.LaneSwitched(session_id=target, previous_session_id=lane.session_id)
    return work.entry(work.on_lane(lane, event, "switched by the host"))


def set_model_override(work: Work, key: str, override: object) -> None:
    """Choose a lane's model; a lane that leads nowhere has none to choose, and nothing to forget (G39)."""
    lane = work.lane(key)
    kept = sanitize_model_override(override)
    if lane.session_id is None and kept is not None:
        raise UnknownLaneError(key)
    if lane.session_id is not None and kept != lane.model_override:
        work.on_lane(lane, e.ModelOverrideSet(override=kept))


def finalize_expiry(work: Work, key: str) -> bool:
    lane = work.lane(key)
    if lane.session_id is not None and not lane.expiry_finalized:
        work.on_lane(lane, e.ExpiryFinalized(session_id=lane.session_id))
    return lane.session_id is not None


def prune(work: Work, days: float) -> int:
    """Forget lanes untouched for so long; their sessions and transcripts stay (G41)."""
    if days <= 0:
        return 0
    work.write_touches()
    limit = work.time - int(days * 86_400e6)
    lanes = [work.lane(lane.key) for lane in lanes_before(work.query, limit)]
    old = [lane for lane in lanes if lane.updated_at < limit and not lane.suspended]
    busy = work.all_busy([lane.key for lane in old])
    idle = [lane for lane in old if not busy[lane.key]]
    for lane in idle:
        untouched = (work.time - lane.updated_at) / 86_400e6
        event = e.LanePruned(session_id=lane.session_id or "", untouched_days=round(untouched, 3))
        work.on_lane(lane, event, f"untouched for more than {days:g} days")
    return len(idle)


def consume_notices(work: Work, key: str) -> Notices:
    """Say what the user should be told, once (G45)."""
    lane = work.lane(key)
    notices = Notices(lane.was_auto_reset, lane.auto_reset_reason, lane.reset_had_activity, lane.is_fresh_reset)
    if notices:
        event = e.NoticesConsumed(auto_reset=lane.was_auto_reset, fresh_reset=lane.is_fresh_reset)
        work.on_lane(lane, event)
    return notices
