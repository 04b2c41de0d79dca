"""One command at work: it reads states inside the write transaction, collects events, and appends them together."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, TypeVar

from engine.domain import lane as lanes
from engine.domain import session as sessions
from engine.domain.config import GatewayConfig
from engine.domain.entry import SessionEntry
from engine.domain.envelope import Envelope
from engine.domain.events import LaneTouched, Saw
from engine.domain.keys import new_session_id
from engine.domain.lane import Lane, microseconds
from engine.domain.registry import Event
from engine.domain.session import Session
from engine.domain.sources import SessionSource
from engine.errors import UnknownSessionError
from engine.log.transaction import Transaction
from projections import routing
from projections import sessions as heads
from projections.inline import Inline
from projections.routing import Known
from projections.transcripts import live_inside

C = TypeVar("C", bound=Callable[..., Any])


class Touch(NamedTuple):
    """A message that moved a lane's idle clock, not yet written."""

    at: int
    held: str | None = None
    saw: Saw | None = None


POSITIONS: Any = object()
FIRST_POSITION: Any = object()
"""What a command returns to answer with the positions its events get, or with the first of them, if any."""


class AskFirstError(Exception):
    """A decision needs the host's answer whether a lane is busy, which is not asked under the write lock."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = keys


class Surroundings(NamedTuple):
    """What commands of one store have in common."""

    config: GatewayConfig
    actor: str
    holder: str
    asks_host: bool
    inline: Inline


class Work:
    """The state a command decides on, and the events it decides. Valid inside one transaction."""

    def __init__(
        self,
        transaction: Transaction,
        now: datetime,
        command: str,
        surroundings: Surroundings,
        touches: Mapping[str, Touch],
        answers: Mapping[str, bool],
    ) -> None:
        self.now = now
        self.time = microseconds(now)
        self.query = transaction.query
        self.about = surroundings
        self.touched: dict[str, Touch] = {}
        self.command = command
        self._transaction = transaction
        self.position = transaction.position
        """Where the log stands before this command."""
        self._touches = touches
        self._answers = answers
        self._lanes: Known[Lane] = Known()
        self._sessions: Known[Session] = Known()
        self._new_ids: set[tuple[str, str]] = set()
        self._envelopes: list[Envelope] = []

    # State

    def lane(self, key: str) -> Lane:
        """A lane as it stands, with the touch that waits to be written."""
        lane = self._lanes.after.get(key)
        if lane is None:
            found = routing.find_lane(self.query, key)
            lane = found or Lane(key, self._transaction.version(routing.PREFIX + key) or 0)
            self._lanes.after[key] = lane
            self._lanes.before[key] = found
            touch = self._touches.get(key)
            if touch is not None and found is not None:
                self.touched[key] = touch
                if touch.at > found.updated_at:
                    lane = self.on_lane(lane, LaneTouched(at=touch.at, held=touch.held, saw=touch.saw))
        return lane

    def write_touches(self, keys: Iterable[str] | None = None) -> None:
        """Write the touches that wait, which looking at their lanes does; those that lead nowhere are dropped."""
        for key in list(self._touches) if keys is None else keys:
            touch = self._touches.get(key)
            if touch is not None:
                self.touched[key] = touch
                self.lane(key)

    def entry(self, lane: Lane, source: SessionSource | None = None) -> SessionEntry:
        """The lane as its caller sees it; `source` is who asks, which often is the lane's origin."""
        origin = source if source is not None and lane.origin == source.known() else None
        return lanes.entry_of(lane, self.now.tzinfo, origin and origin.without_trust())

    def session(self, session_id: str) -> Session | None:
        """The head of a session, or None."""
        session = self._sessions.after.get(session_id)
        if session is None:
            self._sessions.before[session_id] = session = self.about.inline.head(self._transaction, session_id)
            if session is not None:
                self._sessions.after[session_id] = session
        return session

    def is_new(self, session_id: str, message_id: str) -> bool:
        """Whether a platform id was never appended to a session; from now on it was (G47)."""
        if (session_id, message_id) in self._new_ids or heads.has_message(self.query, session_id, message_id):
            return False
        self._new_ids.add((session_id, message_id))
        return True

    def known(self, session_id: str) -> Session:
        """The head of a session that must exist."""
        session = self.session(session_id)
        if session is None or session.deleted:
            raise UnknownSessionError(session_id)
        return session

    def live(self, session: Session) -> list[bytes]:
        """The live messages of a session, as it was before this command."""
        return live_inside(self.query, session)

    def busy(self, key: str) -> bool:
        """Whether the host works on a lane right now (G30)."""
        if not self.about.asks_host:
            return False
        if key not in self._answers:
            raise AskFirstError([key])
        return self._answers[key]

    def all_busy(self, keys: list[str]) -> dict[str, bool]:
        """The same for many lanes, asked at once."""
        missing = [key for key in keys if key not in self._answers] if self.about.asks_host else []
        if missing:
            raise AskFirstError(missing)
        return {key: self.about.asks_host and self._answers[key] for key in keys}

    # Events

    def on_lane(self, lane: Lane, event: Event, reason: str | None = None) -> Lane:
        """Let an event happen to a lane; the lane after it."""
        version = lane.version + 1
        self._add(routing.PREFIX + lane.key, version, event, reason)
        after = lanes.evolve(lane, event, self.time, version)
        self._lanes.after[lane.key] = after
        return after

    def on_session(self, session: Session, event: Event, reason: str | None = None) -> Session:
        """Let an event happen to a session; its head after it."""
        version = session.version + 1
        self._add(heads.PREFIX + session.session_id, version, event, reason)
        after = sessions.evolve(session, event, self.time, version)
        self._sessions.after[session.session_id] = after
        return after

    def on_stream(self, stream: str, event: Event, reason: str | None = None) -> None:
        """Let an event happen to the lane or session a stream belongs to."""
        if stream.startswith(routing.PREFIX):
            self.on_lane(self.lane(stream.removeprefix(routing.PREFIX)), event, reason)
        else:
            self.on_session(self.known(stream.removeprefix(heads.PREFIX)), event, reason)

    def _add(self, stream: str, version: int, event: Event, reason: str | None) -> None:
        self._envelopes.append(Envelope(stream, version, event, self.time, self.about.actor, self.command, reason))

    def new_session_id(self) -> str:
        """An id no session has yet."""
        while True:
            session_id = new_session_id(self.now)
            if self.session(session_id) is None:
                return session_id

    @property
    def size(self) -> int:
        """How many events were decided so far."""
        return len(self._envelopes)

    def append(self) -> list[int]:
        """Write what was decided; the positions."""
        if not self._envelopes:
            return []
        inline = self.about.inline
        inline.lanes, inline.heads = self._lanes, self._sessions
        try:
            return self._transaction.append(self._envelopes)
        finally:
            inline.lanes, inline.heads = Known(), Known()


