"""`backup`, `copy`, `restore` and `salvage`: the store as it is, as it was, or as far as it can be read, elsewhere."""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from engine.acting import acting
from engine.reader import FILE_NAME
from replay.cli.layout import Column, Item, Line, Lines, Records
from replay.cli.options import WHEN
from replay.cli.run import Run, verb
from replay.folders import new_folder
from replay.opening import ACTOR, open_log
from replay.restoring import restore as restored
from replay.salvaging import salvage as salvaged
from replay.words import counted


@verb(
    "backup", examples=("sessions backup backups/sessions-monday.db", "sessions --store /srv/gateway backup /mnt/x.db")
)
@click.argument("to", type=click.Path())
def backup(run: Run, to: str) -> None:
    """Copy the store to a new file while it is written.

    The copy is of one moment, verified, private, and never replaces a file. It is all that a backup needs.
    """
    _copied(run, Path(to))


@verb("copy", examples=("sessions copy /tmp/look", "sessions --store /srv/gateway copy incident-0701"))
@click.argument("to", type=click.Path())
def copy(run: Run, to: str) -> None:
    """Copy the store into a new folder, ready to be opened.

    A verified copy of one moment to work on: nothing that is done to it reaches the store.
    """
    with new_folder(to) as folder:
        _copied(run, folder / FILE_NAME)


def _copied(run: Run, to: Path) -> None:
    with run.log() as log:
        found = log.backup(to)
    item = {"path": str(to), **msgspec.to_builtins(found)}
    run.output.one(item, Records([Column("path"), Column("events"), Column("head"), Column("ok", "verified")]))


@verb(
    "restore",
    examples=(
        "sessions restore backups/sessions-monday.db data --yes",
        "sessions restore data as-it-was --at 'yesterday 04:00' --dry-run",
    ),
    writes=True,
)
@click.argument("from_", metavar="FROM", type=click.Path())
@click.argument("to", type=click.Path())
@click.option("--at", metavar="WHEN", help=f"As it was then: {WHEN}.")
@click.option("--reason", metavar="TEXT", help="Recorded in the new store.")
def restore(run: Run, from_: str, to: str, at: str | None, reason: str | None) -> None:
    """Make a store in a new folder as another one is, or was at a moment.

    FROM is a store or a backup; its log alone is read, up to that moment. The events keep their positions and hashes.
    What was erased since stays erased. Nothing is ever replaced: put the new folder into place yourself.
    """
    with open_log(from_) as log:
        position = log.last_position if at is None else run.moment(log, at).position
        if not run.dry_run:
            run.confirm(f"restore {from_} as of @{position} into {to}?")
        with acting(ACTOR, reason):
            found = restored(log, to, position, dry_run=run.dry_run, progress=run.progress.tell)
    run.output.one(msgspec.to_builtins(found), Lines(_restored))


def _restored(item: Item) -> Iterator[Line]:
    yield [("path      ", "dim"), (item["path"], "")]
    yield [("head      ", "dim"), (item["head"], "")]
    yield [("events    ", "dim"), (str(item["position"]), "")]
    yield [("left out  ", "dim"), (f"{item['left_out']} later", "")]
    if item["erased_since"]:
        yield [("erased    ", "yellow"), (f"{counted(item['erased_since'], 'event')} since, which stay erased", "")]
    if item["dry_run"]:
        yield [("dry run: nothing was written", "bold")]


@verb(
    "salvage",
    examples=("sessions --store damaged salvage recovered --yes", "sessions --store damaged salvage x --dry-run"),
    writes=True,
)
@click.argument("to", type=click.Path())
@click.option("--keep-changed", is_flag=True, help="Take events too that do not match their hash.")
@click.option("--reason", metavar="TEXT", help="Recorded in the new store.")
def salvage(run: Run, to: str, keep_changed: bool, reason: str | None) -> None:
    """Bring what can be read of a damaged store into a new one.

    Also of a file that was cut off. It reports what is lost, position by position, and the new log says so too. The
    damaged store is only read. A head that was published before does not hold for the new log.
    """
    if not run.dry_run:
        run.confirm(f"bring what can be read of {run.where} into {to}?")
    with open_log(run.where, damaged=True) as log, acting(ACTOR, reason):
        found = salvaged(log, to, keep_changed=keep_changed, dry_run=run.dry_run, progress=run.progress.tell)
    run.output.one(msgspec.to_builtins(found), Lines(_salvaged))


def _salvaged(item: Item) -> Iterator[Line]:
    yield [("path      ", "dim"), (item["path"], "")]
    yield [("events    ", "dim"), (str(item["events"]), "")]
    yield [("lost      ", "dim"), (str(item["lost"]), "")]
    if item["changed"]:
        yield [
            ("changed   ", "yellow"),
            (f"{counted(item['changed'], 'event')} that do not match their hash", ""),
        ]
    if item["unchecked"]:
        yield [("unchecked ", "yellow"), (f"{counted(item['unchecked'], 'event')} behind a lost one", "")]
    for each in item["damage"]:
        run = f"@{each['first']}" if each["first"] == each["last"] else f"@{each['first']} to @{each['last']}"
        yield [("damaged   ", "yellow"), (f"{run}: {each['problem']}", "")]
    if not item["end_known"]:
        yield [("cut off   ", "yellow"), ("nobody can say how many events stood behind the last one", "")]
    if item["dry_run"]:
        yield [("dry run: nothing was written", "bold")]
