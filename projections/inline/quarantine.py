"""Quarantine: events that no state can be made of, kept with their error and reported once."""

import logging
from collections.abc import Sequence

from msgspec.structs import replace

from engine.domain.encoding import Content
from engine.domain.events import EventQuarantined
from engine.domain.streams import LOG
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.log.protocol import Queries, StateTables, Transaction
from projections.inline.changes import Change

logger = logging.getLogger("engine.projections")

NAME = "inline"
TABLES = (
    """CREATE TABLE IF NOT EXISTS quarantine (  -- Events that no state can be made of.
    position   INTEGER NOT NULL,  -- of the event
    projection TEXT NOT NULL,     -- whose tables leave it out
    error      TEXT NOT NULL,     -- why
    reported   INTEGER NOT NULL,  -- 1 once the log says so itself
    PRIMARY KEY (position, projection)
)""",
)


def put_aside(transaction: StateTables, at: int, error: str) -> None:
    """Quarantine an event. It keeps its version, so its stream goes on."""
    sql = "INSERT INTO quarantine VALUES (?,?,?,0) ON CONFLICT (position, projection) DO NOTHING RETURNING position"
    if transaction.query(sql, (at, NAME, error)):
        logger.warning("position %d cannot be used and was quarantined: %s", at, error)


def replaced(envelope: Envelope, content: Content) -> Envelope:
    """Return the envelope with other content."""
    return replace(envelope, event=content)


def quarantined(reads: Queries) -> list[tuple[int, str]]:
    """Return the events that could not be used: position and error."""
    sql = "SELECT position, error FROM quarantine WHERE projection = ? ORDER BY position"
    return [(at, error) for at, error in reads.query(sql, (NAME,))]


def forget(transaction: StateTables) -> None:
    """Empty the quarantine, because the tables are rebuilt and each event is tried again."""
    transaction.execute("DELETE FROM quarantine WHERE projection = ?", (NAME,))


def erasure_of(positions: Sequence[int]) -> Sequence[Change]:
    """Return what takes erased events out of the quarantine: an error may repeat what could not be read."""
    return [("DELETE FROM quarantine WHERE position = ? AND projection = ?", (at, NAME)) for at in positions]


def report(transaction: Transaction) -> None:
    """Record in the log itself what had to be quarantined, once: also if it is quarantined again later."""
    rows = transaction.query(
        "UPDATE quarantine SET reported = 1 WHERE projection = ? AND reported = 0 RETURNING position, error", (NAME,)
    )
    if not rows:
        return
    recorded = [each[3] for each in transaction.payloads(LOG) if each[1] == EventQuarantined.TOPIC]
    known = {
        each.event.position for each in transaction.recorded_at(recorded) if isinstance(each.event, EventQuarantined)
    }
    transaction.append(
        [
            Envelope(
                LOG,
                NEXT_VERSION,
                EventQuarantined(position=at, projection=NAME, error=error),
                actor="engine",
                command="catch_up",
                reason="no state can be made of the event",
            )
            for at, error in sorted(rows)
            if at not in known
        ]
    )
