"""SQL on the log and its tables, of now or of a moment, and the first moment at which it gives a row (R13, R16)."""

import time
from typing import Any

import msgspec

from engine.domain import streams
from engine.log.envelope import Envelope
from engine.log.errors import UnsafeQueryError
from engine.log.protocol import Answer, Bounds, Progress
from engine.log.sqlite.eventlog import EventLog
from projections.audit import create_state_views
from projections.inline import past
from projections.inline.projection import BEYOND, apply_usable, make
from replay.errors import UnsupportedStoreError
from replay.past import check_position

_BATCH = 500
_LONGEST = 60.0


def sql(log: EventLog, query: str, at: int | None = None, *, bounds: Bounds | None = None) -> Answer:
    """Return what a query on the log, its state tables and its audit views gives; of a position, as they were then.

    Raise UnsafeQueryError for one that writes, runs for too long or takes too much memory.
    """
    given = Bounds() if bounds is None else bounds
    if at is None:
        return log.ask(query, given)
    check_position(log, at)
    tables = past.tables_at(log, at)
    try:
        if isinstance(tables, past.Refolded):
            raise UnsupportedStoreError(
                f"the state tables of {log.path} are of another version, so the past cannot be asked by SQL; "
                "open it once with SessionStore, which rebuilds them"
            )
        return tables.ask(query, given)
    finally:
        tables.close()


class First(msgspec.Struct, frozen=True, kw_only=True):
    """The first moment at which a query gave a row."""

    position: int
    """The position of the event that made it so."""
    event: Envelope
    """That event."""
    columns: tuple[str, ...]
    """The names of the row's columns."""
    row: tuple[Any, ...]
    """The first row."""


def when(log: EventLog, query: str, *, bounds: Bounds | None = None, progress: Progress | None = None) -> First | None:
    """Return the first position at which a query on the state tables gives a row, and the event that made it so.

    It may ask `audit_lanes` and `audit_sessions` too, but neither the log nor the views over it.

    Rows come and go, so the log is folded forwards from its beginning, and the query is asked after each event that
    touches a table it reads; events of other tables are passed over. That is bounded in time, by a minute unless told
    otherwise: ask for a table in which little happens, as `lanes`. None if it never gave a row.
    """
    given = Bounds(seconds=_LONGEST, rows=1) if bounds is None else bounds
    ends = time.monotonic() + given.seconds
    scratch, last = log.scratch(), log.last_position
    try:
        make(scratch, began_at=BEYOND)
        views = create_state_views(scratch, log.dialect)
        touched = _kinds(scratch.tables_of(query, given) - views)
        for first in range(0, last, _BATCH):
            for each in log.reader.recorded(first, min(first + _BATCH, last)):
                if not each.stream.startswith(touched):
                    continue
                apply_usable(scratch, [each], BEYOND)
                answer = scratch.ask(query, given)
                if answer.rows:
                    return First(position=each.position, event=each, columns=answer.columns, row=answer.rows[0])
                if time.monotonic() > ends:
                    raise UnsafeQueryError(
                        f"nothing was found within {given.seconds:g} s, up to position {each.position} of {last}; "
                        "ask for a table in which less happens, or with wider bounds"
                    )
            if progress is not None:
                progress(min(first + _BATCH, last), last)
        return None
    finally:
        scratch.close()


def _kinds(tables: set[str]) -> tuple[str, ...]:
    """Return the kinds of streams whose events touch some tables."""
    known = {table: kind for table, (kind, _) in past.OF_STREAMS.items()}
    known |= dict.fromkeys(("message_ids", "copies"), streams.SESSION)
    return ("",) if tables - known.keys() else tuple({known[each] for each in tables}) or ("",)
