"""Archiving and restoring under kills, full disks and disks that lie: nothing is lost, the same call goes on (V16)."""

import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from engine import Archived, DiskFullError, Platform, SessionSource, SessionStore, StorageError, archiving
from engine.log import archive
from tests.faults.disk import Disk, full_error

ROOT = Path(__file__).parents[2]
NOW = datetime(2026, 7, 1, tzinfo=UTC)
DAY = timedelta(days=1)


def opened(folder, **options):
    now = [NOW]
    store = SessionStore(folder, clock=lambda: now[0], views=False, synchronous="OFF", **options)
    session_id = store.get_or_create_session(SessionSource(Platform.TELEGRAM, "1")).session_id
    store.append_messages(session_id, [{"role": "user", "content": f"words {n} " * 50} for n in range(60)])
    store.end_session(session_id, "done")
    now[0] += 2 * DAY
    return store


def states(store, upto):
    return store.log.query("SELECT position, state FROM events WHERE position <= ? ORDER BY position", (upto,))


def archived(store):
    return sum(isinstance(each.event, Archived) for each in store.log.events())


def test_killed_at_any_step_nothing_is_lost_and_the_same_call_goes_on(tmp_path):
    """V16: kill -9 before and after each sync, name and commit, of an archive and of a restore."""
    command = [sys.executable, "-m", "tests.faults.archivers", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    kills = dict(line.split() for line in done.stdout.splitlines())
    assert int(kills["move_out"]) >= 12
    assert int(kills["put_back"]) >= 6


def test_a_full_disk_leaves_no_half_an_archive_and_moves_nothing(tmp_path, monkeypatch):
    """V16."""
    with opened(tmp_path / "store") as store:
        before = states(store, store.log.last_position)

        def full(_):
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", full)
            with pytest.raises(DiskFullError, match="free space"):
                store.archive(DAY, tmp_path / "a")
        assert [path.name for path in tmp_path.iterdir()] == ["store"]
        assert states(store, len(before)) == before
        assert store.archive(DAY, tmp_path / "a").messages == 60


def test_a_disk_that_is_full_in_the_middle_of_moving_stops_there_and_the_rest_goes_later(tmp_path, monkeypatch):
    """V16: what was moved is in the archive, what was not is in the log; both ways."""
    monkeypatch.setattr(archive, "BLOCK_EVENTS", 20)
    disk = Disk()
    try:
        with opened(tmp_path / "store", vfs=disk.name) as store:
            before = states(store, store.log.last_position)
            _fill_after(store, disk, monkeypatch, archiving._MoveOut)
            with pytest.raises(DiskFullError):
                store.archive(DAY, tmp_path / "a")
            disk.fail = None
            assert archived(store) == 20
            assert store.verify().ok
            assert store.archive(DAY, tmp_path / "b").messages == 40
            _fill_after(store, disk, monkeypatch, archiving._PutBack)
            with pytest.raises(DiskFullError):
                store.restore(tmp_path / "b")
            disk.fail = None
            assert archived(store) == 40
            assert (store.restore(tmp_path / "b").messages, store.restore(tmp_path / "a").messages) == (20, 20)
            assert states(store, len(before)) == before
            assert store.verify().ok
    finally:
        disk.unregister()


def _fill_after(store, disk, monkeypatch, kind):
    """Let the disk be full once the first block was moved."""
    plain, calls = kind.__call__, []

    def call(part, transaction):
        calls.append(part)
        if len(calls) == 2:
            disk.fail = lambda number, what: full_error(what) if what == "write" else None
        return plain(part, transaction)

    monkeypatch.setattr(kind, "__call__", call)


def test_a_disk_that_gives_back_something_else_moves_nothing(tmp_path, monkeypatch):
    """V16: nothing is removed before the archive was read back and compared."""
    with opened(tmp_path / "store") as store:
        before = states(store, store.log.last_position)
        plain = archiving.write_archive

        def lying(path, log_id, made, records):
            changed = [(position, payload.replace("words 7", "words 8")) for position, payload in records]
            return plain(path, log_id, made, changed)

        monkeypatch.setattr(archiving, "write_archive", lying)
        with pytest.raises(StorageError, match="nothing was moved"):
            store.archive(DAY, tmp_path / "a")
        assert not (tmp_path / "a").exists()
        assert states(store, len(before)) == before
