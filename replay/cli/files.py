"""Files that a verb makes: there in whole or not at all, and never in the place of another unless somebody says so."""

import os
import sys
from collections.abc import Iterable
from pathlib import Path
from tempfile import NamedTemporaryFile

from replay.cli.failures import FAILURE, Failed


def write_file(to: str, parts: Iterable[str], *, force: bool = False) -> None:
    """Write text to a file, or to stdout for `-`; what is cut off on the way, by a full disk say, leaves nothing."""
    if to == "-":
        sys.stdout.writelines(parts)
        return
    target = Path(to)
    _check_free(target, force=force)
    if not target.parent.is_dir():
        raise Failed(f"the folder {target.parent} does not exist; make it, or write somewhere else", FAILURE)
    with NamedTemporaryFile("w", encoding="utf-8", dir=target.parent, prefix=f".{target.name}.", delete=False) as file:
        part = Path(file.name)
        try:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
            _check_free(target, force=force)
            part.replace(target)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def _check_free(target: Path, *, force: bool) -> None:
    if not force and os.path.lexists(target):
        raise Failed(f"{target} exists; give another name, or --force to replace it", FAILURE)
