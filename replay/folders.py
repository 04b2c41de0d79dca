"""A store that is being made: there in whole or not at all, verified, and never in the place of another (R19, R20)."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from engine.domain.times import microseconds
from engine.log.errors import CorruptLogError, StorageError
from engine.log.newfile import new_file, sync
from engine.log.protocol import Progress
from engine.log.sqlite.eventlog import EventLog
from engine.reader import FILE_NAME
from projections.audit import create_audit_views
from projections.inline.projection import InlineTables, catch_up


@contextmanager
def new_folder(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a folder that is empty, making it if need be; take it away again if the block fails."""
    path = Path(folder)
    made = not path.exists()
    if not made and not (path.is_dir() and not any(path.iterdir())):
        raise StorageError(f"{folder} exists and is not an empty folder; nothing is ever replaced: give another name")
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        yield path
        sync(path.absolute().parent)
    except BaseException:
        if made:
            with suppress(OSError):  # what else is in it by now stays
                path.rmdir()
        raise


@contextmanager
def new_store(
    folder: str | os.PathLike[str],
    clock: Callable[[], datetime],
    progress: Progress | None = None,
    begin: Callable[[Path], None] = lambda _: None,
) -> Iterator[EventLog]:
    """Yield the log of a new store in a new folder, which `begin` may fill with rows first.

    When the block ends well its state tables are made, it is verified and gets its name; else nothing is left of it.
    """
    with new_folder(folder) as place, new_file(place / FILE_NAME, "a store") as part:
        begin(part)
        with EventLog(part, synchronous="OFF", clock=lambda: microseconds(clock())) as made:
            yield made
        with EventLog(part, synchronous="OFF", inline=[InlineTables()]) as made:
            catch_up(made, progress)
            create_audit_views(made)
        _check_sound(part, progress)


def _check_sound(part: Path, progress: Progress | None) -> None:
    with EventLog(part, read_only=True) as log:
        found = log.verify(progress)
    if not found.ok:
        raise CorruptLogError(
            f"the new store is not sound, so it was not kept: {found.problem}; `verify` the one it was made of",
            found.bad_position,
        )
