"""The streams that a lane, a session or a position is about: what a question reads of a log, and nothing else."""

from collections.abc import Callable, Iterable, Iterator
from typing import Literal

import msgspec

from engine.domain import chat_events as c, events as e
from engine.domain.encoding import Content, Erased, decode
from engine.domain.lane import Lane, evolve
from engine.domain.streams import LANE, SESSION, lane_stream, session_stream
from engine.domain.transcript import MESSAGES
from engine.log.protocol import Log, Queries
from projections.inline.lanes import keys_of, lanes_of
from projections.inline.quarantine import quarantined
from projections.inline.sessions import family_of, find_session
from replay.errors import UnknownSubjectError

Kind = Literal["lane", "session", "log"]

_QUIET = (*MESSAGES, e.TurnBegun.TOPIC, e.TurnRenewed.TOPIC, e.UsageRecorded.TOPIC, c.SessionTouched.TOPIC)
"""Topics of a session's stream that decide nothing: most of its events."""
TOLD_BY_THE_LANE = frozenset({"get_or_create_session", "reset_session", "switch_session"})
"""Commands whose events on the lane say what those on its sessions do."""
_MOVES = (e.LaneRouted, e.LaneReset, e.LaneSwitched, e.LaneAdvanced)


class Step(msgspec.Struct, frozen=True, gc=False):
    """An event of a lane, with the lane before and after it."""

    position: int
    time: int
    event: Content
    before: Lane
    after: Lane


class Scope(msgspec.Struct, frozen=True):
    """A thing that a name stands for: a lane, a session, or another stream, such as the log's own; up to a position."""

    kind: Kind
    name: str
    upto: int
    lane_ids: tuple[str, ...] = ()
    session_id: str | None = None


def scope_of(log: Log, subject: str, at: int | None = None) -> Scope:
    """Return the scope of a lane's key, a session's id, a stream's name or a position (`@123`).

    Raise UnknownSubjectError if nothing of that name was in the log at that position.
    """
    upto = log.last_position if at is None else min(at, log.last_position)
    if subject.startswith("@"):
        return _of_position(log, subject, upto)
    reads = log.reader
    lane_ids = tuple(lanes_of(reads, subject))
    if subject.startswith(LANE) and not lane_ids:
        lane_ids = (subject.removeprefix(LANE),)
    streams = [lane_stream(each) for each in lane_ids]
    if any(map(_known(reads, upto), streams)):
        return Scope("lane", subject, upto, lane_ids)
    session_id = subject.removeprefix(SESSION)
    if _known(reads, upto)(session_stream(session_id)):
        found = (each for key in keys_of(reads, session_id) for each in lanes_of(reads, key))
        return Scope("session", session_id, upto, tuple(dict.fromkeys(found)), session_id)
    raise UnknownSubjectError(f"no lane and no session {subject!r} was in the log at position {upto}")


def _known(reads: Queries, upto: int) -> Callable[[str], bool]:
    return lambda stream: bool(reads.payloads(stream, -1, 1, until_position=upto))


def _of_position(log: Log, subject: str, upto: int) -> Scope:
    number = subject.removeprefix("@")
    found = log.reader.recorded_at([int(number)]) if number.isdecimal() and len(number) < 19 else []
    if not found or found[0].position > upto:
        raise UnknownSubjectError(f"there is no position {subject} up to @{upto}")
    (envelope,) = found
    if not envelope.stream.startswith((LANE, SESSION)):
        return Scope("log", envelope.stream, envelope.position)
    return scope_of(log, envelope.stream, envelope.position)


def lane_steps(reads: Queries, scope: Scope) -> list[list[Step]]:
    """Return the events of each lane of a scope in their order, folded; what is quarantined is left out."""
    bad = {position for position, _ in quarantined(reads)}
    return [list(_steps(reads, lane_id, scope.upto, bad)) for lane_id in scope.lane_ids]


def _steps(reads: Queries, lane_id: str, upto: int, bad: set[int]) -> Iterator[Step]:
    lane = Lane(lane_id)
    for version, topic, state, position, time in reads.payloads(lane_stream(lane_id), until_position=upto):
        if position in bad:
            continue
        event = decode(topic, state)
        before, lane = lane, evolve(lane, event, time, version)
        if isinstance(event, Erased) and lane.session_id is not None:
            # What an erased event decided is not known; that somebody was there then is.
            lane = msgspec.structs.replace(lane, updated_at=max(lane.updated_at, time))
        yield Step(position, time, event, before, lane)


def sessions_in(steps: Iterable[Step]) -> list[str]:
    """Return the sessions that a lane led to, each once, in their order."""
    return list(dict.fromkeys(step.event.session_id for step in steps if isinstance(step.event, _MOVES)))


def decisive(reads: Queries, session_id: str, upto: int) -> list[tuple[int, int, Content]]:
    """Return position, time and content of a session's events that decide something: no messages, no usage."""
    rows = reads.payloads(session_stream(session_id), until_position=upto, without=_QUIET)
    found = [(position, time, decode(topic, state)) for _, topic, state, position, time in rows]
    return [each for each in found if not (isinstance(each[2], e.TurnEnded) and each[2].outcome == "finished")]


def relatives(reads: Queries, session_id: str) -> list[str]:
    """Return the sessions of a conversation, forks included, oldest first."""
    head = find_session(reads, session_id)
    return [session_id] if head is None or not head.family_id else [each.session_id for each in family_of(reads, head)]
