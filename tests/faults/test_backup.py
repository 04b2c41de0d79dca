"""V17: a backup is of one moment, verified, private, whole or not there, and never over a file."""

import errno
import os
import random
import stat
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import apsw
import pytest

from engine import NEXT_VERSION, Envelope, EventLog, Platform, SessionReader, SessionSource, SessionStore, StorageError
from engine.domain.events import MessageAppended
from engine.log.errors import CorruptLogError, DiskFullError
from engine.log.sqlite import backup
from tests.chance import SEED

ROOT = Path(__file__).parent.parent.parent
ADA = SessionSource(Platform.TELEGRAM, "4711", user_id="ada")
WRITER = """
import sys
from engine import Platform, SessionSource, SessionStore
with SessionStore(sys.argv[1], views=False) as store:
    for number in range(10_000_000):
        entry = store.get_or_create_session(SessionSource(Platform.SLACK, f"{sys.argv[2]}-{number % 7}"))
        position = store.append_to_transcript(entry.session_id, {"role": "user", "content": f"{number}" * 20})
        print(position, flush=True)
"""


@pytest.fixture
def store(tmp_path):
    with SessionStore(tmp_path / "sessions", views=False) as store:
        entry = store.get_or_create_session(ADA)
        store.append_messages(entry.session_id, [{"role": "user", "content": f"word {n}"} for n in range(50)])
        yield store


def restored(folder, copy):
    folder.mkdir()
    copy.rename(folder / "sessions.db")
    return SessionStore(folder, views=False)


def test_a_backup_has_everything_that_was_acknowledged_and_opens_as_a_store(store, tmp_path):
    found = store.backup(tmp_path / "copy.db")
    assert found.ok
    assert found.events == store.log.last_position
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "sessions"]
    with restored(tmp_path / "again", tmp_path / "copy.db") as again:
        assert again.verify().ok
        assert again.list_sessions() == store.list_sessions()


def test_a_backup_never_replaces_a_file(store, tmp_path, monkeypatch):
    (tmp_path / "copy.db").write_text("precious")
    (tmp_path / "link.db").symlink_to(tmp_path / "nowhere")
    for name in ("copy.db", "link.db"):
        with pytest.raises(StorageError, match="never replaces"):
            store.backup(tmp_path / name)
    assert (tmp_path / "copy.db").read_text() == "precious"
    made = tmp_path / "made.db"
    copy = backup._copy
    monkeypatch.setattr(backup, "_copy", lambda database, part: (copy(database, part), made.write_text("faster")))
    with pytest.raises(StorageError, match="exists by now"):
        store.backup(made)
    assert made.read_text() == "faster"
    assert not list(tmp_path.glob(".*"))


def test_a_folder_that_is_not_there_is_told(store, tmp_path):
    with pytest.raises(StorageError, match="does not exist"):
        store.backup(tmp_path / "nowhere" / "copy.db")


def test_backups_while_other_processes_write_are_sound_and_have_what_was_acknowledged(tmp_path):
    folder = tmp_path / "sessions"
    with SessionStore(folder, views=False) as store:
        store.get_or_create_session(ADA)
        writers = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, str(folder), name], stdout=subprocess.PIPE, text=True, cwd=ROOT
            )
            for name in ("one", "two")
        ]
        try:
            for number in range(4):
                acknowledged = [int(writer.stdout.readline()) for writer in writers for _ in range(20)]
                found = store.backup(tmp_path / f"copy{number}.db")
                assert found.ok
                assert found.events >= max(acknowledged)
        finally:
            for writer in writers:
                writer.kill()
                writer.communicate()
    for number in range(4):
        with restored(tmp_path / f"again{number}", tmp_path / f"copy{number}.db") as again:
            assert again.verify().ok


def test_a_log_that_is_only_read_can_be_backed_up(store, tmp_path):
    with SessionReader.open(store.sessions_dir) as reader:
        assert reader.backup(tmp_path / "copy.db").ok


