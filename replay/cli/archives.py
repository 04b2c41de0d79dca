"""`archive`: old conversations into a file, and back."""

from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from engine.acting import acting
from replay.cli.failures import INTERRUPTED, NOT_FOUND, Failed
from replay.cli.layout import Item, Line, Lines
from replay.cli.options import WHEN
from replay.cli.run import Run, verb
from replay.opening import ACTOR
from replay.words import counted


@verb(
    "archive",
    examples=(
        "sessions archive 2026-01.archive --older-than 180d --reason retention --dry-run",
        "sessions archive 2026-01.archive --back --reason 'request 2026-044' --yes",
    ),
    writes=True,
)
@click.argument("file", type=click.Path())
@click.option("--older-than", metavar="WHEN", help=f"Conversations that ended before: {WHEN}.")
@click.option("--back", is_flag=True, help="Bring the messages of an archive back.")
@click.option("--reason", metavar="TEXT", required=True, help="Recorded with it.")
def archive(run: Run, file: str, older_than: str | None, back: bool, reason: str) -> None:
    """Move the messages of old conversations into a file, or back.

    Conversations go whole, when all of them has ended; titles, counts and ids stay. FILE must not exist: it was read
    back before anything is moved, and is the only copy then. With `--back` it has the messages of an earlier call.
    """
    if (older_than is None) == (not back):
        raise click.UsageError("say either --older-than WHEN, or --back")
    if back:
        if not Path(file).exists():
            raise Failed(f"there is no archive at {file}; name the file that messages were moved into", NOT_FOUND)
        _bring_back(run, file, reason)
        return
    with run.log() as log:
        moment = run.moment(log, older_than or "", "older than")
    if not run.dry_run:
        run.confirm(f"move the messages of conversations that ended before {moment} from {run.where} into {file}?")
    try:
        with run.store() as store, acting(ACTOR, reason):
            found = store.archive(moment.time, file, dry_run=run.dry_run)
    except KeyboardInterrupt:
        if not Path(file).exists():
            raise
        raise Failed(
            f"interrupted; what was moved until then is in {file}: keep it, the same call with another file moves the "
            "rest",
            INTERRUPTED,
        ) from None
    run.output.one(msgspec.to_builtins(found), Lines(_moved))


def _bring_back(run: Run, file: str, reason: str) -> None:
    if not run.dry_run:
        run.confirm(f"bring the messages of {file} back into {run.where}?")
    with run.store() as store, acting(ACTOR, reason):
        found = store.restore(file, dry_run=run.dry_run)
    run.output.one(msgspec.to_builtins(found), Lines(_returned))


def _moved(item: Item) -> Iterator[Line]:
    verb = "would be moved" if item["dry_run"] else "moved"
    what = f"{counted(item['messages'], 'message')} of {counted(item['sessions'], 'session')}"
    yield [(f"{what} {verb}" if item["messages"] else "nothing to move", "bold")]
    if item["archive"]:
        yield [("archive   ", "dim"), (f"{item['archive']}, {item['archive_bytes']:,} bytes", "")]
    if item["messages"]:
        yield [("out of    ", "dim"), (f"{item['payload_bytes']:,} bytes in the log", "")]


def _returned(item: Item) -> Iterator[Line]:
    verb = "would be brought back" if item["dry_run"] else "brought back"
    yield [(f"{counted(item['messages'], 'message')} {verb}", "bold")]
    if item["already_there"]:
        yield [("there     ", "dim"), (f"{item['already_there']} already", "")]
    if item["erased"]:
        yield [("erased    ", "dim"), (f"{item['erased']} since, which stay erased", "")]
