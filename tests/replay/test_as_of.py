"""The past of a store, exactly (R9)."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine import (
    ClosedLogError,
    SessionCatalog,
    SessionReader,
    SessionStore,
)
from engine.log import EventLog
from projections.inline.past import Past, Refolded, tables_at
from replay import BadMomentError, UnknownSubjectError, UnsupportedStoreError, as_of, lane_at, session_at, transcript_at
from tests.gateway.support import FakeClock, said, say, source
from tests.replay.tables import contents, folded


def test_every_moment_is_what_a_fold_up_to_it_makes(lived: SessionStore) -> None:
    """R9: exactly as they were, whichever of the ways is taken."""
    for position in range(lived.log.last_position + 1):
        expected = folded(lived.log, position)
        for from_start in (False, True, None):
            past = tables_at(lived.log, position, from_start=from_start)
            assert isinstance(past, Past)
            assert contents(past) == expected, (position, from_start)
            past.close()


def answers(reader: SessionReader) -> Any:
    """Return all there is to know of all lanes and sessions."""
    ids = sorted(
        {info.session_id for entry in reader.list_sessions() for info in reader.sessions_of(entry.session_key)}
    )
    transcripts = {each: (reader.get_session(each), reader.load_transcript(each)) for each in ids}
    known = {each: reader.has_platform_message_id(each, "tg-1") for each in ids}
    return reader.list_sessions(), list(reader.iter_sessions()), transcripts, known, reader.quarantined()


def test_the_past_answers_as_the_store_did(store: SessionStore, clock: FakeClock) -> None:
    """R9: a SessionReader, the class the live store reads with."""
    then = []
    for step in range(6):
        entry = store.get_or_create_session(source(str(step % 2)))
        message = {"role": "user", "content": f"m{step}", "message_id": f"tg-{step % 3}"}
        store.append_to_transcript(entry.session_id, message)
        if step == 3:
            store.rewind_session(entry.session_id)
        if step == 4:
            store.reset_session(entry.session_key)
        store.runner.touches.flush()
        then.append((store.log.last_position, answers(store)))
        clock.advance(minutes=10)
    for position, expected in then:
        with as_of(store.log, position, clock=clock) as past:
            assert isinstance(past, SessionReader)
            assert past.position == position
            assert answers(past) == expected
            for entry in past.list_sessions():
                assert lane_at(store.log, entry.session_key, position, clock=clock) == entry
            for session_id, (info, messages) in answers(past)[2].items():
                assert session_at(store.log, session_id, position, clock=clock) == info
                assert transcript_at(store.log, session_id, position) == messages
    assert as_of(store.log, 0).list_sessions() == []


def test_what_came_since_takes_nothing_from_what_stands_beside_a_session(store: SessionStore, clock: FakeClock) -> None:
    """R9: a turn that was open already, and all that is said of a chat, when only messages and turns came."""
    entry = store.get_or_create_session(source())
    catalog = SessionCatalog(store)
    chat = catalog.new_session(model="large").session_id
    catalog.rotate_session(chat, "another_id")
    token = store.begin_turn(entry.session_key)
    then = store.log.last_position
    for session_id in (entry.session_id, chat):
        say(store, session_id, "one")
    store.end_turn(token)
    store.begin_turn(entry.session_key)
    catalog.start_turn("another_id", "stream", "two")
    for position in range(then, store.log.last_position + 1):
        with as_of(store.log, position, from_start=False) as past:
            assert contents(past._tables) == folded(store.log, position), position
            clock.advance(minutes=1)
            say(store, chat, "meanwhile")
            assert contents(past._tables) == folded(store.log, position), position


def test_what_is_written_meanwhile_changes_nothing_in_the_past(store: SessionStore) -> None:
    """R9: stable while the log is written."""
    first = store.get_or_create_session(source("1"))
    store.append_to_transcript(first.session_id, {"role": "user", "content": "one", "message_id": "tg-1"})
    second = store.get_or_create_session(source("2"))
    for from_start in (False, True):
        with as_of(store.log, store.log.last_position, from_start=from_start) as past:
            before = answers(past)
            say(store, first.session_id, "more")
            store.rewrite_transcript(first.session_id, [{"role": "user", "content": "another"}])
            store.reset_session(second.session_key)
            third = store.get_or_create_session(source(f"3 {from_start}"))
            assert answers(past) == before
            assert past.peek_session_id(third.session_key) is None
        store.rewrite_transcript(first.session_id, [{"role": "user", "content": "one", "message_id": "tg-1"}])


@pytest.mark.parametrize("from_start", [False, True])
def test_what_is_erased_later_is_erased_in_the_past_too(store: SessionStore, from_start: bool) -> None:
    """R9: before the past was opened, and while it is open."""
    keys = [store.get_or_create_session(source(each)).session_key for each in ("1", "2")]
    for key in keys:
        say(store, store.peek_session_id(key) or "", "secret")
    then = store.log.last_position
    say(store, store.peek_session_id(keys[1]) or "", "later")
    store.erase(lane=keys[0], reason="asked to")
    with as_of(store.log, then, from_start=from_start) as past:
        assert past.peek_session_id(keys[0]) is None
        session_id = past.peek_session_id(keys[1]) or ""
        assert said(past, session_id) == [{"role": "user", "content": "secret"}]
        store.erase(lane=keys[1], reason="asked to")
        assert past.list_sessions() == []
        assert past.load_transcript(session_id) == []
        assert contents(past._tables) == folded(store.log, then)


def test_a_lane_that_was_pruned_since_leads_to_its_session_again(store: SessionStore, clock: FakeClock) -> None:
    """R9: also where a new lane of the same key took over what the tables say."""
    entry = store.get_or_create_session(source())
    say(store, entry.session_id, "hello")
    then = store.log.last_position
    clock.advance(days=100)
    store.prune_old_entries(90)
    gone = store.log.last_position
    assert store.get_or_create_session(source()).session_id == entry.session_id
    for position in (then, gone):
        with as_of(store.log, position, from_start=False) as past:
            assert contents(past._tables) == folded(store.log, position)
            assert [each.session_id for each in past.sessions_of(entry.session_key)] == [entry.session_id]
            assert past.peek_session_id(entry.session_key) == (entry.session_id if position == then else None)
    found = lane_at(store.log, entry.session_key, then, clock=clock)
    assert found is not None
    assert found.session_id == entry.session_id
    assert lane_at(store.log, entry.session_key, gone) is None


def test_a_log_without_state_tables_is_folded_from_its_beginning(store: SessionStore, tmp_path: Path) -> None:
    """R9: tables of another version, or none; a log that is only read."""
    entry = store.get_or_create_session(source())
    say(store, entry.session_id, "one", "two")
    copy = tmp_path / "bare.db"
    with EventLog(copy, synchronous="OFF") as bare:
        bare.append([msgspec.structs.replace(each, position=0) for each in store.log.events()])
    with EventLog(copy, read_only=True) as log:
        for position in range(log.last_position + 1):
            with as_of(log, position) as past, as_of(store.log, position) as expected:
                assert isinstance(past._tables, Refolded)
                assert answers(past) == answers(expected)
    with EventLog(copy) as log, as_of(log, 4) as past:
        assert len(past.load_transcript(entry.session_id)) == 1
        log.erase([4], actor="ada", reason="asked to")
        assert past.load_transcript(entry.session_id) == []


def test_views_know_the_present_alone(store: SessionStore) -> None:
    store.get_or_create_session(source())
    with as_of(store.log, 1) as past:
        with pytest.raises(UnsupportedStoreError, match="ask the store itself"):
            past.search("hello")
        with pytest.raises(UnsupportedStoreError, match="ask the store itself"):
            past.usage()


@pytest.mark.parametrize("position", [-1, 1.0, True, "3", 10**6])
def test_what_is_no_position_is_refused(store: SessionStore, position: Any) -> None:
    with pytest.raises(BadMomentError):
        as_of(store.log, position)


def test_a_session_that_was_not_there_yet_is_unknown_then(store: SessionStore) -> None:
    entry = store.get_or_create_session(source())
    for look in (session_at, transcript_at):
        with pytest.raises(UnknownSubjectError, match="no session"):
            look(store.log, entry.session_id, 1)
    assert lane_at(store.log, entry.session_key, 1) is None


def test_the_past_ends_with_the_log(open_store: Callable[..., SessionStore]) -> None:
    store = open_store()
    store.get_or_create_session(source())
    past = as_of(store.log, 1)
    store.close()
    with pytest.raises(ClosedLogError):
        past.list_sessions()
    past.close()
