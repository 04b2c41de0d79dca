"""Waiting for the write lock of another process, for a bounded time, and naming who holds it."""

import os
import random
import time
from pathlib import Path

_WRITE_LOCK_BYTE = 120
"""Where in the -shm file SQLite's WAL mode places the lock of the one writer."""


class Patience:
    """A busy handler: short random sleeps until a deadline.

    SQLite's own timeout sleeps up to 100 ms between tries; a commit takes a fraction of a millisecond, so
    short sleeps give the lock to whoever waits soon after it is free.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._deadline = 0.0

    def __call__(self, tries: int) -> bool:
        now = time.monotonic()
        if tries == 0:
            self._deadline = now + self.seconds
        if now >= self._deadline:
            return False
        time.sleep(random.uniform(0.0001, 0.001 * min(tries + 1, 5)))  # noqa: S311 - spreads the waiters, no secret
        return True


def holder(path: str) -> str:
    """Return who holds the write lock, as far as the operating system tells.

    Reads /proc/locks rather than asking with fcntl: opening and closing the -shm file in this process
    would drop the locks SQLite holds on it here.
    """
    try:
        inode = Path(f"{path}-shm").stat().st_ino
        for line in Path("/proc/locks").read_text().splitlines():
            fields = line.split()
            if fields[1] in ("POSIX", "OFDLCK") and fields[3] == "WRITE" and fields[5].endswith(f":{inode}"):
                first, last = int(fields[6]), (1 << 62 if fields[7] == "EOF" else int(fields[7]))
                if first <= _WRITE_LOCK_BYTE <= last:
                    return _describe(int(fields[4]))
    except (OSError, ValueError, IndexError):
        pass  # no /proc/locks here, or not readable: the error is raised without a name
    return "another process"


def _describe(pid: int) -> str:
    if pid == os.getpid():
        return "another connection of this process"
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        command = ""
    return f"process {pid} ({command[:120]})" if command else f"process {pid}"
