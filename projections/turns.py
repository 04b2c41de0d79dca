"""The turns that are open: one per conversation at most, whichever lane or process runs it."""

import msgspec

from engine.domain import events as e
from engine.domain.envelope import Envelope
from engine.log.transaction import Transaction
from projections.routing import Query

TABLES = """
CREATE TABLE turns (
    conversation_id TEXT PRIMARY KEY,
    token           TEXT NOT NULL UNIQUE,
    stream          TEXT NOT NULL,
    session_id      TEXT NOT NULL,
    holder          TEXT,
    begun_at        INTEGER NOT NULL,
    ends_at         INTEGER          -- when the lease runs out, if it does
) STRICT, WITHOUT ROWID;
"""
DROP = "DROP TABLE IF EXISTS turns;"


class Turn(msgspec.Struct, frozen=True):
    """A turn that was begun and has not ended."""

    conversation_id: str
    token: str
    stream: str
    session_id: str
    holder: str | None
    begun_at: int
    ends_at: int | None


def turn_of(query: Query, conversation_id: str) -> Turn | None:
    rows = query("SELECT * FROM turns WHERE conversation_id = ?", (conversation_id,))
    return Turn(*rows[0]) if rows else None


def turn_with(query: Query, token: str) -> Turn | None:
    rows = query("SELECT * FROM turns WHERE token = ?", (token,))
    return Turn(*rows[0]) if rows else None


def open_turns(query: Query) -> list[Turn]:
    """All open turns, oldest first."""
    return [Turn(*row) for row in query("SELECT * FROM turns ORDER BY begun_at, token", ())]


def apply_turn(transaction: Transaction, envelope: Envelope) -> None:
    """Begin, renew or end a turn. Beginning over another one fails: the lease is the table's key."""
    match envelope.event:
        case e.TurnBegun() as begun:
            lease = begun.lease_seconds
            ends_at = None if lease is None else envelope.time + int(lease * 1e6)
            transaction.execute(
                "INSERT INTO turns VALUES (?,?,?,?,?,?,?) ON CONFLICT (token) DO UPDATE SET ends_at = excluded.ends_at",
                (
                    begun.conversation_id,
                    begun.token,
                    envelope.stream,
                    begun.session_id,
                    begun.holder,
                    envelope.time,
                    ends_at,
                ),
            )
        case e.TurnEnded() | e.TurnInterrupted() as over:
            transaction.execute("DELETE FROM turns WHERE token = ?", (over.token,))
