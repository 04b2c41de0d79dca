"""Reads that a transaction, the reader and a watch share: each brings its own `query`."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from json import dumps
from typing import Any

from engine.log.envelope import Envelope
from engine.log.errors import CorruptLogError
from engine.log.protocol import Payload
from engine.log.rows import STORED, to_envelopes
from engine.log.sqlite.names import ID, IDS, Names
from engine.log.sqlite.schema import EVENT_ID

COLUMNS = f"stream, version, topic, time, actor, command, reason, position, {EVENT_ID}, metadata, state"
"""What rows are read with, in the order of STORED; stream, actor and command are ids of names."""
BEYOND = 1 << 62
"""After every version and every position."""


_PAYLOADS = {str, bytes}

NAMED = tuple(STORED.index(name) for name in ("stream", "actor", "command"))


def not_text(error: UnicodeDecodeError) -> CorruptLogError:
    """Return the error for a text in the file that is none."""
    return CorruptLogError(f"the log has a text that is not UTF-8: {error}")


class SQLiteQueries(ABC):
    """The log's own tables, read by functions: nobody above needs to know their columns."""

    names: Names

    @abstractmethod
    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""

    def payloads(
        self,
        stream: str,
        after: int = 0,
        upto: int | None = None,
        *,
        until_position: int | None = None,
        without: Sequence[str] = (),
    ) -> list[Payload]:
        """Return a stream's events with after < version <= upto, by version, not decoded."""
        wanted = "version, topic, state, position, time"
        sql = f"SELECT {wanted} FROM events WHERE stream = {ID} AND version > ? AND version <= ?"
        bindings: list[str | int] = [stream, after, BEYOND if upto is None else upto]
        if until_position is not None:
            sql += " AND position <= ?"
            bindings.append(until_position)
        if without:
            sql += f" AND topic NOT IN ({','.join('?' * len(without))})"
            bindings += without
        rows = self.query(f"{sql} ORDER BY version", bindings)
        if not _PAYLOADS.issuperset(map(type, [row[2] for row in rows])):
            position = next(row[3] for row in rows if type(row[2]) not in _PAYLOADS)
            raise CorruptLogError(f"the payload at position {position} is neither text nor a blob", position)
        return rows

    def changed_streams(self, after: int, upto: int, ignoring: Sequence[str] = ()) -> list[str]:
        """Return the streams with an event at after < position <= upto whose topic is not ignored, each once."""
        rows = self.query(
            "SELECT DISTINCT stream FROM events WHERE position > ? AND position <= ? "
            f"AND topic NOT IN ({','.join('?' * len(ignoring))})",
            (after, upto, *ignoring),
        )
        return self.names.named([stream for (stream,) in rows], self.query)

    def recorded(self, after: int, upto: int) -> list[Envelope]:
        """Return the events at after < position <= upto, by position."""
        return self._envelopes("position > ? AND position <= ?", (after, upto))

    def recorded_at(self, positions: Sequence[int]) -> list[Envelope]:
        """Return the events at these positions, by position."""
        return self._envelopes("position IN (SELECT value FROM json_each(?))", (dumps(list(positions)),))

    def stored_at(self, positions: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return the rows at these positions, by position, not decoded."""
        sql = f"SELECT {COLUMNS} FROM events WHERE position IN (SELECT value FROM json_each(?)) ORDER BY position"
        return self.with_names(self.query(sql, (dumps(list(positions)),)))

    def positions_of(self, streams: Sequence[str], upto: int) -> list[int]:
        """Return the sorted positions, up to one, of all events of these streams."""
        rows = self.query(
            f"SELECT position FROM events WHERE stream IN {IDS} AND position <= ? ORDER BY position",
            (dumps(list(streams)), upto),
        )
        return [position for (position,) in rows]

    def _envelopes(self, where: str, bindings: Sequence[Any]) -> list[Envelope]:
        rows = self.query(f"SELECT {COLUMNS} FROM events WHERE {where} ORDER BY position", bindings)
        return list(self.envelopes(rows))

    def envelopes(self, rows: list[tuple[Any, ...]]) -> Iterator[Envelope]:
        """Return the envelopes of rows that were read with COLUMNS."""
        return to_envelopes(self._columns(rows)) if rows else iter(())

    def with_names(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """Return rows that were read with COLUMNS, with names in the place of ids."""
        return list(zip(*self._columns(rows), strict=True)) if rows else []

    def _columns(self, rows: list[tuple[Any, ...]]) -> list[Sequence[Any]]:
        columns: list[Sequence[Any]] = list(zip(*rows, strict=True))
        for at in NAMED:
            columns[at] = self.names.named(columns[at], self.query)
        return columns
