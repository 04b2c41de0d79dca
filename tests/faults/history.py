"""A plain reading of a store's log, written apart from the projections, to hold them and the rules against it."""

from collections import Counter
from collections.abc import Iterable
from typing import Any

from engine.domain import events as e
from engine.log.envelope import Envelope

LANE, SESSION = "lane:", "session:"
_LEADS = (e.LaneRouted, e.LaneReset, e.LaneSwitched, e.LaneAdvanced)
_NOWHERE = (e.LaneReleased, e.LanePruned)


class History:
    """Everything the log says about lanes, sessions, messages and turns; what breaks a rule is in `problems`."""

    def __init__(self, envelopes: Iterable[Envelope]) -> None:
        self.problems: list[str] = []
        self.leads: dict[str, str] = {}
        self.lane_of: dict[str, str | None] = {}
        self.conversation_of: dict[str, str] = {}
        self.ended: dict[str, str] = {}
        self.child_of: dict[str, str] = {}
        self.messages: dict[str, list[dict[str, Any]]] = {}
        self.appended: Counter[tuple[str, str]] = Counter()
        self.compressions: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = []
        self.turns: dict[str, str] = {}
        self.turns_begun = self.turns_interrupted = 0
        self.resets: Counter[str] = Counter()
        self._live: dict[str, set[str]] = {}
        self._key_of: dict[str, str] = {}
        self._compressed: dict[str, list[dict[str, Any]]] = {}
        self._conversation_of_turn: dict[str, str] = {}
        for envelope in envelopes:
            self._take(envelope)

    def _take(self, envelope: Envelope) -> None:
        event, stream = envelope.event, envelope.stream
        if stream.startswith(LANE):
            self._lane(stream.removeprefix(LANE), event, envelope.position)
        elif stream.startswith(SESSION):
            self._session(stream.removeprefix(SESSION), event, envelope.position, envelope.time / 1e6)

    # Lanes: each leads to the one live session that routing made for it

    def _lane(self, lane_id: str, event: object, position: int) -> None:
        if isinstance(event, e.LaneRouted) and event.key is not None:
            self._key_of[lane_id] = event.key
        key = self._key_of[lane_id]
        if isinstance(event, _LEADS):
            self.leads[key] = event.session_id
            if self._live.get(key) != {event.session_id}:
                self._wrong(position, f"{key} leads to {event.session_id}, live are {self._live.get(key)}")
        elif isinstance(event, _NOWHERE):
            self.leads.pop(key, None)
        if isinstance(event, e.LaneReset):
            self.resets[event.cause] += 1

    # Sessions

    def _session(self, session_id: str, event: object, position: int, time: float) -> None:
        self._turn(event, position)
        match event:
            case e.SessionCreated():
                self.lane_of[session_id] = event.lane
                self.conversation_of[session_id] = event.conversation_id
                self.messages[session_id] = []
                self._begin(session_id, position)
            case e.SessionReopened():
                self.ended.pop(session_id, None)
                self._begin(session_id, position)
            case e.SessionClaimed():
                self._live.get(self.lane_of[session_id] or "", set()).discard(session_id)
                self.lane_of[session_id] = event.lane
                self._begin(session_id, position)
            case e.SessionEnded():
                self._end(session_id, event.end_reason)
            case e.SessionCompressed():
                self._end(session_id, "compression")
                self.child_of[session_id] = event.child_session_id
                self._compressed[event.child_session_id] = list(self.messages[session_id])
            case e.TranscriptRewritten():
                self.messages[session_id] = [{"timestamp": time, **message} for message in event.messages]
                if event.cause == "compress":
                    before = self._compressed.pop(session_id)
                    taken = event.inherited
                    self.messages[session_id] += [] if taken is None else before[taken.first : taken.last]
                    self.compressions.append((before, list(self.messages[session_id])))
            case e.MessageAppended():
                self._message(session_id, event, position, time)

    def _begin(self, session_id: str, position: int) -> None:
        lane = self.lane_of[session_id]
        if lane is not None:
            live = self._live.setdefault(lane, set())
            live.add(session_id)
            if len(live) > 1:
                self._wrong(position, f"{lane} has two live sessions: {sorted(live)}")

    def _end(self, session_id: str, reason: str) -> None:
        self.ended[session_id] = reason
        self._live.get(self.lane_of[session_id] or "", set()).discard(session_id)

    def _message(self, session_id: str, event: e.MessageAppended, position: int, time: float) -> None:
        message, conversation = {"timestamp": time, **event.message}, self.conversation_of[session_id]
        if event.message_id is not None:
            message["message_id"] = event.message_id
            self.appended[conversation, event.message_id] += 1
        self.messages[session_id].append(message)
        token = message.get("turn")
        if token is not None and self.turns.get(conversation) != token:
            self._wrong(
                position, f"turn {token} wrote into {conversation}, whose turn is {self.turns.get(conversation)}"
            )

    # Turns

    def _turn(self, event: object, position: int) -> None:
        if isinstance(event, e.TurnBegun):
            running = self.turns.setdefault(event.conversation_id, event.token)
            if running != event.token:
                self._wrong(position, f"turn {event.token} began inside turn {running} of {event.conversation_id}")
            self._conversation_of_turn[event.token] = event.conversation_id
            self.turns_begun += 1
        elif isinstance(event, e.TurnEnded | e.TurnInterrupted):
            conversation = self._conversation_of_turn.get(event.token, "")
            if self.turns.pop(conversation, None) != event.token:
                self._wrong(position, f"turn {event.token} ended, but was not running")
            self.turns_interrupted += isinstance(event, e.TurnInterrupted)

    def _wrong(self, position: int, what: str) -> None:
        self.problems.append(f"position {position}: {what}")

    # Questions

    def doubled(self) -> list[tuple[str, str]]:
        """Platform ids that are in a conversation more than once."""
        return [both for both, count in self.appended.items() if count > 1]

    def kept(self, session_id: str, message_id: str) -> bool:
        """Return True if a message given to a session is, once, in its conversation: compression may move it."""
        return self.appended[self.conversation_of[session_id], message_id] == 1

    def childless(self) -> list[str]:
        """Compressed sessions whose child is not there."""
        return [parent for parent, child in self.child_of.items() if child not in self.conversation_of]

    def astray(self) -> list[str]:
        """Lanes that lead to a session that is not theirs or does not exist."""
        return [key for key, session_id in self.leads.items() if self.lane_of.get(session_id) != key]
