"""Erasing what is in an archive: it does not come back, and the file is written anew or named (V15, V16)."""

from datetime import timedelta

import pytest

from engine import ArchiveError
from engine.log.archive import read_archive
from tests.gateway.support import say, source, texts
from tests.gateway.test_erasure import ADA, ASKED, BOB, found_in_files, user

DAY = timedelta(days=1)


@pytest.fixture
def lived(store, clock, tmp_path):
    """Ada alone, and with Bob in a thread; all of it over and in an archive."""
    own = store.get_or_create_session(source(**ADA))
    say(store, own.session_id, "private words of hers")
    store.rewrite_transcript(own.session_id, store.load_transcript(own.session_id))
    thread = {"chat_type": "group", "thread_id": "t-1", "chat_name": "Team"}
    shared = store.get_or_create_session(source("group", **{**ADA, **thread}))
    store.append_messages(
        shared.session_id,
        [
            user("[Ada Lovelace] group words of hers", "tg-ada-1", user_id=ADA["user_id"]),
            user("[Bob] words of Bob", "tg-bob-1", user_id=BOB["user_id"]),
        ],
    )
    for each in (own, shared):
        store.end_session(each.session_id, "done")
    clock.advance(days=2)
    assert store.archive(DAY, tmp_path / "a").messages == 4
    return own.session_id, shared.session_id


def words_in(path, store):
    """Return the text of an archive."""
    return " ".join(payload for block in read_archive(path, store.log.reader.log_id()) for _, payload in block)


def test_an_erasure_that_is_told_of_the_archive_leaves_nothing_in_it(store, lived, tmp_path):
    """V15, V16: no byte in any file, messages of a shared session told by their sender, and nothing comes back."""
    report = store.erase(user_id=ADA["user_id"], archives=[tmp_path / "a"], **ASKED, purge=True)
    assert (report.messages, report.archives, report.purged) == (3, (str(tmp_path / "a"),), True)
    assert [left.what for left in report.left] == [f"session {lived[1]}"]
    assert found_in_files(store, ["words of hers", ADA["user_id"], "Ada Lovelace", "tg-ada-1"]) == []
    assert "of hers" not in words_in(tmp_path / "a", store)
    assert "words of Bob" in words_in(tmp_path / "a", store)
    assert store.verify().ok
    assert store.restore(tmp_path / "a").messages == 1
    assert texts(store, lived[1]) == ["[Bob] words of Bob"]
    assert store.verify().ok


def test_an_erasure_that_is_not_told_of_it_says_so(store, lived, tmp_path):
    """V15: which file still holds what, and what nobody could look at; said again, with the file, it is done."""
    report = store.erase(user_id=ADA["user_id"], **ASKED)
    said = {(left.what, left.why.partition(";")[0]): left.positions for left in report.left}
    assert len(said[f"archive {tmp_path / 'a'}", "the file still holds these messages"]) == 2
    assert len(said[f"session {lived[1]}", "these messages are in an archive, where nobody looked who sent them"]) == 2
    copy = (tmp_path / "a").read_bytes()
    again = store.erase(user_id=ADA["user_id"], archives=[tmp_path / "a"], **ASKED)
    assert again.archives == (str(tmp_path / "a"),)
    assert "of hers" not in words_in(tmp_path / "a", store)
    (tmp_path / "copy").write_bytes(copy)
    assert store.restore(tmp_path / "copy").erased >= 2, "what was erased does not come back from a copy either"


def test_a_dry_run_tells_of_the_archive_and_leaves_it(store, lived, tmp_path):
    """V15."""
    before = (tmp_path / "a").read_bytes()
    report = store.erase(user_id=ADA["user_id"], archives=[tmp_path / "a"], **ASKED, dry_run=True)
    assert (report.messages, report.archives) == (3, ())
    assert (tmp_path / "a").read_bytes() == before


def test_copies_in_an_archive_are_found_by_what_they_are_copies_of(store, lived, tmp_path):
    """V15: also when both were archived."""
    first = next(each.position for each in store.log.events(topics=["message.appended"]))
    assert store.erase(positions=[first], archives=[tmp_path / "a"], **ASKED).messages == 2


def test_nothing_is_erased_if_an_archive_cannot_be_used(store, lived, tmp_path):
    """V15, V16: the refusal comes first."""
    end = store.log.last_position
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:-20])
    with pytest.raises(ArchiveError, match="cut or was changed"):
        store.erase(user_id=ADA["user_id"], archives=[tmp_path / "a"], **ASKED)
    with pytest.raises(ValueError, match="archives must be a list"):
        store.erase(user_id=ADA["user_id"], archives=str(tmp_path / "a"), **ASKED)
    assert store.log.last_position == end
