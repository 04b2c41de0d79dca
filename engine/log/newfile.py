"""A file that is there in whole or not at all: private, durable, and never in the place of another by accident."""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from engine.log.errors import DiskFullError, StorageError

_NO_LINKS = {errno.EPERM, errno.ENOTSUP, errno.ENOSYS}
_FULL = {errno.ENOSPC, errno.EDQUOT}


@contextmanager
def new_file(to: str | os.PathLike[str], kind: str, *, replacing: bool = False) -> Iterator[Path]:
    """Yield an empty private file to fill; it gets its name, durably, when the block ends well, and else goes away.

    A crash leaves no file of that name, or the whole. `replacing` puts it into the place of the one that is there.
    """
    target = Path(to).absolute()
    if os.path.lexists(target) and not replacing:
        raise StorageError(f"{target} exists, and {kind} never replaces a file; give a path that is free")
    if not target.parent.is_dir():
        raise StorageError(f"the folder {target.parent} does not exist; make it before {kind} into it")
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        yield part
        _give_name(part, target, kind, replacing=replacing)
    except OSError as error:
        full = error.errno in _FULL
        what = f"cannot write {kind} to {target}: {error}"
        raise DiskFullError(f"{what}; free space and try again") if full else StorageError(what) from error
    finally:
        for left in (part, *part.parent.glob(f"{part.name}-*")):
            left.unlink(missing_ok=True)


def _give_name(part: Path, target: Path, kind: str, *, replacing: bool) -> None:
    """Make the file durable, then give it its name, which fails if another file has it by now."""
    sync(part)
    if replacing:
        part.replace(target)
        sync(target.parent)
        return
    try:
        target.hardlink_to(part)
    except OSError as error:
        if os.path.lexists(target):
            raise StorageError(f"{target} exists by now, and {kind} never replaces a file; give another path") from None
        if error.errno not in _NO_LINKS:
            raise
        part.rename(target)  # a file system without links: there a file that is made right now would be replaced
    sync(target.parent)


def sync(path: Path) -> None:
    """Make a file's content, or the names in a folder, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
