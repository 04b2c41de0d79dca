"""Closing a store whose disk has failed: whatever could not be written, no thread of it is left behind."""

import itertools
import threading
from pathlib import Path

import pytest

from engine import Platform, SessionSource, SessionStore
from engine.log.errors import DiskFullError, LogError
from engine.log.sqlite.eventlog import _open_logs
from tests.faults.disk import Disk, full_error, io_error


def test_a_store_that_cannot_write_its_last_touches_ends_all_its_threads(tmp_path: Path) -> None:
    """The views and the renewals of turns went on for ever, and tried a closed log again every second."""
    source = SessionSource(Platform.TELEGRAM, "1", user_id="ada")
    before = set(threading.enumerate())
    disk = Disk()
    with disk.in_use():
        store = SessionStore(tmp_path, vfs=disk.name)
        with store.turn(source):
            store.runner.touches.flush()
            disk.fail = lambda _, what: full_error(what) if what == "write" else None
            store.get_or_create_session(source)
            with pytest.raises(DiskFullError):
                store.close()
            left = set(threading.enumerate()) - before
            for thread in left:
                thread.join(300)
            assert not [thread.name for thread in left if thread.is_alive()]
            disk.fail = None
            store.end_turn = lambda *_, **__: True  # type: ignore[method-assign]  # the block's, after the close
    with SessionStore(tmp_path) as again:
        assert again.recover_interrupted_turns() == 1


def test_a_store_that_cannot_be_opened_leaves_nothing_open(tmp_path: Path) -> None:
    """An I/O error at every call of opening: no thread goes on, and no log waits for the garbage collector."""
    with SessionStore(tmp_path) as store:
        store.get_or_create_session(SessionSource(Platform.TELEGRAM, "1", user_id="ada"))
    before = set(threading.enumerate())
    for target in itertools.count():
        disk = Disk()
        with disk.in_use():
            disk.fail = lambda number, what, target=target: io_error(what) if number == target else None
            logs = set(_open_logs)
            try:
                SessionStore(tmp_path, vfs=disk.name, views=False).close()
            except LogError:
                assert set(_open_logs) == logs, f"call {target}: the log was not closed"
                left = set(threading.enumerate()) - before
                assert not [thread.name for thread in left if thread.join(300) or thread.is_alive()]
            if not disk.fired:
                break
    assert target > 30
