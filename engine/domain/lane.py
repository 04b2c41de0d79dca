"""A lane: what its events make of it (evolve), and what a message or a clock does to it (judge).

Nothing here reads a clock, a file or a table. Times are UTC microseconds; `now` is handed in.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any

import msgspec

from engine.domain import events as e
from engine.domain.encoding import Content
from engine.domain.entry import SessionEntry, sanitize_model_override
from engine.domain.platforms import Platform
from engine.domain.policy import SessionResetPolicy, reset_reason
from engine.domain.sources import SessionSource

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


class Lane(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a lane stands. Without a session id it leads nowhere and has nothing but its version."""

    key: str
    version: int = 0
    session_id: str | None = None
    created_at: int = 0
    updated_at: int = 0
    origin: dict[str, Any] | None = None
    display_name: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    last_prompt_tokens: int = 0
    cost_usd: float = 0.0
    cost_known: bool = False
    was_auto_reset: bool = False
    auto_reset_reason: str | None = None
    reset_had_activity: bool = False
    is_fresh_reset: bool = False
    expiry_finalized: bool = False
    suspended: bool = False
    resume_pending: bool = False
    resume_reason: str | None = None
    last_resume_marked_at: int | None = None
    model_override: dict[str, str] | None = None


def microseconds(moment: datetime) -> int:
    """A moment as the log keeps it."""
    return (moment - _EPOCH) // _MICROSECOND


def moment(time: int, zone: tzinfo | None) -> datetime:
    """A moment of the log in a zone, with a fixed offset: two of them can be subtracted across DST."""
    there = (_EPOCH + timedelta(microseconds=time)).astimezone(zone)
    return there.replace(tzinfo=timezone(there.utcoffset() or timedelta(0)), fold=0)


# Evolve: one small function per event


def _routed(lane: Lane, event: e.LaneRouted, time: int) -> Lane:
    return _fresh(lane, event.session_id, event.began_at or time, time, event.origin, event.display_name)


def _reset(lane: Lane, event: e.LaneReset, time: int) -> Lane:
    origin = lane.origin if event.origin is None else event.origin
    fresh = _fresh(lane, event.session_id, time, time, origin, event.display_name)
    if not event.automatic:
        return msgspec.structs.replace(fresh, is_fresh_reset=True)
    return msgspec.structs.replace(
        fresh, was_auto_reset=True, auto_reset_reason=event.cause, reset_had_activity=event.had_activity
    )


def _switched(lane: Lane, event: e.LaneSwitched, time: int) -> Lane:
    return _fresh(lane, event.session_id, time, time, lane.origin, lane.display_name)


def _fresh(
    lane: Lane, session_id: str, created_at: int, now: int, origin: dict[str, Any] | None, name: str | None
) -> Lane:
    """The lane on another session: flags, counts and the model override do not come along."""
    return Lane(lane.key, lane.version, session_id, created_at, now, origin, name)


def _usage(lane: Lane, event: e.UsageRecorded, time: int) -> Lane:
    prompt = event.last_prompt_tokens
    return msgspec.structs.replace(
        lane,
        updated_at=max(lane.updated_at, time),
        last_prompt_tokens=lane.last_prompt_tokens if prompt is None else prompt,
        input_tokens=lane.input_tokens + event.input_tokens,
        output_tokens=lane.output_tokens + event.output_tokens,
        cache_read_tokens=lane.cache_read_tokens + event.cache_read_tokens,
        cache_write_tokens=lane.cache_write_tokens + event.cache_write_tokens,
        cost_usd=lane.cost_usd + (event.cost_usd or 0.0),
        cost_known=lane.cost_known or event.cost_usd is not None,
    )


def _marked(lane: Lane, event: e.ResumeMarked, time: int) -> Lane:
    return msgspec.structs.replace(
        lane, resume_pending=True, resume_reason=event.resume_reason, last_resume_marked_at=time
    )


def _unmarked(lane: Lane, _event: e.ResumeCleared, _time: int) -> Lane:
    return msgspec.structs.replace(lane, resume_pending=False, resume_reason=None, last_resume_marked_at=None)


def _consumed(lane: Lane, event: e.NoticesConsumed, _time: int) -> Lane:
    if event.auto_reset:
        lane = msgspec.structs.replace(lane, was_auto_reset=False, auto_reset_reason=None, reset_had_activity=False)
    return msgspec.structs.replace(lane, is_fresh_reset=lane.is_fresh_reset and not event.fresh_reset)


_Step = Callable[[Lane, Any, int], Lane]
_EVOLVE: dict[type, _Step] = {
    e.LaneRouted: _routed,
    e.LaneReset: _reset,
    e.LaneSwitched: _switched,
    e.LaneAdvanced: lambda lane, event, _: msgspec.structs.replace(lane, session_id=event.session_id),
    e.LaneSuspended: lambda lane, _, __: msgspec.structs.replace(lane, suspended=True),
    e.ResumeMarked: _marked,
    e.ResumeCleared: _unmarked,
    e.LaneTouched: lambda lane, event, _: msgspec.structs.replace(lane, updated_at=max(lane.updated_at, event.at)),
    e.LaneReleased: lambda lane, _, __: Lane(lane.key, lane.version),
    e.LanePruned: lambda lane, _, __: Lane(lane.key, lane.version),
    e.ModelOverrideSet: lambda lane, event, _: msgspec.structs.replace(
        lane, model_override=sanitize_model_override(event.override)
    ),
    e.NoticesConsumed: _consumed,
    e.ExpiryFinalized: lambda lane, _, __: msgspec.structs.replace(lane, expiry_finalized=True),
    e.UsageRecorded: _usage,
}


