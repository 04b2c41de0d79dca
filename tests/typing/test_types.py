"""The public names as a type checker sees them: `make lint` has mypy --strict and pyright read this, the suite runs it.

An expected error carries a `type: ignore`; both checkers complain about one that is not needed.
"""

import asyncio
from pathlib import Path
from typing import Any, assert_type

import pytest

from engine import (
    AnyEvent,
    AsyncSessionStore,
    AsyncTurn,
    Envelope,
    Erased,
    EventLog,
    GatewayConfig,
    Notices,
    Platform,
    RecordedMessage,
    SessionEntry,
    SessionInfo,
    SessionReader,
    SessionResetPolicy,
    SessionSource,
    SessionStore,
    StoreHealth,
    Turn,
    Unknown,
    Unreadable,
    events,
)

ADA = SessionSource(Platform.TELEGRAM, "4711", user_id="42")
HELLO = {"role": "user", "content": "hello", "message_id": "tg-1"}


def test_the_store_says_what_it_returns(tmp_path: Path) -> None:
    with SessionStore(tmp_path, GatewayConfig(), synchronous="OFF") as store:
        entry = assert_type(store.get_or_create_session(ADA), SessionEntry)
        with assert_type(store.turn(ADA, wait=0), Turn) as turn:
            assert assert_type(turn.append(HELLO), int | None)
            assert_type(turn.token, str)
        assert_type(store.load_transcript(entry.session_id), list[dict[str, Any]])
        assert_type(store.recorded_messages(entry.session_id), list[RecordedMessage])
        assert_type(store.rewind_session(entry.session_id), dict[str, Any] | None)
        assert_type(store.reset_session(entry.session_key), SessionEntry | None)
        assert_type(store.consume_notices(entry.session_key), Notices)
        assert_type(store.get_model_override(entry.session_key), dict[str, str] | None)
        assert_type(store.sessions_of(entry.session_key), list[SessionInfo])
        assert_type(store.health(), StoreHealth)
        assert_type(store.log, EventLog)
        assert assert_type(next(store.follow(topics=["message.appended"])), Envelope).position
    with SessionReader.open(tmp_path) as reader:
        assert_type(reader, SessionReader)
        assert len(assert_type(reader.list_sessions(), list[SessionEntry])) == 1


def test_the_awaitable_store_says_the_same(tmp_path: Path) -> None:
    async def run() -> None:
        async with await AsyncSessionStore.open(tmp_path, synchronous="OFF", payload_limit=10_000) as store:
            entry = assert_type(await store.get_or_create_session(ADA), SessionEntry)
            async with assert_type(store.turn(ADA, wait=0), AsyncTurn) as turn:
                assert assert_type(await turn.append(HELLO), int | None)
            assert_type(await store.load_transcript(entry.session_id), list[dict[str, Any]])
            assert_type(await store.reset_session(entry.session_key), SessionEntry | None)
            assert_type(await store.list_sessions(), list[SessionEntry])
            assert_type(await store.health(), StoreHealth)
            assert assert_type(await anext(store.follow()), Envelope).position == 1

    asyncio.run(run())


def told(envelope: Envelope) -> str:
    """Return an event in words; every kind is narrowed to its own fields."""
    match envelope.event:
        case events.LaneReset() as reset:
            return f"reset: {assert_type(reset.cause, str)}"
        case events.MessageAppended(message=message, message_id=known_as):
            assert_type(known_as, str | None)
            return f"message: {assert_type(message, dict[str, Any])['content']}"
        case Erased(digest=digest):
            return f"erased: {assert_type(digest, str)}"
        case Unknown() | Unreadable() as other:
            return other.topic
        case other:
            return other.topic


def turns_of(event: AnyEvent) -> int:
    """Return how many turns began: every event of the vocabulary has its place, or a type checker complains."""
    if isinstance(event, events.TurnBegun):
        return 1
    if isinstance(event, events.TurnRenewed | events.TurnEnded | events.TurnInterrupted):
        assert_type(event.token, str)
    return 0


def test_an_event_is_narrowed_to_its_kind(tmp_path: Path) -> None:
    with SessionStore(tmp_path, synchronous="OFF") as store:
        with store.turn(ADA) as turn:
            turn.append(HELLO)
        store.reset_session(turn.session_key)
        recorded = list(store.log.events())
    said = [told(each) for each in recorded]
    assert "message: hello" in said
    assert any(each.startswith("reset: ") for each in said)
    known = [each.event for each in recorded if isinstance(each.event, AnyEvent)]
    assert len(known) == len(recorded)
    assert sum(turns_of(event) for event in known) == 1


class HostPolicy:
    """A policy of the host's own, as the original's gateway has one."""

    mode = "none"
    at_hour = 4
    idle_minutes = 60


class HostConfig:
    """A configuration of the host's own."""

    group_sessions_per_user = True
    thread_sessions_per_user = False
    multiplex_profiles = False

    def get_reset_policy(self, platform: Platform | None = None, session_type: str | None = None) -> HostPolicy:
        return HostPolicy()


def test_a_configuration_of_the_hosts_own_is_accepted(tmp_path: Path) -> None:
    """(G3a)"""
    config = HostConfig()
    with SessionStore(tmp_path, config, synchronous="OFF") as store:
        assert store.get_or_create_session(ADA).session_key == "agent:main:telegram:dm:4711"
        assert store.config is config


def test_what_a_type_checker_refuses_is_refused_when_it_runs(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="config"):
        SessionStore(tmp_path, SessionResetPolicy())  # type: ignore[arg-type]
    with SessionStore(tmp_path, synchronous="OFF") as store:
        with pytest.raises(ValueError, match="source"):
            store.get_or_create_session("agent:main:telegram:dm:4711")  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="idle_minutes"):
            SessionStore(tmp_path, idle_minutes=60)  # type: ignore[call-arg]
        with pytest.raises(TypeError, match="chat"):
            ADA.replace(chat="4712")  # type: ignore[call-arg]
    assert ADA.replace(chat_id="4712").chat_id == "4712"
