"""Everything that belongs to a session or a lane: the positions of its events, with copies and summaries."""

import json
from collections.abc import Iterable

from engine.domain import events as e
from engine.domain.encoding import Archived
from engine.domain.session import Session
from engine.domain.streams import LOG, lane_stream, session_stream
from engine.domain.titles import numbered
from engine.erasure.content import is_message, is_somebodys
from engine.erasure.report import Left
from engine.log.envelope import Envelope
from engine.log.protocol import Log
from projections.inline.copies import with_copies
from projections.inline.lanes import keys_of, lanes_of, sessions_of
from projections.inline.sessions import family_of, find_session

_PARTICIPANT = 5
"""The place of the participant in a lane's identity; 0 where the place alone tells lanes apart."""


class Scope:
    """Collects what is to be erased. It reads the log and the tables, and changes nothing."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.positions: set[int] = set()
        self.messages: set[int] = set()
        self.sessions: set[str] = set()
        self.whole: set[str] = set()
        self.lanes: set[str] = set()
        self.left: list[Left] = []
        self.archived: set[int] = set()

    def add(self, envelope: Envelope) -> None:
        """Take in an event, unless it has nothing of anybody in it, or was erased."""
        if is_somebodys(envelope.event):
            self.positions.add(envelope.position)
            if isinstance(envelope.event, Archived):
                self.archived.add(envelope.position)
            if is_message(envelope.event):
                self.messages.add(envelope.position)
            kind, _, name = envelope.stream.partition(":")
            if kind == "session":
                self.sessions.add(name)

    def again(self, before: "Scope") -> None:
        """Take in what has happened to erased lanes and sessions since: nothing tells any more whose they were."""
        for session_id in before.whole:
            self.session(session_id)
        for lane_id in before.lanes:
            self._lane_stream(lane_id)

    def _lane_stream(self, lane_id: str) -> None:
        self.lanes.add(lane_id)
        for envelope in self.log.stream(lane_stream(lane_id)):
            self.add(envelope)

    def session(self, session_id: str) -> None:
        """Take in a whole session, and what others retell of it."""
        if session_id in self.whole:
            return
        self.whole.add(session_id)
        titles = set()
        for envelope in self.log.stream(session_stream(session_id)):
            self.add(envelope)
            if isinstance(envelope.event, e.SessionTitled) and envelope.event.title is not None:
                titles.add(numbered(envelope.event.title).name)
        head = find_session(self.log.reader, session_id)
        if head is not None and head.family_id:
            for heir in _heirs(head, family_of(self.log.reader, head)):
                self._retold(heir, titles)

    def _retold(self, heir: Session, titles: set[str]) -> None:
        """Take in the summaries of a session that goes on from an erased one, and its title if that is the same."""
        for envelope in self.log.stream(session_stream(heir.session_id)):
            event = envelope.event
            title = event.title if isinstance(event, e.SessionTitled) else None
            if isinstance(event, e.TranscriptRewritten) or (title is not None and numbered(title).name in titles):
                self.add(envelope)

    def lane(self, key: str, *lane_ids: str) -> None:
        """Take in a lane and the sessions that are its alone, with their forks that no lane has."""
        reads = self.log.reader
        for lane_id in {*lane_ids, *lanes_of(reads, key)}:
            self._lane_stream(lane_id)
        for session_id in sessions_of(reads, key):
            self._of_lane(session_id, key)

    def _of_lane(self, session_id: str, key: str) -> None:
        head = find_session(self.log.reader, session_id)
        others = set(keys_of(self.log.reader, session_id)) - {key}
        if others or (head is not None and head.lane not in (None, key)):
            self.left.append(Left(f"session {session_id}", "other lanes led to it too; erase it by its id"))
            return
        self.session(session_id)
        for heir in [] if head is None else family_of(self.log.reader, head):
            if heir.lane in (None, key) and set(keys_of(self.log.reader, heir.session_id)) <= {key}:
                self.session(heir.session_id)

    def everything(self) -> list[int]:
        """Return all positions, with the copies of messages and what the quarantine says of them."""
        reads = self.log.reader
        for envelope in reads.recorded_at(sorted(with_copies(reads, self.messages) - self.messages)):
            self.add(envelope)
        for envelope in self.log.stream(LOG):
            event = envelope.event
            if isinstance(event, e.EventQuarantined) and event.position in self.positions:
                self.positions.add(envelope.position)
        return sorted(self.positions)


def is_personal(identity: str | None) -> bool:
    """Return True if a lane's identity is one person's: a private chat, or a participant with a lane of their own."""
    try:
        parts = json.loads(identity or "")
        return parts[2] == "dm" or bool(parts[_PARTICIPANT])
    except (ValueError, LookupError, TypeError):
        return False


def _heirs(head: Session, family: Iterable[Session]) -> list[Session]:
    """Return the sessions that go on from one, directly or not."""
    found: dict[str, Session] = {head.session_id: head}
    waiting = list(family)
    while children := [each for each in waiting if each.parent_session_id in found and each.session_id not in found]:
        found.update((each.session_id, each) for each in children)
    return [each for each in found.values() if each is not head]
