"""Reading what can be read of a damaged log, row by row, each held against its hash (R19)."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from engine.domain.encoding import archived_digest, tombstone_digest
from engine.log.chain import digest, genesis, link
from engine.log.errors import CorruptLogError, LogError
from engine.log.rows import Row, SalvagedRow, check_row
from engine.log.sqlite.names import Names
from engine.log.sqlite.reader import SQLiteReader

_WINDOW = 500
_LEAST_ROW = 60
"""Bytes that a row takes at least: more rows than that cannot be in a file."""
_STEP = 16
_SELECT = (
    "SELECT position, stream, version, topic, time, actor, command, reason, event_id, metadata, state, hash FROM events"
)
_ENDS = (
    "SELECT max(position) FROM events",
    "SELECT max(position) FROM events INDEXED BY sqlite_autoindex_events_1",  # which holds the positions too
    "SELECT max(position) FROM projections",
)
"""Where the end of the log may still be read if the page of its last rows cannot."""
_CHANGED = "it does not match its hash: it was changed"


class _Read(NamedTuple):
    """A row that could be read, and what its hash is made of."""

    position: int
    row: Row
    recorded: bytes
    header: tuple[object, ...]


def salvaged_rows(reader: SQLiteReader, last: int) -> Iterator[SalvagedRow]:
    """Yield each position of a log up to the last one in order, with its row as far as it can be read.

    A row that does not match its hash is told with its problem. If the hash that is computed for it leads to the next
    row's, it is its stored hash that is damaged, and the row is as it was.
    """
    names = Names()
    before = _beginnings(reader)
    doubted: _Read | None = None
    for position, columns, problem in _positions(reader, last):
        found = _read(position, columns, names, reader) if columns is not None else problem
        if not isinstance(found, _Read):
            if doubted is not None:
                yield _told(doubted, _CHANGED)
            doubted, before = None, ()
            yield SalvagedRow(position, None, found)
            continue
        hashes = [link(each, found.row.digest, found.header) for each in before]
        if doubted is not None:
            yield _told(doubted, None if found.recorded == hashes[1] else _CHANGED)
            doubted = None
        before = (found.recorded,)
        if not hashes or found.recorded in hashes:
            yield SalvagedRow(position, found.row, checked=bool(hashes))
        else:
            doubted, before = found, (found.recorded, hashes[0])
    if doubted is not None:
        yield _told(doubted, _CHANGED)


def _told(read: _Read, problem: str | None) -> SalvagedRow:
    return SalvagedRow(read.position, read.row, problem, checked=problem is None)


def _beginnings(reader: SQLiteReader) -> tuple[bytes, ...]:
    try:
        return (genesis(reader.log_id()),)
    except LogError:
        return ()


def _positions(reader: SQLiteReader, last: int) -> Iterator[tuple[int, Sequence[Any] | None, str | None]]:
    """Yield every position up to the end with its columns, or with why they cannot be read."""
    after = 0
    while after < last:
        upto = min(after + _WINDOW, last)
        try:
            rows = reader.query(f"{_SELECT} WHERE position > ? AND position <= ? ORDER BY position", (after, upto))
        except CorruptLogError:
            yield from (_alone(reader, position) for position in range(after + 1, upto + 1))
        else:
            found = {row[0]: row for row in rows}
            for position in range(after + 1, upto + 1):
                yield position, found.get(position), "the row is missing"
        after = upto


def _alone(reader: SQLiteReader, position: int) -> tuple[int, Sequence[Any] | None, str | None]:
    try:
        rows = reader.query(f"{_SELECT} WHERE position = ?", (position,))
    except CorruptLogError as error:
        return position, None, str(error.__cause__ or error)
    return position, rows[0] if rows else None, "the row is missing"


def end_of(reader: SQLiteReader) -> tuple[int, bool]:
    """Return the last position of a damaged log, and False if nothing tells it but the rows that can be read."""
    most = int(reader.value("PRAGMA page_count") * reader.value("PRAGMA page_size")) // _LEAST_ROW
    for sql in _ENDS:
        try:
            found = reader.value(sql)
        except LogError:
            continue
        if found is None:
            return 0, True
        if isinstance(found, int) and 0 <= found <= most:
            return found, True
    return _last_readable(reader, most), False


def _last_readable(reader: SQLiteReader, most: int) -> int:
    """Return a position behind which, as far as a look at every few of them tells, nothing can be read."""
    last = 0
    for position in range(1, most + 1, _STEP):
        if _alone(reader, position)[1] is not None:
            last = position
    while last and _alone(reader, last + 1)[1] is not None:
        last += 1
    return last


def _read(position: int, columns: Sequence[Any], names: Names, reader: SQLiteReader) -> _Read | str:
    """Return a row as it can be written again, or why it cannot be."""
    _, stream, version, topic, time, actor, command, reason, event_id, metadata, state, recorded = columns
    payload = state.encode() if isinstance(state, str) else state
    texts = ((reason, str | None), (metadata, str | None), (topic, str))
    kinds = ((payload, bytes), (version, int), (time, int), (recorded, bytes), *texts)
    if not all(isinstance(value, kind) for value, kind in kinds):
        return "its columns are of other types than an event's"
    try:
        stream, actor, command = names.named([stream, actor, command], reader.query)
    except CorruptLogError as error:
        return str(error)
    kept = tombstone_digest(payload) or archived_digest(payload) or digest(payload)
    own = event_id or recorded[:16]  # the id it was known by
    row = Row(stream, version, topic, time, actor, command, reason, own, metadata, state, kept, None)
    try:
        check_row(row)
    except LogError as error:
        return str(error)
    named = event_id.hex() if isinstance(event_id, bytes) else event_id
    return _Read(
        position, row, recorded, (position, stream, version, topic, time, actor, command, reason, named, metadata)
    )
