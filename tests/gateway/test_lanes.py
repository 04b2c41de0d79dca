"""G34 to G41 and G45: what a host does to a lane."""

import json

import pytest

from engine import GatewayConfig, Platform, SessionResetPolicy, UnknownSessionError
from engine.domain import events as e
from engine.log import EventLog
from engine.log.envelope import NEXT_VERSION, Envelope
from tests.gateway.support import lane, policy, say, stream_of, tables

KEY = "agent:main:telegram:dm:4711"
UNKNOWN = "agent:main:telegram:dm:nobody"


class TestUsage:
    def test_the_last_prompt_replaces_and_the_rest_adds_up(self, store, clock, source):
        """G34."""
        store.get_or_create_session(source())
        clock.advance(minutes=1)
        for _ in range(2):
            counts = {"input_tokens": 10, "output_tokens": 3, "cache_read_tokens": 2, "cache_write_tokens": 1}
            store.update_session(KEY, 900, **counts, cost_usd=0.25)
        entry = lane(store, KEY)
        assert (entry.input_tokens, entry.output_tokens, entry.total_tokens) == (20, 6, 26)
        assert (entry.cache_read_tokens, entry.cache_write_tokens) == (4, 2)
        assert (entry.last_prompt_tokens, entry.estimated_cost_usd) == (900, 0.5)
        assert entry.cost_status == "estimated"
        assert entry.updated_at == clock()

    def test_zero_is_a_value_and_none_is_not(self, store, source):
        """G34."""
        store.get_or_create_session(source())
        store.update_session(KEY, 900)
        store.update_session(KEY)
        assert lane(store, KEY).last_prompt_tokens == 900
        assert lane(store, KEY).cost_status == "unknown"
        store.update_session(KEY, 0, cost_usd=0)
        assert lane(store, KEY).last_prompt_tokens == 0
        assert lane(store, KEY).cost_status == "estimated"

    def test_an_unknown_lane_is_left_alone(self, store):
        """G34."""
        assert store.update_session(UNKNOWN, 5) is None
        assert store.log.last_position == 0

    def test_numbers_over_64_bits_and_infinity_come_back(self, store, open_store, source):
        """G34, G52: a lane with them can still be read by everybody."""
        store.get_or_create_session(source())
        store.update_session(KEY, 2**70, input_tokens=2**70, cost_usd=float("inf"))
        entry = lane(open_store(), KEY)
        assert (entry.last_prompt_tokens, entry.total_tokens) == (2**70, 2**70)
        assert entry.estimated_cost_usd == float("inf")


class TestFlags:
    def test_suspend(self, store, source):
        """G35."""
        store.get_or_create_session(source())
        assert store.suspend_session(KEY) is True
        assert store.suspend_session(KEY) is True
        assert lane(store, KEY).suspended
        assert store.suspend_session(UNKNOWN) is False

    def test_mark_and_clear_resume_pending(self, store, clock, source):
        """G35."""
        store.get_or_create_session(source())
        assert store.clear_resume_pending(KEY) is False
        assert store.mark_resume_pending(KEY) is True
        entry = lane(store, KEY)
        assert (entry.resume_pending, entry.resume_reason) == (True, "restart_timeout")
        assert entry.last_resume_marked_at == clock()
        assert store.clear_resume_pending(KEY) is True
        entry = lane(store, KEY)
        assert (entry.resume_pending, entry.resume_reason, entry.last_resume_marked_at) == (False, None, None)

    def test_an_unknown_or_suspended_lane_cannot_be_marked(self, store, source):
        """G35."""
        assert store.mark_resume_pending(UNKNOWN, "x") is False
        assert store.clear_resume_pending(UNKNOWN) is False
        store.get_or_create_session(source())
        store.suspend_session(KEY)
        assert store.mark_resume_pending(KEY) is False
        assert not lane(store, KEY).resume_pending

    def test_marking_does_not_touch(self, store, clock, source):
        """G35: a restart is not a message."""
        first = store.get_or_create_session(source())
        clock.advance(minutes=1)
        store.mark_resume_pending(KEY)
        store.suspend_session(KEY)
        assert lane(store, KEY).updated_at == first.updated_at


