"""The life of a lane or a conversation: its sessions, turns, messages, and what happened to it, in order (R14)."""

from collections.abc import Iterator, Sequence
from datetime import datetime, tzinfo
from itertools import pairwise

import msgspec

from engine.clock import local_now
from engine.domain import chat_events as c, events as e
from engine.domain.streams import LANE, LOG, SESSION, lane_stream, session_stream
from engine.domain.times import moment
from engine.domain.transcript import MESSAGES
from engine.log.envelope import Envelope
from engine.log.protocol import Log, Queries
from replay.errors import UnknownSubjectError
from replay.moments import Moment
from replay.scope import TOLD_BY_THE_LANE, Scope, Step, lane_steps, relatives, scope_of, sessions_in
from replay.settings import place_of, settings_of
from replay.words import sentence

MOST_EVENTS = 5_000
"""Of a longer life the latest are shown."""
_AT_ONCE = 1_000
_KINDS: dict[type, str] = {
    e.LaneRouted: "created",
    e.LaneReset: "reset",
    e.LaneSuspended: "suspended",
    e.ResumeMarked: "interrupted",
    e.ResumeCleared: "resumed",
    e.LaneTouched: "touched",
    e.LaneSwitched: "switched",
    e.LaneReleased: "released",
    e.LanePruned: "pruned",
    e.TurnBegun: "turn",
    e.TurnRenewed: "turn",
    e.TurnEnded: "turn",
    e.TurnInterrupted: "interrupted",
    e.SessionCreated: "session",
    e.SessionEnded: "ended",
    e.SessionReopened: "reopened",
    c.SessionDeleted: "ended",
    c.SessionTouched: "touched",
    e.SessionCompressed: "compressed",
    e.SessionForked: "forked",
    e.MessageAppended: "message",
    e.MessageRewritten: "message",
    e.TranscriptRewritten: "rewritten",
    e.TranscriptRewound: "undone",
    e.TranscriptRestored: "restored",
    e.UsageRecorded: "usage",
    e.ContentErased: "erased",
    e.StoreOpened: "started",
    e.StoreClosed: "stopped",
}
_QUIET = frozenset({"message", "turn", "touched", "usage", "session", "stopped", "note"})
"""Kinds of events that are no marks of their own: they are what goes on between two marks."""


class LifeEvent(msgspec.Struct, frozen=True, gc=False):
    """Something that happened, in one sentence."""

    position: int
    time: datetime
    kind: str
    """A word for pictures: created, reset, by hand, compressed, interrupted, crash, policy, erased, message, …"""
    event: str
    sentence: str
    session_id: str | None
    actor: str
    command: str
    reason: str | None

    @property
    def is_mark(self) -> bool:
        """Return True if it changed the life's course; messages and turns do not."""
        return self.kind not in _QUIET


class Leg(msgspec.Struct, frozen=True):
    """A stretch of time on one session."""

    session_id: str
    began: datetime
    ended: datetime | None
    """None if it still goes on."""
    why: str
    """The sentence of the event that it began with."""


class TurnSpan(msgspec.Struct, frozen=True):
    """A turn, from its beginning to its end."""

    began: datetime
    ended: datetime | None
    outcome: str
    """finished, failed, interrupted or open."""
    session_id: str


class Silence(msgspec.Struct, frozen=True):
    """A time in which nothing was said."""

    began: datetime
    ended: datetime

    @property
    def seconds(self) -> float:
        """Return how long it was."""
        return (self.ended - self.began).total_seconds()


class Timeline(msgspec.Struct, frozen=True):
    """The life of a lane or of a conversation, up to a position."""

    kind: str
    subject: str
    name: str | None
    """What people call it: the lane's display name."""
    position: int
    began: datetime
    ended: datetime
    """The moment up to which it is shown."""
    legs: tuple[Leg, ...]
    turns: tuple[TurnSpan, ...]
    events: tuple[LifeEvent, ...]
    """Everything, in order."""
    silences: tuple[Silence, ...]
    """The longest first."""
    left_out: int
    """How many older events there are."""

    @property
    def marks(self) -> tuple[LifeEvent, ...]:
        """Return the events that changed its course."""
        return tuple(each for each in self.events if each.is_mark)

    @property
    def messages(self) -> tuple[LifeEvent, ...]:
        """Return the messages."""
        return tuple(each for each in self.events if each.kind == "message")


class Life(msgspec.Struct, frozen=True):
    """A timeline with what it was made of, for those who show more of it."""

    timeline: Timeline
    lanes: list[list[Step]]
    sessions: list[str]
    envelopes: list[Envelope]


