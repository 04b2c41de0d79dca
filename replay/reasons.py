"""Why: the decisions that led a lane or a session to where it is, what they saw, and what held a reset back (R11)."""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, tzinfo

import msgspec

from engine.clock import local_now
from engine.domain import events as e
from engine.domain.encoding import Content, Erased, decode
from engine.domain.lane import Lane, idle_since
from engine.domain.policy import DEFAULT_FRESHNESS_SECONDS, daily_boundary
from engine.domain.streams import LOG, lane_stream, session_stream
from engine.domain.times import microseconds, moment
from engine.domain.verdict import judge, pending_seconds
from engine.log.protocol import Log, Queries
from replay.moments import Moment, time_at
from replay.scope import TOLD_BY_THE_LANE, Scope, Step, decisive, lane_steps, scope_of, sessions_in
from replay.settings import History, Rules, clock_time, place_of, settings_of
from replay.words import sentence, span

DEFAULT_LIMIT = 100
_SILENCE = 3600.0
"""That a lane goes on after a shorter silence, in seconds, surprises nobody."""
_SESSIONS = 100
"""The sessions of a lane that are read, the latest; the lane's own events tell of all of them."""
_ROUTINE = (e.UsageRecorded, e.NoticesConsumed, e.LaneIdentified)


class Decision(msgspec.Struct, frozen=True):
    """A decision, as it stands in the log, and in one sentence with the numbers it saw."""

    position: int
    time: datetime
    event: str
    actor: str
    command: str
    reason: str | None
    sentence: str
    session_id: str | None = None
    """The session it is about, or led to."""


class Why(msgspec.Struct, frozen=True):
    """The answer: where the subject stands at a moment, what led there, and what holds a reset back."""

    kind: str
    """lane, session or log."""
    subject: str
    position: int
    time: datetime
    answer: str
    """Where it stands, and by which decision."""
    reset: str | None
    """Why a lane is not reset at the moment, or that its next message will; None for what is no lane."""
    decisions: tuple[Decision, ...]
    """The newest first."""
    left_out: int
    """How many older decisions there are."""


class _Found(msgspec.Struct, frozen=True):
    position: int
    sentence: str
    session_id: str | None = None


def why(
    log: Log, subject: str, at: Moment | int | None = None, *, limit: int = DEFAULT_LIMIT, zone: tzinfo | None = None
) -> Why:
    """Return the decisions that led a lane, a session or a position to where it stands at a moment, newest first.

    The subject is a session key, a session id, or a position as `@123`. Reads only the streams it is about. Times are
    in the zone given, by default the machine's. Raise UnknownSubjectError if nothing of that name was there then.
    """
    here = local_now().tzinfo if zone is None else zone
    scope = scope_of(log, subject, at.position if isinstance(at, Moment) else at)
    when = at.time if isinstance(at, Moment) and not subject.startswith("@") else time_at(log, scope.upto, here)
    reads = log.reader
    history = settings_of(reads, scope.upto)
    lanes = lane_steps(reads, scope)
    found = list(_found(reads, scope, lanes, history))
    if subject.startswith("@"):
        found += _itself(reads, scope.upto, {each.position for each in found})
    found.sort(key=lambda each: each.position, reverse=True)
    shown = found[:limit]
    return Why(
        kind=scope.kind,
        subject=scope.name,
        position=scope.upto,
        time=when,
        answer=_answer(scope, lanes, found, here),
        reset=_reset(scope, lanes, history, when),
        decisions=tuple(_decisions(reads, shown, here)),
        left_out=len(found) - len(shown),
    )


def _found(reads: Queries, scope: Scope, lanes: Sequence[list[Step]], history: History) -> Iterator[_Found]:
    """Yield everything that bears on a scope, in no order."""
    if scope.kind == "log":
        yield from _of_log(reads, scope)
        return
    for steps in lanes:
        yield from _of_lane(steps, history, scope.session_id)
    sessions = (
        sessions_in(step for steps in lanes for step in steps) if scope.session_id is None else [scope.session_id]
    )
    for session_id in sessions:
        yield from _of_session(reads, session_id, scope)
    yield from _around(reads, scope, lanes, sessions, history)