class Given:
    """A command on its way to the log, which runs it under the write lock, at the time it is run at."""

    __slots__ = ("answers", "arguments", "command", "group", "name", "start")

    def __init__(
        self,
        start: Callable[[Transaction, str, Mapping[str, bool]], Work],
        name: str,
        command: Callable[..., Any],
        arguments: tuple[Any, ...],
        answers: Mapping[str, bool],
    ) -> None:
        self.start, self.name, self.command, self.arguments, self.answers = start, name, command, arguments, answers
        self.group = run_together if getattr(command, "groups", False) else None

    def __call__(self, transaction: Transaction) -> tuple[Any, Mapping[str, Touch]]:
        work = self.start(transaction, self.name, self.answers)
        result = self.command(work, *self.arguments)
        return _answer(result, work.append()), work.touched


def run_together(transaction: Transaction, commands: Sequence[Given]) -> list[tuple[Any, Mapping[str, Touch]]]:
    """Run commands that look at nothing but heads and platform ids on one state, and append for all at once."""
    first = commands[0]
    work = first.start(transaction, first.name, first.answers)
    results = []
    for given in commands:
        work.command, before = given.name, work.size
        results.append((given.command(work, *given.arguments), before, work.size))
    positions = work.append()
    return [(_answer(result, positions[begin:end]), {}) for result, begin, end in results]


def grouped(command: C) -> C:
    """Say that a command may run together with others of its kind."""
    command.groups = True  # type: ignore[attr-defined]
    return command


def _answer(result: Any, positions: list[int]) -> Any:
    if result is FIRST_POSITION:
        return positions[0] if positions else None
    return positions if result is POSITIONS else result
