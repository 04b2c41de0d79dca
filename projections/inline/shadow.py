"""State tables under other names: what is built behind those in use, and what is left of those that were replaced."""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from types import ModuleType
from typing import Any, TypeVar, cast

from engine.log.errors import SAYS_NOTHING, CorruptLogError, LogError
from engine.log.protocol import StateTables, Transaction
from projections.inline import chats, copies, lanes, message_ids, projects, sessions, turns

T = TypeVar("T")

STATE: tuple[ModuleType, ...] = (lanes, sessions, message_ids, copies, turns, chats, projects)
TABLES = tuple(name for module in STATE for name in module.KEYS)
_NEXT, _OLD = "_next", "_old"
_NAME = re.compile(rf"\b({'|'.join(TABLES)}|quarantine|projections)\b")
_TABLE = re.compile(r"^(CREATE TABLE (?:IF NOT EXISTS )?)(\w+)")
_INDEX = re.compile(r"\bINDEX (\w+) ON (\w+)")


class _Shadow:
    """A transaction in which the state tables, and what is kept beside them, have other names."""

    def __init__(self, transaction: Transaction, generation: int) -> None:
        self._transaction = transaction
        self._generation = generation

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transaction, name)

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._transaction.query(_renamed(sql), bindings)

    def execute(self, sql: str, bindings: Sequence[Any] = ()) -> None:
        self._transaction.execute(_renamed(sql), bindings)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        self._transaction.executemany(_renamed(sql), rows)

    def define(self, statements: Sequence[str]) -> None:
        """Indexes keep the names they are made with, so each generation of tables has its own."""
        indexed = rf"INDEX \1__{self._generation} ON \2{_NEXT}"
        self._transaction.define([_INDEX.sub(indexed, _TABLE.sub(rf"\1\2{_NEXT}", each)) for each in statements])

    def attempt(self, action: Callable[[StateTables], T]) -> T:
        return self._transaction.attempt(lambda _: action(cast(StateTables, self)))


@cache
def _renamed(sql: str) -> str:
    return _NAME.sub(rf"\1{_NEXT}", sql)


def shadow(transaction: Transaction, generation: int) -> StateTables:
    """Return the transaction as the tables see it that are being built."""
    return cast(StateTables, _Shadow(transaction, generation))


def exists(transaction: Transaction, table: str) -> bool:
    """Return True if there is such a table, whatever its columns are."""

    sql = f"SELECT count(*) FROM (SELECT 1 FROM {table} LIMIT 1) AS found"
    try:
        transaction.attempt(lambda reads: reads.query(sql))
    except SAYS_NOTHING:
        raise
    except CorruptLogError:  # it is there, and damaged
        return True
    except LogError:
        return False
    return True


def put_in_place(transaction: Transaction) -> None:
    """Give the tables that were built the names of those in use, which become the old ones."""
    for name in TABLES:
        if exists(transaction, name):
            transaction.execute(f"ALTER TABLE {name} RENAME TO {name}{_OLD}")
        transaction.execute(f"ALTER TABLE {name}{_NEXT} RENAME TO {name}")


def put_aside(transaction: Transaction) -> None:
    """Make what was built of tables for another definition the old ones: they are not wanted any more."""
    for name in TABLES:
        if exists(transaction, name + _NEXT):
            transaction.execute(f"ALTER TABLE {name}{_NEXT} RENAME TO {name}{_OLD}")


def empty_old(transaction: Transaction, limit: int) -> bool:
    """Delete at most so many rows of the old tables, and the tables that are empty; return True once none is left.

    To drop a full table takes as long as it is large: every page of it is overwritten.
    """
    for module in STATE:
        for name, key in module.KEYS.items():
            if exists(transaction, name + _OLD):
                limit -= _delete_some(transaction, name + _OLD, key, limit)
                if limit <= 0:
                    return False
                transaction.execute(f"DROP TABLE {name}{_OLD}")
    return True


def _delete_some(transaction: Transaction, table: str, key: str, limit: int) -> int:
    """Delete at most so many rows; return how many. A table that another definition keyed otherwise stays as it is."""
    sql = f"DELETE FROM {table} WHERE ({key}) IN (SELECT {key} FROM {table} LIMIT ?) RETURNING 1"
    try:
        return len(transaction.attempt(lambda writing: writing.query(sql, (limit,))))
    except SAYS_NOTHING:
        raise
    except LogError:
        return 0
