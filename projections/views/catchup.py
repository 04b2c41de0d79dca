"""Catching up: the next batch of events for every view that is behind, rows and position in one transaction (V3)."""

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass

from engine.domain.encoding import Unreadable
from engine.domain.events import PAYLOADS_CHANGED
from engine.domain.streams import LOG
from engine.log.envelope import Envelope
from engine.log.errors import RefusedError
from engine.log.protocol import Log, Tables, TableTransaction
from projections.views import progress
from projections.views.progress import NEXT, SERVING, Progress
from projections.views.view import View, ViewTables, switch

logger = logging.getLogger("engine.views")

BATCH = 500
_PATIENCE_SECONDS = 10.0
"""A view that another definition made and that stands still for so long has nobody who follows with it."""
_UNUSABLE = (RefusedError, ValueError, TypeError, KeyError, AttributeError, IndexError, OverflowError)


@dataclass
class Reading:
    """Reads of the log by this process for a part: from where on, and how long the log was before it began.

    An erasure that was in the log by then needs nothing to be forgotten: only tombstones were read.
    """

    began_after: int
    position: int
    end: int

    def saw_only_tombstones(self, erasure: Envelope, erased: Sequence[int]) -> bool:
        """Return True if none of the erased payloads can have been read before it was erased."""
        return erasure.position <= self.end and min(erased, default=0) > self.began_after