def evolve(lane: Lane, event: Content, time: int, version: int) -> Lane:
    """The lane after an event; an event that says nothing about it moves only its version."""
    step = _EVOLVE.get(type(event))
    changed = lane if step is None else step(lane, event, time)
    return msgspec.structs.replace(changed, version=version)


# Judge: what a message finds (G22 to G24, G29, G30)


class Verdict(msgspec.Struct, frozen=True):
    """What is to become of a lane's session, why, and what the decision saw."""

    reason: str | None = None
    held: str | None = None
    saw: e.Saw | None = None


KEEP = Verdict()


def judge(lane: Lane, policy: SessionResetPolicy, now: datetime, freshness: float, busy: Callable[[], bool]) -> Verdict:
    """Whether the lane needs an automatic reset. `busy` is only asked when it does.

    Suspension wins over everything (G22), also over running work: somebody asked for it. Otherwise the
    policy decides, and for a lane that waits to resume, the freshness window (G23). Running work holds
    back what a clock would do (G30).
    """
    if lane.suspended:
        return Verdict("suspended", None, _saw(lane, policy, now, freshness))
    reason: str | None = None
    if policy.mode != "none":
        reason = reset_reason(policy, moment(lane.updated_at, UTC), now)
        if reason is None and lane.resume_pending and _stale_mark(lane, now, freshness):
            reason = "resume_pending_expired"
    if reason is None:
        return KEEP
    saw = _saw(lane, policy, now, freshness)
    if busy():
        return Verdict(None, reason, msgspec.structs.replace(saw, busy=True))
    return Verdict(reason, None, saw)


def _stale_mark(lane: Lane, now: datetime, freshness: float) -> bool:
    return freshness > 0 and _pending_seconds(lane, now) > freshness


def _pending_seconds(lane: Lane, now: datetime) -> float:
    return (microseconds(now) - (lane.last_resume_marked_at or lane.updated_at)) / 1e6


def _saw(lane: Lane, policy: SessionResetPolicy, now: datetime, freshness: float) -> e.Saw:
    offset = now.utcoffset() or timedelta(0)
    return e.Saw(
        mode=policy.mode,
        at_hour=policy.at_hour,
        idle_minutes=policy.idle_minutes,
        idle_seconds=(microseconds(now) - lane.updated_at) / 1e6,
        freshness_seconds=freshness if lane.resume_pending else None,
        pending_seconds=_pending_seconds(lane, now) if lane.resume_pending else None,
        zone_offset_minutes=int(offset.total_seconds()) // 60,
    )


def reset_by_itself(
    lane: Lane, verdict: Verdict, session_id: str, source: dict[str, Any], display_name: str | None
) -> e.LaneReset:
    """The automatic reset of a lane (G25)."""
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
    """Whether a restart may have cut this lane off (G36)."""
    cut_off = not lane.suspended and not lane.resume_pending
    return cut_off and lane.updated_at >= now - int(max_age_seconds * 1e6)


# Handing out


def entry_of(lane: Lane, zone: tzinfo | None, source: SessionSource | None = None) -> SessionEntry:
    """The lane as its caller sees it: a snapshot with times in the clock's zone.

    `source` is the lane's origin, if the caller happens to have it as an object.
    """
    origin = lane.origin
    if source is None and origin is not None:
        source = _source(origin)
    updated_at = moment(lane.updated_at, zone)
    marked = lane.last_resume_marked_at
    return SessionEntry(
        session_key=lane.key,
        session_id=lane.session_id or "",
        created_at=updated_at if lane.created_at == lane.updated_at else moment(lane.created_at, zone),
        updated_at=updated_at,
        origin=source,
        display_name=lane.display_name,
        platform=None if source is None else source.platform,
        chat_type="dm" if origin is None else origin.get("chat_type") or "dm",
        input_tokens=lane.input_tokens,
        output_tokens=lane.output_tokens,
        cache_read_tokens=lane.cache_read_tokens,
        cache_write_tokens=lane.cache_write_tokens,
        total_tokens=lane.input_tokens + lane.output_tokens,
        last_prompt_tokens=lane.last_prompt_tokens,
        estimated_cost_usd=lane.cost_usd,
        cost_status="estimated" if lane.cost_known else "unknown",
        was_auto_reset=lane.was_auto_reset,
        auto_reset_reason=lane.auto_reset_reason,
        reset_had_activity=lane.reset_had_activity,
        is_fresh_reset=lane.is_fresh_reset,
        expiry_finalized=lane.expiry_finalized,
        suspended=lane.suspended,
        resume_pending=lane.resume_pending,
        resume_reason=lane.resume_reason,
        last_resume_marked_at=None if marked is None else moment(marked, zone),
        model_override=lane.model_override,
    )


def _platform(origin: dict[str, Any]) -> Platform | None:
    """The origin's platform; None if this host has not registered it (G16)."""
    try:
        return Platform(origin.get("platform"))
    except ValueError:
        return None


def _source(origin: dict[str, Any]) -> SessionSource | None:
    return None if _platform(origin) is None else SessionSource.from_dict(origin)
