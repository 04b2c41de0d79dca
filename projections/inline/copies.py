"""Copies of messages in rewritten histories, and what was added to messages, so that an erasure finds all of them."""

from collections.abc import Iterable, Iterator, Sequence

from engine.domain.chat_events import MessageExtended
from engine.domain.encoding import Archived, Content
from engine.domain.events import MessageRewritten
from engine.log.protocol import Queries
from projections.inline.changes import Change

TABLES = (
    """CREATE TABLE copies (  -- Messages in a rewritten history, and additions: an erasure erases them all.
    position INTEGER PRIMARY KEY,  -- of the copy, or of the addition
    origin   INTEGER NOT NULL      -- the position at which the message was recorded first
)""",
    "CREATE INDEX copies_by_origin ON copies (origin)",
)
KEYS = {"copies": "position"}
NAMES = tuple(KEYS)

_TOGETHER = 200
_MARKS = ",".join("?" * _TOGETHER)
_ORIGINS = f"SELECT position, origin FROM copies WHERE position IN ({_MARKS})"
_COPIES = f"SELECT position, origin FROM copies WHERE origin IN ({_MARKS})"


def with_copies(reads: Queries, positions: Iterable[int]) -> set[int]:
    """Return positions of messages with those of all their copies, and of what they are copies of."""
    known = set(positions)
    if not reads.query("SELECT 1 FROM copies LIMIT 1"):
        return known
    known |= {origin for _, origin in _among(reads, _ORIGINS, known)}
    return known | {position for position, _ in _among(reads, _COPIES, known)}


def _among(reads: Queries, sql: str, positions: Iterable[int]) -> Iterator[tuple[int, int]]:
    wanted = sorted(positions)
    for start in range(0, len(wanted), _TOGETHER):
        part = wanted[start : start + _TOGETHER]
        for position, origin in reads.query(sql, (*part, *[0] * (_TOGETHER - len(part)))):
            yield int(position), int(origin)


def changes_of(event: Content, position: int) -> Sequence[Change]:
    """Return what an event adds to the table."""
    match event:
        case MessageRewritten() | Archived() if event.copy_of:
            origin = event.copy_of
        case MessageExtended():
            origin = event.origin
        case _:
            return []
    return [("INSERT INTO copies VALUES (?,?) ON CONFLICT (position) DO NOTHING", (position, origin))]


def erasure_of(positions: Sequence[int]) -> Sequence[Change]:
    """Return what takes erased copies out of the table."""
    return [("DELETE FROM copies WHERE position = ?", (position,)) for position in positions]