def timeline(
    log: Log, subject: str, at: Moment | int | None = None, *, zone: tzinfo | None = None, most: int = MOST_EVENTS
) -> Timeline:
    """Return the life of a lane (by its key) or of a session's conversation, up to a moment.

    Of more than `most` events the latest are there. Times are in the zone given, by default the machine's. Raise
    UnknownSubjectError if nothing of that name was there then.
    """
    return life_of(log, subject, at, zone=zone, most=most).timeline


def life_of(
    log: Log, subject: str, at: Moment | int | None = None, *, zone: tzinfo | None = None, most: int = MOST_EVENTS
) -> Life:
    """Return a timeline with the events it was made of."""
    here = local_now().tzinfo if zone is None else zone
    scope = scope_of(log, subject, at.position if isinstance(at, Moment) else at)
    if scope.kind == "log":
        raise UnknownSubjectError(f"{subject!r} is of no lane and no session, and a timeline is of either")
    reads = log.reader
    lanes = lane_steps(reads, scope)
    sessions = _sessions(reads, scope, lanes)
    streams = [*map(lane_stream, scope.lane_ids if scope.kind == "lane" else ()), *map(session_stream, sessions)]
    positions = reads.positions_of(streams, scope.upto)
    left_out = max(0, len(positions) - most)
    envelopes = list(_recorded(reads, positions[left_out:]))
    told = list(_told(reads, scope, lanes, envelopes, here))
    legs = _legs_of_lane(lanes, here) if scope.kind == "lane" else _legs_of_sessions(envelopes, here)
    first = envelopes[0].time if envelopes else 0
    last = _last(log, scope, at, here)
    line = Timeline(
        kind=scope.kind,
        subject=scope.name,
        name=next((steps[-1].after.display_name for steps in reversed(lanes) if steps), None),
        position=scope.upto,
        began=moment(first, here),
        ended=max([last, *(each.time for each in told)]),
        legs=tuple(legs),
        turns=tuple(_turns(envelopes, here)),
        events=tuple(told),
        silences=tuple(_silences(told)),
        left_out=left_out,
    )
    return Life(line, lanes, sessions, envelopes)


def _last(log: Log, scope: Scope, at: Moment | int | None, zone: tzinfo | None) -> datetime:
    if isinstance(at, Moment):
        return at.time.astimezone(zone)
    (newest,) = log.reader.recorded(scope.upto - 1, scope.upto)
    return moment(newest.time, zone)


def _sessions(reads: Queries, scope: Scope, lanes: Sequence[list[Step]]) -> list[str]:
    if scope.session_id is None:
        return sessions_in(step for steps in lanes for step in steps)
    there = (each for each in relatives(reads, scope.session_id) if _was_there(reads, each, scope.upto))
    return list(there) or [scope.session_id]


def _was_there(reads: Queries, session_id: str, upto: int) -> bool:
    return bool(reads.payloads(session_stream(session_id), -1, 1, until_position=upto))


def _recorded(reads: Queries, positions: Sequence[int]) -> Iterator[Envelope]:
    for start in range(0, len(positions), _AT_ONCE):
        yield from reads.recorded_at(positions[start : start + _AT_ONCE])


def _told(
    reads: Queries, scope: Scope, lanes: Sequence[list[Step]], envelopes: list[Envelope], zone: tzinfo | None
) -> Iterator[LifeEvent]:
    """Yield what happened to a life, and meanwhile to the store, in the order of the log."""
    around = _around(reads, scope, lanes, envelopes) if envelopes else {}
    known = {each.position for each in envelopes}
    others = reads.recorded_at([each for each in around if each not in known])
    for envelope in sorted([*envelopes, *others], key=lambda each: each.position):
        kind, words = around.get(envelope.position) or (_kind(envelope, scope), sentence(envelope.event))
        event = envelope.event
        at = event.at if isinstance(event, e.LaneTouched) else envelope.time
        yield LifeEvent(
            position=envelope.position,
            time=moment(at, zone),
            kind=kind,
            event=event.topic,
            sentence=words,
            session_id=_session_of(envelope),
            actor=envelope.actor,
            command=envelope.command,
            reason=envelope.reason,
        )


