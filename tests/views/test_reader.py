"""A reader that writes nothing asks the views that a store has left, or is following with (V8, V11)."""

import pytest

from engine import Platform, SessionReader, SessionSource, SessionStore
from engine.log.errors import NotALogError


def say(store, words):
    entry = store.get_or_create_session(SessionSource(Platform.TELEGRAM, "1", user_id="ada"))
    store.append_to_transcript(entry.session_id, {"role": "user", "content": words})


@pytest.fixture
def open_store(tmp_path):
    stores = []

    def opening(**options):
        stores.append(SessionStore(tmp_path, synchronous="OFF", **options))
        return stores[-1]

    yield opening
    for store in stores:
        store.close()


def test_a_reader_finds_what_a_store_follows_with_and_what_it_has_left(open_store, tmp_path):
    store = open_store()
    say(store, "the quick brown fox")
    assert store.wait_for_views()
    with SessionReader.open(tmp_path) as reader:
        assert [hit.snippet for hit in reader.search("fox").items] == ["the quick brown **fox**"]
        say(store, "another fox")
        assert store.wait_for_views()
        assert len(reader.search("fox").items) == 2
        store.close()
        assert len(reader.search("fox").items) == 2
    before = {path: path.read_bytes() for path in tmp_path.iterdir() if not path.name.endswith("-shm")}
    with SessionReader.open(tmp_path) as reader:
        assert len(reader.search("fox").items) == 2
        assert [(row.user, row.messages) for row in reader.usage(["user"])] == [("ada", 2)]
    assert {path: path.read_bytes() for path in before} == before


def test_a_reader_without_a_file_of_views_says_what_makes_it_and_makes_none(open_store, tmp_path):
    say(open_store(views=False), "words")
    with SessionReader.open(tmp_path) as reader:
        for ask in (lambda: reader.search("words"), lambda: reader.usage()):
            with pytest.raises(NotALogError, match=r"there is no .*views\.db; a SessionStore"):
                ask()
        assert len(reader.list_sessions()) == 1
    assert not (tmp_path / "views.db").exists()


def test_a_reader_of_views_without_an_index_says_so(open_store, tmp_path):
    """V10."""
    store = open_store(search=False)
    say(store, "words")
    assert store.wait_for_views()
    with SessionReader.open(tmp_path) as reader:
        assert reader.usage()[0].messages == 1
        with pytest.raises(ValueError, match="search switched on"):
            reader.search("words")


def test_another_programs_file_is_refused_by_a_reader_too(open_store, tmp_path):
    say(open_store(views=False), "words")
    (tmp_path / "views.db").write_bytes(b"something else" * 1000)
    with SessionReader.open(tmp_path) as reader, pytest.raises(NotALogError, match="delete the file"):
        reader.search("words")


def test_a_store_that_was_just_opened_has_found_nothing_yet(open_store):
    """V1: the tables are made by the runner, not by whoever asks first."""
    store = open_store()
    store._views._runner.stop()
    store._views._tables._closed = False
    assert store.search("words").items == []
    assert store.usage() == []
