"""`views`: what follows the log beside it."""

from collections.abc import Callable, Sequence
from contextlib import closing

import click
import msgspec

from engine.store import SessionStore
from projections.views.runner import ViewStatus
from replay.cli.failures import FAILURE, INTEGRITY
from replay.cli.layout import Column, Records, Table
from replay.cli.output import Page
from replay.cli.run import Run, verb
from replay.opening import open_views

_STATUS = Table(
    (
        Column("name", "view", style="cyan"),
        Column("position", "@", right=True),
        Column("lag_events", "events behind", right=True),
        Column("lag_seconds", "seconds behind", right=True),
        Column("building_position", "new one at @", right=True),
        Column("quarantined", right=True),
        Column("error", style="red", wide=True),
    )
)
_WAIT_SECONDS = 0.2
_FAILING_ROUNDS = 10
"""Waits in which an error stands: longer than until it is tried again."""


@click.group("views")
def views() -> None:
    """Look at the views, rebuild or verify them.

    They follow the log in views.db beside it, which may be deleted at any time.
    """


@verb("status", examples=("sessions views status", "sessions views status -o json"), within=views)
def status(run: Run) -> None:
    """Tell how far each view is, and what is wrong with it."""
    with run.log() as log, closing(open_views(log)) as following:
        found = [msgspec.to_builtins(each) for each in following.status()]
    run.output.page(Page(found), _STATUS, "no view: no store has followed there yet")


@verb(
    "rebuild",
    examples=("sessions views rebuild --yes", "sessions views rebuild search --dry-run"),
    writes=True,
    within=views,
)
@click.argument("names", nargs=-1)
def rebuild(run: Run, names: tuple[str, ...]) -> int | None:
    """Make views anew behind those that serve.

    Without names all of them. Searching goes on meanwhile; cut off, it goes on when a store is opened.
    """
    if run.dry_run:
        with run.log() as log, closing(open_views(log)) as following:
            following.check_names(names)
            found: Sequence[ViewStatus] = following.status()
    else:
        run.confirm(f"make the views of {run.where} anew?")
        with run.store() as store:
            found = _rebuilt(run, store, names)
    items = [msgspec.to_builtins(each) for each in found if not names or each.name in names]
    run.output.page(Page(items), _STATUS, "no view")
    return FAILURE if not run.dry_run and any(each["error"] for each in items) else None


def _rebuilt(run: Run, store: SessionStore, names: tuple[str, ...]) -> Sequence[ViewStatus]:
    """Make views anew and return how they are; stop waiting for one that an error keeps where it is."""
    last = store.log.last_position
    _wait(run, store, last, lambda: store.wait_for_views(last, _WAIT_SECONDS))
    store.rebuild_views(*names)

    def done() -> bool:
        store.wait_for_views(last + 1, _WAIT_SECONDS)
        return all(each.building_position is None for each in store.health().views)

    _wait(run, store, last, done)
    return store.health().views


def _wait(run: Run, store: SessionStore, last: int, done: Callable[[], bool]) -> None:
    """Wait until something is done, or until an error has stood for a while: it is tried again meanwhile."""
    failing = 0
    while not done() and failing < _FAILING_ROUNDS:
        views = store.health().views
        failing = failing + 1 if any(each.error for each in views) else 0
        positions = (each.position if each.building_position is None else each.building_position for each in views)
        run.progress.tell(min(positions, default=0), last)


@verb("verify", examples=("sessions views verify", "sessions views verify -o json"), within=views)
def verify(run: Run) -> int | None:
    """Compare every view with a fresh fold of the log; end with 4 at the first difference."""
    with run.log() as log, closing(open_views(log)) as following:
        found = following.verify()
    item = {"ok": found.ok, **{f"{name}_position": at for name, at in found.positions.items()}}
    item |= {} if found.difference is None else msgspec.to_builtins(found.difference)
    run.output.one(item, Records([Column(name) for name in item]))
    return None if found.ok else INTEGRITY
