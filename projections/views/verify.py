"""Holding views against a fresh fold of the log (V7)."""

from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest

import msgspec

from engine.log.protocol import Log, Tables
from projections.views import progress
from projections.views.catchup import CatchUp
from projections.views.progress import SERVING
from projections.views.view import View

Rows = Sequence[tuple[object, ...]]


class ViewDifference(msgspec.Struct, frozen=True):
    """The first difference between a view and a fresh fold; None for a row that one of them lacks."""

    view: str
    table: str
    row: tuple[object, ...] | None
    expected: tuple[object, ...] | None


class ViewVerification(msgspec.Struct, frozen=True):
    """The result of holding every view against the log, up to the position it is at."""

    ok: bool
    positions: dict[str, int]
    difference: ViewDifference | None = None


def verify_views(log: Log, tables: Tables, views: Sequence[View], scratch: Callable[[], Tables]) -> ViewVerification:
    """Compare every view that serves with a fresh fold of the log; `scratch` gives tables to make it in."""
    positions: dict[str, int] = {}
    for view in views:
        with tables.one_moment():  # a store may be writing them
            serving = progress.progress_of(tables).get((view.name, SERVING))
            if serving is None or serving.fingerprint != view.fingerprint():
                continue
            held = view.contents(tables)
        fresh = scratch()
        try:
            difference = _difference(log, held, fresh, view, serving.position)
        finally:
            fresh.close()
        positions[view.name] = serving.position
        if difference is not None:
            return ViewVerification(False, positions, difference)
    return ViewVerification(True, positions)


def _difference(log: Log, held: Mapping[str, Rows], fresh: Tables, view: View, upto: int) -> ViewDifference | None:
    catch_up = CatchUp(log, fresh, [view])
    catch_up.prepare()
    while parts := [each for each in catch_up.behind().values() if each.position < upto]:
        catch_up.advance(parts, upto)
    expected = view.contents(fresh)
    for table, rows in held.items():
        for row, wanted in zip_longest(rows, expected[table]):
            if row != wanted:
                return ViewDifference(view.name, table, row, wanted)
    return None
