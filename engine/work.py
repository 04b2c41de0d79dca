"""One command at work: it reads states inside the write transaction and collects the events it decides on."""

import logging
import secrets
from collections.abc import Callable, Hashable, Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypeVar, cast

import msgspec

from engine.acting import Acting
from engine.claims import TurnClaim
from engine.clock import Instant
from engine.domain.chat import Chat
from engine.domain.config import StoreSettings
from engine.domain.entry import SessionEntry
from engine.domain.events import DecisionInputs, LaneTouched, StoreOpened
from engine.domain.keys import new_session_id
from engine.domain.lane import AHEAD, Lane, idle_since, moves
from engine.domain.project import Project
from engine.domain.registry import Event
from engine.domain.session import Session
from engine.domain.sources import SessionSource
from engine.domain.streams import LOG, lane_stream, project_stream, session_stream
from engine.domain.times import shown
from engine.domain.turn import BootTime, TurnState
from engine.errors import TurnLostError, UnknownProjectError, UnknownSessionError
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.log.errors import CorruptStateError
from engine.log.protocol import Queries, Transaction
from projections.inline.backwards import TooFarError
from projections.inline.lanes import entry_of
from projections.inline.message_ids import has_message
from projections.inline.projection import InlineTables
from projections.inline.turns import turn_with

T = TypeVar("T")
_LANE_ID_BYTES = 8
_ID_BYTES = 6
_NEAR = 1000
"""So many rows may be read under the write lock: a few milliseconds."""
_LOOKS = 3


class Touch(msgspec.Struct, frozen=True, gc=False):
    """A message that moved a lane's idle clock, not yet written."""

    at: int
    held: str | None = None
    saw: DecisionInputs | None = None


Answers = Mapping[Any, Any]
"""What was asked before the write lock was taken: busy lanes by key, and what lies far back by question."""


class AskFirstError(Exception):
    """A decision needs the host's answer whether lanes are busy, which is not asked under the write lock."""

    def __init__(self, keys: list[str]) -> None:
        self.keys = keys


class LookFirstError(Exception):
    """A decision needs what lies far back in the log, which is not read under the write lock."""

    def __init__(self, key: "Looked", question: "Question[Any]") -> None:
        self.key, self.question = key, question


Question = Callable[[Queries, int | None], T]
"""Reads no more rows than the number given, or raises TooFarError."""

Looked = tuple[Hashable, ...]
"""A question by name, with the state that its answer is true of."""


class StoreContext(NamedTuple):
    """Everything the commands of one store have in common."""

    config: StoreSettings
    actor: str
    holder: str
    asks_host: bool
    active_profile: str | None
    tables: InlineTables
    given_up: dict[str, TurnClaim]
    boot_time: Callable[[], BootTime] | None
    """The clock that leases follow on this machine; None where the store's clock is not the machine's."""


class Note(NamedTuple):
    """A line for the host's log, written once the command is durable (G58)."""

    level: int
    text: str
    arguments: tuple[Any, ...]


