"""The place of an open log's files: what is written to a file that its name no longer leads to would be lost.

SQLite holds the database, its WAL and the index of the WAL open, and goes on writing to them when their names are
gone: all that it acknowledges then is lost with the process. Three calls of stat would be seen in an append. But
taking a name away, or giving it to another file, changes the folder, so one call on the folder tells the rest.
"""

import os
import time
from pathlib import Path

_TICK_SECONDS = 0.05
"""Longer than a tick of any kernel's clock: a folder that changed just now may change again within the same tick."""

Identity = tuple[int, int]
"""The device and the inode of a file."""


def identity(path: str) -> Identity:
    """Return which file a name leads to."""
    found = os.stat(path)  # noqa: PTH116 - path is text
    return found.st_dev, found.st_ino


class Place:
    """The names of the files of one open log, and the files they led to when it was opened."""

    def __init__(self, path: str) -> None:
        real = Path(path).resolve()  # the WAL is beside the file itself, not beside a link to it
        self.path = path
        self.wal = f"{real}-wal"
        self.shm = f"{real}-shm"
        self._files = {path: identity(path)}
        self._folder = os.open(real.parent, os.O_RDONLY | os.O_CLOEXEC)
        self._unchanged_since = -1

    @property
    def database(self) -> Identity:
        """The database itself."""
        return self._files[self.path]

    def remember_wal(self) -> None:
        """Take note of the WAL and its index, which exist from the first read on and stay until the log is closed."""
        for name in (self.wal, self.shm):
            if Path(name).exists():
                self._files[name] = identity(name)

    def may_have_changed(self) -> bool:
        """Return False if no name in the folder was taken away or given to another file; in about a microsecond."""
        try:
            return os.fstat(self._folder).st_ctime_ns != self._unchanged_since
        except OSError:  # closed meanwhile
            return True

    def lost(self) -> dict[str, str]:
        """Return the files whose names do not lead to them any more, and what became of each."""
        looked_at = time.time_ns()
        changed_at = self._changed_at()
        found = {}
        for name, file in self._files.items():
            try:
                if identity(name) != file:
                    found[name] = "was replaced by another file"
            except OSError as error:
                found[name] = f"was deleted or moved ({error.strerror})"
        settled = not found and changed_at < looked_at - int(_TICK_SECONDS * 1e9)
        self._unchanged_since = changed_at if settled else -1
        return found

    def _changed_at(self) -> int:
        try:
            return os.fstat(self._folder).st_ctime_ns
        except OSError:
            return time.time_ns()

    def close(self) -> None:
        """Let go of the folder."""
        folder, self._folder = self._folder, -1
        if folder >= 0:
            os.close(folder)
