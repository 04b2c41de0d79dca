"""The two tables that the library's contracts need beside the log: how far projections are, and snapshots."""

from collections.abc import Sequence
from typing import Any

from engine.log.protocol import Log, Queries, Transaction

_TRACK = """INSERT INTO tracking VALUES (?, ?)
    ON CONFLICT (application_name) DO UPDATE SET notification_id = excluded.notification_id
    WHERE tracking.notification_id < excluded.notification_id RETURNING notification_id"""
_TRACKED = "SELECT notification_id FROM tracking WHERE application_name = ?"
_KEEP = "INSERT INTO snapshots VALUES (?,?,?,?)"
_KEPT = {
    backwards: "SELECT stream, version, topic, state FROM snapshots "
    f"WHERE stream = ? AND version > ? AND version <= ? ORDER BY version {'DESC' if backwards else 'ASC'} LIMIT ?"
    for backwards in (False, True)
}


def advance(transaction: Transaction, application_name: str, position: int) -> bool:
    """Record how far a projection has come; return False if it was there or further already."""
    return bool(transaction.query(_TRACK, (application_name, position)))


def tracked_position(reads: Queries, application_name: str) -> int | None:
    """Return how far a projection has come."""
    rows = reads.query(_TRACKED, (application_name,))
    return rows[0][0] if rows else None


def keep_snapshots(log: Log, rows: Sequence[tuple[str, int, str, bytes]]) -> None:
    """Store snapshots: stream, version, topic, state."""
    log.transact(lambda transaction: transaction.executemany(_KEEP, rows))


def snapshots_of(
    reads: Queries, stream: str, after: int, upto: int, limit: int, *, backwards: bool
) -> list[tuple[Any, ...]]:
    """Return at most `limit` snapshots of a stream with after < version <= upto, or the newest first."""
    return reads.query(_KEPT[backwards], (stream, after, upto, limit))
