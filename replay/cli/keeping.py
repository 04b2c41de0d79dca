"""`verify` and `heal`: everything held to the log, and made again from it where it differs."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import msgspec

from engine.acting import acting
from replay.cli.failures import INTEGRITY
from replay.cli.layout import Column, Item, Line, Lines, Records
from replay.cli.run import Run, verb
from replay.cli.text import shown
from replay.healing import Healing, heal as make_again
from replay.opening import ACTOR
from replay.verifying import FullVerification, verify as verified
from replay.words import counted


@verb("verify", examples=("sessions verify --full", "sessions verify --head 1042:9f3a… --output json"))
@click.option("--head", "heads", metavar="HEAD", multiple=True, help="A head of an earlier time, or a file of them.")
@click.option("--full", is_flag=True, help="Compare the views with a fresh fold of the log too.")
def verify(run: Run, heads: tuple[str, ...], full: bool) -> int | None:
    """Check the log, the tables and the views against each other.

    The hash chain, versions and positions, the rules and pages of the file, and the state tables against a fresh fold.
    It prints the head: keep it elsewhere, and give it back with `--head`, for without one a cut tail cannot be seen.
    Ends with 4 at the first difference.
    """
    with run.log() as log:
        found = verified(log, _published(heads), full=full, progress=run.progress.tell)
    run.output.one(msgspec.to_builtins(found), Records([Column(name) for name in found.__struct_fields__]))
    if found.ok:
        return None
    run.output.say(_next(found))
    return INTEGRITY


def _published(heads: tuple[str, ...]) -> list[str] | None:
    """Return the heads that were given, those of files line by line."""
    found = []
    for each in heads:
        place = Path(each)
        found += place.read_text().split() if ":" not in each or place.is_file() else [each]
    return found or None


def _next(found: FullVerification) -> str:
    if found.table is not None or found.view is not None:
        return "the log is sound: `sessions heal --dry-run` tells every row that differs, and `heal` makes it again"
    return (
        "`sessions heal --dry-run` tells if only something beside the log is damaged; else `sessions salvage TO` "
        "brings what can be read into a new store, or a backup is restored"
    )


@verb(
    "heal",
    examples=("sessions heal --dry-run", "sessions --store data heal --reason 'the disk of May' --yes"),
    writes=True,
)
@click.option("--reason", metavar="TEXT", help="Recorded with it.")
def heal(run: Run, reason: str | None) -> int | None:
    """Make tables and views again where they differ from the log.

    It tells each row that differs: its table and key, the last event that it is made of, and each column as the log and
    as the table has it. Others may go on meanwhile. Where the log itself is damaged it changes nothing, ends with 4 and
    says how to salvage.
    """
    found = make_again(run.where, dry_run=True, progress=run.progress.tell)
    differs = bool(found.found or found.views)
    if differs and not run.dry_run:
        run.confirm(f"{_counted(found)} from the log in {run.where}: make them again from it?")
        with acting(ACTOR, reason):
            found = make_again(run.where, progress=run.progress.tell)
    item = {**msgspec.to_builtins(found), "dry_run": run.dry_run}
    run.output.one(item, Lines(_healed))
    return INTEGRITY if differs and run.dry_run else None


def _counted(found: Healing) -> str:
    rows = [f"{counted(len(found.found), 'row')} of the tables"] if found.found else []
    return f"{' and '.join([*rows, *(f'the view {name}' for name in found.views)])} differ"


def _healed(item: Item) -> Iterator[Line]:
    if item["not_compared"]:
        yield [("not compared  ", "yellow"), (item["not_compared"], "")]
    else:
        yield [(f"{counted(item['rows'], 'row')} {'is' if item['rows'] == 1 else 'are'} as the log says", "")]
    for each in item["found"]:
        yield from _difference(each)
    for name in item["views"]:
        yield [("differs   ", "yellow"), (f"the view {name}", "")]
    if not (item["found"] or item["views"]):
        nothing = "nothing was written" if item["not_compared"] else "nothing differs, and nothing was written"
        yield [(nothing, "bold")]
    elif item["dry_run"]:
        yield [("dry run: nothing was written", "bold")]
    else:
        yield [(f"made again from {counted(item['events'], 'event')}" if item["found"] else "made again", "bold")]


def _difference(each: Item) -> Iterator[Line]:
    where = each["table"] if each["key"] is None else f"{each['table']} {each['key']}"
    yield [("differs   ", "yellow"), (f"{where}: {each['problem']}", "")]
    if each["position"] is not None:
        yield [("          made of  ", "dim"), (f"@{each['position']} {each['event'] or ''}", "")]
    for name, (ours, theirs) in each["values"].items():
        yield [(f"          {name}  ", "dim"), (f"the log says {_value(ours)}, the table {_value(theirs)}", "")]


def _value(value: Any) -> str:
    return shown(value) or ("nothing" if value is None else "''")
