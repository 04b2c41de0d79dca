"""Access to the files: other users are kept out, or the log is not opened."""

import logging
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from engine.log.errors import UnsafeFileError

logger = logging.getLogger("engine.log")

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_BESIDE = ("-wal", "-shm", "-journal")
"""What SQLite reads beside a database and believes, also if it was put there by somebody else."""
_ROOT = 0


def check_way(path: Path) -> None:
    """Raise if others may put another file in the place of the log: by its folder, or by a link on the way there."""
    links = [each for each in (path, *path.parents) if each.is_symlink()]
    folder = path.resolve().parent
    if folder.exists():  # else it will be made, for its owner alone
        _check_folder(folder, linked=bool(links))
    for link in links:
        if link.lstat().st_uid not in (_ROOT, os.geteuid()):
            raise UnsafeFileError(
                f"{link} is a symbolic link of another user, who may lead it elsewhere; give the real path"
            )
        if _replaceable(link.parent, stat.S_IWOTH):
            raise UnsafeFileError(f"{link} is a symbolic link that every user may replace; give the real path")


def _check_folder(folder: Path, *, linked: bool) -> None:
    mode, owner = folder.stat().st_mode, folder.stat().st_uid
    if _replaceable(folder, _MAY_WRITE if linked else stat.S_IWOTH):
        raise UnsafeFileError(
            f"other users may replace files in {folder} (mode {stat.S_IMODE(mode):o}{', by a link' if linked else ''})"
            "; take that right away with chmod go-w, or use another folder"
        )
    if owner in (_ROOT, os.geteuid()):
        return
    if linked:
        raise UnsafeFileError(f"a link leads to {folder}, which belongs to user {owner}; give the real path")
    logger.warning("%s belongs to user %d, who may replace the files of the log in it", folder, owner)


def _replaceable(folder: Path, right: int) -> bool:
    mode = folder.stat().st_mode
    return bool(mode & right) and not mode & stat.S_ISVTX


def keep_private(path: str) -> None:
    """Raise if somebody else owns a file of the log; take from others the right to read or write one.

    Restored copies and files of an older installation are often readable by everybody.
    """
    for name, found in _files(path):
        if found.st_uid != os.geteuid():
            raise UnsafeFileError(
                f"{name} belongs to user {found.st_uid}, not to the user {os.geteuid()} who opens it: what is in it "
                "may be changed by somebody else; run as its owner, give the file to yourself with chown, or open it "
                "read-only"
            )
        if found.st_mode & _OTHERS:
            _make_private(name, stat.S_IMODE(found.st_mode))


def _make_private(name: str, mode: int) -> None:
    path = Path(name)
    try:
        path.chmod(mode & ~_OTHERS)
        left = path.stat().st_mode & _OTHERS
    except OSError:
        left = mode & _OTHERS
    if not left:
        logger.warning("%s was open to other users (mode %o); it is private now", name, mode)
    elif left & _MAY_WRITE:
        raise UnsafeFileError(
            f"other users may write {name} (mode {mode:o}), and that right cannot be taken away here; use a file "
            "system that keeps permissions, or mount this one for its owner alone"
        )
    else:
        logger.warning("%s is open to other users (mode %o), and cannot be made private here", name, mode)


def check_beside(path: str) -> None:
    """Raise if somebody else put there what would be read as a part of a database that is only read.

    Its owner, this user and root are trusted.
    """
    trusted = {_ROOT, os.geteuid(), Path(path).stat().st_uid}
    for name, found in _files(path):
        if found.st_uid not in trusted:
            raise UnsafeFileError(
                f"{name} belongs to user {found.st_uid}, and the database does not: it would be read as a part of it; "
                "remove it if nobody has the log open"
            )


def _files(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the files of a log that are there; raise if one of those beside the database is a link."""
    yield path, Path(path).stat()
    real = Path(path).resolve()
    for end in _BESIDE:
        beside = Path(f"{real}{end}")
        try:
            found = beside.lstat()
        except FileNotFoundError:
            continue
        if stat.S_ISLNK(found.st_mode):
            raise UnsafeFileError(f"{beside} is a symbolic link, which SQLite would follow; remove it")
        yield str(beside), found
