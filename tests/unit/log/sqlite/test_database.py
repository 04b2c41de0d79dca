"""Opening the file, and losing it while it is open."""

import shutil
from pathlib import Path

import pytest

from engine.log import EventLog
from engine.log.errors import (
    NotALogError,
    OldSQLiteError,
    StorageError,
)
from engine.log.sqlite import database
from tests.unit.log.samples import said, texts


def test_file_and_folder_are_private(tmp_path):
    path = tmp_path / "new" / "folder" / "log.db"
    EventLog(path).close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.parent.parent.stat().st_mode & 0o777 == 0o700


def test_a_file_of_another_kind_is_refused_and_left_alone(path):
    path.write_bytes(b"not a database " * 100)
    with pytest.raises(NotALogError):
        EventLog(path)
    assert path.read_bytes() == b"not a database " * 100


def test_an_old_sqlite_is_refused(path, monkeypatch):
    monkeypatch.setattr(database.apsw, "sqlite_lib_version", lambda: "3.51.2")
    with pytest.raises(OldSQLiteError):
        EventLog(path)
    assert not path.exists()


def test_reading_only_creates_nothing(path):
    with pytest.raises(NotALogError):
        EventLog(path, read_only=True)
    assert not path.exists()


@pytest.mark.parametrize("name", [":memory:", ""])
def test_a_log_is_a_file(name):
    with pytest.raises(NotALogError):
        EventLog(name)


def test_the_durability_setting_is_checked(path):
    with pytest.raises(ValueError, match="synchronous"):
        EventLog(path, synchronous="SOMETIMES")


def test_a_wal_that_was_left_is_emptied(path, tmp_path):
    (tmp_path / "copy").mkdir()
    with EventLog(path) as log:
        log.append([said()])
        for file in path.parent.glob("log.db*"):
            shutil.copy(file, tmp_path / "copy")
    copy = tmp_path / "copy" / "log.db"
    assert Path(f"{copy}-wal").stat().st_size
    with EventLog(copy) as log:
        assert Path(f"{copy}-wal").stat().st_size == 0
        assert texts(log.events()) == ["hello"]


def test_the_wal_is_measured_through_a_link(log, path, tmp_path):
    (tmp_path / "link.db").symlink_to(path)
    with EventLog(tmp_path / "link.db") as linked:
        log.append([said()])
        assert linked.health().wal_bytes == log.health().wal_bytes > 0


class TestAFileThatIsTakenAway:
    """While a log is open its path leads to another file, or to none: nothing more is acknowledged."""

    @pytest.fixture(autouse=True)
    def look_always(self, monkeypatch):
        monkeypatch.setattr("engine.log.writer._LOOK_SECONDS", 0.0)

    def test_deleted(self, log, path):
        log.append([said()])
        path.unlink()
        for _ in range(2):
            with pytest.raises(StorageError, match="deleted"):
                log.append([said()])
        assert log.health().state == "storage"

    def test_moved_and_put_back(self, log, path):
        log.append([said()])
        path.rename(f"{path}.away")
        with pytest.raises(StorageError, match="moved"):
            log.append([said()])
        Path(f"{path}.away").rename(path)
        assert log.append([said()]) == [2]
        assert log.health().state == "ok"

    def test_replaced(self, log, path, tmp_path):
        log.append([said()])
        with EventLog(tmp_path / "other.db") as other:
            other.append([said("other"), said("other")])
        (tmp_path / "other.db").replace(path)
        with pytest.raises(StorageError, match="replaced"):
            log.append([said()])
        assert log.health().state == "storage"
        with pytest.raises(StorageError, match="replaced"):
            log.watch()

    def test_looking_by_name_is_not_paid_for_by_every_append(self, log, monkeypatch):
        """Once the folder is quiet, a look at the folder is all that an acknowledgement costs."""
        for name, seconds in (("_LOOK_SECONDS", 1000.0), ("_PAUSE_SECONDS", 1000.0)):
            monkeypatch.setattr(f"engine.log.writer.{name}", seconds)
        log.append([said()])
        looks = []
        log._backend.check_place = lambda: looks.append(1)
        monkeypatch.setattr(log._database.place, "may_have_changed", lambda: False)
        for _ in range(5):
            log.append([said()])
        assert looks == []

    @pytest.mark.parametrize("suffix", ["-wal", "-shm"])
    def test_the_wal_or_its_index(self, log, path, suffix):
        log.append([said()])
        Path(f"{path}{suffix}").unlink()
        for _ in range(2):
            with pytest.raises(StorageError, match=f"{suffix} was deleted"):
                log.append([said()])
        assert log.health().state == "storage"
        with pytest.raises(StorageError, match=f"{suffix} was deleted"):
            log.watch()

    def test_what_is_in_a_wal_without_a_name_is_moved_into_the_file(self, log, path, tmp_path, caplog):
        log.append([said()])
        Path(f"{path}-wal").unlink()
        with pytest.raises(StorageError, match="-wal"):
            log.append([said("not acknowledged")])
        assert "moved into the file" in caplog.text
        shutil.copy(path, tmp_path / "copy.db")
        with EventLog(tmp_path / "copy.db") as copy:
            assert texts(copy.events())[:1] == ["hello"]

    def test_nothing_is_moved_by_an_index_that_others_do_not_have(self, log, path):
        """Others may have begun the WAL again: what the old index says of it is not true any more."""
        log.append([said()])
        before = path.read_bytes()
        Path(f"{path}-shm").unlink()
        log._backend.checkpointer.run()
        assert not log._backend.checkpointer.empty(wait=0.0)
        log.close()
        assert path.read_bytes() == before
        assert Path(f"{path}-wal").stat().st_size
        with EventLog(path) as again:
            assert texts(again.events()) == ["hello"]


def test_a_folder_is_refused_with_the_file_a_store_would_use(tmp_path):
    with pytest.raises(NotALogError, match=r"is a folder; a store's log is .*sessions\.db"):
        EventLog(tmp_path)