class TestReset:
    def test_a_new_session_that_says_it_is_fresh(self, store, clock, source):
        """G37."""
        first = store.get_or_create_session(source(chat_name="Ada"))
        store.update_session(KEY, 900)
        store.set_model_override(KEY, {"model": "large"})
        clock.advance(minutes=1)
        entry = store.reset_session(KEY)
        assert entry.session_id != first.session_id
        assert (entry.is_fresh_reset, entry.was_auto_reset, entry.auto_reset_reason) == (True, False, None)
        assert (entry.display_name, entry.origin) == ("Ada", first.origin)
        assert (entry.last_prompt_tokens, entry.model_override) == (0, None)
        assert entry.created_at == entry.updated_at == clock()
        assert store.get_session(first.session_id).end_reason == "session_reset"
        assert store.get_or_create_session(source()).session_id == entry.session_id

    @pytest.mark.parametrize("name", ["", "Other"])
    def test_the_display_name_is_replaced_even_by_nothing(self, store, source, name):
        """G37."""
        store.get_or_create_session(source(chat_name="Ada"))
        assert store.reset_session(KEY, name).display_name == name
        assert lane(store, KEY).display_name == name

    def test_unknown(self, store):
        """G37."""
        assert store.reset_session(UNKNOWN) is None

    def test_a_suspended_lane_is_free_again(self, store, source):
        """G37."""
        store.get_or_create_session(source())
        store.suspend_session(KEY)
        reset = store.reset_session(KEY)
        assert store.get_or_create_session(source()).session_id == reset.session_id

    def test_the_new_session_is_still_that_of_the_person_and_place(self, open_store, source):
        """G37, G27: it is recovered when the lane's key has changed with the configuration."""
        place = {"chat_type": "group", "user_id": "u1"}
        store = open_store(GatewayConfig(group_sessions_per_user=False))
        reset = store.reset_session(store.get_or_create_session(source(**place)).session_key)
        say(store, reset.session_id, "hello")
        store.close()
        store = open_store(GatewayConfig(group_sessions_per_user=True))
        entry = store.get_or_create_session(source(**place))
        assert entry.session_key != reset.session_key
        assert entry.session_id == reset.session_id

    @pytest.mark.parametrize("how", ["reset_session", "switch_session"])
    def test_neither_tokens_nor_costs_come_along(self, store, source, how):
        """G37, G38: they were those of the session before."""
        other = store.get_or_create_session(source("other")).session_id
        fresh = store.get_or_create_session(source())
        counts = {"input_tokens": 10, "output_tokens": 3, "cache_read_tokens": 2, "cache_write_tokens": 1}
        store.update_session(KEY, 900, **counts, cost_usd=0.25)
        store.switch_session(KEY, other) if how == "switch_session" else store.reset_session(KEY)
        names = (*counts, "total_tokens", "last_prompt_tokens", "estimated_cost_usd", "cost_status")
        entry = lane(store, KEY)
        assert entry.session_id != fresh.session_id
        assert [getattr(entry, name) for name in names] == [getattr(fresh, name) for name in names]


class TestSwitch:
    def two(self, store, source):
        first = store.get_or_create_session(source())
        store.end_session(first.session_id, "user_exit")
        return first, store.get_or_create_session(source())

    def test_the_old_ends_and_the_target_is_open_again(self, store, source):
        """G38, G39."""
        first, second = self.two(store, source)
        store.mark_resume_pending(KEY)
        store.set_model_override(KEY, {"model": "large"})
        store.update_session(KEY, 5)
        entry = store.switch_session(KEY, first.session_id)
        assert entry.session_id == first.session_id
        assert store.get_session(second.session_id).end_reason == "session_switch"
        assert store.get_session(first.session_id).end_reason is None
        assert (entry.resume_pending, entry.model_override, entry.last_prompt_tokens) == (False, None, 0)
        assert store.get_or_create_session(source()).session_id == first.session_id

    def test_the_same_id_changes_nothing(self, store, source):
        """G38."""
        _, second = self.two(store, source)
        store.mark_resume_pending(KEY)
        before = store.log.last_position
        assert store.switch_session(KEY, second.session_id).resume_pending
        assert store.log.last_position == before
        assert store.get_session(second.session_id).end_reason is None

    def test_a_ghost_is_refused_and_nothing_happens(self, store, source):
        """G38."""
        entry = store.get_or_create_session(source())
        before = store.log.last_position
        with pytest.raises(UnknownSessionError, match="20200101_000000_00000000"):
            store.switch_session(KEY, "20200101_000000_00000000")
        assert store.log.last_position == before
        assert store.peek_session_id(KEY) == entry.session_id

    def test_an_unknown_lane(self, store, source):
        """G38."""
        entry = store.get_or_create_session(source())
        assert store.switch_session(UNKNOWN, entry.session_id) is None

    def test_to_a_compressed_parent_reopens_it(self, store, source):
        """G38: the target is reopened; the lane is not carried on to the child (G20 follows ended parents only)."""
        parent = store.get_or_create_session(source()).session_id
        child = store.compress_session(parent)
        assert store.switch_session(KEY, parent).session_id == parent
        assert store.get_session(child).end_reason == "session_switch"
        assert store.get_or_create_session(source()).session_id == parent