def _of_lane(steps: list[Step], history: History, session_id: str | None) -> Iterator[_Found]:
    freshness = DEFAULT_FRESHNESS_SECONDS
    for step in steps:
        event, after = step.event, step.after.session_id
        if session_id is not None and session_id not in (step.before.session_id, after):
            continue
        if isinstance(event, _ROUTINE):
            continue
        if isinstance(event, e.LaneTouched) and event.held is None:
            idle = (event.at - idle_since(step.before, event.at)) / 1e6
            if idle < _SILENCE and not step.before.resume_pending:
                continue
            rules = history.rules(step.before, step.position)
            now = clock_time(event.at, history.zone(step.position))
            yield _Found(step.position, _kept(step.before, rules, now, freshness), after)
            continue
        saw = getattr(event, "saw", None)
        if saw is not None and saw.freshness_seconds is not None:
            freshness = saw.freshness_seconds
        yield _Found(step.position, sentence(event), after or step.before.session_id)


def _kept(lane: Lane, rules: Rules | None, now: datetime, freshness: float) -> str:
    """Return why a message did not reset a lane."""
    if rules is None:
        return "went on; the policy it was judged by was not recorded"
    if rules.mode == "none":
        return "not reset: the policy is none, so nothing but a suspension resets it"
    idle = (microseconds(now) - idle_since(lane, microseconds(now))) / 1e6
    verdict = judge(lane, rules, now, freshness, bool)
    seen = ", ".join(_seen(lane, rules, now, idle, freshness))
    if verdict.reason is not None:
        return f"went on, although the recorded policy would have reset it by {verdict.reason}: {seen}"
    return f"not reset: {seen}, mode {rules.mode}"


def _seen(lane: Lane, rules: Rules, now: datetime, idle: float, freshness: float) -> Iterator[str]:
    yield f"idle {span(idle)}" + (f", limit {span(rules.idle_minutes * 60)}" if rules.mode != "daily" else "")
    if rules.mode != "idle":
        boundary = daily_boundary(now, rules.at_hour)
        passed = microseconds(boundary) > idle_since(lane, microseconds(now))
        used = "before" if passed else "after"
        yield f"last used {used} the day's boundary of {boundary:%Y-%m-%d %H:%M}"
    if lane.resume_pending:
        pending = pending_seconds(lane, microseconds(now))
        limit = f"limit {span(freshness)}" if freshness > 0 else "no limit"
        yield f"waiting {span(pending)} to be resumed ({lane.resume_reason}), {limit}"


def _of_session(reads: Queries, session_id: str, scope: Scope) -> Iterator[_Found]:
    """Yield a session's decisions; for a lane, those its own events do not tell."""
    alone = scope.session_id is not None
    found = decisive(reads, session_id, scope.upto)
    told = _told(reads, [position for position, _, _ in found]) if not alone and found else set()
    for position, _, event in found:
        if not alone and (position in told or isinstance(event, (e.SessionCreated, e.SessionTitled))):
            continue
        yield _Found(position, sentence(event), session_id)
        if alone and isinstance(event, e.SessionCreated) and event.parent_session_id is not None:
            for at, _, earlier in decisive(reads, event.parent_session_id, scope.upto):
                if isinstance(earlier, e.SessionCompressed) and earlier.child_session_id == session_id:
                    yield _Found(at, sentence(earlier), event.parent_session_id)


def _told(reads: Queries, positions: Sequence[int]) -> set[int]:
    return {each.position for each in reads.recorded_at(positions) if each.command in TOLD_BY_THE_LANE}


def _around(
    reads: Queries, scope: Scope, lanes: Sequence[list[Step]], sessions: Sequence[str], history: History
) -> Iterator[_Found]:
    """Yield what happened to the store and the log meanwhile: crashes, other versions and policies, erasures."""
    streams = [*map(lane_stream, scope.lane_ids), *map(session_stream, sessions)]
    positions = reads.positions_of(streams, scope.upto)
    first = positions[0] if positions else scope.upto
    places = [place_of(steps[-1].after) for steps in lanes if steps]
    for position, words in history.changes(places[-1] if places else None):
        if position > first:
            yield _Found(position, words)
    for _, topic, state, position, _ in reads.payloads(LOG, until_position=scope.upto):
        event = decode(topic, state) if topic == e.ContentErased.TOPIC else None
        if isinstance(event, e.ContentErased):
            here = _how_many(positions, event.positions)
            if here:
                yield _Found(position, f"{sentence(event)}; {here} of them here")


