"""Commits in a WAL that SQLite leaves out, noticed at opening."""

import logging
import shutil
import sqlite3
import stat
import struct
from pathlib import Path

import pytest

from engine.log import EventLog
from engine.log.errors import StorageError
from tests.faults.disk import Disk, io_error
from tests.unit.log.samples import said, texts

HEADER, FRAME = 32, 24 + 4096


@pytest.fixture
def crashed(tmp_path) -> Path:
    """A log as a crash leaves it: ten commits in its WAL."""
    folder = tmp_path / "crashed"
    folder.mkdir()
    with EventLog(tmp_path / "log.db") as log:
        for number in range(10):
            log.append([said(f"{number}")])
        for suffix in ("", "-wal"):
            shutil.copy(tmp_path / f"log.db{suffix}", folder / f"log.db{suffix}")
    return folder / "log.db"


def wal_of(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def commits(path: Path) -> list[int]:
    """The numbers of the frames that end a commit."""
    return commits_in(wal_of(path).read_bytes())


def commits_in(data: bytes | bytearray) -> list[int]:
    frames = range(1, (len(data) - HEADER) // FRAME + 1)
    return [number for number in frames if any(data[HEADER + (number - 1) * FRAME + 4 :][:4])]


def flip(path: Path, offset: int) -> None:
    data = bytearray(wal_of(path).read_bytes())
    data[offset] ^= 1
    wal_of(path).write_bytes(data)


def test_commits_behind_a_damaged_frame_are_reported_and_the_wal_is_kept_aside(crashed, caplog):
    third = commits(crashed)[2]
    flip(crashed, HEADER + third * FRAME + 1000)  # the first frame of the fourth commit
    damaged = wal_of(crashed).read_bytes()
    with EventLog(crashed) as log:
        assert texts(log.events()) == ["0", "1", "2"]
        kept = Path(log.health().damaged_wal)
        assert log.append([said("goes on")]) == [4]
    assert kept.name.startswith("log.db-wal.damaged-")
    assert kept.read_bytes() == damaged
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert "at least 7 commits" in record.getMessage()
    assert str(kept) in record.getMessage()
    with EventLog(crashed) as log:
        assert log.health().damaged_wal is None, "it is reported once"
    assert len(list(crashed.parent.iterdir())) == 2


@pytest.mark.parametrize("offset", [0, 9, 17, 24])
def test_a_damaged_header_hides_the_whole_wal(crashed, offset):
    flip(crashed, offset)
    with EventLog(crashed) as log:
        assert log.last_position == 0
        assert log.health().damaged_wal is not None


def test_two_wals_that_are_damaged_in_one_second_are_both_kept(crashed, tmp_path, monkeypatch):
    monkeypatch.setattr("engine.log.sqlite.wal.time.gmtime", lambda: (2026, 7, 1, 14, 25, 30, 2, 182, 0))
    flip(crashed, HEADER + 100)
    left = wal_of(crashed).read_bytes()
    kept = []
    for _ in range(2):
        wal_of(crashed).write_bytes(left)
        with EventLog(crashed) as log:
            kept.append(Path(log.health().damaged_wal).name)
    assert kept == ["log.db-wal.damaged-20260701T142530Z", "log.db-wal.damaged-20260701T142530Z-2"]


def test_reading_only_reports_it_and_changes_nothing(crashed, caplog):
    flip(crashed, HEADER + 100)
    before = {file.name: file.read_bytes() for file in crashed.parent.iterdir()}
    with EventLog(crashed, read_only=True) as log:
        assert log.health().damaged_wal == str(wal_of(crashed))
    assert "damaged" in caplog.text
    assert {name: (crashed.parent / name).read_bytes() for name in before} == before


def test_one_commit_that_did_not_get_through_is_nothing(crashed, caplog):
    """A process that was killed while it committed leaves one behind; it was never acknowledged."""
    *_, before_last, _ = commits(crashed)
    flip(crashed, HEADER + before_last * FRAME + 1000)
    with EventLog(crashed) as log:
        assert log.last_position == 9
        assert log.health().damaged_wal is None
    assert caplog.records == []


def test_leftovers_of_commits_that_failed_are_nothing(tmp_path, caplog):
    """A commit whose sync fails leaves its frames and its mark, and the next one is written over the first of them."""
    path, copy = tmp_path / "log.db", tmp_path / "copy" / "log.db"
    copy.parent.mkdir()
    with Disk().in_use() as disk, EventLog(path, vfs=disk.name) as log:
        log.append([said("kept")])
        disk.fail = lambda _number, what: io_error("sync") if what == "sync" else None
        for events in (40, 20, 1):
            with pytest.raises(StorageError):
                log.append([said("x" * 900) for _ in range(events)])
        disk.fail = None
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    with EventLog(copy) as log:
        assert log.last_position == 2, "the last one was written in whole"
        assert log.health().damaged_wal is None
    assert "damaged" not in caplog.text


def test_a_header_that_was_being_written_hides_nothing(crashed, caplog):
    """The WAL begins again when all of it is in the file: a power cut then leaves a header of nothing."""
    wal = wal_of(crashed).read_bytes()
    with EventLog(crashed) as log:
        assert log.last_position == 10
    for header in (bytes(HEADER), b"\xa5" * HEADER):
        wal_of(crashed).write_bytes(header + wal[HEADER:])
        with EventLog(crashed) as log:
            assert log.last_position == 10
            assert log.health().damaged_wal is None
    assert "damaged" not in caplog.text


def test_a_damaged_header_over_frames_that_are_not_in_the_file_is_reported(crashed):
    wal = wal_of(crashed).read_bytes()
    with EventLog(crashed) as log:
        log.append([said("more")])
    pages = bytearray(crashed.read_bytes())
    pages[-1] ^= 1
    crashed.write_bytes(pages)
    wal_of(crashed).write_bytes(bytes(HEADER) + wal[HEADER:])
    with EventLog(crashed, read_only=True) as log:
        assert log.health().damaged_wal is not None


def test_frames_of_an_earlier_round_are_nothing(path, tmp_path, caplog):
    """When all of a WAL is in the file it begins again, with other salts; what stands behind is old."""
    with EventLog(path, checkpoint_pages=20) as log:
        for number in range(30):
            log.append([said(f"{number} {'x' * 3000}")])
        log.append([said("last")])
        assert commits(path)[-1] > 5
        (tmp_path / "copy").mkdir()
        for suffix in ("", "-wal"):
            shutil.copy(f"{path}{suffix}", tmp_path / "copy" / f"{path.name}{suffix}")
        position = log.last_position
    with EventLog(tmp_path / "copy" / path.name) as copy:
        assert copy.last_position == position
        assert copy.health().damaged_wal is None
    assert caplog.records == []


def test_a_header_of_this_round_over_a_page_of_the_one_before_is_nothing(crashed, caplog):
    """The power failed when the header of a commit's last frame had been written, and its page not yet."""
    wal = bytearray(wal_of(crashed).read_bytes())
    with sqlite3.connect(crashed) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()
    salts = bytes(range(8))
    wal[16:24] = salts
    wal[24:32] = checksum(wal[:24])
    frame = HEADER + (commits_in(wal)[4] - 1) * FRAME
    wal[frame + 8 : frame + 24] = salts + bytes(8)
    wal_of(crashed).touch(0o600)
    wal_of(crashed).write_bytes(wal)
    with EventLog(crashed) as log:
        assert log.last_position == 10
        assert log.health().damaged_wal is None
    assert caplog.records == []


@pytest.mark.parametrize(("garbage", "noticed"), [(4, True), (8, False)])
def test_a_sector_of_garbage_is_no_mark_of_a_commit(crashed, garbage, noticed):
    """The power failed while a long commit was written: what one frame had there is not taken for its end."""
    wal = bytearray(wal_of(crashed).read_bytes())
    third = commits(crashed)[2]
    assert third + 1 not in commits(crashed)
    frame = HEADER + (third - 1) * FRAME
    wal[frame : frame + garbage] = b"\xc3" * garbage
    wal_of(crashed).write_bytes(wal[: frame + 2 * FRAME])
    with EventLog(crashed) as log:
        assert log.last_position == 2
        assert (log.health().damaged_wal is not None) is noticed


def checksum(data: bytes | bytearray) -> bytes:
    """The checksum of the beginning of a WAL that this machine writes."""
    one = two = 0
    for first, second in struct.iter_unpack("=2I", data):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return struct.pack(">2I", one, two)


def test_a_log_that_is_being_written_is_not_damaged(log, path, caplog):
    for number in range(5):
        log.append([said(f"{number}")])
        with EventLog(path) as other:
            assert other.health().damaged_wal is None
            other.append([said("other")])
    assert caplog.records == []
