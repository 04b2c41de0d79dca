"""Transcripts from their end: what an undo or a fork looks at, without reading what stands before it."""

from collections.abc import Iterator
from typing import NamedTuple

from engine.domain.events import Inherited
from engine.domain.session import Session
from engine.domain.streams import session_stream
from engine.domain.transcript import LOST, Backwards, Extensions, Report, Row, copied_if_readable, inheritance
from engine.log.protocol import Queries
from projections.inline.quarantine import quarantined

_FIRST_BATCH = 16
_LARGEST_BATCH = 1024


class TooFarError(Exception):
    """More would have to be read than was allowed."""


class Stretch(NamedTuple):
    """Messages live at a version of a session's history, but for some at its end; at most so many, or all."""

    session_id: str
    history_from: int
    version: int
    skip: int = 0
    most: int | None = None


class _Copies(NamedTuple):
    """Messages inside a rewritten history, newest first; they stand before those it inherits."""

    rows: list[Row]
    skip: int
    most: int | None


def live_now(session: Session) -> Stretch:
    """Return all live messages of a session."""
    return Stretch(session.session_id, session.history_from, session.version)


def inherited_from(taken: Inherited) -> Stretch:
    """Return the messages that a history inherits."""
    return Stretch(taken.session_id, taken.history_from, taken.version, taken.beyond, len(taken))


def newest_first(reads: Queries, wanted: Stretch, report: Report, budget: int | None = None) -> Iterator[Row]:
    """Yield live messages from the last to the first, reading little more than is taken.

    What is inherited is followed from session to session, however often a message was carried over. Raise
    TooFarError where more rows than the budget would have to be read.
    """
    bad = frozenset(position for position, _ in quarantined(reads))
    before: list[_Copies] = []
    extensions = Extensions()
    part: Stretch | None = wanted
    while part is not None:
        walk, begins, most = Backwards(part.skip), None, part.most
        for row in _rows(reads, part, bad, budget):
            budget = None if budget is None else budget - 1
            if most == 0:
                break
            extensions.note(row)
            if row[0] == part.history_from:
                begins = row
            elif walk.is_live(row):
                yield extensions.applied(row)
                most = None if most is None else most - 1
        part = None if most == 0 else _before(begins, walk.skip, most, before, report)
    while before:
        yield from _given(before.pop())


def _rows(reads: Queries, part: Stretch, bad: frozenset[int], budget: int | None) -> Iterator[Row]:
    """Yield the events of a history, newest first, in growing batches."""
    stream = session_stream(part.session_id)
    first, upto, batch, read = max(part.history_from - 1, 0), part.version, _FIRST_BATCH, 0
    while upto > first:
        if budget is not None and read > budget:
            raise TooFarError
        after = max(upto - batch, first)
        for row in reversed(reads.payloads(stream, after, upto)):
            if row[3] not in bad:
                yield row
        read += upto - after
        upto, batch = after, min(2 * batch, _LARGEST_BATCH)


def _before(begins: Row | None, skip: int, most: int | None, before: list[_Copies], report: Report) -> Stretch | None:
    """Return what stands before the events of a history: what it inherits, and before that, its copies."""
    taken = None if begins is None else inheritance(begins)
    copies = [] if begins is None else copied_if_readable(begins, report)[::-1]
    if taken is None:
        before.append(_Copies(copies, skip, most))
        return None
    skipped = min(skip, len(taken))
    given = len(taken) - skipped if most is None else min(len(taken) - skipped, most)
    before.append(_Copies(copies, skip - skipped, None if most is None else most - given))
    inherited = inherited_from(taken)
    return inherited._replace(skip=inherited.skip + skipped, most=given)


def _given(copies: _Copies) -> list[Row]:
    """Return the copies asked for, and something in the place of each message whose history was erased."""
    rows = copies.rows[copies.skip :]
    return rows if copies.most is None else rows[: copies.most] + [LOST] * (copies.most - len(rows))
