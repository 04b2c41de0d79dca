"""The corrected rules of lanes, as a gateway written for hermes-agent meets them, on a store (G3a to G40a)."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from engine import (
    AsyncSessionStore,
    GatewayConfig,
    SessionReader,
)
from engine.command import Command
from tests.gateway.support import lane, policy, say, texts

KEY = "agent:main:telegram:dm:4711"
TRUSTED = {"is_bot": True, "role_authorized": True, "delivered_via_upstream_relay": True}


class HostConfig:
    """A host's own configuration: attributes and a method of the same names, and nothing of ours."""

    group_sessions_per_user = False
    thread_sessions_per_user = False
    multiplex_profiles = False

    def __init__(self, mode: str = "none", minutes: int = 60) -> None:
        self._policy = SimpleNamespace(mode=mode, at_hour=4, idle_minutes=minutes)

    def get_reset_policy(self, platform, session_type):
        return self._policy


class TestConfig:
    def test_g3a_store_has_its_config_and_its_folder(self, tmp_path, open_store):
        config = policy("idle", idle_minutes=5)
        store = open_store(config)
        with SessionReader.open(tmp_path / "sessions", config) as reader:
            for each in (store, AsyncSessionStore(store), reader):
                assert each.config is config
                assert each.sessions_dir == tmp_path / "sessions"

    def test_g3a_any_object_with_the_attributes_is_a_config(self, open_store, clock, source):
        store = open_store(HostConfig("idle", 5))
        entry = store.get_or_create_session(source(chat_type="group", user_id="u"))
        assert entry.session_key == "agent:main:telegram:group:4711"
        assert store.is_session_finalizable(entry)
        clock.advance(minutes=6)
        assert store.is_session_expired(entry)
        again = store.get_or_create_session(source(chat_type="group", user_id="v"))
        assert (again.session_key, again.auto_reset_reason) == (entry.session_key, "idle")

    def test_g3a_what_is_missing_in_a_config_is_named(self, open_store):
        with pytest.raises(ValueError, match="multiplex_profiles"):
            open_store(SimpleNamespace(get_reset_policy=print, group_sessions_per_user=1, thread_sessions_per_user=1))
        with pytest.raises(ValueError, match="get_reset_policy"):
            open_store({"default_reset_policy": {}})


class TestTrust:
    def test_g7a_the_call_that_leads_somewhere_new_has_its_callers_source(self, open_store, clock, source):
        store = open_store(policy("idle", idle_minutes=60))
        trusted = source(**TRUSTED)
        created = store.get_or_create_session(trusted)
        forced = store.get_or_create_session(trusted, force_new=True)
        clock.advance(minutes=61)
        reset = store.get_or_create_session(trusted)
        say(store, reset.session_id, "hello")
        store.end_session(reset.session_id, "agent_close")
        recovered = store.get_or_create_session(trusted)
        assert recovered.session_id == reset.session_id
        for entry in (created, forced, reset, recovered):
            assert entry.origin is trusted

    def test_g7a_nothing_that_is_stored_or_read_back_has_trust(self, store, open_store, source):
        created = store.get_or_create_session(source(**TRUSTED))
        again = open_store()
        read = [
            lane(store, KEY),
            lane(again, KEY),
            store.lookup_by_session_id(created.session_id),
            again.get_or_create_session(source(**TRUSTED)),
            store.reset_session(KEY),
        ]
        for entry in read:
            assert entry.origin == source()
        store.close()
        stored = b"".join(path.read_bytes() for path in store.sessions_dir.iterdir())
        for name in TRUSTED:
            assert name.encode() not in stored

    def test_g7a_also_when_it_is_awaited(self, store, source):
        async def main():
            trusted = source(**TRUSTED)
            faced = AsyncSessionStore(store)
            return trusted, await faced.get_or_create_session(trusted), await faced.get_or_create_session(trusted)

        trusted, created, again = asyncio.run(main())
        assert created.origin is trusted
        assert again.origin == source()


class TestFreshness:
    @pytest.mark.parametrize(("window", "kept"), [("inf", True), ("nan", False), ("an hour", False), ("3600", False)])
    def test_g23a_endless_window_never_passes_and_a_malformed_one_is_the_default(
        self, open_store, clock, source, monkeypatch, window, kept
    ):
        monkeypatch.setenv("HERMES_AUTO_CONTINUE_FRESHNESS", window)
        store = open_store(policy("idle", idle_minutes=10**9))
        first = store.get_or_create_session(source())
        store.mark_resume_pending(KEY)
        clock.advance(days=3650)
        entry = store.get_or_create_session(source())
        assert (entry.session_id == first.session_id) is kept
        assert entry.auto_reset_reason == (None if kept else "resume_pending_expired")


