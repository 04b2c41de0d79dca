"""The state tables after an erasure: as if what was erased had never said more than that it was there.

They are what a fold of the whole log would make of it, at the cost of what was erased: messages are many, and say
nothing beyond their platform id; the other events of a session are few, and are folded without its messages.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence

from engine.domain import events as e
from engine.domain.chat import TOPICS as CHAT_TOPICS, Chat, evolve as evolve_chat
from engine.domain.encoding import decode, tombstone_digest
from engine.domain.session import Session, evolve, with_messages
from engine.domain.streams import LANE, PROJECT, SESSION, lane_stream, project_stream, session_stream
from engine.domain.transcript import MESSAGES
from engine.log.envelope import Envelope
from engine.log.protocol import StateTables
from projections.inline import chats, copies, lanes, message_ids, projects, quarantine, sessions, turns
from projections.inline.changes import run

Apply = Callable[[StateTables, Sequence[Envelope]], None]

_BATCH = 500
_TURNS = frozenset({e.TurnBegun.TOPIC, e.TurnRenewed.TOPIC, e.TurnEnded.TOPIC, e.TurnInterrupted.TOPIC})


def fold_again(tables: StateTables, erased: Sequence[int], upto: int, apply: Apply) -> None:
    """Bring the tables to what they would be if the events at these positions had been erased from the beginning."""
    messages: defaultdict[str, list[int]] = defaultdict(list)
    others: defaultdict[str, set[str]] = defaultdict(set)
    lane_ids: set[str] = set()
    project_ids: set[str] = set()
    for each in tables.recorded_at(erased):
        topic = each.event.topic
        if each.stream.startswith(LANE):
            lane_ids.add(each.stream.removeprefix(LANE))
        elif each.stream.startswith(PROJECT):
            project_ids.add(each.stream.removeprefix(PROJECT))
        elif each.stream.startswith(SESSION):
            session_id = each.stream.removeprefix(SESSION)
            messages[session_id] += [each.position] if topic in MESSAGES else []
            others[session_id] |= {topic} - MESSAGES
    run(tables, copies.erasure_of(erased))
    bad = _conversations_with_quarantined(tables)
    run(tables, quarantine.erasure_of(erased))
    whole: list[str] = []
    for session_id, topics in others.items():
        head = sessions.find_session(tables, session_id)
        if head is None or head.conversation_id in bad or _says_more(tables, head, topics):
            whole.append(session_id)
            continue
        run(tables, message_ids.erasure_of(head, messages[session_id]))
        if topics - _TURNS:
            run(tables, [sessions.change_of(None, _head_again(tables, head))])
        if not topics.isdisjoint(CHAT_TOPICS):
            run(tables, chats.removal_of([session_id]))
            run(tables, chats.changes_of(Chat(session_id), _chat_again(tables, head)))
    if whole:
        _conversations_again(tables, whole, upto, apply)
    run(tables, projects.removal_of(project_ids))
    apply_all(tables, tables.positions_of(sorted(map(project_stream, project_ids)), upto), apply)
    run(tables, lanes.removal_of(lane_ids))
    named = sorted(lane_stream(each) for each in lane_ids if not _nameless(tables, each))
    apply_all(tables, tables.positions_of(named, upto), apply)


def _conversations_with_quarantined(tables: StateTables) -> set[str]:
    """Return the conversations with an event in quarantine, which may be usable without what is erased."""
    rows = tables.recorded_at(_quarantined(tables))
    ids = {each.stream.removeprefix(SESSION) for each in rows if each.stream.startswith(SESSION)}
    heads = [sessions.find_session(tables, session_id) for session_id in ids]
    return {head.conversation_id for head in heads if head is not None}


def _quarantined(tables: StateTables) -> list[int]:
    return [position for position, _ in quarantine.quarantined(tables)]


def _nameless(tables: StateTables, lane_id: str) -> bool:
    """Return True if every event that names a lane was erased: nobody can be routed to it, whatever else happened."""
    rows = tables.payloads(lane_stream(lane_id), without=(e.LaneTouched.TOPIC, e.UsageRecorded.TOPIC))
    return not any(topic == e.LaneRouted.TOPIC and tombstone_digest(state) is None for _, topic, state, _, _ in rows)


def _says_more(tables: StateTables, head: Session, topics: set[str]) -> bool:
    """Return True if erased events of a session had to do with more than its head."""
    if e.TranscriptRewritten.TOPIC in topics:  # it freed platform ids
        return True
    if e.SessionCreated.TOPIC in topics and head.conversation_id != head.session_id:  # they move to its own
        return True
    return not topics.isdisjoint(_TURNS) and turns.turn_of(tables, head.conversation_id) is not None


def _head_again(tables: StateTables, head: Session) -> Session:
    """Return the head of a session, folded without reading its messages: of those only their number counts."""
    again = Session(head.session_id)
    rows = tables.payloads(session_stream(head.session_id), 0, head.version, without=sorted(MESSAGES))
    for version, topic, state, _, time in rows:
        again = evolve(with_messages(again, version - 1), decode(topic, state), time, version)
    return with_messages(again, head.version)


def _chat_again(tables: StateTables, head: Session) -> Chat:
    """Return what is left of what chat events say of a session."""
    again = Chat(head.session_id)
    rows = tables.payloads(session_stream(head.session_id), 0, head.version, without=sorted(MESSAGES))
    for version, topic, state, _, _ in rows:
        again = evolve_chat(again, decode(topic, state), version) if topic in CHAT_TOPICS else again
    return again


def _conversations_again(tables: StateTables, session_ids: Sequence[str], upto: int, apply: Apply) -> None:
    """Fold all segments of some conversations again: platform ids and turns are kept by conversation."""
    heads = {head.session_id: head for each in session_ids for head in sessions.segments_of(tables, each)}
    positions = tables.positions_of(sorted(map(session_stream, {*session_ids, *heads})), upto)
    run(
        tables, quarantine.erasure_of(sorted(set(positions).intersection(_quarantined(tables))))
    )  # they are tried again
    run(tables, sessions.removal_of([*session_ids, *heads]))
    run(tables, chats.removal_of([*session_ids, *heads]))
    run(tables, message_ids.removal_of(heads.values()))
    run(tables, turns.removal_of(heads.values()))
    apply_all(tables, positions, apply)


def apply_all(tables: StateTables, positions: Sequence[int], apply: Apply) -> None:
    """Apply the events at some positions, in order."""
    for start in range(0, len(positions), _BATCH):
        apply(tables, tables.recorded_at(positions[start : start + _BATCH]))
