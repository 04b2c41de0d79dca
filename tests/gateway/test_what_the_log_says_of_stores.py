"""The log's own stream says when a store began to write and with which rules, and when it was closed."""

from collections.abc import Callable
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from engine import GatewayConfig, NotALogError, Platform, SessionResetPolicy, SessionSource, SessionStore, events
from engine.version import package_version
from tests.gateway.support import FakeClock

Opening = Callable[..., SessionStore]


def own(store: SessionStore) -> list[events.StoreOpened | events.StoreClosed]:
    found = [each.event for each in store.log.events(topics=["store.opened", "store.closed"])]
    return [event for event in found if isinstance(event, events.StoreOpened | events.StoreClosed)]


def test_a_store_says_with_its_first_command_which_version_it_is_and_what_it_decides_by(
    open_store: Opening, source: Callable[..., SessionSource]
) -> None:
    rules = GatewayConfig(
        default_reset_policy=SessionResetPolicy(mode="daily", at_hour=5),
        reset_by_platform={Platform.SLACK: SessionResetPolicy(mode="idle", idle_minutes=7)},
        thread_sessions_per_user=True,
    )
    zoned = FakeClock(datetime(2026, 7, 1, 12, tzinfo=ZoneInfo("Europe/Berlin")))
    store = open_store(rules, clock=zoned)
    assert store.log.last_position == 0, "opening is as cheap as it was"
    store.get_or_create_session(source())
    first = next(store.log.events())
    (said,) = own(store)
    assert first.event == said
    assert (first.stream, first.command, first.actor) == ("log", "open", "gateway")
    assert isinstance(said, events.StoreOpened)
    assert (said.version, said.zone) == (package_version(), "Europe/Berlin")
    assert said.settings == {
        "group_sessions_per_user": True,
        "thread_sessions_per_user": True,
        "multiplex_profiles": False,
        "default_reset_policy": {"mode": "daily", "at_hour": 5, "idle_minutes": 1440},
        "reset_by_platform": {"slack": {"mode": "idle", "at_hour": 4, "idle_minutes": 7}},
    }


def test_a_restart_and_a_changed_policy_are_seen_and_a_store_that_only_read_says_nothing(
    open_store: Opening, source: Callable[..., SessionSource]
) -> None:
    for mode in ("none", "idle"):
        with open_store(GatewayConfig(default_reset_policy=SessionResetPolicy(mode=mode))) as store:
            store.reset_session(store.get_or_create_session(source()).session_key)
    with open_store() as reading:
        assert len(reading.list_sessions()) == 1
        said = own(reading)
    with open_store() as store:
        assert own(store) == said
    opened = [each for each in said if isinstance(each, events.StoreOpened)]
    assert [type(each).__name__ for each in said] == ["StoreOpened", "StoreClosed"] * 2
    assert [each.holder for each in said[::2]] == [each.holder for each in said[1::2]]
    assert opened[0].holder != opened[1].holder
    assert [(each.settings or {})["default_reset_policy"]["mode"] for each in opened] == ["none", "idle"]


def test_a_folder_without_a_store_is_refused_when_none_is_to_be_made(tmp_path) -> None:
    with pytest.raises(NotALogError, match="create=True"):
        SessionStore(tmp_path / "nothing", create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_getter_writes_nothing(store: SessionStore, source: Callable[..., SessionSource]) -> None:
    entry = store.get_or_create_session(source())
    store.append_to_transcript(entry.session_id, {"role": "user", "content": "hello", "message_id": "m"})
    store.get_or_create_session(source())
    before = store.log.last_position, dict(store._pending)
    commits = store.log.health().commits
    key, session_id = entry.session_key, entry.session_id
    for ask in (
        lambda: store.get_model_override(key),
        lambda: store.is_session_expired(entry),
        lambda: store.is_session_finalizable(entry),
        store.list_sessions,
        lambda: list(store.iter_sessions()),
        lambda: store.lookup_by_session_id(session_id),
        lambda: store.peek_session_id(key),
        lambda: store.sessions_of(key),
        store.has_any_sessions,
        lambda: store.get_session(session_id),
        lambda: store.conversation(session_id),
        lambda: store.has_platform_message_id(session_id, "m"),
        lambda: store.load_transcript(session_id),
        lambda: store.recorded_messages(session_id),
        store.quarantined,
        store.health,
        store.metrics,
    ):
        ask()
    assert (store.log.last_position, dict(store._pending)) == before
    assert store.log.health().commits == commits
