"""Turns of a chat: started, finished, failed, cancelled, and repaired when nobody works on them any more (W16, W17)."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

from engine import (
    ChatSession,
    ConflictError,
    Platform,
    SessionCatalog,
    SessionSource,
    SessionStore,
    UnknownSessionError,
)
from engine.errors import TurnInProgressError
from tests.gateway.support import FakeClock

START = 1782915930
MARKER = "Previous turn did not complete"


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def answer(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


def pending(chat: ChatSession) -> tuple[Any, ...]:
    return chat.active_stream_id, chat.pending_user_message, chat.pending_attachments, chat.pending_started_at


NOTHING_PENDING = (None, None, [], None)


@pytest.fixture
def chat(catalog: SessionCatalog) -> str:
    return catalog.new_session(model="large").session_id


@pytest.fixture
def started(catalog: SessionCatalog, chat: str, live: set[str]) -> str:
    live.add("s1")
    catalog.start_turn(chat, "s1", "hello")
    return chat


def test_a_turn_is_durable_with_what_is_pending(
    catalog: SessionCatalog, chat: str, open_store: Callable[..., SessionStore], clock: FakeClock
) -> None:
    """W16."""
    clock.advance(seconds=5)
    begun = catalog.start_turn(chat, "s1", "hello", [{"name": "a.png"}], START + 4.5)
    assert pending(begun) == ("s1", "hello", [{"name": "a.png"}], START + 4.5)
    assert (begun.messages, begun.updated_at) == ([], START + 5)
    assert SessionCatalog(open_store()).get_session(chat) == begun
    assert catalog.get_session(chat, metadata_only=True).active_stream_id == "s1"
    assert catalog.start_turn(catalog.new_session().session_id, "s2", None).pending_started_at == START + 5


def test_the_same_stream_replaces_what_is_pending(catalog: SessionCatalog, started: str) -> None:
    """W16."""
    again = catalog.start_turn(started, "s1", None, ["b.png"], 7.0)
    assert pending(again) == ("s1", None, ["b.png"], 7.0)
    assert catalog.finish_turn(started, "s1", []).messages == []


def test_over_a_live_stream_nothing_is_started(
    catalog: SessionCatalog, started: str, store: SessionStore, caplog: pytest.LogCaptureFixture
) -> None:
    """W16: and a host that cannot say what is live has live streams."""
    before = store.log.last_position
    with pytest.raises(ConflictError, match="stream 's1', which is live"):
        catalog.start_turn(started, "s2", "again")

    def broken() -> set[str]:
        raise RuntimeError("no idea")

    with pytest.raises(ConflictError, match="which is live"):
        SessionCatalog(store, live_streams=broken).start_turn(started, "s2", "again")
    assert "live_streams raised" in caplog.text
    assert store.log.last_position == before


def test_a_dead_stream_is_interrupted_first(catalog: SessionCatalog, started: str, live: set[str]) -> None:
    """W16: what it was to answer is kept."""
    live.clear()
    begun = catalog.start_turn(started, "s2", "again")
    assert pending(begun)[:2] == ("s2", "again")
    assert [(each["role"], each["content"]) for each in begun.messages] == [("user", "hello"), ("assistant", MARKER)]


def test_a_stream_has_one_turn(catalog: SessionCatalog, started: str) -> None:
    """W16."""
    with pytest.raises(ConflictError, match="a stream has one turn"):
        catalog.start_turn(catalog.new_session().session_id, "s1", "hello")


def test_the_turns_of_a_gateway_and_of_a_chat_exclude_each_other(
    catalog: SessionCatalog, store: SessionStore, clock: FakeClock, live: set[str]
) -> None:
    """W16: and recovery leaves the turn of a chat alone, which has no lease."""
    entry = store.get_or_create_session(SessionSource(platform=Platform.TELEGRAM, chat_id="4711"))
    token = store.begin_turn(entry.session_key, lease_seconds=60)
    assert pending(catalog.get_session(entry.session_id)) == NOTHING_PENDING
    with pytest.raises(ConflictError, match="has a turn of"):
        catalog.start_turn(entry.session_id, "s1", "hello")
    clock.advance(seconds=61)
    live.add("s1")
    catalog.start_turn(entry.session_id, "s1", "hello")
    assert not store.end_turn(token)
    clock.advance(days=3)
    assert store.recover_interrupted_turns() == 0
    with pytest.raises(TurnInProgressError):
        store.begin_turn(entry.session_key)
    catalog.finish_turn(entry.session_id, "s1", [user("hello")])
    assert store.end_turn(store.begin_turn(entry.session_key))
    assert pending(catalog.get_session(entry.session_id)) == NOTHING_PENDING


@pytest.mark.parametrize(
    "end",
    [
        lambda catalog, *named: catalog.finish_turn(*named, []),
        lambda catalog, *named: catalog.fail_turn(*named, "broken"),
        lambda catalog, *named: catalog.cancel_turn(*named),
    ],
)
def test_another_stream_ends_nothing(
    catalog: SessionCatalog, started: str, store: SessionStore, end: Callable[..., Any]
) -> None:
    """W16: and after its end neither does this one."""
    before = store.log.last_position
    with pytest.raises(ConflictError, match="no open turn of stream 's2': the open turn is that of 's1'"):
        end(catalog, started, "s2")
    with pytest.raises(UnknownSessionError):
        end(catalog, "nobody", "s1")
    assert store.log.last_position == before
    catalog.cancel_turn(started, "s1")
    with pytest.raises(ConflictError, match="no turn is open"):
        end(catalog, started, "s1")


def test_a_finished_turn_has_its_messages_context_and_usage(
    catalog: SessionCatalog, started: str, clock: FakeClock
) -> None:
    """W16."""
    clock.advance(seconds=5)
    said = [user("hello"), answer("hi")]
    done = catalog.finish_turn(started, "s1", said, said[:1], [{"name": "read"}], input_tokens=5, estimated_cost=0.5)
    assert pending(done) == NOTHING_PENDING
    assert (done.messages, done.context_messages, done.tool_calls) == (said, said[:1], [{"name": "read"}])
    assert (done.input_tokens, done.estimated_cost, done.updated_at) == (5, 0.5, START + 5)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ([user("hello")], True),
        ([user("so: hello!"), answer("hi")], True),
        ([user([{"type": "text", "text": "hello"}, {"type": "image"}])], True),
        ([user("hello", timestamp=START)], True),
        ([user("hello", timestamp=START - 1)], False),
        ([user("hello", _ts=START + 7, timestamp=1)], True),
        ([answer("hello")], False),
        ([user("hello"), user("else")], False),
        ([], False),
    ],
)
def test_the_users_text_is_kept_once(catalog: SessionCatalog, chat: str, said: list[Any], kept: bool) -> None:
    """W16: before what is new, with its attachments."""
    catalog.start_turn(chat, "s1", " hello ", ["a.png"], START + 0.7)
    done = catalog.finish_turn(chat, "s1", said)
    added = user(" hello ", timestamp=START, attachments=["a.png"])
    assert done.messages == (said if kept else [added, *said])


def test_the_same_words_in_a_later_turn_are_kept_again(catalog: SessionCatalog, chat: str, clock: FakeClock) -> None:
    """W16: those of the turn before were there already."""
    for count in (1, 2, 3):
        catalog.start_turn(chat, f"s{count}", "go on")
        failed = catalog.fail_turn(chat, f"s{count}", "broken")
        assert [each["content"] for each in failed.messages] == ["go on", "broken"] * count
        clock.advance(seconds=1)


def test_a_failed_turn_says_so_as_the_assistant(catalog: SessionCatalog, started: str, clock: FakeClock) -> None:
    """W16: a text or a message."""
    clock.advance(seconds=5)
    failed = catalog.fail_turn(started, "s1", "no credit")
    assert failed.messages == [
        user("hello", timestamp=START),
        answer("no credit", _error=True, timestamp=START + 5),
    ]
    assert pending(failed) == NOTHING_PENDING
    catalog.start_turn(started, "s2", None)
    failed = catalog.fail_turn(started, "s2", {"role": "tool", "content": "broken", "timestamp": 7})
    assert failed.messages[2:] == [answer("broken", timestamp=7, _error=True)]
    with pytest.raises(ValueError, match="a message must be a dict"):
        catalog.fail_turn(started, "s2", 7)  # type: ignore[arg-type]


def test_a_cancelled_turn_keeps_what_was_said_until_then(
    catalog: SessionCatalog, started: str, store: SessionStore
) -> None:
    """W16."""
    cancelled = catalog.cancel_turn(started, "s1", [answer("I was about")])
    assert cancelled.messages == [user("hello", timestamp=START), answer("I was about")]
    assert pending(cancelled) == NOTHING_PENDING
    ended = [each.event for each in store.log.events() if each.event.topic == "turn.ended"]
    assert [each.outcome for each in ended] == ["cancelled"]  # type: ignore[union-attr]
    catalog.start_turn(started, "s2", "more")
    assert catalog.cancel_turn(started, "s2", [user("more"), answer("no")]).messages[2:] == [user("more"), answer("no")]


def test_a_shorter_list_ends_no_turn(catalog: SessionCatalog, chat: str) -> None:
    """W8, W16."""
    catalog.save_messages(chat, [user("a"), answer("b")])
    catalog.start_turn(chat, "s1", "c")
    with pytest.raises(ValueError, match="has 1 of the 2"):
        catalog.finish_turn(chat, "s1", [user("a")])
    assert catalog.get_session(chat).active_stream_id == "s1"
    done = catalog.finish_turn(chat, "s1", [user("a"), answer("b"), answer("d")])
    assert [each["content"] for each in done.messages] == ["a", "b", "c", "d"]


def test_a_stale_version_starts_and_ends_nothing(catalog: SessionCatalog, started: str) -> None:
    """W10."""
    version = catalog.get_session(started).version
    for change in (
        lambda **options: catalog.start_turn(started, "s1", "x", **options),
        lambda **options: catalog.finish_turn(started, "s1", [], **options),
        lambda **options: catalog.fail_turn(started, "s1", "x", **options),
        lambda **options: catalog.cancel_turn(started, "s1", **options),
    ):
        with pytest.raises(ConflictError, match="is at version"):
            change(expected_version=version - 1)
    assert catalog.get_session(started).version == version
    catalog.cancel_turn(started, "s1", expected_version=version)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("", "x"), "stream_id must be"),
        ((7, "x"), "stream_id must be"),
        (("s1", 7), "user_message must be text"),
        (("s1", "x", "a.png"), "attachments must be a list"),
        (("s1", "x", (), "now"), "started_at must be a number"),
    ],
)
def test_bad_arguments_of_a_turn_are_refused(catalog: SessionCatalog, chat: str, arguments: Any, problem: str) -> None:
    """W16."""
    with pytest.raises(ValueError, match=problem):
        catalog.start_turn(chat, *arguments)


def test_an_open_turn_goes_on_under_another_id_and_ends_with_a_deletion(
    catalog: SessionCatalog, started: str, store: SessionStore
) -> None:
    """W9."""
    assert pending(catalog.rotate_session(started, "second"))[:2] == ("s1", "hello")
    assert catalog.duplicate_session("second").active_stream_id is None
    assert catalog.cancel_turn("second", "s1").session_id == "second"
    catalog.start_turn(started, "s1", "again")
    catalog.delete_session("second")
    assert store.log.query("SELECT count(*) FROM turns") == [(0,)]
    assert catalog.repair_stale_turns(0) == []


def test_a_stale_turn_is_repaired_once_after_the_grace(
    catalog: SessionCatalog, started: str, live: set[str], clock: FakeClock
) -> None:
    """W17: the times are those of its start."""
    live.clear()
    clock.advance(seconds=29.5)
    assert not catalog.repair_stale_turn(started)
    clock.advance(seconds=1)
    before = catalog.get_session(started)
    assert catalog.repair_stale_turn(started) is True
    repaired = catalog.get_session(started)
    assert repaired.messages == [
        user("hello", timestamp=START, _recovered=True),
        answer(MARKER, timestamp=START, _error=True),
    ]
    assert pending(repaired) == NOTHING_PENDING
    assert (repaired.updated_at, repaired.last_message_at) == (before.updated_at, START)
    assert catalog.repair_stale_turn(started) is False
    with pytest.raises(UnknownSessionError):
        catalog.repair_stale_turn("nobody")


def test_a_turn_that_is_not_meant_or_not_stale_is_left_alone(
    catalog: SessionCatalog, started: str, live: set[str], clock: FakeClock
) -> None:
    """W17: another stream, a live stream, no turn."""
    clock.advance(seconds=31)
    assert not catalog.repair_stale_turn(started)
    assert not catalog.repair_stale_turn(catalog.new_session().session_id)
    live.clear()
    assert not catalog.repair_stale_turn(started, stream_id="s2")
    assert catalog.repair_stale_turn(started, stream_id="s1")


def test_who_knows_that_a_stream_is_dead_need_not_wait(catalog: SessionCatalog, started: str) -> None:
    """W17: the worker itself, at its end."""
    assert not catalog.repair_stale_turn(started, stream_id="s1", grace_seconds=0)
    assert catalog.repair_stale_turn(started, stream_id="s1", stream_is_dead=True)


@pytest.mark.parametrize("started_at", [0.0, -5.0])
def test_a_turn_without_a_usable_start_has_the_time_of_the_session(
    catalog: SessionCatalog, chat: str, started_at: float
) -> None:
    """W17."""
    begun = catalog.start_turn(chat, "s1", "hello", ["a.png"], started_at)
    assert catalog.repair_stale_turn(chat)
    repaired = catalog.get_session(chat)
    assert [each["timestamp"] for each in repaired.messages] == [begun.updated_at] * 2
    assert repaired.messages[0]["attachments"] == ["a.png"]


def test_what_is_there_of_the_users_text_is_not_added_again(catalog: SessionCatalog, chat: str) -> None:
    """W17: nor anything for a side question."""
    catalog.start_turn(chat, "s1", "hello")
    catalog.save_messages(chat, [user("hello"), answer("well")])
    assert catalog.repair_stale_turn(chat, 0)
    assert [each["content"] for each in catalog.get_session(chat).messages] == ["hello", "well", MARKER]
    catalog.start_turn(chat, "s2", None)
    assert catalog.repair_stale_turn(chat, 0)
    assert [each["content"] for each in catalog.get_session(chat).messages][3:] == [MARKER]


def test_an_empty_session_takes_what_the_agent_has(catalog: SessionCatalog, chat: str) -> None:
    """W17: without a marker."""
    asked: list[ChatSession] = []
    document = {"messages": [user("hello"), answer("hi")], "tool_calls": [{"name": "x"}], "input_tokens": 5}

    def agent(session: ChatSession) -> dict[str, Any]:
        asked.append(session)
        return {**document, "estimated_cost": 0.5}

    begun = catalog.start_turn(chat, "s1", "hello")
    assert catalog.repair_stale_turn(chat, 0, agent)
    repaired = catalog.get_session(chat)
    assert asked == [begun]
    assert (repaired.messages, repaired.tool_calls) == (document["messages"], document["tool_calls"])
    assert (repaired.input_tokens, repaired.output_tokens, repaired.estimated_cost) == (5, 0, 0.5)
    assert pending(repaired) == NOTHING_PENDING
    catalog.start_turn(chat, "s2", "more")
    assert catalog.repair_stale_turn(chat, 0, agent)
    assert len(asked) == 1, "it is asked for sessions without messages alone"


@pytest.mark.parametrize("says", [None, {}, {"messages": []}, {"messages": "text"}, {"messages": [7]}, [1], "broken"])
def test_an_agent_that_has_nothing_usable_is_passed_over(
    catalog: SessionCatalog, chat: str, says: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """W17."""

    def agent(_: ChatSession) -> Any:
        if says == "broken":
            raise OSError("no database")
        return says

    catalog.start_turn(chat, "s1", "hello")
    assert catalog.repair_stale_turn(chat, 0, agent)
    assert [each["content"] for each in catalog.get_session(chat).messages] == ["hello", MARKER]


def test_all_stale_turns_are_repaired_and_one_cannot_hinder_the_others(
    catalog: SessionCatalog, store: SessionStore, live: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    """W17."""
    chats = [catalog.new_session().session_id for _ in range(4)]
    for number, chat in enumerate(chats):
        catalog.start_turn(chat, f"s{number}", "hello")
    live.add("s1")
    catalog.rotate_session(chats[2], "second")
    state = store.log.query("SELECT state FROM chats WHERE session_id = ?", (chats[3],))
    damaged = "UPDATE chats SET state = ? WHERE session_id = ?"
    store.log.transact(lambda transaction: transaction.execute(damaged, ("broken", chats[3])))
    with caplog.at_level(logging.WARNING):
        assert sorted(catalog.repair_stale_turns(0)) == sorted([chats[0], "second"])
    assert f"the open turn of session {chats[3]} was not repaired" in caplog.text
    store.log.transact(lambda transaction: transaction.execute(damaged, (state[0][0], chats[3])))
    assert catalog.repair_stale_turns() == []
    assert catalog.repair_stale_turns(0) == [chats[3]]


def test_drafts_that_nobody_went_on_with_are_swept(
    catalog: SessionCatalog, store: SessionStore, clock: FakeClock, live: set[str]
) -> None:
    """W3."""
    entry = store.get_or_create_session(SessionSource(platform=Platform.TELEGRAM, chat_id="4711"))
    catalog.pin_session(entry.session_id)
    live.add("s1")
    draft, titled, said, asked, touched = (catalog.new_session().session_id for _ in range(5))
    catalog.rename_session(titled, "Trip")
    catalog.save_messages(said, [user("hello")])
    catalog.start_turn(asked, "s1", "hello")
    clock.advance(hours=23)
    catalog.pin_session(touched)
    assert catalog.sweep_drafts() == []
    clock.advance(hours=2)
    assert catalog.sweep_drafts() == [draft]
    with pytest.raises(UnknownSessionError):
        catalog.get_session(draft)
    for kept in (titled, said, asked, touched, entry.session_id):
        assert catalog.get_session(kept).session_id == kept
    assert catalog.sweep_drafts(older_than=0) == [touched]
