"""The views of a store: asked for from threads and tasks, switched off, broken, and never in an append's way."""

import asyncio
from datetime import UTC, datetime

import pytest

from engine import AsyncSessionStore, Platform, SessionSource, SessionStore


@pytest.fixture
def open_store(tmp_path):
    stores = []

    def opening(**options):
        stores.append(SessionStore(tmp_path / "sessions", synchronous="OFF", **options))
        return stores[-1]

    yield opening
    for store in stores:
        store.close()


def say(store, words):
    entry = store.get_or_create_session(SessionSource(Platform.TELEGRAM, "1", user_id="ada"))
    store.append_to_transcript(entry.session_id, {"role": "user", "content": words})
    return entry


def test_a_store_finds_what_was_said_to_it(open_store):
    """V4, V8."""
    store = open_store()
    entry = say(store, "the quick brown fox")
    assert store.wait_for_views()
    (hit,) = store.search("fox").items
    assert (hit.session_id, hit.session_key, hit.snippet) == (
        entry.session_id,
        entry.session_key,
        "the quick brown **fox**",
    )
    assert store.search("fox", since=datetime(2100, 1, 1, tzinfo=UTC)).items == []
    assert store.usage(["user"])[0].messages == 1
    assert store.verify_views().ok
    assert {status.name: status.lag_events for status in store.health().views} == {
        "usage": 0,
        "catalogue": 0,
        "search": 0,
    }
    assert store.metrics()["view_search_lag_events"] == 0


def test_tasks_ask_the_same(open_store):
    """V8."""
    store = open_store()
    say(store, "the quick brown fox")

    async def ask():
        awaitable = AsyncSessionStore(store)
        assert await awaitable.wait_for_views()
        assert (await awaitable.verify_views()).ok
        await awaitable.rebuild_views("search")
        assert (await awaitable.usage(["day"]))[0].messages == 1
        return await awaitable.search("fox")

    assert len(asyncio.run(ask()).items) == 1


def test_views_can_be_switched_off_and_the_index_alone(open_store, tmp_path):
    """V10."""
    store = open_store(views=False)
    say(store, "words")
    with pytest.raises(ValueError, match="views=True"):
        store.search("words")
    assert not (tmp_path / "sessions" / "views.db").exists()
    plain = open_store(search=False)
    assert plain.wait_for_views()
    with pytest.raises(ValueError, match="search=True"):
        plain.search("words")
    assert plain.usage()[0].messages == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"text": None}, "text must be text"),
        ({"text": "x", "limit": 0}, "limit must be"),
        ({"text": "x", "order": "best"}, "order must be"),
        ({"text": "x", "since": datetime(2026, 1, 1)}, "since must be a datetime with a time zone"),
        ({"text": "x", "platform": 1}, "platform must be text"),
        ({"text": "x", "cursor": "?"}, "not one that search"),
    ],
)
def test_a_bad_argument_is_refused_by_name(open_store, arguments, message):
    with pytest.raises(ValueError, match=message):
        open_store().search(**arguments)


def test_a_broken_file_of_views_stops_no_append_and_health_says_so(open_store, tmp_path):
    """V5."""
    (tmp_path / "sessions").mkdir()
    (tmp_path / "sessions" / "views.db").write_bytes(b"something else" * 1000)
    store = open_store()
    say(store, "words")
    assert not store.wait_for_views(timeout=0.5)
    assert "delete the file" in store.health().views[0].error
    (tmp_path / "sessions" / "views.db").unlink()
    assert store.wait_for_views()
    assert len(store.search("words").items) == 1
