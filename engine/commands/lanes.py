"""Commands on a lane (G34 to G41, G45)."""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any

import msgspec

from engine.command import Command, Sweep
from engine.commands.routing import claim, create_session, end
from engine.domain import events as e
from engine.domain.entry import SessionEntry
from engine.domain.keys import check_session_id, check_session_key
from engine.domain.lane import AHEAD, Lane, idle_since
from engine.domain.policy import reset_reason
from engine.domain.times import moment
from engine.domain.verdict import recently_active
from engine.errors import UnknownLaneError
from engine.log.protocol import Queries
from engine.model_override import sanitize_model_override
from engine.validation import checked_name, checked_number, checked_text, checked_usage
from engine.work import Work
from projections.inline.lanes import keys_before, keys_since

RESTART_TIMEOUT = "restart_timeout"
RESTART_INTERRUPTED = "restart_interrupted"
_EXPIRED = "expired"


class Notices(msgspec.Struct, frozen=True):
    """Notices for the user of a lane, handed out once. False when there is nothing to tell."""

    was_auto_reset: bool = False
    auto_reset_reason: str | None = None
    reset_had_activity: bool = False
    is_fresh_reset: bool = False

    def __bool__(self) -> bool:
        return self.was_auto_reset or self.is_fresh_reset


def update_session(session_key: str, usage: Mapping[str, Any]) -> Command[None]:
    return Command("update_session", _record_usage, (check_session_key(session_key), checked_usage(usage)))


def _record_usage(work: Work, key: str, usage: Mapping[str, Any]) -> None:
    lane = work.lane(key)
    if lane is not None and lane.session_id is not None:
        work.on_lane(lane, e.UsageRecorded(session_id=lane.session_id, **usage))


def suspend_session(session_key: str) -> Command[bool]:
    return Command("suspend_session", _suspend, (check_session_key(session_key),))


def _suspend(work: Work, key: str) -> bool:
    lane = work.lane(key)
    if lane is None or lane.session_id is None:
        return False
    if not lane.suspended:
        work.on_lane(lane, e.LaneSuspended(session_id=lane.session_id), "suspended by the host")
    return True


def mark_resume_pending(session_key: str, reason: str | None) -> Command[bool]:
    why = checked_name("reason", reason or RESTART_TIMEOUT)
    return Command("mark_resume_pending", mark_resume, (check_session_key(session_key), why, "marked by the host"))


def mark_resume(work: Work, key: str, reason: str, why: str | None = None) -> bool:
    """Mark a lane's session as cut off."""
    lane = work.lane(key)
    if lane is None or lane.session_id is None or lane.suspended:
        return False
    work.on_lane(lane, e.ResumeMarked(session_id=lane.session_id, resume_reason=reason), why or reason)
    return True


def clear_resume_pending(session_key: str) -> Command[bool]:
    return Command("clear_resume_pending", _clear_resume, (check_session_key(session_key),))


def _clear_resume(work: Work, key: str) -> bool:
    lane = work.lane(key)
    if lane is None or lane.session_id is None or not lane.resume_pending:
        return False
    work.on_lane(lane, e.ResumeCleared(session_id=lane.session_id), "resumed, or given up")
    return True


def suspend_recently_active(max_age_seconds: float) -> Sweep:
    age = checked_number("max_age_seconds", max_age_seconds)
    return Sweep("suspend_recently_active", partial(_recent, age), partial(_mark_recent, age))


def _recent(max_age_seconds: float, reads: Queries, now: int) -> list[str]:
    return keys_since(reads, now - int(max_age_seconds * 1e6))


def _mark_recent(max_age_seconds: float, work: Work, keys: list[str], now: int) -> int:
    """Mark those of some lanes that were active within the window as cut off."""
    return sum(
        mark_resume(work, key, RESTART_INTERRUPTED)
        for key in keys
        if (lane := work.readable_lane(key)) is not None and recently_active(lane, now, max_age_seconds)
    )


def reset_session(session_key: str, display_name: str | None) -> Command[SessionEntry | None]:
    name = None if display_name is None else checked_text("display_name", display_name)
    return Command("reset_session", _reset, (check_session_key(session_key), name))


def _reset(work: Work, key: str, display_name: str | None) -> SessionEntry | None:
    """Start over because somebody asked (G37)."""
    lane = work.lane(key)
    if lane is None or lane.session_id is None:
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


def switch_session(session_key: str, target_session_id: str) -> Command[SessionEntry | None]:
    target = check_session_id(target_session_id, "target_session_id")
    return Command("switch_session", _switch, (check_session_key(session_key), target))


