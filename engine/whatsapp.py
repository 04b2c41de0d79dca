"""Reads the alias files of a WhatsApp bridge, and reads them again only when one of them changed."""

import os
import time
from pathlib import Path
from typing import NamedTuple

from engine.domain.whatsapp import canonical_identifier, normalize_whatsapp_identifier
from engine.log.mutex import Mutex

_MAX_FILE_BYTES = 4096
_MAX_CACHED = 4096
# A file that was written this recently may be written again without a visible change of its time stamp.
_SETTLED_NS = 2_000_000_000

_Signature = tuple[int, int, int] | None


class _Answer(NamedTuple):
    canonical: str
    looked_at: tuple[tuple[Path, _Signature], ...]


_cache: dict[tuple[tuple[str, ...], str], _Answer] = {}
_cache_lock = Mutex()


def canonical_whatsapp_identifier(identifier: object, session_dir: str | os.PathLike[str] | None = None) -> str:
    """Return the one id by which all aliases of a person are known (G12).

    `session_dir` is the bridge's folder; without it, those of `HERMES_HOME`. An answer is used again as long as
    every file it came from, and every file that was not there, is unchanged: an unchanged mapping costs a stat per
    file, no reading.
    """
    start = normalize_whatsapp_identifier(identifier)
    folders = _default_folders() if session_dir is None else (os.fspath(session_dir),)
    known = _cache.get((folders, start))
    if known is not None and all(_signature(path) == seen for path, seen in known.looked_at):
        return known.canonical
    mappings = _Mappings(folders)
    canonical = canonical_identifier(start, mappings.read)
    if mappings.settled:
        _remember((folders, start), _Answer(canonical, tuple(mappings.looked_at)))
    return canonical


class _Mappings:
    """The mapping files of some folders, with what was seen of each file that was looked for."""

    def __init__(self, folders: tuple[str, ...]) -> None:
        self._folders = [Path(folder) for folder in folders]
        self.looked_at: list[tuple[Path, _Signature]] = []
        self.settled = True
        """Return True if a change of any of the files will show in its signature."""

    def read(self, name: str) -> bytes | None:
        """Return the content of the first file of this name; one that cannot be read counts as absent."""
        for folder in self._folders:
            path = folder / name
            signature = _signature(path)  # before the content: a write in between is noticed, not missed
            self.looked_at.append((path, signature))
            if signature is None:
                continue
            if signature[0] > time.time_ns() - _SETTLED_NS:
                self.settled = False
            try:
                with path.open("rb") as file:
                    return file.read(_MAX_FILE_BYTES)
            except OSError:
                self.settled = False  # permissions change without a trace in the signature
        return None


def _signature(path: Path) -> _Signature:
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


def _remember(key: tuple[tuple[str, ...], str], answer: _Answer) -> None:
    if _cache_lock.is_mine():  # a signal handler has interrupted this very function
        return
    with _cache_lock.once():
        _cache.pop(key, None)
        while len(_cache) >= _MAX_CACHED:
            del _cache[next(iter(_cache))]
        _cache[key] = answer


def _default_folders() -> tuple[str, ...]:
    """Return where the host keeps them: in its first versions' folder, or in that of later ones."""
    home = os.environ.get("HERMES_HOME") or "~/.hermes"
    if home.startswith("~"):
        home = str(Path(home).expanduser())
    return f"{home}/whatsapp/session", f"{home}/platforms/whatsapp/session"
