"""An online copy of a log: of one moment, verified, private, and there in whole or not at all (V17)."""

import os
from collections.abc import Callable
from pathlib import Path

import apsw

from engine.log.errors import CorruptLogError
from engine.log.newfile import new_file
from engine.log.protocol import Verification
from engine.log.sqlite.database import Database, close_connection

_PAGES = 1024


def back_up(database: Database, to: str | os.PathLike[str], verify: Callable[[str], Verification]) -> Verification:
    """Copy the log as it is now to a new file, while it is written; return what verifying the copy found.

    The copy gets its name when it was verified and is on disk: a crash leaves none, or the whole.
    """
    with new_file(to, "a backup") as part:
        try:
            _copy(database, part)
        except apsw.Error as error:
            raise database.explain(error, "copying") from error
        found = verify(str(part))
        if not found.ok:
            raise CorruptLogError(
                f"{database.path} was copied, but the copy is not sound, so there is no backup: {found.problem}; "
                "verify() the log itself",
                found.bad_position,
            )
    return found


def _copy(database: Database, part: Path) -> None:
    source = database.reader()
    try:
        # One read transaction for all steps: writers go on, and the copy need not begin again after each of them.
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_schema").fetchall()
        copy = apsw.Connection(str(part))
        try:
            with copy.backup("main", source, "main") as backup:
                while not backup.done:
                    backup.step(_PAGES)
            copy.pragma(
                "journal_mode", "delete"
            )  # one file, with nothing beside it; opening it for writing changes that
        finally:
            close_connection(copy)
    finally:
        close_connection(source)
