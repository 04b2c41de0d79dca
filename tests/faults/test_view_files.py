"""The file of the views is missing, of another layout, damaged, read-only or on a full disk (V1, V5).

The store serves and appends on, its health says what is wrong, and deleting the file heals it.
"""

import contextlib
import os
import subprocess

import apsw
import pytest

from engine import Platform, SessionSource, SessionStore
from engine.log.errors import StorageError
from tests.faults.disk import Disk, full_error, io_error, read_only_error
from tests.faults.test_damage import mounted
from tests.gateway.support import until

SOURCE = SessionSource(Platform.TELEGRAM, "1", user_id="ada")


def say(store, words):
    """Route and append as always; return how long the transcript is."""
    session = store.get_or_create_session(SOURCE).session_id
    store.append_to_transcript(session, {"role": "user", "content": words})
    return len(store.load_transcript(session))


def errors(store):
    return {view.error for view in store.health().views}


def trouble(store, words):
    """Return what health says once the views stand still."""
    until(lambda: None not in errors(store))
    (error,) = errors(store)
    assert words in error, error
    assert not store.wait_for_views(timeout=0), "the views follow all the same"
    return error


def healed(store):
    """The views follow again, and health says so by their next look."""
    assert store.wait_for_views(timeout=300)
    until(lambda: errors(store) == {None})


def damage(path, sql):
    connection = apsw.Connection(str(path))
    connection.execute(sql)
    connection.close()


def older(path):
    damage(path, "PRAGMA user_version = 0")


def newer(path):
    damage(path, "PRAGMA user_version = 99")


def foreign(path):
    damage(path, "PRAGMA application_id = 1")


def corrupt(path):
    path.write_bytes(path.read_bytes()[:100] + os.urandom(path.stat().st_size - 100))


def truncated(path):
    path.write_bytes(path.read_bytes()[:5000])


@pytest.fixture
def made(tmp_path):
    """A folder with a store and its views, closed."""
    with SessionStore(tmp_path, synchronous="OFF") as store:
        say(store, "a first word")
        assert store.wait_for_views()
    return tmp_path


@pytest.mark.parametrize("harm", [older, newer, foreign, corrupt, truncated])
def test_a_file_that_cannot_be_used_stops_the_views_alone_and_deleting_it_heals(made, harm):
    """V1, V5."""
    harm(made / "views.db")
    with SessionStore(made, synchronous="OFF") as store:
        assert say(store, "a second word") == 2
        trouble(store, "delete the file")
        assert say(store, "a third word") == 3
        (made / "views.db").unlink()
        healed(store)
        assert len(store.search("word").items) == 3


def test_a_file_that_is_missing_is_made_again(made):
    """V1."""
    for path in made.glob("views.db*"):
        path.unlink()
    with SessionStore(made, synchronous="OFF") as store:
        assert store.wait_for_views()
        assert len(store.search("word").items) == 1


def test_a_store_that_is_closed_leaves_no_wal_of_its_views(tmp_path):
    """V1: what damages the file is seen at the next start, and a copy of it is whole."""
    with SessionStore(tmp_path, synchronous="OFF") as store:
        say(store, "a word")
        assert store.wait_for_views()
        assert len(store.search("word").items) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sessions.db", "views.db"]


@contextlib.contextmanager
def views_on(disk):
    """Put the files of views on a disk that may fail: they are what is opened by the default VFS here."""
    apsw.set_default_vfs(disk.name)
    try:
        yield
    finally:
        apsw.set_default_vfs(disk.base)
        disk.unregister()


@pytest.mark.parametrize(
    ("calls", "error", "words"),
    [
        ({"write"}, full_error, "no space left"),
        ({"write", "truncate"}, read_only_error, "read-only"),
        ({"write", "sync", "truncate"}, io_error, "I/O error"),
        ({"read"}, io_error, "I/O error"),
        ({"open"}, io_error, "cannot open"),
    ],
)
def test_a_disk_that_fails_stops_the_views_alone_until_it_is_well_again(tmp_path, calls, error, words):
    """V5: the log is on another disk here, and every append and route is answered as ever."""
    disk = Disk()
    with views_on(disk), SessionStore(tmp_path, synchronous="OFF", vfs=disk.base) as store:
        say(store, "a first word")
        assert store.wait_for_views()
        disk.fail = lambda number, what: error(what) if what in calls else None
        for number in range(2, 30):
            assert say(store, f"word {number} " + "some words that take room in the index " * 40) == number
        if calls == {"open"}:
            (tmp_path / "views.db").unlink()
        trouble(store, words)
        disk.fail = None
        healed(store)
        assert len(store.search("room", limit=50).items) == 28
        assert store.verify_views().ok


def test_views_on_a_read_only_disk_stop_alone_and_putting_them_elsewhere_heals(made, tmp_path_factory):
    """V5."""
    small = tmp_path_factory.mktemp("small") / "disk"
    with mounted(small, "size=4m"):
        (made / "views.db").rename(made / "before.db")
        (small / "views.db").write_bytes((made / "before.db").read_bytes())
        (made / "views.db").symlink_to(small / "views.db")
        subprocess.run(["/bin/mount", "-o", "remount,ro", str(small)], check=True, capture_output=True)
        with SessionStore(made, synchronous="OFF") as store:
            assert say(store, "a second word") == 2
            trouble(store, "check that folder and file exist and are accessible")
            with pytest.raises(StorageError, match="cannot open"):
                store.search("word")
            (made / "views.db").unlink()
            healed(store)
            assert len(store.search("word").items) == 2


def test_views_on_a_full_disk_follow_when_there_is_room_again(tmp_path_factory):
    """V5."""
    folder, small = tmp_path_factory.mktemp("store"), tmp_path_factory.mktemp("small") / "disk"
    with mounted(small, "size=200k"):
        (small / "views.db").touch()
        (folder / "views.db").symlink_to(small / "views.db")
        with SessionStore(folder, synchronous="OFF") as store:
            for number in range(1, 80):
                assert say(store, " ".join(f"word{number * 300 + each}" for each in range(300))) == number
            trouble(store, "no space left")
            subprocess.run(["/bin/mount", "-o", "remount,size=40m", str(small)], check=True, capture_output=True)
            healed(store)
            assert store.verify_views().ok
