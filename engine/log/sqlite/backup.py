"""An online copy of a log: of one moment, verified, private, and there in whole or not at all (V17)."""

import errno
import os
import secrets
from collections.abc import Callable
from pathlib import Path

import apsw

from engine.log.errors import CorruptLogError, StorageError
from engine.log.protocol import Verification
from engine.log.sqlite.database import Database, close_connection, sync_folder

_PAGES = 1024
_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS}


def back_up(database: Database, to: str | os.PathLike[str], verify: Callable[[str], Verification]) -> Verification:
    """Copy the log as it is now to a new file, while it is written; return what verifying the copy found.

    The copy gets its name when it was verified and is on disk: a crash leaves none, or the whole.
    """
    target = Path(to).absolute()
    if os.path.lexists(target):
        raise StorageError(f"{target} exists, and a backup never replaces a file; give a path that is free")
    if not target.parent.is_dir():
        raise StorageError(f"the folder {target.parent} does not exist; make it before a backup into it")
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        _copy(database, part)
        found = verify(str(part))
        if not found.ok:
            raise CorruptLogError(
                f"{database.path} was copied, but the copy is not sound, so there is no backup: {found.problem}; "
                "verify() the log itself",
                found.bad_position,
            )
        _give_name(part, target)
    except OSError as error:
        raise StorageError(f"cannot back up {database.path} to {target}: {error}") from error
    except apsw.Error as error:
        raise database.explain(error, "copying") from error
    finally:
        for left in (part, *part.parent.glob(f"{part.name}-*")):
            left.unlink(missing_ok=True)
    return found


def _copy(database: Database, part: Path) -> None:
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
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


def _give_name(part: Path, target: Path) -> None:
    """Make the copy durable, then give it its name, which fails if another file has it by now."""
    descriptor = os.open(part, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    try:
        target.hardlink_to(part)
    except OSError as error:
        if os.path.lexists(target):
            raise StorageError(
                f"{target} exists by now, and a backup never replaces a file; give another path"
            ) from None
        if error.errno not in _NO_LINKS:
            raise
        part.rename(target)  # a file system without links: there a file that is made right now would be replaced
    sync_folder(target.parent)
