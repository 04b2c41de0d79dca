"""Published heads: the one thing that shows that the end of a log was cut off."""

import asyncio
import logging
import threading

import pytest

from engine import AsyncSessionStore, Heads, SessionReader, SessionStore
from engine.log.sqlite.eventlog import EventLog
from tests.gateway.support import say, source, until


@pytest.fixture
def session_id(tmp_path):
    """Something in the log before heads are published."""
    with SessionStore(tmp_path / "sessions", synchronous="OFF") as store:
        return store.get_or_create_session(source()).session_id


def positions(heads):
    return [int(head.partition(":")[0]) for head in heads]


def test_heads_are_appended_to_a_file_of_the_owners_alone(tmp_path, open_store, session_id):
    published = tmp_path / "heads"
    store = open_store(heads=Heads(to=published, events=5, seconds=1000))
    until(lambda: published.exists())
    for number in range(20):
        say(store, session_id, f"{number}")
    until(lambda: max(positions(published.read_text().split()), default=0) >= store.log.last_position - 5)
    store.close()
    heads = published.read_text().split()
    assert positions(heads) == sorted(set(positions(heads)))
    assert published.stat().st_mode & 0o777 == 0o600
    with SessionReader.open(tmp_path / "sessions") as again:
        assert heads[-1] == again.log.head(), "closing publishes the last one"
        assert again.verify(published=heads).ok
        assert again.log.verify(published=heads[-1]).ok


def test_a_function_of_the_host_gets_them_in_time_if_few_events_come(open_store, session_id):
    """Also those of other processes and stores."""
    heads = []
    store = open_store(heads=Heads(to=heads.append, events=1_000_000, seconds=0.01))
    other = open_store()
    say(other, session_id, "hello")
    until(lambda: heads and heads[-1] == other.log.head())
    assert store.verify(published=heads).ok


def test_a_head_per_event_when_asked_for(open_store, session_id):
    heads = []
    store = open_store(heads=Heads(to=heads.append, events=1, seconds=1000))
    for number in range(3):
        say(store, session_id, f"{number}")
        until(lambda: heads[-1:] == [store.log.head()])


def test_a_cut_tail_is_what_they_are_for(tmp_path, open_store, session_id):
    published = tmp_path / "heads"
    open_store(heads=str(published)).close()
    full = tmp_path / "sessions" / "sessions.db"
    before = full.read_bytes()
    with open_store(heads=published) as store:
        say(store, session_id, "acknowledged, then lost")
    full.write_bytes(before)
    with open_store() as store:
        assert store.verify().ok
        found = store.verify(published=published.read_text().split())
        assert not found.ok
        assert "cut off" in found.problem


def test_a_function_that_fails_is_reported_and_tried_again(open_store, session_id, caplog):
    heads, failing = [], threading.Event()
    failing.set()

    def publish(head):
        if failing.is_set():
            raise RuntimeError("no network")
        heads.append(head)

    store = open_store(heads=Heads(to=publish, seconds=0.01))
    until(lambda: "could not be published" in caplog.text)
    say(store, session_id, "goes on")
    failing.clear()
    until(lambda: heads)


def test_a_function_that_never_returns_keeps_no_store_open(open_store, session_id, caplog, monkeypatch):
    monkeypatch.setattr("engine.heads._LAST_WAIT_SECONDS", 0.05)
    entered, never = threading.Event(), threading.Event()

    def publish(_head):
        entered.set()
        never.wait()

    store = open_store(heads=publish)
    assert entered.wait(300)
    say(store, session_id, "goes on")
    with caplog.at_level(logging.WARNING):
        store.close()
    assert "not waited for" in caplog.text
    never.set()


def test_the_head_of_a_log_is_that_of_its_verification(tmp_path, open_store):
    with EventLog(tmp_path / "empty.db") as log:
        assert log.head() == log.verify().head
    with open_store() as store:
        store.get_or_create_session(source())
        assert store.log.head() == store.verify().head


@pytest.mark.parametrize("heads", [7, "", Heads(to="x", events=0), Heads(to="x", seconds=0.0), Heads(to=None)])
def test_what_cannot_be_published_to_is_refused(tmp_path, heads):
    with pytest.raises(ValueError, match="heads"):
        SessionStore(tmp_path / "sessions", heads=heads)
    assert not (tmp_path / "sessions").exists()


async def open_and_close(folder, publish):
    async with await AsyncSessionStore.open(folder, heads=publish) as store:
        await store.get_or_create_session(source())


def test_the_async_store_takes_them_too(tmp_path):
    heads = []
    asyncio.run(open_and_close(tmp_path / "sessions", heads.append))
    with SessionStore(tmp_path / "sessions") as store:
        assert heads[-1] == store.log.head()
