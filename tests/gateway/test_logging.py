"""G58: what a store tells the host's log, with lane and session."""

import asyncio
import logging

import pytest

from engine import AsyncSessionStore
from tests.gateway.support import say
from tests.gateway.test_routing import compress_behind_its_back

KEY = "agent:main:telegram:dm:4711"


def told(caplog, *words):
    """The records that have all these words in their message, and their level."""
    found = [each for each in caplog.records if all(str(word) in each.getMessage() for word in words)]
    assert {each.name for each in found} <= {"engine.store"}
    return [each.levelno for each in found]


def test_g58_a_mapping_that_was_healed_at_info(store, open_store, source, caplog):
    """A lane on a compressed parent follows to the live tip."""
    first = store.get_or_create_session(source()).session_id
    child = compress_behind_its_back(store, first)
    with caplog.at_level(logging.INFO):
        open_store().get_or_create_session(source())
    assert told(caplog, KEY, first, child) == [logging.INFO]


def test_g58_a_prune_at_info_for_each_lane(store, clock, source, caplog):
    entries = [store.get_or_create_session(source(name)) for name in ("a", "b")]
    clock.advance(days=91)
    with caplog.at_level(logging.INFO):
        store.prune_old_entries(90)
        store.prune_old_entries(90)
    for entry in entries:
        assert told(caplog, entry.session_key, entry.session_id, "pruned", "91.0 days") == [logging.INFO]


def test_g58_a_stale_route_that_was_dropped_and_a_recovery_at_warning(store, source, caplog):
    entry = store.get_or_create_session(source())
    say(store, entry.session_id, "hello")
    store.end_session(entry.session_id, "agent_close")
    with caplog.at_level(logging.INFO):
        store.get_or_create_session(source())
    assert told(caplog, KEY, entry.session_id, "agent_close") == [logging.WARNING]
    assert told(caplog, KEY, entry.session_id, "recovered") == [logging.WARNING]


def test_g58_a_session_that_is_not_recovered_is_only_dropped(store, source, caplog):
    entry = store.get_or_create_session(source())
    store.end_session(entry.session_id, "user_exit")
    with caplog.at_level(logging.INFO):
        store.get_or_create_session(source())
    assert told(caplog, KEY, entry.session_id) == [logging.WARNING]
    assert told(caplog, "recovered") == []


def test_g58_an_ordinary_day_is_told_nothing(store, clock, source, caplog):
    with caplog.at_level(logging.INFO):
        entry = store.get_or_create_session(source())
        say(store, entry.session_id, "hello")
        clock.advance(minutes=1)
        store.get_or_create_session(source())
        store.compress_session(entry.session_id)
        store.get_or_create_session(source())
        store.reset_session(KEY)
    assert told(caplog, KEY) == []


def test_g58_what_a_command_that_failed_decided_is_not_told(store, source, caplog, monkeypatch):
    """It did not happen: nothing of it is in the log."""
    entry = store.get_or_create_session(source())
    store.end_session(entry.session_id, "user_exit")
    monkeypatch.setattr("engine.work.Work.commit", lambda work: 1 / 0)
    with caplog.at_level(logging.INFO), pytest.raises(ZeroDivisionError):
        store.get_or_create_session(source())
    assert told(caplog, KEY) == []


def test_g58_also_when_it_is_awaited(store, clock, source, caplog):
    entry = store.get_or_create_session(source())
    clock.advance(days=91)
    with caplog.at_level(logging.INFO):
        assert asyncio.run(AsyncSessionStore(store).prune_old_entries(90)) == 1
    assert told(caplog, KEY, entry.session_id, "pruned") == [logging.INFO]
