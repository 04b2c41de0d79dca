"""Verifying a store: the log, the state tables and the views, each held against the log (R18)."""

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import msgspec

from engine.log.errors import CorruptLogError, NotALogError
from engine.log.protocol import Progress
from engine.log.sqlite.eventlog import EventLog
from engine.verification import StoreVerification, verify_store
from engine.views import VIEWS_FILE
from replay.opening import open_views


class FullVerification(StoreVerification, frozen=True, kw_only=True):
    """The findings of `verify`: those of the store, and with `full` the first row of a view that differs."""

    views: dict[str, int] | None = None
    """The views that were compared, and the position each is at."""
    view: str | None = None


def verify(
    log: EventLog,
    published: str | Iterable[str] | None = None,
    *,
    full: bool = False,
    progress: Progress | None = None,
) -> FullVerification:
    """Verify the log, hold the state tables to a fresh fold of it, and with `full` the views beside it too.

    `published` are heads that were kept elsewhere, `<position>:<hash>`: without one a cut tail cannot be seen.
    """
    found = FullVerification(**msgspec.structs.asdict(verify_store(log, progress, published)))
    if not (found.ok and full):
        return found
    if not Path(log.path).with_name(VIEWS_FILE).exists():
        return msgspec.structs.replace(found, views={})
    try:
        with closing(open_views(log)) as views:
            compared = views.verify()
    except (CorruptLogError, NotALogError) as error:
        return msgspec.structs.replace(found, ok=False, views={}, view=VIEWS_FILE, problem=str(error))
    different = compared.difference
    if different is None:
        return msgspec.structs.replace(found, views=compared.positions)
    return msgspec.structs.replace(
        found,
        ok=False,
        views=compared.positions,
        view=different.view,
        table=different.table,
        problem=f"view {different.view}, table {different.table}: the row {different.row!r:.200} should be "
        f"{different.expected!r:.200}; the log is sound: `heal` makes the view again from it",
    )
