"""The effort of a command while it holds the write lock, in numbers that no clock decides."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import apsw

from engine import SessionStore


@dataclass
class Section:
    """One time that the write lock was held: what SQLite ran meanwhile."""

    statements: list[str] = field(default_factory=list)
    steps: int = 0
    """Steps of SQLite's virtual machine: a row that is looked at costs some, whether or not it is handed out."""
    rows: int = 0
    """Rows inserted, changed and deleted."""


@dataclass
class Effort:
    """The work of a store while it was watched."""

    sections: list[Section] = field(default_factory=list)

    @property
    def steps(self) -> int:
        """The most steps that the write lock was held for at a time."""
        return max((section.steps for section in self.sections), default=0)

    @property
    def rows(self) -> int:
        """The most rows that were changed at a time."""
        return max((section.rows for section in self.sections), default=0)


@contextmanager
def watched(store: SessionStore) -> Iterator[Effort]:
    """Count what runs on the store's writing connection inside the block."""
    effort = Effort()
    backend: Any = store.log._backend
    connection: apsw.Connection = backend.connection
    before = 0

    def note(event: dict[str, Any]) -> None:
        nonlocal before
        sql = event["sql"]
        if sql == "BEGIN IMMEDIATE":
            effort.sections.append(Section())
            before = event["total_changes"]
        section = effort.sections[-1] if effort.sections else Section()
        section.statements.append(sql)
        section.steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]
        section.rows = event["total_changes"] - before

    def watch(callback: Any) -> None:  # in a transaction: a checkpoint may use the connection at any other time
        mask = apsw.SQLITE_TRACE_PROFILE if callback else 0
        store.log.transact(lambda _: connection.trace_v2(mask, callback, id=effort))

    watch(note)
    try:
        yield effort
    finally:
        watch(None)
        del effort.sections[-1]
