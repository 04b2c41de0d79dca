"""The fold of all states: the same for a command that decides and for a replay of what was decided.

States are read from the tables when first asked for, evolve in memory, and are written once.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC

from engine.domain import (
    chat as chats,
    chat_events as c,
    events as e,
    lane as lanes,
    project as projects,
    session as sessions,
    turn as turns,
)
from engine.domain.chat import Chat
from engine.domain.encoding import Archived, Content, Erased
from engine.domain.lane import Lane
from engine.domain.lane_entry import entry_of
from engine.domain.project import Project
from engine.domain.session import Session
from engine.domain.streams import LANE, PROJECT, SESSION
from engine.domain.turn import TurnState
from engine.log.protocol import Queries
from projections.inline import (
    chats as chat_tables,
    copies,
    lanes as lane_tables,
    message_ids,
    projects as project_tables,
    sessions as session_tables,
    turns as turn_tables,
)
from projections.inline.changes import Change


def _position_of_visit(visit: Change) -> int:
    return int(visit[1][-1])


_COPIES = frozenset({e.MessageRewritten, c.MessageExtended, Archived})
_TURN = frozenset({e.TurnBegun, e.TurnRenewed, e.TurnEnded, e.TurnInterrupted})
TURNS = frozenset({e.TurnBegun.TOPIC, e.TurnRenewed.TOPIC, e.TurnEnded.TOPIC, e.TurnInterrupted.TOPIC})
"""Topics of events that say nothing of a session but that it has a turn."""


class Fold:
    """States as they stand in one transaction."""

    def __init__(self, reads: Queries, heads: Mapping[str, Session] | None = None) -> None:
        self._reads = reads
        self._heads = {} if heads is None else heads
        self._lane_ids: dict[str, str | None] = {}
        self._lanes: dict[str, tuple[Lane | None, Lane]] = {}
        self._sessions: dict[str, tuple[Session | None, Session | None]] = {}
        self._turns: dict[str, TurnState | None] = {}
        self._chats: dict[str, tuple[Chat, Chat]] = {}
        self._projects: dict[str, Project | None] = {}
        self.changed_lanes: dict[str, None] = {}
        self._changed_turns: dict[str, None] = {}
        self.changed_projects: dict[str, Project] = {}
        self.changed_heads: dict[str, Session] = {}
        self._visits: list[Change] = []
        self._ids: list[Change] = []

    # States

    def lane(self, key: str) -> Lane | None:
        """Return the lane of a key as it stands; None if there is none."""
        if key not in self._lane_ids:
            found = lane_tables.find_lane(self._reads, key)
            if found is None:
                self._lane_ids[key] = None
            else:
                self._know(found)
        lane_id = self._lane_ids[key]
        return None if lane_id is None else self._lanes[lane_id][1]

    def lane_with_id(self, lane_id: str) -> Lane | None:
        """Return the lane of a stream as it stands; None if it leads nowhere."""
        if lane_id not in self._lanes:
            found = lane_tables.lane_with_id(self._reads, lane_id)
            if found is None:
                return None
            self._know(found)
        return self._lanes[lane_id][1]

    def _know(self, lane: Lane) -> None:
        self._lanes.setdefault(lane.lane_id, (lane, lane))
        self._lane_ids[lane.key] = lane.lane_id

    def session(self, session_id: str) -> Session | None:
        """Return the head of a session as it stands; None if there is none."""
        known = self._sessions.get(session_id)
        if known is None:
            found = self._heads.get(session_id) or session_tables.find_session(self._reads, session_id)
            if found is not None and found.session_id != session_id:  # it went on under this id
                return self.session(found.session_id)
            known = self._sessions[session_id] = (found, found)
        return known[1]

    def chat(self, session_id: str) -> Chat:
        """Return what chat events say of a session as it stands."""
        if session_id not in self._chats:
            found = chat_tables.find_chat(self._reads, session_id)
            self._chats[session_id] = found, found
        return self._chats[session_id][1]

    def project(self, project_id: str) -> Project | None:
        """Return a project as it stands; None if there is none."""
        if project_id not in self._projects:
            self._projects[project_id] = project_tables.find_project(self._reads, project_id)
        return self._projects[project_id]

    def turn(self, conversation_id: str) -> TurnState | None:
        """Return the open turn of a conversation as it stands."""
        if conversation_id not in self._turns:
            self._turns[conversation_id] = turn_tables.turn_of(self._reads, conversation_id)
        return self._turns[conversation_id]

    # Events

    def on_session(self, session: Session, event: Content, time: int, version: int, position: int) -> Session:
        """Let an event happen to a session; return its head after it."""
        after = sessions.evolve(session, event, time, version)
        session_id = session.session_id
        before = self._sessions.get(session_id, (None, None))[0]
        self._sessions[session_id] = before, after
        self.changed_heads[session_id] = after
        kind = type(event)
        of_a_chat = chats.says_something(event)
        if kind in _TURN or kind is Erased:
            conversation = after.conversation_id
            turn = self.turn(conversation)
            of_a_chat = of_a_chat and (turn is None or turn.lane_id is None)
            self._turns[conversation] = turns.evolve(turn, event, session_id, time)
            self._changed_turns[conversation] = None
        if of_a_chat:
            chat = chats.evolve(self.chat(session_id), event, version)
            self._chats[session_id] = self._chats[session_id][0], chat
        if kind not in _TURN:
            self._ids += message_ids.changes_of(after, event, position)
            if kind in _COPIES:
                self._ids += copies.changes_of(event, position)
        return after

    def pass_messages(self, session_id: str, version: int, others: int = 0) -> None:
        """Let messages happen to a session up to a version, unread; `others` of the events say nothing of it."""
        head = self.session_to_be(session_id)
        if head.version < version:
            after = sessions.with_messages(head, version, others)
            self._sessions[session_id] = self._sessions[session_id][0], after
            self.changed_heads[session_id] = after

    def on_project(self, project: Project, event: Content, time: int, version: int) -> Project:
        """Let an event happen to a project; return it after it."""
        after = projects.evolve(project, event, time, version)
        self._projects[project.project_id] = self.changed_projects[project.project_id] = after
        return after

    def session_to_be(self, session_id: str) -> Session:
        """Return the head of a session as it stands, or before its first event."""
        return self.session(session_id) or Session(session_id)

    def on_lane(self, lane: Lane, event: Content, time: int, version: int, position: int) -> Lane:
        """Let an event happen to a lane; return the lane after it."""
        after = lanes.evolve(lane, event, time, version)
        before = self._lanes.get(lane.lane_id, (None, lane))[0]
        self._lanes[lane.lane_id] = before, after
        self._lane_ids[after.key] = None if after.session_id is None else lane.lane_id
        self.changed_lanes[lane.lane_id] = None
        if after.key and after.session_id is not None and after.session_id != lane.session_id:
            self._visits.append(lane_tables.visit_of(after, position))
        return after

    def on_spent_lane(self, lane: Lane, events: Sequence[Content], times: Sequence[int], version: int) -> Lane:
        """Let touches and usage happen to a lane, up to a version; return the lane after them."""
        before = self._lanes.get(lane.lane_id, (None, lane))[0]
        after = lanes.spend(lane, events, times, version)
        self._lanes[lane.lane_id] = before, after
        self.changed_lanes[lane.lane_id] = None
        return after

    def replay(self, stream: str, event: Content, time: int, version: int, position: int) -> None:
        """Apply a recorded event; raise if no state can be made of it."""
        if stream.startswith(SESSION):
            session_id = stream.removeprefix(SESSION)
            self.on_session(self.session_to_be(session_id), event, time, version, position)
        elif stream.startswith(PROJECT):
            project_id = stream.removeprefix(PROJECT)
            self.on_project(self.project(project_id) or Project(project_id), event, time, version)
        elif stream.startswith(LANE):
            lane_id = stream.removeprefix(LANE)
            lane = self.lane_with_id(lane_id) or Lane(lane_id, version=version - 1)
            after = self.on_lane(lane, event, time, version, position)
            if after.session_id is not None and after.key:
                entry_of(after, UTC)

    # Writing

    def changes(self) -> list[Change]:
        """Return the statements that bring the tables up to date, in the order they must run in."""
        return self.state_changes() + self._ids

    def state_changes(self) -> list[Change]:
        """Return those of the statements that have nothing to do with single messages."""
        changes = []
        for session_id, head in self.changed_heads.items():
            changes.append(session_tables.change_of(self._sessions[session_id][0], head))
        for lane_id in self.changed_lanes:
            change = lane_tables.change_of(*self._lanes[lane_id])
            if change is not None:
                changes.append(change)
        if self._changed_turns:
            changes += [turn_tables.change_of(each, self._turns[each]) for each in self._changed_turns]
        for before, chat in self._chats.values():
            if chat is not before:
                changes += chat_tables.changes_of(before, chat)
        changes += [project_tables.change_of(each) for each in self.changed_projects.values()]
        return changes + sorted(self._visits, key=_position_of_visit)
