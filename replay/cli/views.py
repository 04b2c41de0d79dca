"""`views`: search and usage, which follow the log beside it."""

from contextlib import closing

import click
import msgspec

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


@click.group("views")
def views() -> None:
    """Look at search and usage, rebuild or verify them.

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
    if not run.dry_run:
        run.confirm(f"make the views of {run.where} anew?")
    with run.store() as store:
        last = store.log.last_position
        if not run.dry_run:
            store.wait_for_views(last, None)
            store.rebuild_views(*names)
            while behind := [each for each in store.health().views if each.building_position is not None]:
                run.progress.tell(min(each.building_position or 0 for each in behind), last)
                if any(each.error for each in behind):
                    break
                store.wait_for_views(last + 1, _WAIT_SECONDS)
        found = [msgspec.to_builtins(each) for each in store.health().views if not names or each.name in names]
    run.output.page(Page(found), _STATUS, "no view")
    return FAILURE if any(each["error"] for each in found) else None


@verb("verify", examples=("sessions views verify", "sessions views verify -o json"), within=views)
def verify(run: Run) -> int | None:
    """Compare every view with a fresh fold of the log; end with 4 at the first difference."""
    with run.log() as log, closing(open_views(log)) as following:
        found = following.verify()
    item = {"ok": found.ok, **{f"{name}_position": at for name, at in found.positions.items()}}
    item |= {} if found.difference is None else msgspec.to_builtins(found.difference)
    run.output.one(item, Records([Column(name) for name in item]))
    return None if found.ok else INTEGRITY
