"""A view: a fold of the log into tables of its own (V2)."""

import re
import secrets
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from types import ModuleType
from typing import Any

from engine.domain import encoding, events, registry
from engine.log.envelope import Envelope
from engine.log.protocol import Tables, TableTransaction
from projections.inline.fingerprint import digest_of

_NEXT = "_next"


class ViewTables:
    """The tables a view writes: those that serve, or those that are being made behind them.

    SQL names a table in braces, `INSERT INTO {chats} …`, and goes to the right one of the two.
    """

    def __init__(self, transaction: TableTransaction, names: Iterable[str], *, building: bool) -> None:
        self._transaction = transaction
        self._names = {name: f"{name}{_NEXT}" if building else name for name in names}
        self._spelled: dict[str, str] = {}

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        return self._transaction.query(self._spell(sql), bindings)

    def execute(self, sql: str, bindings: Sequence[Any] = ()) -> None:
        """Run SQL to its end; rows it gives are dropped."""
        self._transaction.execute(self._spell(sql), bindings)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each row of bindings."""
        self._transaction.executemany(self._spell(sql), rows)

    def define(self, statements: Iterable[str]) -> None:
        """Run DDL, one statement each. An index is called `{table}_…`; it keeps its name when its table is renamed."""
        once = secrets.token_hex(4)
        told = [re.sub(r"\{(\w+)\}_", rf"\1_{once}_", statement) for statement in statements]
        self._transaction.define([self._spell(statement) for statement in told])

    def drop(self) -> None:
        """Drop the view's tables, if they are there."""
        self._transaction.define([f"DROP TABLE IF EXISTS {table}" for table in self._names.values()])

    def _spell(self, sql: str) -> str:
        spelled = self._spelled.get(sql)
        if spelled is None:
            spelled = sql
            for name, table in self._names.items():
                spelled = spelled.replace(f"{{{name}}}", table)
            if strange := re.search(r"\{(\w+)\}", spelled):
                raise ValueError(f"the view has no table {strange[0]}; its tables are {', '.join(self._names)}: {sql}")
            self._spelled[sql] = spelled
        return spelled


class View(ABC):
    """A fold of the log into tables. It sees every event once, in order, and can be made again at any time.

    `tables` maps each table's name to its DDL, with names in braces; indexes belong to the table they index.
    `modules` are those that decide what the rows say, besides the one the view is written in: a change in one of
    them makes the view anew.
    """

    name: str
    tables: Mapping[str, Sequence[str]]
    modules: Sequence[ModuleType] = ()

    def fingerprint(self) -> str:
        """Return a digest of what decides the rows: a changed definition is noticed without bumping a number.

        Of a class that was typed at a prompt, which has no file, only the tables count.
        """
        own = [sys.modules[kind.__module__] for kind in type(self).__mro__ if issubclass(kind, View)]
        sources = digest_of((encoding, events, registry, *own, *self.modules))
        return blake2b(f"{sources} {sorted(self.tables.items())}".encode(), digest_size=16).hexdigest()

    def contents(self, tables: Tables) -> dict[str, list[tuple[Any, ...]]]:
        """Return the rows of each table that serves, in an order and a form in which a fresh fold gives the same."""
        return {name: sorted(tables.query(f"SELECT * FROM {name}"), key=repr) for name in self.tables}

    def create(self, tables: ViewTables) -> None:
        """Make the tables, empty."""
        tables.drop()
        tables.define(statement for statements in self.tables.values() for statement in statements)

    @abstractmethod
    def apply(self, tables: ViewTables, events: Sequence[Envelope]) -> None:
        """Fold events, at most a batch, in the order of their positions."""

    def related(self, tables: ViewTables, streams: Sequence[str]) -> Sequence[str]:  # noqa: ARG002 - for those who need it
        """Return other streams whose rows hang on these: they are forgotten and applied together."""
        return ()

    @abstractmethod
    def forget(self, tables: ViewTables, streams: Sequence[str]) -> None:
        """Remove all that came from these streams: they will be applied again, without what was erased."""


def switch(transaction: TableTransaction, view: View) -> None:
    """Put the tables that were made behind those that serve into their place, in one step."""
    for table in view.tables:
        transaction.define([f"DROP TABLE IF EXISTS {table}", f"ALTER TABLE {table}{_NEXT} RENAME TO {table}"])
