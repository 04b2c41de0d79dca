"""The heads of all sessions, and the questions that find one."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import attrgetter
from typing import Any

from engine.domain.encoding import encode
from engine.domain.session import COMPRESSION, Session, live_tip
from engine.domain.titles import numbered
from engine.log.protocol import Queries
from projections.inline.changes import Change
from projections.inline.chats import session_with
from projections.inline.states import THESE, States, ask, in_parts, number, text
from projections.inline.texts import storable

TABLES = (
    """CREATE TABLE sessions (  -- The heads: everything about a session but its messages.
    session_id  TEXT PRIMARY KEY,
    lane        TEXT,             -- the key of the lane it belongs to
    peer        TEXT,             -- person and place: what recovery looks for second
    family_id   TEXT,             -- of a compressed child or a fork: the conversation it came from
    created_at  INTEGER NOT NULL, -- recovery takes the newest
    recoverable INTEGER NOT NULL, -- 1 if a lane that leads nowhere may be led here
    title_name   TEXT,            -- the title without its number
    title_number INTEGER,         -- unique in the store together with the name; 1 if none is written
    tip_of      TEXT,             -- of a compressed session's child that goes on itself: its conversation
    state       TEXT NOT NULL     -- the fold of the session's stream, without its messages
)""",
    "CREATE INDEX sessions_by_lane ON sessions (lane, created_at) WHERE recoverable = 1",
    "CREATE INDEX sessions_by_peer ON sessions (peer, created_at) WHERE recoverable = 1",
    "CREATE INDEX sessions_by_title ON sessions (title_name, title_number) WHERE title_name IS NOT NULL",
    "CREATE INDEX sessions_by_tip ON sessions (tip_of) WHERE tip_of IS NOT NULL",
    "CREATE INDEX sessions_by_family ON sessions (family_id) WHERE family_id IS NOT NULL",
)
_PAGE = 500
KEYS = {"sessions": "session_id"}
NAMES = tuple(KEYS)

_states = States("sessions", "session_id", Session, lambda session: (session.session_id,))
_NEWEST = {
    column: f"(SELECT state FROM sessions WHERE {column} = ? AND recoverable = 1 "
    "ORDER BY created_at DESC, session_id DESC LIMIT 1)"
    for column in ("lane", "peer")
}
_THESE = f"SELECT session_id, state FROM sessions WHERE session_id IN {THESE}"
_described = attrgetter("lane", "source", "family_id", "created_at", "title")
_CHANGED = "UPDATE sessions SET state = ? WHERE session_id = ?"
_ENDED = "UPDATE sessions SET recoverable = ?, tip_of = ?, state = ? WHERE session_id = ?"
_WRITTEN = (
    "INSERT INTO sessions VALUES (?,?,?,?,?,?,?,?,?,?) ON CONFLICT (session_id) DO UPDATE SET lane = excluded.lane, "
    "peer = excluded.peer, family_id = excluded.family_id, created_at = excluded.created_at, "
    "recoverable = excluded.recoverable, title_name = excluded.title_name, title_number = excluded.title_number, "
    "tip_of = excluded.tip_of, state = excluded.state"
)


def find_session(reads: Queries, session_id: str) -> Session | None:
    """Return the head of a session, also by an id it went on under; None if there is no such session."""
    found = _states.first(reads, "WHERE session_id = ?", (session_id,))
    own = session_with(reads, session_id) if found is None else None
    return found if own is None else _states.first(reads, "WHERE session_id = ?", (own,))


def find_sessions(reads: Queries, session_ids: Sequence[str]) -> Iterator[Session]:
    """Yield the heads of those of some sessions that there are."""
    for part in in_parts(session_ids):
        for row in ask(reads, "sessions", _THESE, part):
            yield _states.read(*row)


def all_heads(reads: Queries) -> Iterator[Session]:
    """Yield the heads of all sessions, few in memory at a time; one that cannot be read is logged and left out."""
    after = ""
    while found := _states.usable(reads, "WHERE session_id > ? ORDER BY session_id", (after,), _PAGE):
        yield from found
        after = found[-1].session_id


def find_recoverable(reads: Queries, lanes: Sequence[str], peers: Sequence[str]) -> Session | None:
    """Return the newest session of a lane that may be recovered, else of the same person and place (G27)."""
    newest = ", ".join([_NEWEST["lane"]] * len(lanes) + [_NEWEST["peer"]] * len(peers))
    values = [storable(value) for value in (*lanes, *peers)]
    ((state,),) = ask(reads, "sessions", f"SELECT coalesce({newest})", values)
    return None if state is None else _states.read(f"the newest session of {', '.join(lanes)}", state)


def find_tip(reads: Queries, session: Session, find: Callable[[str], Session | None]) -> Session:
    """Return the session that goes on for a compressed one (G20); itself, if it was not compressed.

    However long the chain of compressions is, its conversation has one session that goes on, which the table knows.
    Only where a compressed session was reopened are there several, and the chain is followed.
    """
    if session.end_reason != COMPRESSION:
        return session
    conversation = session.conversation_id
    rows = ask(reads, "sessions", "SELECT session_id FROM sessions WHERE tip_of = ? LIMIT 2", (conversation,))
    tip = find(text("sessions", conversation, rows[0][0])) if len(rows) == 1 else None
    return live_tip(session, find) if tip is None else tip


def titled(reads: Queries, title: str, but: str) -> list[str]:
    """Return the other sessions with a title."""
    name, at = numbered(title)
    sql = "SELECT session_id FROM sessions WHERE title_name = ? AND title_number = ? AND session_id <> ?"
    rows = ask(reads, "sessions", sql, (storable(name), at, but))
    return [text("sessions", title, session_id) for (session_id,) in rows]


def highest_number(reads: Queries, title: str, but: str) -> int:
    """Return the highest number that other sessions' titles of the same name have; 0 if none has the name."""
    rows = ask(
        reads,
        "sessions",
        "SELECT title_number FROM sessions WHERE title_name = ? AND session_id <> ? ORDER BY title_number DESC LIMIT 1",
        (storable(numbered(title).name), but),
    )
    return number("sessions", title, rows[0][0]) if rows else 0


