"""Holders of turns: a store in a process on a machine, named so that it can be seen later if it is gone."""

import os
import secrets
import socket
from pathlib import Path

_open: set[str] = set()
_DEAD = ("Z", "X")
_HOST = socket.gethostname().replace(":", "_")


def take() -> str:
    """Return a name for a store of this process."""
    holder = f"{_HOST}:{os.getpid()}:{_started(os.getpid())}:{secrets.token_hex(4)}"
    _open.add(holder)
    return holder


def give_up(holder: str) -> None:
    """Note that the store of this name was closed."""
    _open.discard(holder)


def is_gone(holder: str | None) -> bool:
    """Return True if a holder is known to be dead: its process ended, or its store was closed or forgotten.

    A process of another machine cannot be asked; there the lease must run out.
    """
    if holder is None:
        return False
    host, _, rest = holder.partition(":")
    pid, _, rest = rest.partition(":")
    started = rest.partition(":")[0]
    if host != _HOST or not pid.isdecimal():
        return False
    if int(pid) == os.getpid() and started == _started(os.getpid()):
        return holder not in _open
    return _started(int(pid)) != started


def _started(pid: int) -> str:
    """Return when a process started, in the kernel's ticks: a pid alone may have been given to another since.

    "" if it is not running. A killed process keeps its row until its parent has waited for it.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return "" if fields[0] in _DEAD else fields[19]
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except OSError:
        pass
    return "alive"
