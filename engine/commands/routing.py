"""Which session a message belongs to (G20 to G33)."""

from functools import partial
from typing import Any

from engine.domain import events as e
from engine.domain.entry import SessionEntry
from engine.domain.lane import Lane, Verdict, judge, reset_by_itself
from engine.domain.policy import auto_continue_freshness_window
from engine.domain.session import Session, claiming, ending, live_tip, peer_of
from engine.domain.sources import SessionSource
from engine.work import Work
from projections.sessions import find_recoverable


def route(work: Work, key: str, source: SessionSource, force_new: bool, touch: bool) -> SessionEntry:
    """Lead a lane to its session: the one it has, a recovered one, or a new one."""
    lane = work.lane(key)
    lane = _create(work, lane, source.known(), "forced") if force_new else _route(work, lane, source, touch)
    return work.entry(lane, source)


def _route(work: Work, lane: Lane, source: SessionSource, touch: bool) -> Lane:
    if lane.session_id is not None:
        lane = follow_compression(work, lane)
        session = work.session(lane.session_id or "")
        policy = work.about.config.get_reset_policy(source.platform, source.chat_type)
        verdict = judge(lane, policy, work.now, auto_continue_freshness_window(), partial(work.busy, lane.key))
        if verdict.reason is not None:
            return _reset(work, lane, session, verdict, source)
        if session is not None and session.end_reason is None:
            return _touch(work, lane, verdict) if touch else lane
        cause = "missing" if session is None else session.end_reason or ""
        released = e.LaneReleased(session_id=lane.session_id or "", cause=cause)
        lane = work.on_lane(lane, released, f"its session ended: {cause}")
    origin = source.known()
    return _recover(work, lane, origin) or _create(work, lane, origin, "created")


def follow_compression(work: Work, lane: Lane) -> Lane:
    """Put a lane on the live tip of its conversation (G20)."""
    session = work.session(lane.session_id or "")
    tip = None if session is None else live_tip(session, work.session)
    if tip is None or tip.session_id == lane.session_id:
        return lane
    event = e.LaneAdvanced(session_id=tip.session_id, previous_session_id=lane.session_id or "")
    return work.on_lane(lane, event, "its session was compressed into another")


def create_session(work: Work, key: str, source: dict[str, Any] | None, why: str) -> Session:
    """A new session for a lane."""
    session_id = work.new_session_id()
    created = e.SessionCreated(conversation_id=session_id, lane=key, source=source)
    return work.on_session(Session(session_id), created, why)


def end(work: Work, session: Session | None, reason: str, why: str | None = None) -> None:
    """End a session if the reason may (G44)."""
    event = None if session is None else ending(session, reason)
    if session is not None and event is not None:
        work.on_session(session, event, why or reason)


def _touch(work: Work, lane: Lane, verdict: Verdict) -> Lane:
    held = verdict.held
    why = None if held is None else f"{held}, but the host is working on this lane"
    return work.on_lane(lane, e.LaneTouched(at=work.time, held=held, saw=verdict.saw), why)


def _reset(work: Work, lane: Lane, session: Session | None, verdict: Verdict, source: SessionSource) -> Lane:
    """The automatic reset (G25): the old session ends for the reason, and nothing is recovered."""
    reason = verdict.reason or ""
    end(work, session, reason)
    origin = source.known()
    created = create_session(work, lane.key, origin, f"automatic reset: {reason}")
    event = reset_by_itself(lane, verdict, created.session_id, origin, source.chat_name)
    return work.on_lane(lane, event, reason)


def _recover(work: Work, lane: Lane, origin: dict[str, Any]) -> Lane | None:
    """Lead a lane back to its newest session that nobody ended on purpose (G27)."""
    found = find_recoverable(work.query, lane.key, peer_of(origin, lane.key))
    if found is None:
        return None
    found = work.session(found.session_id) or found
    claim = claiming(found, lane.key, origin)
    if claim is not None:
        work.on_session(found, claim, "recovered by its lane")
    event = e.LaneRouted(
        session_id=found.session_id,
        how="recovered",
        origin=origin,
        display_name=origin.get("chat_name"),
        began_at=found.created_at,
    )
    return work.on_lane(lane, event, "the lane led nowhere and this session was not ended on purpose")


def _create(work: Work, lane: Lane, origin: dict[str, Any], how: Any) -> Lane:
    why = "a new session was asked for" if how == "forced" else "the lane led nowhere"
    created = create_session(work, lane.key, origin, why)
    event = e.LaneRouted(
        session_id=created.session_id,
        how=how,
        origin=origin,
        display_name=origin.get("chat_name"),
        previous_session_id=lane.session_id,
    )
    return work.on_lane(lane, event, why)
