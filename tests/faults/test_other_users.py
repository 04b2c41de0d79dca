"""Files of other users, files open to them, and folders in which they may replace a file."""

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from engine import EventLog, LogError, Platform, SessionReader, SessionSource, SessionStore, UnsafeFileError

NOBODY = 65534


@pytest.fixture
def folder(tmp_path):
    with SessionStore(tmp_path / "sessions", views=False):
        pass
    return tmp_path / "sessions"


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_a_restored_file_that_everybody_may_read_is_made_private_with_a_warning(folder, caplog):
    (folder / "sessions.db").chmod(0o644)
    for end in ("-wal", "-shm"):
        (folder / f"sessions.db{end}").touch()
        (folder / f"sessions.db{end}").chmod(0o664)
    with SessionStore(folder, views=False):
        assert {mode(path) for path in folder.iterdir()} == {0o600}
    assert sum("was open to other users" in record.message for record in caplog.records) == 3


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_a_database_of_another_user_is_refused_for_writing_and_can_be_read(folder):
    os.chown(folder / "sessions.db", NOBODY, NOBODY)
    before = (folder / "sessions.db").read_bytes()
    with pytest.raises(UnsafeFileError, match="belongs to user 65534"):
        SessionStore(folder, views=False)
    assert (folder / "sessions.db").read_bytes() == before
    with SessionReader.open(folder) as reader:
        assert reader.list_sessions() == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
@pytest.mark.parametrize("end", ["-wal", "-shm"])
def test_a_wal_or_an_index_of_another_user_is_refused(folder, end):
    (folder / f"sessions.db{end}").touch(mode=0o600)
    os.chown(folder / f"sessions.db{end}", NOBODY, NOBODY)
    with pytest.raises(UnsafeFileError, match=end):
        SessionStore(folder, views=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
def test_what_somebody_put_beside_a_store_is_not_read_as_a_part_of_it(folder, end):
    """SQLite would play it back, and show what somebody else wrote."""
    (folder / f"sessions.db{end}").touch(mode=0o666)
    os.chown(folder / f"sessions.db{end}", NOBODY, NOBODY)
    with pytest.raises(UnsafeFileError, match=end):
        SessionReader.open(folder)
    with pytest.raises(UnsafeFileError, match=end):
        SessionStore(folder, views=False)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to somebody else")
def test_a_folder_of_another_user_is_told_and_by_a_link_refused(folder, tmp_path, caplog):
    """Its owner may put another file in the place of the log. Root in a container has no choice but to trust him."""
    os.chown(folder, NOBODY, NOBODY)
    SessionStore(folder, views=False).close()
    assert "belongs to user 65534" in caplog.text
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(UnsafeFileError, match="a link leads to"):
        SessionStore(tmp_path / "link", views=False)


def test_a_link_to_a_folder_that_a_group_may_write_is_refused(folder, tmp_path):
    folder.chmod(0o770)
    SessionStore(folder, views=False).close()
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(UnsafeFileError, match="by a link"):
        SessionStore(tmp_path / "link", views=False)
    folder.chmod(0o700)
    SessionStore(tmp_path / "link", views=False).close()


def test_nothing_is_made_in_a_folder_that_is_refused(tmp_path):
    tmp_path.chmod(0o777)
    with pytest.raises(UnsafeFileError):
        EventLog(tmp_path / "log.db")
    assert list(tmp_path.iterdir()) == []
    EventLog(tmp_path / "own" / "log.db").close()  # a folder of its own is made, and is private
    assert mode(tmp_path / "own") == 0o700


def test_a_file_system_that_keeps_no_permissions_is_told_or_refused(folder, monkeypatch, caplog):
    """Nothing can be taken from others there: what they may read is told, what they may write is refused."""
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    os.chmod(folder / "sessions.db", 0o644)  # noqa: PTH101
    EventLog(folder / "sessions.db").close()
    assert "cannot be made private" in caplog.text
    os.chmod(folder / "sessions.db", 0o666)  # noqa: PTH101, S103
    with pytest.raises(UnsafeFileError, match="may write"):
        EventLog(folder / "sessions.db")


SOMEBODY = """
import os, sys
from engine import LogError, SessionReader, SessionStore
os.setgid(65534)
os.setuid(65534)
for opening in (SessionStore, SessionReader.open):
    try:
        opening(sys.argv[1])
        print("opened")
    except (LogError, OSError) as error:
        print("refused")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_somebody_else_can_open_nothing_of_a_running_store():
    """A process of another user, with the store in a folder that everybody may look into."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        with SessionStore(folder) as store:
            entry = store.get_or_create_session(SessionSource(Platform.TELEGRAM, "4711"))
            store.append_to_transcript(entry.session_id, {"role": "user", "content": "for us alone"})
            store.wait_for_views()
            assert {mode(path) for path in folder.iterdir()} == {0o600}
            command = [sys.executable, "-c", SOMEBODY, name]
            child = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert child.stdout.split() == ["refused", "refused"], child.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_words_are_not_written_into_views_of_another_user(folder):
    (folder / "views.db").touch(mode=0o666)
    os.chown(folder / "views.db", NOBODY, NOBODY)
    with SessionStore(folder) as store:
        entry = store.get_or_create_session(SessionSource(Platform.TELEGRAM, "4711"))
        store.append_to_transcript(entry.session_id, {"role": "user", "content": "for us alone"})
        with pytest.raises(LogError, match="65534"):
            store.search("alone")
    assert (folder / "views.db").read_bytes() == b""


def test_a_folder_in_which_everybody_may_replace_files_is_refused_unless_it_is_sticky(folder):
    folder.chmod(0o777)
    with pytest.raises(UnsafeFileError, match="chmod go-w"):
        EventLog(folder / "sessions.db")
    folder.chmod(0o1777)
    EventLog(folder / "sessions.db").close()


def test_a_link_that_everybody_may_replace_is_refused(folder, tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "link").symlink_to(folder)
    EventLog(shared / "link" / "sessions.db").close()
    shared.chmod(0o777)
    with pytest.raises(UnsafeFileError, match="symbolic link"):
        EventLog(shared / "link" / "sessions.db")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a link to somebody else")
def test_a_link_of_another_user_is_refused(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    os.lchown(tmp_path / "link", NOBODY, NOBODY)
    with pytest.raises(UnsafeFileError, match="of another user"):
        EventLog(tmp_path / "link" / "sessions.db")


def test_a_link_in_the_place_of_the_wal_is_refused(folder, tmp_path):
    (tmp_path / "elsewhere").write_text("precious")
    (folder / "sessions.db-wal").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UnsafeFileError, match="symbolic link"):
        SessionStore(folder, views=False)
    assert (tmp_path / "elsewhere").read_text() == "precious"