def test_appends_go_on_while_a_backup_is_made(store, tmp_path, monkeypatch):
    """An append is acknowledged after each step of the copy; it is of the moment at which it began."""
    entry = store.get_or_create_session(ADA)
    before = store.log.last_position
    appended = []

    class Steps:
        def __init__(self, plain):
            self.plain = plain

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return self.plain.__exit__(*error)

        @property
        def done(self):
            return self.plain.done

        def step(self, _pages):
            self.plain.step(1)
            appended.append(store.append_to_transcript(entry.session_id, {"role": "user", "content": "meanwhile"}))

    class Copy(apsw.Connection):
        def backup(self, *given):
            return Steps(super().backup(*given))

    monkeypatch.setattr(backup, "apsw", SimpleNamespace(Connection=Copy))
    found = store.backup(tmp_path / "copy.db")
    assert found.ok
    assert found.events == before
    assert len(appended) > 5


def test_a_damaged_log_gives_no_backup(tmp_path):
    with EventLog(tmp_path / "log.db") as log:
        log.append([Envelope("session:s", NEXT_VERSION, MessageAppended(message={"content": "x" * 50}))])
    path = tmp_path / "log.db"
    path.write_bytes(path.read_bytes().replace(b"xxxxxxxx", b"yyyyyyyy"))
    with EventLog(path, read_only=True) as log, pytest.raises(CorruptLogError, match="there is no backup"):
        log.backup(tmp_path / "copy.db")
    assert sorted(each.name for each in tmp_path.iterdir() if "copy" in each.name) == []


def test_a_full_disk_leaves_no_half_a_backup(store, tmp_path, monkeypatch):
    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(DiskFullError, match="No space left"):
        store.backup(tmp_path / "copy.db")
    monkeypatch.undo()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sessions"]


BACKUP = """
import sys
from engine import SessionReader
from engine.log.sqlite import backup
backup._PAGES = 1
with SessionReader.open(sys.argv[1]) as reader:
    print("open", flush=True)
    reader.backup(sys.argv[2])
    print("done", flush=True)
"""


def test_a_process_that_is_killed_leaves_a_whole_backup_or_none(store, tmp_path):
    entry = store.get_or_create_session(ADA)
    store.append_messages(entry.session_id, [{"role": "user", "content": "x" * 5000} for _ in range(400)])
    chance = random.Random(SEED)
    for number in range(6):
        target = tmp_path / f"copy{number}.db"
        command = [sys.executable, "-c", BACKUP, str(store.sessions_dir), str(target)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
            assert child.stdout.readline() == "open\n"
            time.sleep(chance.uniform(0.0, 0.1))
            child.kill()
        if target.exists():
            with EventLog(target, read_only=True) as copy:
                assert copy.verify().ok
                assert copy.last_position == store.log.last_position


FULL = """
import resource, sys
from engine import LogError, SessionReader
with SessionReader.open(sys.argv[1]) as reader:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    try:
        reader.backup(sys.argv[2])
    except LogError as error:
        print(error.code)
"""


def test_a_copy_that_may_not_grow_is_no_backup(store, tmp_path):
    """The operating system itself refuses to write more."""
    entry = store.get_or_create_session(ADA)
    store.append_messages(entry.session_id, [{"role": "user", "content": "x" * 5000} for _ in range(100)])
    command = [sys.executable, "-c", FULL, str(store.sessions_dir), str(tmp_path / "copy.db")]
    child = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, cwd=ROOT)
    assert child.stdout.split() in (["storage"], ["disk_full"]), child.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["sessions"]


def test_a_file_system_without_links_takes_a_backup_too(store, tmp_path, monkeypatch):
    def no_links(_self, _target):
        raise OSError(errno.EPERM, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", no_links)
    assert store.backup(tmp_path / "copy.db").ok
    with pytest.raises(StorageError, match="never replaces"):
        store.backup(tmp_path / "copy.db")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["copy.db", "sessions"]