def _switch(work: Work, key: str, target: str) -> SessionEntry | None:
    """Point a lane at another session that exists (G38)."""
    lane = work.lane(key)
    if lane is None or lane.session_id is None:
        return None
    if lane.session_id == target:
        return work.entry(lane)
    session = work.known(target)
    end(work, work.session(lane.session_id), "session_switch", f"the lane was switched to {target}")
    claim(work, session, lane, lane.origin, "a lane was switched to it")
    event = e.LaneSwitched(session_id=target, previous_session_id=lane.session_id)
    return work.entry(work.on_lane(lane, event, "switched by the host"))


def set_model_override(session_key: str, override: Mapping[str, Any] | None) -> Command[None]:
    if override is not None and not isinstance(override, Mapping):
        raise ValueError(f"override must be a dict or None, not {type(override).__name__}")
    kept = sanitize_model_override(override)
    return Command("set_model_override", _set_override, (check_session_key(session_key), kept))


def _set_override(work: Work, key: str, override: dict[str, str] | None) -> None:
    """Choose a lane's model; a lane that leads nowhere has none to choose, and nothing to forget (G39)."""
    lane = work.lane(key)
    if lane is None or lane.session_id is None:
        if override is not None:
            raise UnknownLaneError(key)
    elif override != lane.model_override:
        work.on_lane(lane, e.ModelOverrideSet(override=override))


def set_expiry_finalized(lane: str | SessionEntry | None, clear_model_override: bool) -> Command[bool]:
    key = lane.session_key if isinstance(lane, SessionEntry) else lane
    return Command("set_expiry_finalized", _finalize, (check_session_key(key), bool(clear_model_override)))


def _finalize(work: Work, key: str, clear_model_override: bool) -> bool:
    """End an expired session for its reason, so that neither pruning nor recovery brings it back (G40a)."""
    lane = work.lane(key)
    if lane is None or lane.session_id is None:
        return False
    if not lane.expiry_finalized:
        reason = _expiry_of(work, lane)
        end(work, work.session(lane.session_id), reason, f"the host finished its expiry: {reason}")
        lane = work.on_lane(lane, e.ExpiryFinalized(session_id=lane.session_id or ""))
    if clear_model_override and lane.model_override is not None:
        work.on_lane(lane, e.ModelOverrideSet(override=None), "the lane's session expired")
    return True


def _expiry_of(work: Work, lane: Lane) -> str:
    entry = work.entry(lane)
    policy = work.context.config.get_reset_policy(entry.platform, entry.chat_type)
    if lane.suspended:
        return "suspended"
    return reset_reason(policy, moment(idle_since(lane, work.time), work.now.tzinfo), work.now) or _EXPIRED


def prune_old_entries(max_age_days: float | None) -> Sweep:
    days = 0 if max_age_days is None else checked_number("max_age_days", max_age_days, 1e7)
    return Sweep("prune_old_entries", partial(_untouched, days), partial(_prune, days))


def _untouched(days: float, reads: Queries, now: int) -> list[str]:
    return [] if days <= 0 else keys_before(reads, now - int(days * 86_400e6), now + AHEAD)


def _prune(days: float, work: Work, keys: list[str], now: int) -> int:
    """Forget those of some lanes that were untouched for so long; their sessions and transcripts stay (G41)."""
    limit = now - int(days * 86_400e6)
    found = [lane for lane in map(work.readable_lane, keys) if lane is not None]
    for lane in found:
        if lane.updated_at > now + AHEAD and idle_since(lane, now) == now:
            work.on_lane(lane, e.LaneTouched(at=now), "it was used at a time that is still to come: that counts as now")
    old = [lane for lane in found if idle_since(lane, now) < limit and not lane.suspended]
    busy = work.all_busy([lane.key for lane in old])
    idle = [lane for lane in old if not busy[lane.key]]
    for lane in idle:
        untouched = (now - idle_since(lane, now)) / 86_400e6
        event = e.LanePruned(session_id=lane.session_id or "", untouched_days=round(untouched, 3))
        work.on_lane(lane, event, f"untouched for more than {days:g} days")
        work.note(
            logging.INFO,
            "lane %r of session %r was pruned: untouched for %.1f days",
            lane.key,
            lane.session_id,
            untouched,
        )
    return len(idle)


def consume_notices(session_key: str) -> Command[Notices]:
    return Command("consume_notices", _consume, (check_session_key(session_key),))


def _consume(work: Work, key: str) -> Notices:
    """Return what the user should be told, once (G45)."""
    lane = work.lane(key)
    if lane is None:
        return Notices()
    notices = Notices(lane.was_auto_reset, lane.auto_reset_reason, lane.reset_had_activity, lane.is_fresh_reset)
    if notices:
        work.on_lane(lane, e.NoticesConsumed(auto_reset=lane.was_auto_reset, fresh_reset=lane.is_fresh_reset))
    return notices