def _how_many(sorted_positions: Sequence[int], wanted: Iterable[int]) -> int:
    def there(position: int) -> bool:
        at = bisect_right(sorted_positions, position)
        return at > 0 and sorted_positions[at - 1] == position

    return sum(map(there, wanted))


def _of_log(reads: Queries, scope: Scope) -> Iterator[_Found]:
    told = dict(settings_of(reads, scope.upto).changes(None))
    for _, topic, state, position, _ in reads.payloads(scope.name, until_position=scope.upto):
        words = sentence(decode(topic, state))
        yield _Found(position, f"{words}; {told[position]}" if position in told else words)


def _itself(reads: Queries, position: int, known: set[int]) -> Iterator[_Found]:
    """Yield the event at the position that was asked for, if it is none of the decisions."""
    for envelope in reads.recorded_at([position]) if position not in known else ():
        yield _Found(position, sentence(envelope.event), getattr(envelope.event, "session_id", None))


def _decisions(reads: Queries, found: Sequence[_Found], zone: tzinfo | None) -> Iterator[Decision]:
    recorded = {each.position: each for each in reads.recorded_at([each.position for each in found])}
    for each in found:
        envelope = recorded[each.position]
        event: Content = envelope.event
        at = event.at if isinstance(event, e.LaneTouched) else envelope.time
        yield Decision(
            position=each.position,
            time=moment(at, zone),
            event=event.topic,
            actor=envelope.actor,
            command=envelope.command,
            reason=envelope.reason,
            sentence=each.sentence,
            session_id=each.session_id,
        )


def _answer(scope: Scope, lanes: Sequence[list[Step]], found: Sequence[_Found], zone: tzinfo | None) -> str:
    """Return where the subject stands, and since which decision."""
    if scope.kind == "log":
        what = "the log and its stores" if scope.name == LOG else scope.name
        return f"what happened to {what} up to @{scope.upto}"
    last = max((steps[-1] for steps in lanes if steps), key=lambda step: step.position, default=None)
    leads = None if last is None else last.after.session_id
    if scope.kind == "session" and leads != scope.name:
        return f"{_state(found) or 'nothing was decided about it'}; no lane leads to it now"
    if leads is None:
        return "it leads nowhere: the next message recovers a session, or creates one"
    chosen = [step for steps in lanes for step in steps if step.after.session_id == leads != step.before.session_id]
    if not chosen:
        erased = any(isinstance(step.event, Erased) for steps in lanes for step in steps)
        return f"it leads to {leads}" + ("; the event that led it there was erased" if erased else "")
    since = chosen[-1]
    what = "it leads to" if scope.kind == "lane" else "a lane leads to"
    return f"{what} {leads} since {moment(since.time, zone):%Y-%m-%d %H:%M:%S}: {sentence(since.event)}"


def _state(found: Sequence[_Found]) -> str | None:
    return found[0].sentence if found else None


def _reset(scope: Scope, lanes: Sequence[list[Step]], history: History, when: datetime) -> str | None:
    """Return why the lane is not reset at a moment: resets come with messages, so none may have come."""
    last = max((steps[-1] for steps in lanes if steps), key=lambda step: step.position, default=None)
    if last is None or last.after.session_id is None or scope.session_id not in (None, last.after.session_id):
        return None
    lane, now = last.after, when.astimezone(history.zone(scope.upto))
    if lane.suspended:
        return "not reset yet: the lane is suspended, and its next message resets it"
    rules = history.rules(lane, scope.upto)
    words = _kept(lane, rules, now, DEFAULT_FRESHNESS_SECONDS)
    if words.startswith("went on, although"):
        seen = words.partition(": ")[2]
        return f"not reset yet, as no message has come since: {seen}; the next one resets it"
    return words
