"""Sees what a thread does to files and databases: for tests that an event loop's thread does nothing of it."""

import logging
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import BuiltinFunctionType, FrameType
from typing import Any

import apsw

_HARMLESS = {"fspath", "getpid", "getppid", "urandom", "cpu_count", "sched_getaffinity", "get_blocking", "set_blocking"}
_FILES = ("posix", "_io", "io", "mmap", "fcntl", "_socket.fromfd")
_AUDITED = ("open", "os.", "shutil.", "sqlite3.", "subprocess.", "mmap.", "ctypes.dlopen")
_DATABASE = (apsw.Connection, apsw.Cursor, apsw.Blob, apsw.Backup)


class Watch:
    """The calls of a thread that take the time of a disk, and the Python functions it entered."""

    def __init__(self) -> None:
        self.thread = threading.get_ident()
        self.found: list[str] = []
        self.entered: set[str] = set()

    def profile(self, frame: FrameType, event: str, called: Any) -> None:
        """See calls of C functions, which is how files and databases are reached, `os.stat` too."""
        if event == "call":
            self.entered.add(frame.f_code.co_qualname)
        elif event == "c_call" and _waits_for_a_disk(called):
            self.note(f"{getattr(called, '__module__', None) or type(called.__self__)}.{called.__name__}", frame)

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        """See what C functions do by themselves, such as opening a file to import it."""
        if threading.get_ident() == self.thread and event.startswith(_AUDITED):
            self.note(f"{event}{arguments!r:.100}", sys._getframe(2))

    def note(self, what: str, frame: FrameType | None) -> None:
        """Remember what was done, and the line of ours that did it. Where logging writes is the host's choice."""
        while frame is not None and f"{os.sep}engine{os.sep}" not in frame.f_code.co_filename:
            if frame.f_code.co_filename == logging.__file__:
                return
            frame = frame.f_back
        place = "" if frame is None else f" in {frame.f_code.co_filename}:{frame.f_lineno}"
        self.found.append(what + place)


def _waits_for_a_disk(called: Any) -> bool:
    if isinstance(getattr(called, "__self__", None), _DATABASE):
        return True
    module = getattr(called, "__module__", None)
    if module == "time":
        return bool(called.__name__ == "sleep")
    if isinstance(called, BuiltinFunctionType) and module in _FILES:
        return called.__name__ not in _HARMLESS
    owner = getattr(called, "__self__", None)
    return type(owner).__module__ in ("_io", "apsw", "sqlite3") and type(owner).__name__ != "module"


_watching: list[Watch] = []
"""An audit hook stays for ever, so there is one, which looks who is watching."""


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    for watch in _watching:
        watch.audit(event, arguments)


@contextmanager
def watching() -> Iterator[Watch]:
    """Watch this thread."""
    if not _watching:
        sys.addaudithook(_audit)
    watch = Watch()
    _watching.append(watch)
    before = sys.getprofile()
    sys.setprofile(watch.profile)
    try:
        yield watch
    finally:
        sys.setprofile(before)
        _watching.remove(watch)