class Work:
    """The state a command decides on, and the events it decides. Valid inside one transaction."""

    __slots__ = (
        "_actor",
        "_answers",
        "_instant",
        "_opening",
        "_reason",
        "_reserved",
        "_touches",
        "began_at",
        "command",
        "context",
        "envelopes",
        "fold",
        "notes",
        "opened_at",
        "time",
        "touched",
        "transaction",
    )

    def __init__(
        self,
        transaction: Transaction,
        instant: Instant,
        context: StoreContext,
        touches: Mapping[str, Touch],
        answers: Answers,
        opening: StoreOpened | None,
    ) -> None:
        self.transaction = transaction
        self._instant = instant
        self.time = instant.time
        self.context = context
        self.fold = context.tables.begin(transaction)
        self.began_at = transaction.position
        self.envelopes: list[Envelope] = []
        self.touched: dict[str, Touch] = {}
        self.notes: list[Note] = []
        self.command: str
        self._actor: str
        self._reason: str | None
        self._touches = touches
        self._answers = answers
        self._opening = opening
        self.opened_at: int | None = None
        self._reserved: set[tuple[str, str]] = set()

    def begin(self, command: str, acting: Acting | None) -> None:
        """Start a command; of those that are grouped, one after the other shares this work."""
        self.command = command
        self._actor, self._reason = (self.context.actor, None) if acting is None else acting

    @property
    def now(self) -> datetime:
        """The time of everything the command decides, as the store's clock shows it."""
        return self._instant.shown

    def since_boot(self) -> BootTime | None:
        """Return the time by the clock that leases follow on this machine, if the store goes by its clocks."""
        return None if self.context.boot_time is None else self.context.boot_time()

    # States

    def lane(self, key: str) -> Lane | None:
        """Return a lane with its pending touch, or None if it leads nowhere; loading a lane emits its touch."""
        lane = self.fold.lane(key)
        if lane is not None and key in self._touches and key not in self.touched:
            touch = self.touched[key] = self._touches[key]
            if moves(lane.updated_at, touch.at):
                lane = self.on_lane(lane, LaneTouched(at=touch.at, held=touch.held, saw=touch.saw))
        return lane

    def new_lane(self, key: str, identity: str | None) -> Lane:
        """Return a lane without events, on a stream of its own."""
        return Lane(secrets.token_hex(_LANE_ID_BYTES), key, identity=identity)

    def flush_touches(self, keys: Iterable[str] | None = None) -> None:
        """Flush pending touches; those of lanes that lead nowhere, or cannot be read, are dropped."""
        for key in list(self._touches) if keys is None else keys:
            touch = self._touches.get(key)
            if touch is not None and self.readable_lane(key) is None:
                self.touched[key] = touch

    def readable_lane(self, key: str) -> Lane | None:
        """Return a lane like `lane`; None, noted, for one that cannot be read and must not stand in others' way."""
        try:
            return self.lane(key)
        except CorruptStateError as error:
            self.note(logging.ERROR, "lane %r was passed over: %s", key, error)
            return None

    def session(self, session_id: str) -> Session | None:
        """Return the head of a session, or None."""
        return self.fold.session(session_id)

    def known(self, session_id: str) -> Session:
        """Return the head of a session that must exist."""
        session = self.fold.session(session_id)
        if session is None or session.deleted:
            raise UnknownSessionError(session_id)
        return session

    def chat(self, session: Session) -> Chat:
        """Return what chat events say of a session; one without any has the defaults."""
        return self.fold.chat(session.session_id)

    def known_project(self, project_id: str) -> Project:
        """Return a project that must exist."""
        project = self.fold.project(project_id)
        if project is None or project.deleted:
            raise UnknownProjectError(project_id)
        return project

    def reserve_message_id(self, session: Session, message_id: str) -> bool:
        """Return False if the platform id is already used in the session's conversation (G47)."""
        reserved = session.conversation_id, message_id
        if reserved in self._reserved or has_message(self.transaction, session, message_id):
            return False
        self._reserved.add(reserved)
        return True

    def check_turn(self, token: str | None, session: Session) -> None:
        """Raise TurnLostError if a write names a turn that does not hold the session's conversation any more."""
        if token is not None:
            turn: TurnState | None = turn_with(self.transaction, token)
            if turn is None or turn.conversation_id != session.conversation_id:
                raise TurnLostError(token, session.conversation_id)

    def busy(self, key: str) -> bool:
        """Return True if the host works on a lane right now (G30)."""
        return self.all_busy([key])[key]

    def all_busy(self, keys: list[str]) -> dict[str, bool]:
        """Return which of many lanes the host works on, asked at once."""
        if not self.context.asks_host:
            return dict.fromkeys(keys, False)
        missing = [key for key in keys if key not in self._answers]
        if missing:
            raise AskFirstError(missing)
        return {key: self._answers[key] for key in keys}

    def look(self, key: Looked, question: Question[T]) -> T:
        """Return the answer to a question about the past.

        Near the end it is read here. What is far is read before the write lock is taken, and asked again if the
        state named in the key has moved meanwhile; a session that never stands still is read here after all.
        """
        if key in self._answers:
            return cast(T, self._answers[key])
        asked = sum(isinstance(each, tuple) and each[0] == key[0] for each in self._answers)
        try:
            return question(self.transaction, _NEAR if asked < _LOOKS else None)
        except TooFarError:
            raise LookFirstError(key, question) from None

    def entry(self, lane: Lane, origin: SessionSource | None = None) -> SessionEntry:
        """Return the lane as its caller sees it; `origin` is the lane's, if the caller has it as an object."""
        return entry_of(lane, self.now.tzinfo, origin)

    # Events

    @property
    def position(self) -> int:
        """The position of the last event: the write lock is held, so nobody comes between."""
        return self.began_at + len(self.envelopes)

    def on_lane(self, lane: Lane, event: Event, reason: str | None = None) -> Lane:
        """Let an event happen to a lane; return the lane after it."""
        version = lane.version + 1
        position = self._add(lane_stream(lane.lane_id), version, event, reason)
        after = self.fold.on_lane(lane, event, self.time, version, position)
        if lane.updated_at > self.time + AHEAD >= after.updated_at:
            self._note_clock(lane)
        return after

    def _note_clock(self, lane: Lane) -> None:
        """Tell the host's log, once, that a lane was used at a time that is still to come."""
        ahead = (lane.updated_at - self.time) / 1e6
        counted = shown(idle_since(lane, self.time), self.now.tzinfo)
        text = "lane %r was last used %.0f s after now: a clock was wrong then, or is now; it counts as used at %s"
        self.note(logging.WARNING, text, lane.key, ahead, counted)

    def on_session(self, session: Session, event: Event, reason: str | None = None) -> Session:
        """Let an event happen to a session; return its head after it."""
        version = session.version + 1
        position = self._add(session_stream(session.session_id), version, event, reason)
        return self.fold.on_session(session, event, self.time, version, position)

    def on_project(self, project: Project, event: Event, reason: str | None = None) -> Project:
        """Let an event happen to a project; return it after it."""
        version = project.version + 1
        self._add(project_stream(project.project_id), version, event, reason)
        return self.fold.on_project(project, event, self.time, version)

    def on_log(self, event: Event, reason: str | None = None) -> None:
        """Record an event of the store itself."""
        self._add(LOG, NEXT_VERSION, event, reason)

    def _add(self, stream: str, version: int, event: Event, reason: str | None) -> int:
        """Collect an event; return the position it will have."""
        envelopes = self.envelopes
        if self._opening is not None:
            self._open(self._opening)
        envelopes.append(Envelope(stream, version, event, self.time, self._actor, self.command, self._reason or reason))
        return self.began_at + len(envelopes)

    def _open(self, opening: StoreOpened) -> None:
        """Say before the first event that the store began to write."""
        actor, why = self.context.actor, "first command of the store"
        self.envelopes.append(Envelope(LOG, NEXT_VERSION, opening, self.time, actor, "open", why))
        self._opening, self.opened_at = None, self.began_at + 1

    def note(self, level: int, text: str, *arguments: object) -> None:
        """Tell the host's log, once this is durable."""
        self.notes.append(Note(level, text, arguments))

    def new_id(self) -> str:
        """Return an id of 12 hex digits for a new chat or project, checked like one of `new_session_id`."""
        return secrets.token_hex(_ID_BYTES)

    def new_session_id(self) -> str:
        """Return an id for a new session. That it is new is seen when its first event is stored."""
        return new_session_id(self.now, secrets.token_bytes(4))

    def commit(self) -> None:
        """Append what was decided and bring the tables up to date."""
        if self.envelopes:
            self.transaction.insert(self.envelopes)
            self.context.tables.write(self.transaction, self.fold)
