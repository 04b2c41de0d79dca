"""`verify`: whether everything agrees."""

from pathlib import Path

import click
import msgspec

from engine.verification import verify_store
from replay.cli.failures import INTEGRITY
from replay.cli.layout import Column, Records
from replay.cli.run import Run, verb


@verb("verify", examples=("sessions verify", "sessions verify --head 1042:9f3a… --output json"))
@click.option("--head", "heads", metavar="HEAD", multiple=True, help="A head of an earlier time, or a file of them.")
def verify(run: Run, heads: tuple[str, ...]) -> int | None:
    """Check the log, the tables and the views against each other.

    The hash chain, versions and positions, the rules and pages of the file, and the state tables against a fresh fold.
    It prints the head: keep it elsewhere, and give it back with `--head`, for without one a cut tail cannot be seen.
    Ends with 4 at the first difference.
    """
    with run.log() as log:
        found = verify_store(log, run.progress.tell, _published(heads))
    run.output.one(msgspec.to_builtins(found), Records([Column(name) for name in found.__struct_fields__]))
    return None if found.ok else INTEGRITY


def _published(heads: tuple[str, ...]) -> list[str] | None:
    """Return the heads that were given, those of files line by line."""
    found = []
    for each in heads:
        place = Path(each)
        found += place.read_text().split() if ":" not in each or place.is_file() else [each]
    return found or None