class TestModelOverride:
    def test_a_copy_without_credentials(self, store, source):
        """G39, G18: not in the answer, and not in the file."""
        store.get_or_create_session(source())
        given = {"model": "large", "provider": "", "api_key": "sk-secret", "base_url": "https://u:sk-secret@host/v1"}
        store.set_model_override(KEY, given)
        kept = store.get_model_override(KEY)
        assert kept == {"model": "large", "base_url": "https://host/v1"}
        kept["model"] = "changed"
        assert store.get_model_override(KEY)["model"] == "large"
        stored = json.dumps(store.log.query("SELECT state FROM events")) + json.dumps(
            store.log.query("SELECT state FROM lanes")
        )
        assert "sk-secret" not in stored

    def test_none_gives_the_choice_back(self, store, source):
        """G39."""
        store.get_or_create_session(source())
        store.set_model_override(KEY, {"model": "large"})
        store.set_model_override(KEY, None)
        assert store.get_model_override(KEY) is None
        assert store.get_model_override(UNKNOWN) is None

    def test_a_credential_in_a_log_that_others_wrote_goes_nowhere(self, store, open_store, source):
        """G18: neither into an answer nor into the tables."""
        store.get_or_create_session(source())
        stream = stream_of(store, KEY)
        store.close()
        with EventLog(store.log.path) as log:
            event = e.ModelOverrideSet(override={"model": "large", "api_key": "sk-secret"})
            log.append([Envelope(stream, NEXT_VERSION, event)])
        again = open_store()
        assert again.get_model_override(KEY) == lane(again, KEY).model_override == {"model": "large"}
        assert "sk-secret" not in repr(tables(again)["lanes"])


class TestExpiry:
    def test_finalized_until_the_next_session(self, open_store, clock, source):
        """G40."""
        store = open_store(policy("idle", idle_minutes=10))
        entry = store.get_or_create_session(source())
        assert store.set_expiry_finalized(KEY) is True
        assert lane(store, KEY).expiry_finalized
        assert store.set_expiry_finalized(UNKNOWN) is False
        assert not store.is_session_expired(entry)
        clock.advance(minutes=11)
        assert store.is_session_expired(entry)
        assert not store.get_or_create_session(source()).expiry_finalized

    @pytest.mark.parametrize(("mode", "finalizable"), [("none", False), ("idle", True), ("daily", True)])
    def test_finalizable_is_a_mode_other_than_none(self, open_store, source, mode, finalizable):
        """G40."""
        store = open_store(policy(mode))
        assert store.is_session_finalizable(store.get_or_create_session(source())) is finalizable

    def test_the_policy_is_that_of_the_platform_and_the_chat_type(self, open_store, clock, source):
        """G40 with G3."""
        idle = SessionResetPolicy(mode="idle", idle_minutes=1)
        store = open_store(GatewayConfig(reset_by_platform={Platform.SLACK: idle}, reset_by_type={"group": idle}))
        places = ({"platform": Platform.SLACK}, {"chat_type": "group"}, {})
        entries = [store.get_or_create_session(source(**place)) for place in places]
        clock.advance(minutes=2)
        assert [store.is_session_finalizable(entry) for entry in entries] == [True, True, False]
        assert [store.is_session_expired(entry) for entry in entries] == [True, True, False]


class TestPrune:
    @pytest.mark.parametrize("days", [None, 0, -1, -0.5])
    def test_nothing_without_an_age(self, store, clock, source, days):
        """G41."""
        store.get_or_create_session(source())
        clock.advance(days=1000)
        assert store.prune_old_entries(days) == 0

    @pytest.mark.parametrize(("more", "pruned"), [(0, 0), (1, 1)])
    def test_the_boundary(self, store, clock, source, more, pruned):
        """G41: untouched for exactly that long is not longer."""
        store.get_or_create_session(source())
        clock.advance(days=90, microseconds=more)
        assert store.prune_old_entries(90) == pruned

    def test_suspended_and_busy_lanes_stay_and_sessions_always_do(self, open_store, clock, source):
        """G41, G30."""
        store = open_store(busy=lambda key: key.endswith("busy"))
        entries = {name: store.get_or_create_session(source(name)) for name in ("old", "busy", "suspended")}
        say(store, entries["old"].session_id, "hello")
        store.suspend_session(entries["suspended"].session_key)
        clock.advance(days=91)
        store.get_or_create_session(source("new"))
        assert store.prune_old_entries(90) == 1
        assert {entry.session_key.rpartition(":")[2] for entry in store.list_sessions()} == {"busy", "suspended", "new"}
        assert store.peek_session_id(entries["old"].session_key) is None
        assert len(store.load_transcript(entries["old"].session_id)) == 1
        assert store.get_session(entries["old"].session_id).end_reason is None

    def test_a_touch_that_is_not_written_yet_counts(self, store, clock, source):
        """G41: a lane used a moment ago is not old."""
        store.get_or_create_session(source())
        clock.advance(days=91)
        store.get_or_create_session(source())
        assert store.prune_old_entries(90) == 0