class CatchUp:
    """Brings the parts of views to the end of the log, a batch at a time. Any number of processes may do it at once."""

    def __init__(self, log: Log, tables: Tables, views: Sequence[View]) -> None:
        self._log = log
        self._tables = tables
        self._views = {view.name: view for view in views}
        self._fingerprints = {view.name: view.fingerprint() for view in views}
        self._readings: dict[tuple[str, str], Reading] = {}
        self._made_here: set[str] = set()
        self._of_others: dict[str, tuple[int, float]] = {}

    def prepare(self) -> None:
        """Make the tables of views that are new; begin anew what another definition or another log has made."""
        self._tables.transact(lambda transaction: transaction.define(progress.TABLES))
        known = progress.progress_of(self._tables)
        strange = {key for key, each in known.items() if not self._is_of_this_log(each)}
        self._tables.transact(lambda transaction: self._prepare(transaction, strange))

    def _prepare(self, transaction: TableTransaction, strange: set[tuple[str, str]]) -> None:
        for name, view in self._views.items():
            wanted = self._fingerprints[name]
            serving = progress.one(transaction, name, SERVING)
            if serving is None or (name, SERVING) in strange:
                self._begin(transaction, view, SERVING)
                self._drop_next(transaction, view)
            elif serving.fingerprint != wanted and not (name in self._made_here and self._is_followed(serving)):
                following = progress.one(transaction, name, NEXT)
                if following is None or following.fingerprint != wanted or (name, NEXT) in strange:
                    self._begin(transaction, view, NEXT)
            self._made_here.add(name)

    def _is_followed(self, serving: Progress) -> bool:
        """Return True while a process with another definition, of another version, keeps the view at the end.

        Each begins its own once, so the one that was opened last stays: two that take it from each other would
        make it anew for ever.
        """
        position, since = self._of_others.get(serving.name, (-1, 0.0))
        if position != serving.position or position >= self._log.last_position:
            self._of_others[serving.name] = serving.position, time.monotonic()
            return True
        return time.monotonic() - since < _PATIENCE_SECONDS

    def begin_rebuild(self, name: str) -> None:
        """Make a view anew behind the one that serves; what was begun already goes on."""

        def begin(transaction: TableTransaction) -> None:
            following = progress.one(transaction, name, NEXT)
            if following is None or following.fingerprint != self._fingerprints[name]:
                self._begin(transaction, self._views[name], NEXT)

        self._tables.transact(begin)

    def _begin(self, transaction: TableTransaction, view: View, part: str) -> None:
        view.create(ViewTables(transaction, view.tables, building=part == NEXT))
        progress.record(transaction, Progress(view.name, part, self._fingerprints[view.name], 0, None))
        if part == SERVING:
            progress.forget_quarantined(transaction, view.name)

    def _drop_next(self, transaction: TableTransaction, view: View) -> None:
        ViewTables(transaction, view.tables, building=True).drop()
        progress.remove(transaction, view.name, NEXT)

    def _is_of_this_log(self, part: Progress) -> bool:
        """Return False if the part was made from another log, or from one that was set back since."""
        if not part.position:
            return True
        there = self._log.reader.recorded_at([part.position])
        return bool(there) and _id_of(there[0]) == part.event_id

    def behind(self) -> dict[tuple[str, str], Progress]:
        """Return the parts this process can bring forward, with how far they are."""
        known = progress.progress_of(self._tables)
        return {key: each for key, each in known.items() if self._fingerprints.get(key[0]) == each.fingerprint}

    def advance(self, parts: Sequence[Progress], end: int) -> int:
        """Apply the next batch to parts that are at the same position; return how many events that took."""
        after = parts[0].position
        upto = min(after + BATCH, end)
        events = self._log.reader.recorded(after, upto)
        if not events:
            return 0

        def apply(transaction: TableTransaction) -> list[Progress]:
            return [part for part in parts if self._apply(transaction, part, events, end)]

        done = self._tables.transact(apply)
        for part in parts:
            self._note(part, upto if part in done else None, end)
        for part in done:
            if part.part == NEXT and upto >= self._log.reader.last_position():
                self._switch(part)
        return len(events) if done else 0

    def _apply(self, transaction: TableTransaction, part: Progress, events: Sequence[Envelope], end: int) -> bool:
        """Apply a batch to one part; return False if another process was faster."""
        here = progress.one(transaction, part.name, part.part)
        if here is None or here[:4] != part[:4]:
            return False
        view = self._views[part.name]
        tables = ViewTables(transaction, view.tables, building=part.part == NEXT)
        reading = self._reading(part, end)
        first = 0
        for index, each in enumerate(events):
            if isinstance(each.event, PAYLOADS_CHANGED):
                self._apply_usable(transaction, view, tables, events[first:index])
                first = index
                if not reading.saw_only_tombstones(each, each.event.positions):
                    self._fold_again(transaction, view, tables, each)
        self._apply_usable(transaction, view, tables, events[first:])
        last = events[-1]
        progress.record(transaction, part._replace(position=last.position, event_id=_id_of(last)))
        return True

    def _apply_usable(
        self, transaction: TableTransaction, view: View, tables: ViewTables, events: Sequence[Envelope]
    ) -> None:
        """Apply events; one that the view cannot use is quarantined with its reason, and the rest goes on (V5)."""
        usable = []
        for each in events:
            if isinstance(each.event, Unreadable):
                self._put_aside(transaction, view, each, each.event.error)
            else:
                usable.append(each)
        if not usable:
            return
        try:
            transaction.attempt(lambda: view.apply(tables, usable))
        except _UNUSABLE:
            for each in usable:
                self._apply_one(transaction, view, tables, each)

    def _apply_one(self, transaction: TableTransaction, view: View, tables: ViewTables, event: Envelope) -> None:
        try:
            transaction.attempt(lambda: view.apply(tables, [event]))
        except _UNUSABLE as error:
            self._put_aside(transaction, view, event, f"{type(error).__name__}: {error}")

    def _put_aside(self, transaction: TableTransaction, view: View, event: Envelope, error: str) -> None:
        if progress.put_aside(transaction, view.name, event.position, error):
            logger.warning(
                "view %s cannot use position %d, which was quarantined: %s", view.name, event.position, error
            )

    def _fold_again(self, transaction: TableTransaction, view: View, tables: ViewTables, erasure: Envelope) -> None:
        """Fold the streams of erased events again: what was erased is gone from the view too."""
        reader = self._log.reader
        erased = erasure.event.positions if isinstance(erasure.event, PAYLOADS_CHANGED) else []
        streams = sorted({each.stream for each in reader.recorded_at(erased)} - {LOG})
        streams = sorted({*streams, *view.related(tables, streams)})
        view.forget(tables, streams)
        positions = reader.positions_of(streams, erasure.position)
        for start in range(0, len(positions), BATCH):
            self._apply_usable(transaction, view, tables, reader.recorded_at(positions[start : start + BATCH]))

    def _reading(self, part: Progress, end: int) -> Reading:
        reading = self._readings.get((part.name, part.part))
        if reading is None or reading.position != part.position:
            reading = self._readings[part.name, part.part] = Reading(part.position, part.position, end)
        return reading

    def _note(self, part: Progress, position: int | None, end: int) -> None:
        if position is None:  # another process applied it, and may have read what was erased since
            self._readings.pop((part.name, part.part), None)
        else:
            self._reading(part, end).position = position

    def _switch(self, part: Progress) -> None:
        """Let the view that was made behind the one that serves take its place."""

        def take_over(transaction: TableTransaction) -> bool:
            here = progress.one(transaction, part.name, NEXT)
            if here is None or here.fingerprint != part.fingerprint:
                return False
            switch(transaction, self._views[part.name])
            progress.remove(transaction, part.name, NEXT)
            progress.record(transaction, here._replace(part=SERVING))
            return True

        if self._tables.transact(take_over):
            self._readings.pop((part.name, NEXT), None)
            self._readings.pop((part.name, SERVING), None)
            logger.info("view %s was made anew up to position %d", part.name, part.position)


def _id_of(event: Envelope) -> str | None:
    return None if event.event_id is None else event.event_id.hex()
