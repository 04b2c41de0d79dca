"""Audit views: the log and the state tables as plain SQL views, for any client, with nothing of ours loaded (V12).

They are a supported interface: columns are added, never renamed or removed. A test holds the list.
"""

from collections.abc import Callable
from hashlib import blake2b

from engine.log.protocol import Dialect, Log, Queries, StateTables, Transaction
from engine.version import package_version
from projections.inline.rebuilding import Around

NAME = "audit"
_OF_STATES = ("audit_sessions", "audit_lanes")

_EVENTS = """SELECT e.position, {time} AS time, e.stream, e.version, e.topic AS type, e.actor, e.command, e.reason,
    coalesce({first} ->> 'key', {first} ->> 'lane') AS lane,
    CASE WHEN e.stream LIKE 'session:%' THEN substr(e.stream, 9) ELSE {payload} ->> 'session_id' END AS session_id,
    coalesce({first} -> 'origin', {first} -> 'source') ->> 'platform' AS platform,
    coalesce({first} -> 'origin', {first} -> 'source') ->> 'chat_id' AS chat_id,
    coalesce({first} -> 'origin', {first} -> 'source') ->> 'user_id' AS user_id,
    e.state AS payload
FROM log AS e LEFT JOIN log AS f ON f.stream = e.stream AND f.version = 1 AND e.stream <> 'log'"""

_SESSIONS = """SELECT s.session_id, {state} ->> 'conversation_id' AS conversation_id, {state} ->> 'lane' AS lane,
    {state} -> 'source' ->> 'platform' AS platform, {state} -> 'source' ->> 'chat_id' AS chat_id,
    {state} -> 'source' ->> 'user_id' AS user_id,
    {created} AS created_at, {ended} AS ended_at, {state} ->> 'end_reason' AS end_reason,
    {state} ->> 'parent_session_id' AS parent_session_id, coalesce({state} ->> 'relation', 'root') AS relation,
    {state} ->> 'child_session_id' AS child_session_id, {state} ->> 'title' AS title,
    CAST(coalesce({state} ->> 'live', '0') AS BIGINT) AS messages
FROM sessions AS s"""

_LANES = """SELECT l.key AS lane, l.session_id, {state} -> 'origin' ->> 'platform' AS platform,
    {state} -> 'origin' ->> 'chat_id' AS chat_id, {state} -> 'origin' ->> 'user_id' AS user_id,
    {state} ->> 'display_name' AS display_name, {updated} AS updated_at,
    {suspended} AS suspended, {resume_pending} AS resume_pending,
    {state} ->> 'resume_reason' AS resume_reason, l.lane_id
FROM lanes AS l"""

_RESETS = """SELECT position, time, lane, platform, chat_id, user_id, actor, command, reason,
    {payload} ->> 'session_id' AS session_id, {payload} ->> 'previous_session_id' AS previous_session_id,
    {payload} ->> 'cause' AS cause, {automatic} AS automatic, {saw} ->> 'mode' AS mode,
    CAST({saw} ->> 'at_hour' AS BIGINT) AS at_hour, CAST({saw} ->> 'idle_minutes' AS BIGINT) AS idle_minutes,
    CAST({saw} ->> 'idle_seconds' AS DOUBLE PRECISION) AS idle_seconds,
    CAST({saw} ->> 'pending_seconds' AS DOUBLE PRECISION) AS pending_seconds,
    CAST({saw} ->> 'freshness_seconds' AS DOUBLE PRECISION) AS freshness_seconds,
    CAST({saw} ->> 'zone_offset_minutes' AS BIGINT) AS zone_offset_minutes
FROM audit_events WHERE type = 'lane.reset'"""

_TURNS = """SELECT b.position, {begun} AS begun, {ended} AS ended,
    CASE WHEN o.position IS NULL THEN 'open' WHEN o.topic = 'turn.interrupted' THEN 'interrupted'
        ELSE coalesce({over} ->> 'outcome', 'finished') END AS outcome,
    (o.time - b.time) / 1000000.0 AS seconds, coalesce({over} ->> 'evidence', {over} ->> 'error') AS evidence,
    substr(b.stream, 9) AS session_id, {payload} ->> 'conversation_id' AS conversation_id,
    {payload} ->> 'holder' AS holder, b.actor
FROM log AS b LEFT JOIN log AS o ON o.stream = b.stream AND o.version > b.version
    AND o.topic IN ('turn.ended', 'turn.interrupted') AND {over} ->> 'token' = {payload} ->> 'token'
WHERE b.topic = 'turn.begun'"""