class TestForcedTogether:
    def looked(self, store, source):
        """A call that has looked at its lane and has not decided yet."""
        found = store.routes.find(source, True, True)
        assert isinstance(found, Command)
        return found

    @pytest.mark.parametrize("known", [True, False])
    def test_g26a_calls_that_overlap_make_one_session(self, open_store, source, known):
        """Also those of two processes, and for a lane that nobody knew."""
        store, other = open_store(), open_store()
        if known:
            store.get_or_create_session(source())
        calls = [(each, self.looked(each, source())) for each in (store, other, store)]
        entries = [each.runner.run(call) for each, call in calls]
        assert len({entry.session_id for entry in entries}) == 1
        assert not known or len(store.sessions_of(KEY)) == 2

    def test_g26a_calls_one_after_the_other_make_one_each(self, store, source):
        ids = [store.get_or_create_session(source(), force_new=True).session_id for _ in range(3)]
        assert len(set(ids)) == 3

    def test_g26a_a_call_for_another_lane_is_not_answered_by_it(self, store, source):
        calls = [self.looked(store, source(name)) for name in ("a", "b")]
        assert len({store.runner.run(call).session_id for call in calls}) == 2

    def test_g26a_a_reset_in_between_is_new_enough_and_a_message_is_not(self, store, source):
        first = store.get_or_create_session(source()).session_id
        call = self.looked(store, source())
        reset = store.reset_session(KEY).session_id
        assert store.runner.run(call).session_id == reset
        call = self.looked(store, source())
        say(store, reset, "hello")
        store.update_session(KEY, 5)
        assert store.runner.run(call).session_id not in (first, reset)

    def test_g26a_threads_and_tasks_at_once(self, open_store, source):
        store = open_store()
        together = threading.Barrier(4)
        found = []

        def force():
            together.wait()
            found.append(store.get_or_create_session(source(), force_new=True).session_id)

        threads = [threading.Thread(target=force) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({*found}) == len(store.sessions_of(KEY))

        async def main():
            faced = AsyncSessionStore(store)
            calls = (faced.get_or_create_session(source("other"), force_new=True) for _ in range(8))
            return {entry.session_id for entry in await asyncio.gather(*calls)}

        assert len(asyncio.run(main())) == len(store.sessions_of("agent:main:telegram:dm:other"))


class TestActiveProfile:
    def test_g27a_lanes_of_the_active_profile_are_found_when_multiplexing_is_switched_off(self, open_store, source):
        store = open_store(GatewayConfig(multiplex_profiles=True), active_profile="work")
        first = store.get_or_create_session(source())
        say(store, first.session_id, "hello")
        store.close()
        store = open_store(active_profile="work")
        entry = store.get_or_create_session(source())
        assert (entry.session_key, entry.session_id) == (KEY, first.session_id)
        assert first.session_key == "agent:work:telegram:dm:4711"

    def test_g27a_lanes_of_other_profiles_are_not(self, open_store, source):
        store = open_store(GatewayConfig(multiplex_profiles=True), active_profile="work")
        home = store.get_or_create_session(source(profile="home"))
        say(store, home.session_id, "hello")
        store.close()
        store = open_store(active_profile="work")
        assert store.get_or_create_session(source()).session_id != home.session_id

    def test_g27a_ones_own_lane_comes_first(self, open_store, clock, source):
        own = open_store(active_profile="work").get_or_create_session(source())
        store = open_store(GatewayConfig(multiplex_profiles=True), active_profile="work")
        say(store, own.session_id, "own")
        clock.advance(minutes=1)
        say(store, store.get_or_create_session(source(), force_new=True).session_id, "newer, of the profile")
        clock.advance(days=9)
        assert store.prune_old_entries(1) == 2
        assert open_store(active_profile="work").get_or_create_session(source()).session_id == own.session_id


@pytest.mark.parametrize("tokens", [-1, 0, 7, 2**70, -(2**70)])
def test_g34a_the_last_prompt_is_any_whole_number_and_comes_back(store, open_store, source, tokens):
    store.get_or_create_session(source())
    store.update_session(KEY, tokens)
    for each in (store, open_store()):
        assert lane(each, KEY).last_prompt_tokens == tokens


class TestEmptyArguments:
    @pytest.mark.parametrize("nothing", [None, ""])
    def test_g35a_nothing_leads_nowhere(self, store, nothing):
        for name in ("peek_session_id", "lookup_by_session_id", "get_model_override"):
            assert getattr(store, name)(nothing) is None
        for name in ("suspend_session", "mark_resume_pending", "clear_resume_pending"):
            assert getattr(store, name)(nothing) is False
        assert store.log.last_position == 0

    @pytest.mark.parametrize("nothing", [None, ""])
    def test_g35a_also_when_it_is_awaited(self, store, nothing):
        async def main():
            faced = AsyncSessionStore(store)
            for name in ("peek_session_id", "lookup_by_session_id", "get_model_override"):
                assert await getattr(faced, name)(nothing) is None
            for name in ("suspend_session", "mark_resume_pending", "clear_resume_pending"):
                assert await getattr(faced, name)(nothing) is False

        asyncio.run(main())

    @pytest.mark.parametrize("nothing", [None, ""])
    def test_g35a_no_reason_is_the_default_one(self, store, source, nothing):
        store.get_or_create_session(source())
        assert store.mark_resume_pending(KEY, nothing)
        assert lane(store, KEY).resume_reason == "restart_timeout"


class TestFinalizing:
    def expired(self, open_store, clock, source, mode="idle"):
        store = open_store(policy(mode, idle_minutes=10, at_hour=15))
        entry = store.get_or_create_session(source())
        say(store, entry.session_id, "hello")
        store.set_model_override(KEY, {"model": "large"})
        clock.advance(hours=1)
        return store, entry

    @pytest.mark.parametrize("mode", ["idle", "daily"])
    @pytest.mark.parametrize("given", ["session_key", "entry", "positional"])
    def test_g40a_the_session_ends_for_the_reason_it_expired_for(self, open_store, clock, source, mode, given):
        store, entry = self.expired(open_store, clock, source, mode)
        match given:
            case "session_key":
                assert store.set_expiry_finalized(session_key=KEY) is True
            case "entry":
                assert store.set_expiry_finalized(entry=entry) is True
            case "positional":
                assert store.set_expiry_finalized(entry) is True
        assert store.get_session(entry.session_id).end_reason == mode
        assert lane(store, KEY).expiry_finalized
        assert store.get_model_override(KEY) is None

    def test_g40a_the_model_may_be_kept(self, open_store, clock, source):
        store, entry = self.expired(open_store, clock, source)
        store.set_expiry_finalized(entry, clear_model_override=False)
        assert store.get_model_override(KEY) == {"model": "large"}

    @pytest.mark.parametrize("days", [1, 100])
    def test_g40a_neither_prune_nor_recovery_brings_it_back(self, open_store, clock, source, days):
        store, entry = self.expired(open_store, clock, source)
        store.set_expiry_finalized(KEY)
        clock.advance(days=days)
        store.prune_old_entries(90)
        new = store.get_or_create_session(source())
        assert new.session_id != entry.session_id
        assert texts(store, new.session_id) == []

    def test_g40a_what_has_not_expired_by_the_clock_ends_as_expired(self, store, source):
        """The host says that it is over: it knows more than the policy."""
        entry = store.get_or_create_session(source())
        say(store, entry.session_id, "hello")
        assert store.set_expiry_finalized(entry)
        assert store.get_session(entry.session_id).end_reason == "expired"
        assert store.get_or_create_session(source()).session_id != entry.session_id

    def test_g40a_a_suspended_lane_ends_as_suspended_and_twice_is_once(self, store, source):
        entry = store.get_or_create_session(source())
        store.suspend_session(KEY)
        assert store.set_expiry_finalized(KEY)
        position = store.log.last_position
        assert store.set_expiry_finalized(KEY)
        assert store.log.last_position == position
        assert store.get_session(entry.session_id).end_reason == "suspended"

    def test_g40a_it_may_be_awaited(self, open_store, clock, source):
        store, entry = self.expired(open_store, clock, source)
        assert asyncio.run(AsyncSessionStore(store).set_expiry_finalized(entry=entry))
        assert store.get_session(entry.session_id).end_reason == "idle"

    def test_g40a_neither_a_key_nor_an_entry_is_refused(self, store):
        for nothing in (None, "", 5):
            with pytest.raises(ValueError, match="session_key"):
                store.set_expiry_finalized(nothing)
