"""The heads of all sessions, and the platform ids of their messages; inline, like the routing index."""

from collections.abc import Iterable, Iterator, Sequence
from json import dumps
from typing import Any

from engine.domain import events as e
from engine.domain.encoding import encodable, encode, state_decoder
from engine.domain.envelope import Envelope
from engine.domain.session import COMPRESSION, Session, base_title, evolve
from engine.log.transaction import Transaction
from projections.routing import Known, Query

PREFIX = "session:"
TABLES = """
CREATE TABLE sessions (
    session_id  TEXT PRIMARY KEY,
    lane        TEXT,
    peer        TEXT,
    created_at  INTEGER NOT NULL,
    recoverable INTEGER NOT NULL,
    title       TEXT,
    title_base  TEXT,
    state       TEXT NOT NULL     -- the fold of the session's stream, without its messages
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_by_lane ON sessions (lane, created_at) WHERE recoverable;
CREATE INDEX sessions_by_peer ON sessions (peer, created_at) WHERE recoverable;
CREATE INDEX sessions_by_title ON sessions (title_base) WHERE title_base IS NOT NULL;

-- The primary key is what makes an append idempotent: no lookup before it can race with another process.
CREATE TABLE message_ids (
    session_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    PRIMARY KEY (session_id, message_id)
) STRICT, WITHOUT ROWID;
"""
DROP = "DROP TABLE IF EXISTS sessions; DROP TABLE IF EXISTS message_ids;"

_read = state_decoder(Session)
_NEWEST = "SELECT state FROM sessions WHERE {} = ? AND recoverable ORDER BY created_at DESC, session_id DESC LIMIT 1"


def find_session(query: Query, session_id: str) -> Session | None:
    """The head of a session; None if there is no such session."""
    rows = query("SELECT state FROM sessions WHERE session_id = ?", (session_id,))
    return _read(rows[0][0]) if rows else None


def find_recoverable(query: Query, lane: str, peer: str) -> Session | None:
    """The newest session of a lane that may be recovered, else of the same person and place (G27)."""
    for column, value in (("lane", lane), ("peer", peer)):
        rows = query(_NEWEST.format(column), (value,))
        if rows:
            return _read(rows[0][0])
    return None


def titles_like(query: Query, title: str, but: str) -> list[str]:
    """Other sessions' titles of the same name, with any number."""
    sql = "SELECT title FROM sessions WHERE title_base = ? AND session_id <> ?"
    return [found for (found,) in query(sql, (base_title(title), but))]


def has_message(query: Query, session_id: str, message_id: str) -> bool:
    """Whether a platform id was ever appended to a session (G47)."""
    sql = "SELECT 1 FROM message_ids WHERE session_id = ? AND message_id = ?"
    return bool(query(sql, (session_id, storable(message_id))))


def count_sessions(query: Query, upto: int) -> int:
    """How many sessions were ever created, counting no further than asked."""
    (count,) = query("SELECT count(*) FROM (SELECT 1 FROM sessions LIMIT ?)", (upto,))[0]
    return int(count)


def families(query: Query, session_ids: Iterable[str]) -> list[str]:
    """These sessions with all that they were compressed from and into: those have platform ids in common."""
    found: set[str] = set()
    waiting = set(session_ids)
    while waiting:
        session_id = waiting.pop()
        found.add(session_id)
        session = find_session(query, session_id)
        if session is not None:
            above = session.parent_session_id if session.relation == COMPRESSION else None
            waiting |= {relative for relative in (above, session.child_session_id) if relative} - found
    return sorted(found)


def remove(transaction: Transaction, session_ids: Sequence[str]) -> None:
    """Take sessions out of the tables, to be folded again."""
    gone = [(session_id,) for session_id in session_ids]
    for table in ("sessions", "message_ids"):
        transaction.executemany(f"DELETE FROM {table} WHERE session_id = ?", gone)


def storable(message_id: str) -> str:
    """A text as a key; one with lone surrogates is in JSON's escapes, behind a NUL that tells it apart (G52)."""
    return message_id if encodable(message_id) and not message_id.startswith("\0") else "\0" + dumps(message_id)


class Heads:
    """Applies the events of a command, or of a group of them, to the heads: each is read and written once.

    The head before and after a command that has read and evolved it itself need not be found again.
    """

    def __init__(self, transaction: Transaction, known: Known[Session]) -> None:
        self._transaction = transaction
        self._known = known
        self._before: dict[str, Session | None] = {}
        self.after: dict[str, Session] = {}
        self._ids: dict[str, list[tuple[str, str]]] = {}

    def apply(self, envelope: Envelope) -> None:
        session_id = envelope.stream.removeprefix(PREFIX)
        session = self.after.get(session_id)
        if session is None:
            before = self._known.before
            found = before[session_id] if session_id in before else find_session(self._transaction.query, session_id)
            self._before[session_id] = found
            session = found or Session(session_id)
        event = envelope.event
        self.after[session_id] = self._known.after.get(session_id) or evolve(
            session, event, envelope.time, envelope.version
        )
        if isinstance(event, e.SessionCreated) and event.relation == COMPRESSION:
            self._write_ids()
            self._transaction.execute(_INHERITED_IDS, (session_id, event.parent_session_id))
        for sql, message_id in _message_ids(event):
            self._ids.setdefault(sql, []).append((session_id, storable(message_id)))

    def _write_ids(self) -> None:
        for sql, bindings in self._ids.items():
            self._transaction.executemany(sql, bindings)
        self._ids.clear()

    def save(self) -> None:
        changes: dict[str, list[tuple[Any, ...]]] = {}
        for session_id, session in self.after.items():
            before = self._before[session_id]
            state = encode(session).decode()
            if before is not None and _indexed(before) == _indexed(session):
                changes.setdefault(_CHANGED, []).append((state, session_id))
            else:
                changes.setdefault(_WRITTEN, []).append((session_id, *_columns(session), state))
        self._write_ids()
        for sql, bindings in changes.items():
            self._transaction.executemany(sql, bindings)


def _indexed(session: Session) -> tuple[Any, ...]:
    """What the columns beside the state are made of."""
    return session.lane, session.source, session.created_at, session.recoverable, session.title


def _columns(session: Session) -> tuple[Any, ...]:
    title = None if session.title is None else storable(session.title)
    base = None if title is None else base_title(title)
    return session.lane, session.peer, session.created_at, session.recoverable, title, base


_CHANGED = "UPDATE sessions SET state = ? WHERE session_id = ?"
_WRITTEN = "INSERT OR REPLACE INTO sessions VALUES (?,?,?,?,?,?,?,?)"
_NEW_ID = "INSERT INTO message_ids VALUES (?,?)"
_KNOWN_ID = "INSERT OR IGNORE INTO message_ids VALUES (?,?)"
_INHERITED_IDS = "INSERT OR IGNORE INTO message_ids SELECT ?, message_id FROM message_ids WHERE session_id = ?"
"""A conversation goes on in its compressed child: what was delivered before must not be stored again there."""


def _message_ids(event: object) -> Iterator[tuple[str, str]]:
    """The platform ids an event brings: an appended one is new, those of a copied history may be known."""
    if isinstance(event, e.MessageAppended):
        if event.message_id is not None:
            yield _NEW_ID, event.message_id
    elif isinstance(event, (e.TranscriptRewritten, e.SessionForked, e.SessionImported)):
        for message in event.messages:
            if isinstance(found := message.get("message_id"), str) and found:
                yield _KNOWN_ID, found
