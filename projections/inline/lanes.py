"""The routing index: where each lane leads, and every session it ever led to."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import tzinfo
from typing import NamedTuple

from engine.domain import lane_entry
from engine.domain.encoding import decode, encode
from engine.domain.entry import SessionEntry
from engine.domain.lane import Lane, evolve
from engine.domain.sources import SessionSource
from engine.domain.streams import lane_stream
from engine.log.errors import CorruptStateError
from engine.log.protocol import Queries
from projections.inline.changes import Change
from projections.inline.quarantine import NAME
from projections.inline.states import UNUSABLE, States, ask, number, report, text, unusable
from projections.inline.texts import original, storable

TABLES = (
    """CREATE TABLE lanes (  -- The routing index: where each lane leads.
    key        TEXT PRIMARY KEY,  -- the session key
    lane_id    TEXT NOT NULL,     -- names the lane's stream
    session_id TEXT NOT NULL,     -- where it leads
    updated_at INTEGER NOT NULL,  -- its idle clock
    state      TEXT NOT NULL      -- the fold of the lane's stream
)""",
    "CREATE UNIQUE INDEX lanes_by_id ON lanes (lane_id)",
    "CREATE INDEX lanes_by_session ON lanes (session_id)",
    "CREATE INDEX lanes_by_time ON lanes (updated_at DESC, key)",
    """CREATE TABLE lane_sessions (  -- Every session a lane ever led to.
    key        TEXT NOT NULL,     -- the session key
    session_id TEXT NOT NULL,     -- a session it led to
    lane_id    TEXT NOT NULL,     -- names the lane's stream
    position   INTEGER NOT NULL,  -- of the event that led it there last
    PRIMARY KEY (key, session_id)
)""",
)
KEYS = {"lanes": "key", "lane_sessions": "key, session_id"}
NAMES = tuple(KEYS)

_states = States("lanes", "key, updated_at", Lane, lambda lane: (storable(lane.key), lane.updated_at))
_LOOK_UP = (
    "SELECT projections.position, lanes.state, (SELECT 1 FROM lane_sessions WHERE key = ? LIMIT 1) "
    "FROM projections LEFT JOIN lanes ON lanes.key = ? WHERE projections.name = ?"
)


def find_lane(reads: Queries, key: str) -> Lane | None:
    """Return the lane of a key; None if it leads nowhere."""
    return _states.first(reads, "WHERE key = ?", (storable(key),))


def find_usable_lane(reads: Queries, key: str) -> Lane | None:
    """Return the lane of a key; None if it leads nowhere, or, logged, cannot be read."""
    return next(iter(_states.usable(reads, "WHERE key = ?", (storable(key),))), None)


def look_up(reads: Queries, key: str) -> tuple[int, Lane | None, bool]:
    """Return how far the tables are, the lane that a key has there, and whether it ever had one.

    In one statement, so that they agree.
    """
    name = storable(key)
    rows = ask(reads, "lanes", _LOOK_UP, (name, name, NAME))
    if not rows:
        raise unusable("projections", NAME, "it is missing")
    position, state, used = rows[0]
    return number("projections", NAME, position), None if state is None else _states.read(key, state), bool(used)


def lane_with_id(reads: Queries, lane_id: str) -> Lane | None:
    """Return the lane of a stream; None if it leads nowhere."""
    return _states.first(reads, "WHERE lane_id = ?", (lane_id,))


def usable_lane_with_id(reads: Queries, lane_id: str) -> Lane | None:
    """Return the lane of a stream; None if it leads nowhere, or, logged, cannot be read."""
    return next(iter(_states.usable(reads, "WHERE lane_id = ?", (lane_id,))), None)


def lanes_on(reads: Queries, session_id: str) -> list[Lane]:
    """Return the lanes that lead to a session; one that cannot be read is logged and left out."""
    return _states.usable(reads, "WHERE session_id = ? ORDER BY updated_at DESC, key", (session_id,))


def keys_since(reads: Queries, updated_at: int) -> list[str]:
    """Return the keys of lanes touched at or after a time, newest first."""
    sql = "SELECT key FROM lanes WHERE updated_at >= ? ORDER BY updated_at DESC, key"
    return [_original(key) for (key,) in ask(reads, "lanes", sql, (updated_at,))]


def keys_before(reads: Queries, updated_at: int, latest: int) -> list[str]:
    """Return the keys of lanes untouched since a time, oldest first, and of those touched after the latest one."""
    sql = "SELECT key FROM lanes WHERE updated_at < ? OR updated_at > ? ORDER BY updated_at, key"
    return [_original(key) for (key,) in ask(reads, "lanes", sql, (updated_at, latest))]


class Place(NamedTuple):
    """A place in the list of lanes, newest first: lanes touched at the same time stand by their keys."""

    updated_at: int
    key: str


def lanes_after(reads: Queries, place: Place | None, since: int, limit: int) -> list[Lane]:
    """Return lanes touched at or after a time, newest first: the first ones, or those after a place.

    One that cannot be read is logged and left out.
    """
    if place is None:
        return _states.usable(reads, "WHERE updated_at >= ? ORDER BY updated_at DESC, key", (since,), limit)
    equal = "WHERE updated_at = ? AND key > ? ORDER BY key"
    found = _states.usable(reads, equal, (place.updated_at, storable(place.key)), limit)
    if len(found) < limit:
        older = "WHERE updated_at < ? AND updated_at >= ? ORDER BY updated_at DESC, key"
        found += _states.usable(reads, older, (place.updated_at, since), limit - len(found))
    return found


def entry_of(lane: Lane, zone: tzinfo | None, source: SessionSource | None = None) -> SessionEntry:
    """Return a lane as its caller sees it; raise CorruptStateError if its state makes no sense."""
    try:
        return lane_entry.entry_of(lane, zone, source)
    except UNUSABLE as error:
        raise unusable("lanes", lane.key, error) from error


def entries_of(lanes: Iterable[Lane], zone: tzinfo | None) -> Iterator[SessionEntry]:
    """Yield lanes as their callers see them; one whose state makes no sense is logged and left out."""
    for lane in lanes:
        try:
            yield entry_of(lane, zone)
        except CorruptStateError as error:
            report(error)


def _original(key: object) -> str:
    try:
        return original(text("lanes", key, key))
    except ValueError as error:
        raise unusable("lanes", key, error) from error


def sessions_of(reads: Queries, key: str) -> list[str]:
    """Return every session a lane ever led to, the latest first."""
    sql = "SELECT session_id FROM lane_sessions WHERE key = ? ORDER BY position DESC, session_id"
    rows = ask(reads, "lane_sessions", sql, (storable(key),))
    return [text("lane_sessions", key, session_id) for (session_id,) in rows]


def last_lane_of(reads: Queries, key: str) -> str | None:
    """Return the id of the lane that had a key last, whether it leads anywhere now or was forgotten."""
    sql = "SELECT lane_id FROM lane_sessions WHERE key = ? ORDER BY position DESC LIMIT 1"
    rows = ask(reads, "lane_sessions", sql, (storable(key),))
    return text("lane_sessions", key, rows[0][0]) if rows else None


def lanes_of(reads: Queries, key: str) -> list[str]:
    """Return the ids of all lanes that ever had a key."""
    sql = "SELECT lane_id FROM lanes WHERE key = ? UNION SELECT lane_id FROM lane_sessions WHERE key = ? ORDER BY 1"
    rows = ask(reads, "lane_sessions", sql, (storable(key), storable(key)))
    return [text("lane_sessions", key, lane_id) for (lane_id,) in rows]


def visits_since(reads: Queries, position: int) -> list[tuple[str, str, str]]:
    """Return key, session and lane for each session that a lane was led to after a position, for the last time."""
    sql = "SELECT key, session_id, lane_id FROM lane_sessions WHERE position > ?"
    return [
        (_original(key), session_id, lane_id)
        for key, session_id, lane_id in ask(reads, "lane_sessions", sql, (position,))
    ]


def keys_of(reads: Queries, session_id: str) -> list[str]:
    """Return the keys of all lanes that ever led to a session."""
    rows = ask(reads, "lane_sessions", "SELECT key FROM lane_sessions WHERE session_id = ? ORDER BY key", (session_id,))
    return [_original(key) for (key,) in rows]


def identity_of(reads: Queries, lane_id: str) -> str | None:
    """Return the identity that the events of a lane give it; None if it was never recorded, or was erased."""
    lane, stream = Lane(lane_id), lane_stream(lane_id)
    # The first event has it, but for a lane of unknown origin that somebody came to later.
    for upto in (1, None):
        for version, topic, state, _, time in reads.payloads(stream, lane.version, upto):
            lane = evolve(lane, decode(topic, state), time, version)
        if lane.identity is not None:
            break
    return lane.identity


def change_of(before: Lane | None, lane: Lane) -> Change | None:
    """Return what brings a lane's row up to date; None for one that nobody can be routed to."""
    if not lane.key:
        return None
    key = storable(lane.key)
    if lane.session_id is None:
        return "DELETE FROM lanes WHERE key = ? AND lane_id = ?", (key, lane.lane_id)
    state = encode(lane).decode()
    if before is not None and before.session_id is not None and before.key == lane.key:
        if before.session_id == lane.session_id:
            return "UPDATE lanes SET updated_at = ?, state = ? WHERE key = ?", (lane.updated_at, state, key)
        sql = "UPDATE lanes SET session_id = ?, updated_at = ?, state = ? WHERE key = ?"
        return sql, (lane.session_id, lane.updated_at, state, key)
    sql = (
        "INSERT INTO lanes VALUES (?,?,?,?,?) ON CONFLICT (key) DO UPDATE SET lane_id = excluded.lane_id, "
        "session_id = excluded.session_id, updated_at = excluded.updated_at, state = excluded.state"
    )
    return sql, (key, lane.lane_id, lane.session_id, lane.updated_at, state)


def visit_of(lane: Lane, position: int) -> Change:
    """Return what records that a lane led to its session."""
    sql = (
        "INSERT INTO lane_sessions VALUES (?,?,?,?) "
        "ON CONFLICT (key, session_id) DO UPDATE SET lane_id = excluded.lane_id, position = excluded.position"
    )
    return sql, (storable(lane.key), lane.session_id, lane.lane_id, position)


def removal_of(lane_ids: Iterable[str]) -> Sequence[Change]:
    """Return what takes lanes out of the tables, to be folded again."""
    return [
        (f"DELETE FROM {table} WHERE lane_id = ?", (lane_id,))
        for lane_id in lane_ids
        for table in ("lanes", "lane_sessions")
    ]
