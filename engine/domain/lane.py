"""A lane: the fold of its events.

Nothing in the domain reads a clock, a file or a table. Times are UTC microseconds; `now` is handed in.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from engine.domain import events as e
from engine.domain.encoding import Content, Erased
from engine.domain.model_override import clean_model_override

_replace = msgspec.structs.replace


class Lane(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The state of a lane. Without a session id it leads nowhere.

    `key` is "" after the event that named it was erased; nobody can be routed to it any more. `chosen_at` is
    the version of the event that led it to its session.
    """

    lane_id: str
    key: str = ""
    version: int = 0
    identity: str | None = None
    session_id: str | None = None
    chosen_at: int = 0
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
    ahead_at: int = 0
    """When it was used before, by a clock that has gone back since: far ahead of `updated_at`, or 0."""
    before_leap: int = 0
    """When it was used before the idle clock last leapt, or 0: what is known of a time that is still to come."""


AHEAD = 3_600_000_000
"""So far ahead of another a time may be, in microseconds, without a clock being wrong."""
_LEAP = 30 * 86_400_000_000


def moves(updated_at: int, at: int) -> bool:
    """Return True if a use at a time moves an idle clock: forwards, or back where one of the two clocks was wrong."""
    return at > updated_at or updated_at - at > AHEAD


def touched(lane: Lane, at: int) -> Lane:
    """Return the lane after it was used at a time, as the log says it.

    The idle clock does not go back a little, as clocks of processes differ. It does go back from a time so far ahead
    that a clock was wrong; which one is told by the time it is asked at (`idle_since`).
    """
    if 0 <= at - lane.updated_at <= _LEAP and not lane.ahead_at:
        return _replace(lane, updated_at=at)
    updated_at, ahead_at, before_leap = _moved(lane.updated_at, lane.ahead_at, lane.before_leap, at)
    return _replace(lane, updated_at=updated_at, ahead_at=ahead_at, before_leap=before_leap)


def _moved(updated_at: int, ahead_at: int, before_leap: int, at: int) -> tuple[int, int, int]:
    if not moves(updated_at, at):
        return updated_at, ahead_at, before_leap
    if at < updated_at:
        return at, max(ahead_at, updated_at), 0
    return at, ahead_at if ahead_at > at else 0, updated_at if at - updated_at > _LEAP else before_leap


def idle_since(lane: Lane, now: int) -> int:
    """Return when the lane was last used, as far as it can be true now.

    A time beyond now, and a tolerance, counts as the last one that is known from before the clock was wrong, or else as
    now. The event keeps what the clock said.
    """
    latest = now + AHEAD
    if lane.ahead_at and lane.ahead_at <= latest:
        return lane.ahead_at
    if lane.updated_at <= latest:
        return lane.updated_at
    return lane.before_leap if 0 < lane.before_leap <= latest else now


def _routed(lane: Lane, event: e.LaneRouted, time: int) -> Lane:
    named = lane if event.key is None else _replace(lane, key=event.key, identity=event.identity)
    return _fresh(named, event.session_id, event.began_at or time, time, event.origin, event.display_name)


def _reset(lane: Lane, event: e.LaneReset, time: int) -> Lane:
    origin = lane.origin if event.origin is None else event.origin
    fresh = _fresh(lane, event.session_id, time, time, origin, event.display_name)
    if not event.automatic:
        return _replace(fresh, is_fresh_reset=True)
    return _replace(fresh, was_auto_reset=True, auto_reset_reason=event.cause, reset_had_activity=event.had_activity)


def _switched(lane: Lane, event: e.LaneSwitched, time: int) -> Lane:
    return _fresh(lane, event.session_id, time, time, lane.origin, lane.display_name)


def _fresh(
    lane: Lane, session_id: str, created_at: int, now: int, origin: dict[str, Any] | None, name: str | None
) -> Lane:
    """Return the lane on another session: flags, counts and the model override do not come along."""
    return Lane(
        lane.lane_id,
        lane.key,
        lane.version,
        lane.identity,
        session_id,
        lane.version + 1,
        created_at,
        now,
        origin,
        name,
    )


def _usage(lane: Lane, event: e.UsageRecorded, time: int) -> Lane:
    prompt = event.last_prompt_tokens
    return _replace(
        touched(lane, time),
        last_prompt_tokens=lane.last_prompt_tokens if prompt is None else prompt,
        input_tokens=lane.input_tokens + event.input_tokens,
        output_tokens=lane.output_tokens + event.output_tokens,
        cache_read_tokens=lane.cache_read_tokens + event.cache_read_tokens,
        cache_write_tokens=lane.cache_write_tokens + event.cache_write_tokens,
        cost_usd=lane.cost_usd if event.cost_usd is None else lane.cost_usd + event.cost_usd,
        cost_known=lane.cost_known or event.cost_usd is not None,
    )


