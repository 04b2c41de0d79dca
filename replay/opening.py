"""Opening what somebody points at: a store's folder, its file, a copy of it; never written, whoever else writes it."""

import os
from pathlib import Path

from engine.log.sqlite.eventlog import EventLog
from engine.reader import FILE_NAME
from replay.errors import NoStoreError, UnsupportedStoreError

_WAYS = "name one with --store PATH, in SESSION_STORE, or go to its folder"


def open_log(where: str | os.PathLike[str]) -> EventLog:
    """Return the log of a store, read-only: of a folder with `sessions.db`, or of a file of any name.

    Others may write it meanwhile. Raise NoStoreError where none is, UnsupportedStoreError for a URL, and what the log
    itself raises for a file that is damaged, another program's or of a newer version.
    """
    if "://" in str(where):
        raise UnsupportedStoreError(f"{_without_password(str(where))} cannot be opened yet: only files can; {_WAYS}")
    path = Path(where)
    if path.is_dir():
        path /= FILE_NAME
        if not path.exists():
            raise NoStoreError(f"there is no store in {where}: it has no {FILE_NAME}; {_WAYS}")
    elif not path.exists():
        raise NoStoreError(f"there is no store at {where}: no such file or folder; {_WAYS}")
    return EventLog(path, read_only=True)


def _without_password(url: str) -> str:
    scheme, _, rest = url.partition("://")
    return f"{scheme}://…@{rest.rpartition('@')[2]}" if "@" in rest else url
