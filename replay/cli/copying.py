"""`backup` and `copy`: the store as it is now, somewhere else."""

from pathlib import Path

import click
import msgspec

from engine.log.errors import StorageError
from engine.reader import FILE_NAME
from replay.cli.layout import Column, Records
from replay.cli.run import Run, verb


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
    folder = Path(to)
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        raise StorageError(f"{to} exists and is not an empty folder; a copy never replaces anything: give another name")
    made = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        _copied(run, folder / FILE_NAME)
    except BaseException:
        if made:
            folder.rmdir()
        raise


def _copied(run: Run, to: Path) -> None:
    with run.log() as log:
        found = log.backup(to)
    item = {"path": str(to), **msgspec.to_builtins(found)}
    run.output.one(item, Records([Column("path"), Column("events"), Column("head"), Column("ok", "verified")]))