def family_of(reads: Queries, session: Session) -> list[Session]:
    """Return all segments and forks of the conversation a session came from, oldest first."""
    each = "SELECT session_id, state FROM sessions WHERE"
    sql = f"{each} session_id = ? UNION ALL {each} family_id = ?"
    found = [_states.read(*row) for row in ask(reads, "sessions", sql, (session.family_id, session.family_id))]
    return sorted(found, key=lambda each: (each.created_at, each.session_id))


def segments_of(reads: Queries, session_id: str) -> list[Session]:
    """Return the sessions of the conversation a session is of; none if there is no such session."""
    session = find_session(reads, session_id)
    if session is None:
        return []
    family = family_of(reads, session) if session.family_id else [session]
    return [each for each in family if each.conversation_id == session.conversation_id]


def count_sessions(reads: Queries, upto: int) -> int:
    """Return how many sessions were ever created, counting no further than asked."""
    (count,) = reads.query("SELECT count(*) FROM (SELECT 1 FROM sessions LIMIT ?) AS found", (upto,))[0]
    return int(count)


def change_of(before: Session | None, session: Session) -> Change:
    """Return what brings a session's row up to date."""
    state = encode(session).decode()
    if before is not None and _described(before) == _described(session):
        if before.end_reason == session.end_reason and (before.live > 0) is (session.live > 0):
            return _CHANGED, (state, session.session_id)
        return _ENDED, (int(session.recoverable), _tip_of(session), state, session.session_id)
    return _WRITTEN, (session.session_id, *_columns(session), state)


def removal_of(session_ids: Iterable[str]) -> Sequence[Change]:
    """Return what takes sessions out of the table, to be folded again."""
    return [("DELETE FROM sessions WHERE session_id = ?", (session_id,)) for session_id in session_ids]


def _columns(session: Session) -> tuple[Any, ...]:
    peer = session.peer
    name, number = (None, None) if session.title is None else numbered(session.title)
    return (
        None if session.lane is None else storable(session.lane),
        None if peer is None else storable(peer),
        session.family_id if session.parent_session_id is not None else None,
        session.created_at,
        int(session.recoverable),
        None if name is None else storable(name),
        number,
        _tip_of(session),
    )


def _tip_of(session: Session) -> str | None:
    """Return the conversation that goes on with a compressed session's child; None if the child was compressed too."""
    goes_on = session.relation == COMPRESSION and session.compressed_into is None
    return session.conversation_id if goes_on else None