def _kind(envelope: Envelope, scope: Scope) -> str:
    event = envelope.event
    if isinstance(event, e.SessionEnded) and scope.kind == "lane" and envelope.command in TOLD_BY_THE_LANE:
        return "note"
    if isinstance(event, e.TranscriptRewritten) and event.cause == "compress":
        return "note"
    if isinstance(event, e.LaneReset) and not event.automatic:
        return "by hand"
    if isinstance(event, e.LaneRouted) and event.how in ("recovered", "imported"):
        return event.how
    if isinstance(event, e.LaneTouched) and event.held is not None:
        return "held"
    if isinstance(event, e.TurnEnded) and event.outcome == "failed":
        return "failed"
    found = _KINDS.get(type(event), "note")
    return "message" if found == "note" and event.topic in MESSAGES else found


def _session_of(envelope: Envelope) -> str | None:
    if envelope.stream.startswith(SESSION):
        return envelope.stream.removeprefix(SESSION)
    found = getattr(envelope.event, "session_id", None)
    return found if isinstance(found, str) else None


def _around(
    reads: Queries, scope: Scope, lanes: Sequence[list[Step]], envelopes: list[Envelope]
) -> dict[int, tuple[str, str]]:
    """Return what happened to the store during a life: starts, crashes, other policies, erasures; kinds and words."""
    history = settings_of(reads, scope.upto)
    places = [place_of(steps[-1].after) for steps in lanes if steps]
    changes = dict(history.changes(places[-1] if places else None))
    first = envelopes[0].position
    found: dict[int, tuple[str, str]] = {}
    for each in history.all:
        if each.position > first:
            words = changes.get(each.position, "the store was started again")
            kind = "crash" if each.after_crash else "policy" if "polic" in words else "started"
            kind = "upgraded" if kind == "started" and "version" in words else kind
            found[each.position] = (kind, words)
    ours = {each.position for each in envelopes}
    for _, topic, _, position, _ in reads.payloads(LOG, until_position=scope.upto):
        for erased in reads.recorded_at([position]) if topic == e.ContentErased.TOPIC else ():
            if isinstance(erased.event, e.ContentErased) and ours.intersection(erased.event.positions):
                found[position] = ("erased", sentence(erased.event))
    return found


def _legs_of_lane(lanes: Sequence[list[Step]], zone: tzinfo | None) -> Iterator[Leg]:
    """Yield where a lane led, one session after the other."""
    for steps in lanes:
        moves = [step for step in steps if step.after.session_id != step.before.session_id]
        for step, following in pairwise([*moves, None]):
            if step is not None and step.after.session_id is not None:
                ended = None if following is None else moment(following.time, zone)
                yield Leg(step.after.session_id, moment(step.time, zone), ended, sentence(step.event))


def _legs_of_sessions(envelopes: list[Envelope], zone: tzinfo | None) -> Iterator[Leg]:
    """Yield the sessions of a conversation, from their creation to their end."""
    began: dict[str, tuple[datetime, str]] = {}
    ended: dict[str, datetime | None] = {}
    for envelope in envelopes:
        session_id, time = envelope.stream.removeprefix(SESSION), moment(envelope.time, zone)
        began.setdefault(session_id, (time, sentence(envelope.event)))
        if isinstance(envelope.event, (e.SessionEnded, e.SessionCompressed, c.SessionDeleted)):
            ended[session_id] = time
        elif isinstance(envelope.event, e.SessionReopened):
            ended[session_id] = None
    for session_id, (time, words) in began.items():
        yield Leg(session_id, time, ended.get(session_id), words)


def _turns(envelopes: list[Envelope], zone: tzinfo | None) -> Iterator[TurnSpan]:
    """Yield the turns; one whose end was erased is over with the next one of its session."""
    running: dict[str, Envelope] = {}
    for envelope in envelopes:
        event, stream = envelope.event, envelope.stream
        if stream.startswith(LANE):
            continue
        if isinstance(event, e.TurnBegun):
            running[stream] = envelope
        elif isinstance(event, (e.TurnEnded, e.TurnInterrupted)) and stream in running:
            outcome = "interrupted" if isinstance(event, e.TurnInterrupted) else event.outcome
            yield _turn(running.pop(stream), moment(envelope.time, zone), outcome, zone)
    for envelope in running.values():
        yield _turn(envelope, None, "open", zone)


def _turn(begun: Envelope, ended: datetime | None, outcome: str, zone: tzinfo | None) -> TurnSpan:
    return TurnSpan(moment(begun.time, zone), ended, outcome, begun.stream.removeprefix(SESSION))


def _silences(told: Sequence[LifeEvent]) -> list[Silence]:
    """Return the times between what was said, the longest first."""
    said = sorted(each.time for each in told if each.kind in ("message", "touched"))
    found = [Silence(before, after) for before, after in pairwise(said) if after > before]
    return sorted(found, key=lambda each: each.seconds, reverse=True)
