"""Routing: leads a message to the session it belongs to (G20 to G33)."""

import logging
from functools import partial
from typing import Any, NamedTuple

import msgspec

from engine.command import Command
from engine.domain import events as e
from engine.domain.entry import SessionEntry
from engine.domain.keys import LaneName, colliding_key
from engine.domain.lane import Lane
from engine.domain.session import Session, claiming, ending, peer_of, profile_of
from engine.domain.sources import SessionSource
from engine.domain.verdict import Verdict, automatic_reset, judge
from engine.environment import auto_continue_freshness_window
from engine.work import Work
from projections.inline.lanes import identity_of, last_lane_of
from projections.inline.sessions import find_recoverable, find_tip

_MORE_DIGITS = 8


class Arrival(msgspec.Struct, frozen=True):
    """A message that arrived: where it came from, the lane's name, and the name it has in the active profile.

    `absent_at` is a position of the log at which the lane was looked for and led nowhere.
    """

    source: SessionSource
    name: LaneName
    other_name: LaneName | None = None
    absent_at: int | None = None


class Seen(NamedTuple):
    """A lane as it stood when its caller asked for a new session."""

    lane_id: str | None
    version: int


def get_or_create_session(arrival: Arrival, touch: bool, forced_after: Seen | None = None) -> Command[SessionEntry]:
    """Return the command that leads a message to its session, or with `forced_after`, to a new one."""
    return Command("get_or_create_session", _route, (arrival, touch, forced_after))


def colliding_name(name: LaneName) -> str:
    """Return the key a lane has when somebody else has the text of its own (G17b)."""
    return colliding_key(name.key, name.identity, _MORE_DIGITS)


def _route(work: Work, arrival: Arrival, touch: bool, forced_after: Seen | None) -> SessionEntry:
    key, lane = _lane_of(work, arrival)
    if forced_after is not None:
        if lane is not None and _newer(lane, forced_after):
            return work.entry(lane)
        new = _create(work, _or_new(work, key, lane, arrival), arrival.source.known(), "forced")
        return work.entry(new, arrival.source)
    if lane is None or lane.session_id is None:
        return _arrive(work, _or_new(work, key, lane, arrival), arrival)
    lane = _follow_compression(work, lane)
    session = work.session(lane.session_id or "")
    policy = work.context.config.get_reset_policy(arrival.source.platform, arrival.source.chat_type)
    verdict = judge(lane, policy, work.now, auto_continue_freshness_window(), partial(work.busy, key))
    if verdict.reason is not None:
        return work.entry(_reset(work, lane, session, verdict, arrival.source), arrival.source)
    if session is not None and session.end_reason is None:
        return work.entry(_touch(work, lane, verdict) if touch else lane)
    cause = "missing" if session is None else session.end_reason or ""
    released = e.LaneReleased(session_id=lane.session_id or "", cause=cause)
    work.note(logging.WARNING, "lane %r no longer leads to session %r, which ended: %s", key, lane.session_id, cause)
    lane = work.on_lane(lane, released, "its session has ended")
    return _arrive(work, lane, arrival)


def _lane_of(work: Work, arrival: Arrival) -> tuple[str, Lane | None]:
    """Return the lane of an identity. Two different sources never share one, though their keys may be the same text.

    A key stays with the identity that had it first, also after its lane was pruned: its sessions are found by it.
    """
    name = arrival.name
    key, digits = name.key, 0
    if arrival.absent_at == work.transaction.position:
        return key, None
    while True:
        lane = work.lane(key)
        owner = _last_owner(work, key) if lane is None else lane.identity
        if owner == name.identity or (lane is None and owner is None):
            return key, lane
        if lane is not None and owner is None:
            why = "the first source that came to a lane of unknown origin"
            return key, work.on_lane(lane, e.LaneIdentified(identity=name.identity), why)
        digits += _MORE_DIGITS
        key = colliding_key(name.key, name.identity, digits)


def _last_owner(work: Work, key: str) -> str | None:
    lane_id = last_lane_of(work.transaction, key)
    return None if lane_id is None else identity_of(work.transaction, lane_id)


def _or_new(work: Work, key: str, lane: Lane | None, arrival: Arrival) -> Lane:
    return work.new_lane(key, arrival.name.identity) if lane is None else lane


