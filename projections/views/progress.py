"""Progress of each view: rows in the file of the views."""

from typing import NamedTuple

from engine.log.protocol import Tables, TableTransaction

SERVING, NEXT = "serving", "next"

TABLES = (
    """CREATE TABLE IF NOT EXISTS views (
    name        TEXT NOT NULL,     -- of the view
    part        TEXT NOT NULL,     -- serving, or next: made behind the one that serves
    fingerprint TEXT NOT NULL,     -- of the definition that made it
    position    BIGINT NOT NULL,   -- how far it is
    event_id    TEXT,              -- of the event there: it tells whether this is still the same log
    PRIMARY KEY (name, part)
)""",
    """CREATE TABLE IF NOT EXISTS view_quarantine (
    name     TEXT NOT NULL,    -- of the view that leaves it out
    position BIGINT NOT NULL,  -- of the event
    error    TEXT NOT NULL,    -- why
    PRIMARY KEY (name, position)
)""",
)
_READ = "SELECT name, part, fingerprint, position, event_id FROM views"
_WRITE = (
    "INSERT INTO views VALUES (?,?,?,?,?) ON CONFLICT (name, part) DO UPDATE SET "
    "fingerprint = excluded.fingerprint, position = excluded.position, event_id = excluded.event_id"
)


class Progress(NamedTuple):
    """The position of one part of a view."""

    name: str
    part: str
    fingerprint: str
    position: int
    event_id: str | None


def progress_of(reads: Tables) -> dict[tuple[str, str], Progress]:
    """Return how far every view is, by name and part; nothing of a file that was just made."""
    if not reads.defined("views"):
        return {}
    return {(row[0], row[1]): Progress(*row) for row in reads.query(_READ)}


def one(transaction: TableTransaction, name: str, part: str) -> Progress | None:
    """Return how far a part of a view is."""
    rows = transaction.query(f"{_READ} WHERE name = ? AND part = ?", (name, part))
    return Progress(*rows[0]) if rows else None


def record(transaction: TableTransaction, progress: Progress) -> None:
    """Write how far a part of a view is."""
    transaction.execute(_WRITE, progress)


def remove(transaction: TableTransaction, name: str, part: str) -> None:
    """Forget a part of a view."""
    transaction.execute("DELETE FROM views WHERE name = ? AND part = ?", (name, part))


def put_aside(transaction: TableTransaction, name: str, position: int, error: str) -> bool:
    """Quarantine an event for one view; return False if it was already."""
    sql = "INSERT INTO view_quarantine VALUES (?,?,?) ON CONFLICT (name, position) DO NOTHING RETURNING position"
    return bool(transaction.query(sql, (name, position, error)))


def forget_quarantined(transaction: TableTransaction, name: str) -> None:
    """Forget what was quarantined for a view: it is made anew."""
    transaction.execute("DELETE FROM view_quarantine WHERE name = ?", (name,))


def quarantined(reads: Tables) -> list[tuple[str, int, str]]:
    """Return what was quarantined: view, position and error."""
    if not reads.defined("view_quarantine"):
        return []
    return [(name, at, error) for name, at, error in reads.query("SELECT * FROM view_quarantine ORDER BY 1, 2")]
