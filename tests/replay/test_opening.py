"""Opening what somebody points at: read-only, while others write (R1)."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from engine import CorruptLogError, NotALogError, ReadOnlyLogError, SessionStore
from engine.log.envelope import Envelope
from replay import NoStoreError, UnsupportedStoreError, open_log
from tests.gateway.support import say, source


def test_a_folder_and_its_file_and_a_copy_of_it_are_opened(
    open_store: Callable[..., SessionStore], tmp_path: Path
) -> None:
    """R1: a folder with `sessions.db`, or that file; also while a store writes it."""
    store = open_store()
    session = store.get_or_create_session(source()).session_id
    store.backup(tmp_path / "copy.db")
    say(store, session, "hello")
    last = store.log.last_position
    for where, ends_at in ((tmp_path / "sessions", last), (store.log.path, last), (tmp_path / "copy.db", last - 1)):
        with open_log(where) as log:
            assert log.last_position == ends_at
            with pytest.raises(ReadOnlyLogError):
                log.append([])


def test_what_is_written_after_opening_is_seen(open_store: Callable[..., SessionStore]) -> None:
    store = open_store()
    with open_log(store.log.path) as log:
        store.get_or_create_session(source())
        assert [each.position for each in log.events()] == list(range(1, store.log.last_position + 1))
        assert all(isinstance(each, Envelope) for each in log.events())


@pytest.mark.parametrize("name", ["empty", "nowhere"])
def test_where_no_store_is_the_ways_to_name_one_are_told_and_nothing_is_made(name: str, tmp_path: Path) -> None:
    """R1: none there → the three ways to name one."""
    (tmp_path / "empty").mkdir()
    with pytest.raises(NoStoreError, match="--store PATH, in SESSION_STORE, or go to its folder"):
        open_log(tmp_path / name)
    assert [each.name for each in tmp_path.rglob("*")] == ["empty"]


def test_a_url_is_refused_without_repeating_its_password() -> None:
    with pytest.raises(UnsupportedStoreError, match=re.escape("postgresql://…@db/x cannot be opened yet")):
        open_log("postgresql://ada:secret@db/x")


def test_another_programs_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.db").write_bytes(b"not a database, but long enough to have a header" * 100)
    with pytest.raises((NotALogError, CorruptLogError)):
        open_log(tmp_path / "other.db")