_MESSAGES = """SELECT position, time, session_id, lane, platform, chat_id, user_id, actor,
    coalesce({payload} -> 'message' ->> 'role', 'unknown') AS role, {payload} -> 'message' ->> 'content' AS text,
    {payload} ->> 'message_id' AS message_id
FROM audit_events WHERE type = 'message.appended'"""

_ERASURES = """SELECT position, time, actor, reason, {payload} ->> 'request' AS request,
    {payload} ->> 'positions' AS positions
FROM audit_events WHERE type = 'log.erased'"""

_QUARANTINE = """SELECT q.position, q.projection, q.error, e.topic AS type, e.stream
FROM quarantine AS q LEFT JOIN log AS e ON e.position = q.position"""


def definitions(dialect: Dialect) -> dict[str, str]:
    """Return the query of each view, in the order they are made in."""
    time, payload = dialect.iso_time, f"({dialect.json('payload')})"

    def state(table: str) -> str:
        return f"({dialect.json(f'{table}.state')})"

    def at(field: str) -> str:
        return time(f"CAST({state('s')} ->> '{field}' AS BIGINT)")

    def flag(of: str, field: str) -> str:
        return f"CASE WHEN CAST({of} ->> '{field}' AS TEXT) IN ('1', 'true') THEN 1 ELSE 0 END"

    return {
        "audit_events": _EVENTS.format(time=time("e.time"), first=state("f"), payload=state("e")),
        "audit_sessions": _SESSIONS.format(state=state("s"), created=at("created_at"), ended=at("ended_at")),
        "audit_lanes": _LANES.format(
            state=state("l"),
            updated=time("l.updated_at"),
            suspended=flag(state("l"), "suspended"),
            resume_pending=flag(state("l"), "resume_pending"),
        ),
        "audit_resets": _RESETS.format(
            payload=payload, saw=f"{payload} -> 'saw'", automatic=flag(payload, "automatic")
        ),
        "audit_turns": _TURNS.format(begun=time("b.time"), ended=time("o.time"), over=state("o"), payload=state("b")),
        "audit_messages": _MESSAGES.format(payload=payload),
        "audit_erasures": _ERASURES.format(payload=payload),
        "audit_quarantine": _QUARANTINE,
    }


def create_audit_views(log: Log) -> None:
    """Make the audit views of a log, or make them anew if their definition changed."""
    made = definitions(log.dialect)
    if _made_by(log.reader) != _fingerprint(made):
        log.transact(lambda transaction: _make(transaction, made))


def create_state_views(tables: StateTables, dialect: Dialect) -> frozenset[str]:
    """Make those of the audit views that rest on state tables alone over some in memory; return their names."""
    made = definitions(dialect)
    tables.define([f"CREATE VIEW {name} AS {made[name]}" for name in _OF_STATES])
    return frozenset(_OF_STATES)


def replacing_tables(log: Log) -> Around:
    """Return what replaces the tables that the views are over: without the views, which are made again at once."""
    made = definitions(log.dialect)

    def replace(transaction: Transaction, place: Callable[[], None]) -> None:
        _drop(transaction, made)
        place()
        _make(transaction, made)

    return replace


def _fingerprint(made: dict[str, str]) -> str:
    return blake2b(repr(made).encode(), digest_size=16).hexdigest()


def _made_by(reads: Queries) -> str | None:
    rows = reads.query("SELECT fingerprint FROM projections WHERE name = ?", (NAME,))
    return str(rows[0][0]) if rows else None


def _drop(transaction: Transaction, made: dict[str, str]) -> None:
    transaction.define([f"DROP VIEW IF EXISTS {name}" for name in reversed(made)])


def _make(transaction: Transaction, made: dict[str, str]) -> None:
    _drop(transaction, made)
    transaction.define([f"CREATE VIEW {name} AS {query}" for name, query in made.items()])
    transaction.execute(
        "INSERT INTO projections VALUES (?,?,?,0,0,0,0) ON CONFLICT (name) DO UPDATE SET "
        "fingerprint = excluded.fingerprint, version = excluded.version",
        (NAME, _fingerprint(made), package_version()),
    )
