"""The routing index: where each lane leads. It changes in the transaction that appends, so it is never stale."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC
from typing import Any, Generic, TypeVar

from engine.domain.encoding import encode, state_decoder
from engine.domain.envelope import Envelope
from engine.domain.lane import Lane, entry_of, evolve
from engine.log.transaction import Transaction

Query = Callable[[str, Sequence[Any]], list[tuple[Any, ...]]]
"""Runs SQL: inside the write transaction for a command, on a reading connection for a question."""

PREFIX = "lane:"
TABLES = """
CREATE TABLE lanes (
    key        TEXT PRIMARY KEY,
    session_id TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    state      TEXT NOT NULL      -- the fold of the lane's stream
) STRICT, WITHOUT ROWID;
CREATE INDEX lanes_by_session ON lanes (session_id);
CREATE INDEX lanes_by_time ON lanes (updated_at);
"""
DROP = "DROP TABLE IF EXISTS lanes;"

S = TypeVar("S")
_read = state_decoder(Lane)


def find_lane(query: Query, key: str) -> Lane | None:
    """Where a lane leads; None if nowhere."""
    rows = query("SELECT state FROM lanes WHERE key = ?", (key,))
    return _read(rows[0][0]) if rows else None


def lanes_on(query: Query, session_id: str) -> list[Lane]:
    """The lanes that lead to a session."""
    return [_read(state) for (state,) in query("SELECT state FROM lanes WHERE session_id = ?", (session_id,))]


def lanes_since(query: Query, updated_at: int) -> list[Lane]:
    """Lanes touched at or after a time, newest first."""
    sql = "SELECT state FROM lanes WHERE updated_at >= ? ORDER BY updated_at DESC, key"
    return [_read(state) for (state,) in query(sql, (updated_at,))]


def lanes_before(query: Query, updated_at: int) -> list[Lane]:
    """Lanes untouched since a time, oldest first."""
    sql = "SELECT state FROM lanes WHERE updated_at < ? ORDER BY updated_at, key"
    return [_read(state) for (state,) in query(sql, (updated_at,))]


def remove(transaction: Transaction, keys: Sequence[str]) -> None:
    """Take lanes out of the index, to be folded again."""
    transaction.executemany("DELETE FROM lanes WHERE key = ?", [(key,) for key in keys])


class Known(Generic[S]):
    """The states that a command has read in its transaction, and what it has made of them with evolve."""

    __slots__ = ("after", "before")

    def __init__(self) -> None:
        self.before: dict[str, S | None] = {}
        self.after: dict[str, S] = {}


class Routing:
    """Applies the events of one command to the index: each lane is read once and written once."""

    def __init__(self, transaction: Transaction, known: Known[Lane]) -> None:
        self._transaction = transaction
        self._known = known
        self._before: dict[str, Lane | None] = {}
        self._after: dict[str, Lane] = {}

    def apply(self, envelope: Envelope) -> None:
        key = envelope.stream.removeprefix(PREFIX)
        lane = self._after.get(key)
        if lane is None:
            before = self._known.before
            found = before[key] if key in before else find_lane(self._transaction.query, key)
            self._before[key] = found
            lane = found or Lane(key)
        self._after[key] = self._known.after.get(key) or evolve(lane, envelope.event, envelope.time, envelope.version)

    def save(self) -> None:
        for sql, bindings in self._changes():
            self._transaction.execute(sql, bindings)

    def _changes(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        for key, lane in self._after.items():
            before = self._before[key]
            if lane.session_id is None:
                yield "DELETE FROM lanes WHERE key = ?", (key,)
            elif before is not None and before.session_id == lane.session_id:
                yield (
                    "UPDATE lanes SET updated_at = ?, state = ? WHERE key = ?",
                    (lane.updated_at, encode(lane).decode(), key),
                )
            else:
                row = (key, lane.session_id, lane.updated_at, encode(lane).decode())
                yield "INSERT OR REPLACE INTO lanes VALUES (?,?,?,?)", row


class CheckedRouting(Routing):
    """The same for events that others may have written: one that no entry can be made of is refused."""

    def apply(self, envelope: Envelope) -> None:
        super().apply(envelope)
        lane = self._after[envelope.stream.removeprefix(PREFIX)]
        if lane.session_id is not None:
            entry_of(lane, UTC)
