"""Reading the state tables: a row that cannot be used is an error that names it, and keeps nobody from the others."""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from engine.domain.encoding import state_decoder
from engine.log.errors import CorruptLogError, CorruptStateError
from engine.log.protocol import Queries

logger = logging.getLogger("engine.projections")

_AT_ONCE = 1024
_TOGETHER = 200
THESE = f"({','.join('?' * _TOGETHER)})"
"""A list of keys in a query, to be asked `in_parts`."""
_ALL = 1 << 62

S = TypeVar("S", bound=msgspec.Struct)

UNUSABLE = (msgspec.MsgspecError, ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
"""What a state that makes no sense can raise."""


class States(Generic[S]):
    """Reads the states of one table. Each `where` goes on behind SELECT … FROM the table.

    `columns`, the key first, are those beside a state that must agree with it; `shown` says what they ought to be.
    """

    def __init__(self, table: str, columns: str, kind: type[S], shown: Callable[[S], tuple[Any, ...]]) -> None:
        self._table = table
        self._decode = state_decoder(kind)
        self._shown = shown
        self._select = f"SELECT {columns}, state FROM {table} "
        self._select_key = f"SELECT {columns.partition(',')[0]} FROM {table} "

    def first(self, reads: Queries, where: str, bindings: Sequence[Any]) -> S | None:
        """Return the first state, or None; raise CorruptStateError if it cannot be used."""
        rows = ask(reads, self._table, self._select + where, bindings)
        return self._checked(rows[0]) if rows else None

    def read(self, key: object, state: str) -> S:
        """Return a state that was read without its columns; raise CorruptStateError if it cannot be used."""
        try:
            return self._decode(state)
        except UNUSABLE as error:
            raise unusable(self._table, key, error) from error

    def _checked(self, row: tuple[Any, ...]) -> S:
        state = self.read(row[0], row[-1])
        if self._shown(state) != row[:-1]:
            raise unusable(self._table, row[0], f"its state says {self._shown(state)}, its columns {row[:-1]}")
        return state

    def usable(self, reads: Queries, where: str, bindings: Sequence[Any], limit: int = _ALL) -> list[S]:
        """Return so many states that can be used; the others are logged and left out."""
        found: list[S] = []
        first = 0
        while True:
            count = min(limit - len(found), _AT_ONCE)
            rows, there = self._readable(reads, f"{where} LIMIT ? OFFSET ?", bindings, first, count)
            found += self._usable_of(rows)
            first += there
            if there < count or len(found) == limit:
                return found

    def _usable_of(self, rows: list[tuple[Any, ...]]) -> Iterator[S]:
        for row in rows:
            try:
                yield self._checked(row)
            except CorruptStateError as error:
                report(error)

    def _readable(
        self, reads: Queries, part: str, bindings: Sequence[Any], first: int, count: int
    ) -> tuple[list[tuple[Any, ...]], int]:
        """Return those of so many rows whose texts are texts, and how many there are; the bad ones by halving."""
        try:
            rows = ask(reads, self._table, self._select + part, (*bindings, count, first))
        except CorruptStateError as error:
            if count == 1:
                report(unusable(self._table, self._key_of(reads, part, (*bindings, 1, first)), error.problem))
                return [], 1
        else:
            return rows, len(rows)
        half = count // 2
        rows, there = self._readable(reads, part, bindings, first, half)
        if there < half:
            return rows, there
        more, beyond = self._readable(reads, part, bindings, first + half, count - half)
        return rows + more, there + beyond

    def _key_of(self, reads: Queries, part: str, bindings: Sequence[Any]) -> object:
        try:
            return ask(reads, self._table, self._select_key + part, bindings)[0][0]
        except CorruptStateError:
            return "a key that is no text"


def in_parts(keys: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield keys in parts of one size, so that they are asked for by one statement."""
    for first in range(0, len(keys), _TOGETHER):
        part = keys[first : first + _TOGETHER]
        yield (*part, *[""] * (_TOGETHER - len(part)))


def ask(reads: Queries, table: str, sql: str, bindings: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the rows of a query on a state table; raise CorruptStateError for a text that is none."""
    try:
        return reads.query(sql, bindings)
    except CorruptLogError as error:
        if isinstance(error.__cause__, UnicodeDecodeError):
            raise unusable(table, bindings[0] if bindings else None, error) from error
        raise


def unusable(table: str, key: object, error: object) -> CorruptStateError:
    """Return the error for a row that cannot be used."""
    problem = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else error
    return CorruptStateError(table, str(key), problem)


def report(error: CorruptStateError) -> None:
    """Log that a row was left out."""
    logger.error("left out: %s", error)


def number(table: str, key: object, value: object) -> int:
    """Return a value of an INTEGER column; raise CorruptStateError if it is something else."""
    if type(value) is not int:
        raise unusable(table, key, f"{value!r} is not a whole number")
    return value


def text(table: str, key: object, value: object) -> str:
    """Return a value of a TEXT column; raise CorruptStateError if it is something else."""
    if type(value) is not str:
        raise unusable(table, key, f"{value!r} is not a text")
    return value