def _marked(lane: Lane, event: e.ResumeMarked, time: int) -> Lane:
    return _replace(lane, resume_pending=True, resume_reason=event.resume_reason, last_resume_marked_at=time)


def _unmarked(lane: Lane, _event: e.ResumeCleared, _time: int) -> Lane:
    return _replace(lane, resume_pending=False, resume_reason=None, last_resume_marked_at=None)


def _consumed(lane: Lane, event: e.NoticesConsumed, _time: int) -> Lane:
    if event.auto_reset:
        lane = _replace(lane, was_auto_reset=False, auto_reset_reason=None, reset_had_activity=False)
    return _replace(lane, is_fresh_reset=lane.is_fresh_reset and not event.fresh_reset)


def _gone(lane: Lane, _event: Content, _time: int) -> Lane:
    return Lane(lane.lane_id, lane.key, lane.version, lane.identity)


def _erased(lane: Lane, event: Erased, time: int) -> Lane:
    """Keep what is left of an event without its payload: that the lane leads nowhere any more."""
    return _gone(lane, event, time) if event.topic == e.LaneReleased.TOPIC else lane


_Step = Callable[[Lane, Any, int], Lane]
_EVOLVE: dict[type, _Step] = {
    e.LaneRouted: _routed,
    e.LaneIdentified: lambda lane, event, _: _replace(lane, identity=event.identity),
    e.LaneReset: _reset,
    e.LaneSwitched: _switched,
    e.LaneAdvanced: lambda lane, event, _: _replace(lane, session_id=event.session_id),
    e.LaneSuspended: lambda lane, _, __: _replace(lane, suspended=True),
    e.ResumeMarked: _marked,
    e.ResumeCleared: _unmarked,
    e.LaneTouched: lambda lane, event, _: touched(lane, event.at),
    e.LaneReleased: _gone,
    e.LanePruned: _gone,
    e.ModelOverrideSet: lambda lane, event, _: _replace(lane, model_override=clean_model_override(event.override).kept),
    e.NoticesConsumed: _consumed,
    e.ExpiryFinalized: lambda lane, _, __: _replace(lane, expiry_finalized=True),
    e.UsageRecorded: _usage,
    Erased: _erased,
}


def evolve(lane: Lane, event: Content, time: int, version: int) -> Lane:
    """Return the lane after an event; one that says nothing about it moves only its version."""
    step = _EVOLVE.get(type(event))
    changed = lane if step is None else step(lane, event, time)
    return _replace(changed, version=version)


SPENT = frozenset({e.LaneTouched, e.UsageRecorded})
"""Events that only count, and are the most of a lane: a run of them is taken together by `spend`."""


def spend(lane: Lane, run: Sequence[Any], times: Sequence[int], version: int) -> Lane:
    """Return the lane after a run of touches and usage, as `evolve` makes it of them one by one."""
    updated_at, ahead_at, before_leap = lane.updated_at, lane.ahead_at, lane.before_leap
    prompt, cost, known = lane.last_prompt_tokens, lane.cost_usd, lane.cost_known
    given, made, read, written = lane.input_tokens, lane.output_tokens, lane.cache_read_tokens, lane.cache_write_tokens
    for event, time in zip(run, times, strict=True):
        is_touch = type(event) is e.LaneTouched
        at = event.at if is_touch else time
        if at != updated_at:
            updated_at, ahead_at, before_leap = _moved(updated_at, ahead_at, before_leap, at)
        if is_touch:
            continue
        given += event.input_tokens
        made += event.output_tokens
        read += event.cache_read_tokens
        written += event.cache_write_tokens
        if event.last_prompt_tokens is not None:
            prompt = event.last_prompt_tokens
        if event.cost_usd is not None:
            cost, known = cost + event.cost_usd, True
    return _replace(
        lane,
        version=version,
        updated_at=updated_at,
        ahead_at=ahead_at,
        before_leap=before_leap,
        last_prompt_tokens=prompt,
        input_tokens=given,
        output_tokens=made,
        cache_read_tokens=read,
        cache_write_tokens=written,
        cost_usd=cost,
        cost_known=known,
    )