class TestLooking:
    def test_newest_first_and_only_the_active(self, store, clock, source):
        """G41."""
        for name in ("a", "b", "c"):
            store.get_or_create_session(source(name))
            clock.advance(minutes=10)
        store.get_or_create_session(source("a"))
        names = [entry.session_key[-1] for entry in store.list_sessions()]
        assert names == ["a", "c", "b"]
        assert [entry.session_key[-1] for entry in store.list_sessions(10)] == ["a", "c"]
        assert [entry.session_key[-1] for entry in store.list_sessions(active_minutes=0)] == ["a"]

    def test_look_up_and_peek(self, store, clock, source):
        """G41: neither touches."""
        entry = store.get_or_create_session(source())
        clock.advance(minutes=1)
        assert store.lookup_by_session_id(entry.session_id) == entry
        assert store.lookup_by_session_id("20200101_000000_00000000") is None
        assert store.peek_session_id(KEY) == entry.session_id
        assert store.peek_session_id(UNKNOWN) is None
        assert lane(store, KEY).updated_at == entry.updated_at

    def test_a_touch_that_is_not_written_yet_is_looked_up_too(self, store, clock, source, monkeypatch):
        """G41."""
        monkeypatch.setattr(store.runner.touches, "_write", lambda keys: None)
        entry = store.get_or_create_session(source())
        clock.advance(minutes=1)
        store.get_or_create_session(source())
        assert store.lookup_by_session_id(entry.session_id).updated_at == clock()

    def test_more_than_one_session_ever(self, store, source):
        """G41: the first one is the one that asks."""
        assert not store.has_any_sessions()
        store.get_or_create_session(source())
        assert not store.has_any_sessions()
        store.get_or_create_session(source())
        assert not store.has_any_sessions()
        store.reset_session(KEY)
        assert store.has_any_sessions()

    def test_an_entry_is_a_snapshot(self, store, source):
        """G19."""
        entry = store.get_or_create_session(source())
        entry.suspended, entry.session_id = True, "other"
        assert store.get_or_create_session(source()).session_id != "other"
        assert not lane(store, KEY).suspended

    def test_an_answer_from_memory_is_a_snapshot_too(self, store, source):
        """G19: the lane is in memory from the second message on."""
        first = store.get_or_create_session(source())
        store.set_model_override(KEY, {"model": "large"})
        for _ in range(2):
            entry = store.get_or_create_session(source())
            assert (entry.session_id, entry.suspended) == (first.session_id, False)
            assert entry.model_override == {"model": "large"}
            entry.suspended, entry.session_id, entry.model_override["model"] = True, "other", "changed"

    def test_an_entry_does_not_carry_trust(self, store, source):
        """G7, G7a: it held for one message only, and the call that created the lane got its own source back."""
        trusted = source(is_bot=True, role_authorized=True, delivered_via_upstream_relay=True)
        assert store.get_or_create_session(trusted).origin == trusted
        for _ in range(3):
            assert store.get_or_create_session(trusted).origin == source()
        assert store.reset_session(KEY).origin == source()


class TestNotices:
    def test_an_automatic_reset_is_told_once(self, open_store, clock, source):
        """G45: whoever asks first, in any process."""
        store, other = open_store(policy("idle", idle_minutes=1)), open_store()
        store.get_or_create_session(source())
        store.update_session(KEY, 5)
        clock.advance(minutes=2)
        store.get_or_create_session(source())
        clock.advance(seconds=1)
        assert store.get_or_create_session(source()).was_auto_reset, "until it is told"
        notices = other.consume_notices(KEY)
        assert notices
        assert (notices.was_auto_reset, notices.auto_reset_reason, notices.reset_had_activity) == (True, "idle", True)
        assert not notices.is_fresh_reset
        assert not store.consume_notices(KEY)
        entry = store.get_or_create_session(source())
        assert (entry.was_auto_reset, entry.auto_reset_reason, entry.reset_had_activity) == (False, None, False)

    def test_a_fresh_reset_is_told_once(self, store, source):
        """G45."""
        store.get_or_create_session(source())
        assert not store.consume_notices(KEY)
        store.reset_session(KEY)
        assert store.consume_notices(KEY).is_fresh_reset
        assert not store.consume_notices(KEY)
        assert not lane(store, KEY).is_fresh_reset
        assert not store.consume_notices(UNKNOWN)
