"""Records what crosses the seam: each statement that code above it gives to a backend, and what it got for it."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from engine.log.errors import LogError
from engine.log.sqlite.backend import SQLiteBackend
from engine.log.sqlite.overlay import Overlay
from engine.log.sqlite.reader import Snapshot, SQLiteReader
from engine.log.sqlite.scratch import Scratch
from engine.log.sqlite.transaction import SQLiteTransaction
from engine.log.sqlite.watch import SQLiteWatch
from tests.sources import ABOVE_THE_SEAM, ROOT

BEGIN, COMMIT, ROLLBACK = "BEGIN", "COMMIT", "ROLLBACK"
SAVEPOINT, RELEASE, UNDO = "SAVEPOINT attempt", "RELEASE attempt", "ROLLBACK TO attempt"


class Given(NamedTuple):
    """A statement as it was given, and its rows; None for those that nobody looked at, or if it was refused."""

    sql: str
    bindings: tuple[Any, ...] = ()
    rows: list[tuple[Any, ...]] | None = None
    refused: bool = False


class Seam:
    """The statements that crossed the seam: under the write lock in the order they came, and beside it."""

    def __init__(self) -> None:
        self.written: list[Given] = []
        self.read: list[Given] = []

    @property
    def statements(self) -> set[str]:
        """Every statement that was given, however often."""
        return {each.sql for each in (*self.written, *self.read)}


@contextmanager
def recording() -> Iterator[Seam]:
    """Record what crosses the seam of logs that are opened meanwhile."""
    seam = Seam()
    with pytest.MonkeyPatch.context() as patch:
        _record_transactions(seam, patch)
        _record_commands(seam, patch)
        for kind in (SQLiteReader, SQLiteWatch, Snapshot):
            patch.setattr(kind, "query", _recorded(kind.query, seam.read))
        patch.setattr(Overlay, "own_query", _recorded(Overlay.own_query, seam.read, looked_at=False))
        patch.setattr(Scratch, "query", _recorded(Scratch.query, seam.read, looked_at=False))
        yield seam


def _from_above() -> bool:
    """Return True if the function that is two calls up is above the seam."""
    name = Path(sys._getframe(2).f_code.co_filename)
    return name.is_relative_to(ROOT) and name.relative_to(ROOT).as_posix().startswith(ABOVE_THE_SEAM)


def _recorded(query: Callable[..., Any], into: list[Given], *, looked_at: bool = True) -> Callable[..., Any]:
    def given(self: Any, sql: str, bindings: Sequence[Any] = ()) -> Any:
        above = _from_above()
        try:
            rows = query(self, sql, bindings)
        except LogError:
            if above:
                into.append(Given(sql, tuple(bindings), refused=True))
            raise
        if above:
            into.append(Given(sql, tuple(bindings), rows if looked_at else None))
        return rows

    return given


def _record_transactions(seam: Seam, patch: pytest.MonkeyPatch) -> None:
    executemany, define, attempt = SQLiteTransaction.executemany, SQLiteTransaction.define, SQLiteTransaction.attempt

    def given_many(self: Any, sql: str, rows: Any) -> None:
        above, taken = _from_above(), []

        def taking() -> Iterator[Sequence[Any]]:
            for row in rows:
                taken.append(Given(sql, tuple(row)))
                yield row

        try:
            executemany(self, sql, taking())
        except LogError:
            taken[-1:] = [each._replace(refused=True) for each in taken[-1:]]
            raise
        finally:
            if above:
                seam.written.extend(taken)

    def defined(self: Any, statements: Sequence[str]) -> None:
        define(self, statements)
        seam.written.extend(Given(sql) for sql in statements if " VIEW " not in sql)  # see test_audit.py

    def attempted(self: Any, action: Callable[..., Any]) -> Any:
        seam.written.append(Given(SAVEPOINT))
        try:
            result = attempt(self, action)
        except BaseException:
            seam.written += [Given(UNDO), Given(RELEASE)]
            raise
        seam.written.append(Given(RELEASE))
        return result

    patch.setattr(SQLiteTransaction, "query", _recorded(SQLiteTransaction.query, seam.written))
    patch.setattr(SQLiteTransaction, "execute", _recorded(SQLiteTransaction.execute, seam.written, looked_at=False))
    patch.setattr(SQLiteTransaction, "executemany", given_many)
    patch.setattr(SQLiteTransaction, "define", defined)
    patch.setattr(SQLiteTransaction, "attempt", attempted)


def _record_commands(seam: Seam, patch: pytest.MonkeyPatch) -> None:
    def marking(function: Callable[..., Any], mark: str) -> Callable[..., Any]:
        def marked(self: Any) -> Any:
            result = function(self)
            seam.written.append(Given(mark))
            return result

        return marked

    for name, mark in (("begin", BEGIN), ("commit", COMMIT), ("roll_back", ROLLBACK)):
        patch.setattr(SQLiteBackend, name, marking(getattr(SQLiteBackend, name), mark))