def _newer(lane: Lane, seen: Seen) -> bool:
    """Return True if the lane's session was chosen after it was looked at: calls that overlap make one (G26a)."""
    return lane.session_id is not None and (lane.lane_id != seen.lane_id or lane.chosen_at > seen.version)


def _arrive(work: Work, lane: Lane, arrival: Arrival) -> SessionEntry:
    """Lead a lane that leads nowhere back to a session, or to a new one."""
    origin = arrival.source.known()
    found = _recover(work, lane, arrival, origin) or _create(work, lane, origin, "created")
    return work.entry(found, arrival.source)


def _follow_compression(work: Work, lane: Lane) -> Lane:
    """Put a lane on the live tip of its conversation (G20)."""
    session = work.session(lane.session_id or "")
    tip = None if session is None else find_tip(work.transaction, session, work.session)
    if tip is None or tip.session_id == lane.session_id:
        return lane
    work.note(logging.INFO, "lane %r follows the compression of %r to %r", lane.key, lane.session_id, tip.session_id)
    event = e.LaneAdvanced(session_id=tip.session_id, previous_session_id=lane.session_id or "")
    return work.on_lane(lane, event, "its session was compressed into another")


def create_session(work: Work, key: str, source: dict[str, Any] | None, why: str) -> Session:
    """Create a session for a lane."""
    session_id = work.new_session_id()
    created = e.SessionCreated(conversation_id=session_id, lane=key, source=source)
    return work.on_session(Session(session_id), created, why)


def end(work: Work, session: Session | None, reason: str, why: str | None = None) -> None:
    """End a session if the reason may (G44)."""
    event = None if session is None else ending(session, reason)
    if session is not None and event is not None:
        work.on_session(session, event, why or reason)


def claim(work: Work, session: Session, lane: Lane, source: dict[str, Any] | None, why: str) -> None:
    """Make a session live and the lane's own."""
    for event in claiming(session, lane.key, source):
        session = work.on_session(session, event, why)


def _touch(work: Work, lane: Lane, verdict: Verdict) -> Lane:
    held = verdict.held
    why = None if held is None else f"{held}, but the host is working on this lane"
    return work.on_lane(lane, e.LaneTouched(at=work.time, held=held, saw=verdict.saw), why)


def _reset(work: Work, lane: Lane, session: Session | None, verdict: Verdict, source: SessionSource) -> Lane:
    """Reset a lane automatically (G25): the old session ends for the reason, and nothing is recovered."""
    reason = verdict.reason or ""
    end(work, session, reason)
    origin = source.known()
    created = create_session(work, lane.key, origin, f"automatic reset: {reason}")
    event = automatic_reset(lane, verdict, created.session_id, origin, source.chat_name)
    return work.on_lane(lane, event, reason)


def _recover(work: Work, lane: Lane, arrival: Arrival, origin: dict[str, Any]) -> Lane | None:
    """Lead a lane back to its newest session that nobody ended on purpose (G27)."""
    other = arrival.other_name
    keys = [lane.key] if other is None else [lane.key, other.key]
    peers = [peer_of(origin, profile_of(key)) for key in keys]
    found = find_recoverable(work.transaction, keys, peers)
    session = None if found is None else work.session(found.session_id)
    if session is None:
        return None
    claim(work, session, lane, origin, "recovered by its lane")
    work.note(logging.WARNING, "lane %r recovered session %r", lane.key, session.session_id)
    event = _routed(lane, session.session_id, "recovered", origin, began_at=session.created_at)
    return work.on_lane(lane, event, "first message of this lane, and this session was not ended on purpose")


def _create(work: Work, lane: Lane, origin: dict[str, Any], how: Any) -> Lane:
    why = "a new session was asked for" if how == "forced" else "first message of this lane"
    created = create_session(work, lane.key, origin, why)
    return work.on_lane(lane, _routed(lane, created.session_id, how, origin), why)


def _routed(lane: Lane, session_id: str, how: Any, origin: dict[str, Any], began_at: int | None = None) -> e.LaneRouted:
    """Return the event that leads a lane to a session; one that led nowhere is named, as nothing else knows its key."""
    unnamed = lane.session_id is None
    return e.LaneRouted(
        session_id=session_id,
        how=how,
        key=lane.key if unnamed else None,
        identity=lane.identity if unnamed else None,
        origin=origin,
        display_name=origin.get("chat_name"),
        previous_session_id=lane.session_id,
        began_at=began_at,
    )
