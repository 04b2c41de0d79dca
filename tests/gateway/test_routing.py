"""G20 to G33: which session a message belongs to."""

import re
import threading
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from engine import GatewayConfig, Platform, SessionResetPolicy
from engine.domain import events as e
from engine.log import EventLog
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.work import Work
from tests.gateway.children import Child
from tests.gateway.support import FakeClock, lane, policy, say, since, texts, until

KEY = "agent:main:telegram:dm:4711"


def compress_behind_its_back(store, parent):
    """Close a session into a child without moving its lanes, as an imported log may have it."""
    child = "20260701_000000_0000c41d"
    store.close()
    with EventLog(store.log.path) as log:
        log.append(
            [
                Envelope(f"session:{parent}", NEXT_VERSION, e.SessionCompressed(child_session_id=child)),
                Envelope(f"session:{child}", 1, e.SessionCreated(conversation_id=parent, lane=KEY)),
            ]
        )
    return child


class TestCompressionChain:
    def test_a_lane_on_a_compressed_parent_is_on_its_live_tip(self, store, open_store, source):
        """G20."""
        first = store.get_or_create_session(source())
        child = compress_behind_its_back(store, first.session_id)
        again = open_store()
        assert again.peek_session_id(KEY) == first.session_id
        routed = again.get_or_create_session(source())
        assert routed.session_id == child
        assert again.peek_session_id(KEY) == child
        assert not routed.was_auto_reset

    def test_the_chain_is_followed_to_its_end_and_keeps_the_override(self, store, source):
        """G20: two compressions; G39: compression is no reset."""
        first = store.get_or_create_session(source())
        store.set_model_override(KEY, {"model": "large"})
        child = store.compress_session(first.session_id)
        grandchild = store.compress_session(child)
        entry = store.get_or_create_session(source())
        assert entry.session_id == grandchild
        assert entry.model_override == {"model": "large"}

    def test_suspension_on_a_compressed_parent_resets(self, store, open_store, source):
        """G20 before G22."""
        first = store.get_or_create_session(source())
        store.suspend_session(KEY)
        child = compress_behind_its_back(store, first.session_id)
        again = open_store()
        entry = again.get_or_create_session(source())
        assert entry.session_id not in (child, first.session_id)
        assert entry.auto_reset_reason == "suspended"
        assert again.get_session(child).end_reason == "suspended"
        assert again.get_session(first.session_id).end_reason == "compression"

    def test_a_chain_that_leads_back_to_itself_ends(self, store, open_store, source, monkeypatch):
        """G20: no command makes one, but a log that others wrote may have it."""
        first = store.get_or_create_session(source()).session_id
        child = compress_behind_its_back(store, first)
        with EventLog(store.log.path) as log:
            log.append([Envelope(f"session:{child}", NEXT_VERSION, e.SessionCompressed(child_session_id=first))])
        looks = []

        def counted(work, session_id, session=Work.session):
            looks.append(session_id)
            assert len(looks) < 50, "the chain is followed for ever"
            return session(work, session_id)

        monkeypatch.setattr(Work, "session", counted)
        assert open_store().get_or_create_session(source()).session_id not in (first, child)


class TestEndedSession:
    def test_the_mapping_and_its_flags_are_forgotten_and_a_new_session_made(self, store, source):
        """G21."""
        first = store.get_or_create_session(source())
        store.update_session(KEY, 900, input_tokens=5)
        store.mark_resume_pending(KEY)
        store.set_model_override(KEY, {"model": "large"})
        store.set_expiry_finalized(KEY)
        store.end_session(first.session_id, "user_exit")
        entry = store.get_or_create_session(source())
        assert entry.session_id != first.session_id
        assert (entry.resume_pending, entry.model_override, entry.expiry_finalized) == (False, None, False)
        assert (entry.last_prompt_tokens, entry.total_tokens) == (0, 0)
        assert not entry.was_auto_reset

    def test_an_end_is_seen_by_a_store_that_has_the_lane_in_memory(self, open_store, source):
        """G21, G32: whichever process ended it."""
        store, other = open_store(), open_store()
        for ending in (store, other):
            first = store.get_or_create_session(source()).session_id
            assert store.get_or_create_session(source()).session_id == first
            ending.end_session(first, "user_exit")
            assert store.get_or_create_session(source()).session_id != first

    def test_an_accidental_end_is_recovered(self, store, source):
        """G21 then G27."""
        first = store.get_or_create_session(source())
        say(store, first.session_id, "hello")
        store.end_session(first.session_id, "agent_close")
        entry = store.get_or_create_session(source())
        assert entry.session_id == first.session_id
        assert store.get_session(first.session_id).end_reason is None

    def test_a_suspended_lane_still_counts_as_an_automatic_reset(self, store, source):
        """G21: even though the session ended by accident and could be recovered."""
        first = store.get_or_create_session(source())
        say(store, first.session_id, "hello")
        store.suspend_session(KEY)
        store.end_session(first.session_id, "agent_close")
        entry = store.get_or_create_session(source())
        assert entry.session_id != first.session_id
        assert (entry.was_auto_reset, entry.auto_reset_reason) == (True, "suspended")

    def test_an_expired_lane_still_counts_as_an_automatic_reset(self, open_store, clock, source):
        """G21."""
        store = open_store(policy("idle", idle_minutes=10))
        first = store.get_or_create_session(source())
        say(store, first.session_id, "hello")
        store.end_session(first.session_id, "ws_orphan_reap")
        clock.advance(minutes=11)
        entry = store.get_or_create_session(source())
        assert (entry.was_auto_reset, entry.auto_reset_reason) == (True, "idle")
        assert store.get_session(first.session_id).end_reason == "idle"


class TestSuspended:
    def test_suspension_wins_over_resume_pending(self, store, source):
        """G22."""
        first = store.get_or_create_session(source())
        store.mark_resume_pending(KEY)
        store.suspend_session(KEY)
        entry = store.get_or_create_session(source())
        assert entry.session_id != first.session_id
        assert (entry.was_auto_reset, entry.auto_reset_reason) == (True, "suspended")
        assert not entry.resume_pending
        assert not entry.suspended

    def test_suspension_wins_over_running_work(self, open_store, source):
        """G22: somebody asked for it; G30 holds back what a clock would do."""
        store = open_store(busy=lambda key: True)
        first = store.get_or_create_session(source())
        store.suspend_session(KEY)
        assert store.get_or_create_session(source()).session_id != first.session_id


class TestResumePending:
    def resumed(self, open_store, clock, source, minutes, mode="idle", **fields):
        store = open_store(policy(mode, idle_minutes=100_000, **fields))
        first = store.get_or_create_session(source())
        store.mark_resume_pending(KEY)
        clock.advance(minutes=minutes)
        return store, first, store.get_or_create_session(source())

    def test_a_fresh_mark_keeps_the_session_and_the_mark(self, open_store, clock, source):
        """G23: exactly the window is not past it."""
        _, first, entry = self.resumed(open_store, clock, source, 60)
        assert entry.session_id == first.session_id
        assert entry.resume_pending
        assert entry.resume_reason == "restart_timeout"

    def test_a_stale_mark_resets(self, open_store, clock, source):
        """G23."""
        store, first, entry = self.resumed(open_store, clock, source, 60.001)
        assert (entry.was_auto_reset, entry.auto_reset_reason) == (True, "resume_pending_expired")
        assert store.get_session(first.session_id).end_reason == "resume_pending_expired"

    def test_without_a_policy_a_mark_never_goes_stale(self, open_store, clock, source):
        """G23: only when the mode is not none."""
        _, first, entry = self.resumed(open_store, clock, source, 60 * 24 * 30, mode="none")
        assert entry.session_id == first.session_id
        assert entry.resume_pending

    def test_nor_does_it_when_its_session_ended_by_accident(self, store, clock, source):
        """G23, G21: recovered, not reset."""
        first = store.get_or_create_session(source())
        say(store, first.session_id, "hello")
        store.mark_resume_pending(KEY)
        clock.advance(days=30)
        store.end_session(first.session_id, "agent_close")
        entry = store.get_or_create_session(source())
        assert entry.session_id == first.session_id
        assert not entry.was_auto_reset

    def test_a_window_of_zero_never_ends(self, open_store, clock, source, monkeypatch):
        """G23, G31."""
        monkeypatch.setenv("HERMES_AUTO_CONTINUE_FRESHNESS", "0")
        _, first, entry = self.resumed(open_store, clock, source, 600)
        assert entry.session_id == first.session_id

    def test_the_window_is_the_environments(self, open_store, clock, source, monkeypatch):
        """G23, G31."""
        monkeypatch.setenv("HERMES_AUTO_CONTINUE_FRESHNESS", "60")
        _, _, entry = self.resumed(open_store, clock, source, 1.1)
        assert entry.auto_reset_reason == "resume_pending_expired"

    def test_the_policy_comes_first(self, open_store, clock, source):
        """G23: idle and stale gives the policy's reason."""
        store = open_store(policy("idle", idle_minutes=30))
        store.get_or_create_session(source())
        store.mark_resume_pending(KEY)
        clock.advance(hours=2)
        assert store.get_or_create_session(source()).auto_reset_reason == "idle"

    def test_the_mark_counts_from_when_it_was_set_not_from_the_last_message(self, open_store, clock, source):
        """G23: messages in between do not make it fresh again."""
        store = open_store(policy("idle", idle_minutes=100_000))
        store.get_or_create_session(source())
        store.mark_resume_pending(KEY)
        for _ in range(3):
            clock.advance(minutes=25)
            entry = store.get_or_create_session(source())
        assert entry.auto_reset_reason == "resume_pending_expired"


class TestPolicy:
    def test_no_reason_touches_and_returns_the_lane(self, store, clock, source):
        """G24."""
        first = store.get_or_create_session(source())
        clock.advance(minutes=5)
        entry = store.get_or_create_session(source())
        assert entry.session_id == first.session_id
        assert entry.updated_at == clock()
        assert entry.created_at == first.created_at
        assert lane(store, KEY).updated_at == clock()

    def test_a_touch_is_still_there_after_a_restart(self, store, open_store, clock, source):
        """G24: closing writes what waits."""
        store.get_or_create_session(source())
        clock.advance(minutes=5)
        store.get_or_create_session(source())
        store.close()
        assert lane(open_store(), KEY).updated_at == clock()

    def test_an_automatic_reset(self, open_store, clock, source):
        """G25: new session, notices, the old one's end, no recovery, no override."""
        store = open_store(policy("idle", idle_minutes=10))
        first = store.get_or_create_session(source(chat_name="Old"))
        say(store, first.session_id, "hello")
        store.update_session(KEY, 900)
        store.set_model_override(KEY, {"model": "large"})
        clock.advance(minutes=10, microseconds=1)
        entry = store.get_or_create_session(source(chat_name="New"))
        assert entry.session_id != first.session_id
        assert (entry.was_auto_reset, entry.auto_reset_reason, entry.reset_had_activity) == (True, "idle", True)
        assert not entry.is_fresh_reset
        assert entry.model_override is None
        assert store.get_model_override(KEY) is None
        assert entry.created_at == entry.updated_at == clock()
        assert entry.last_prompt_tokens == 0
        assert entry.display_name == "New"
        assert store.get_session(first.session_id).end_reason == "idle"
        assert texts(store, entry.session_id) == []

    def test_a_reset_without_activity_says_so(self, open_store, clock, source):
        """G25: last_prompt_tokens was 0."""
        store = open_store(policy("idle", idle_minutes=10))
        store.get_or_create_session(source())
        store.update_session(KEY, 0)
        clock.advance(minutes=11)
        entry = store.get_or_create_session(source())
        assert entry.was_auto_reset
        assert not entry.reset_had_activity

    @pytest.mark.parametrize(("minutes", "same"), [(10, True), (10.0001, False)])
    def test_idle_is_strict(self, open_store, clock, source, minutes, same):
        """G29: now > updated_at + idle_minutes."""
        store = open_store(policy("both", idle_minutes=10, at_hour=15))
        first = store.get_or_create_session(source())
        clock.advance(minutes=minutes)
        entry = store.get_or_create_session(source())
        assert (entry.session_id == first.session_id) is same

    def test_idle_is_tested_before_daily(self, open_store, clock, source):
        """G29."""
        store = open_store(policy("both", idle_minutes=10, at_hour=15))
        store.get_or_create_session(source())
        clock.advance(hours=2)
        assert store.get_or_create_session(source()).auto_reset_reason == "idle"

    @pytest.mark.parametrize(
        ("start", "then", "reset"),
        [
            # Berlin, 2026-03-29: 02:00 becomes 03:00. The boundary of 02:00 is the moment of the jump.
            ((2026, 3, 29, 1, 59), {"minutes": 1}, True),
            ((2026, 3, 29, 1, 58), {"minutes": 1}, False),
            # 2026-10-25: 03:00 becomes 02:00. The first 02:00 is the boundary, the second is none.
            ((2026, 10, 25, 1, 59), {"minutes": 1}, True),
            ((2026, 10, 25, 2, 30), {"minutes": 60}, False),
        ],
    )
    def test_the_daily_boundary_across_dst(self, open_store, source, start, then, reset):
        """G29."""
        clock = FakeClock(datetime(*start, tzinfo=ZoneInfo("Europe/Berlin")))
        store = open_store(policy("daily", at_hour=2), clock=clock)
        first = store.get_or_create_session(source())
        clock.advance(**then)
        entry = store.get_or_create_session(source())
        assert (entry.session_id != first.session_id) is reset
        assert entry.auto_reset_reason == ("daily" if reset else None)

    def test_idle_time_across_dst_is_the_time_that_passed(self, open_store, source):
        """G29: the wall clock jumps from 02:00 to 03:00, but only 50 minutes pass."""
        clock = FakeClock(datetime(2026, 3, 29, 1, 30, tzinfo=ZoneInfo("Europe/Berlin")))
        store = open_store(policy("idle", idle_minutes=60), clock=clock)
        first = store.get_or_create_session(source())
        clock.advance(minutes=50)
        assert clock().hour == 3
        entry = store.get_or_create_session(source())
        assert entry.session_id == first.session_id
        assert entry.updated_at - first.updated_at == timedelta(minutes=50)

    def test_the_platforms_policy_is_the_one_that_counts(self, open_store, clock, source):
        """G24 with G3."""
        idle = SessionResetPolicy(mode="idle", idle_minutes=1)
        store = open_store(GatewayConfig(reset_by_platform={Platform.SLACK: idle}))
        for platform in (Platform.SLACK, Platform.TELEGRAM):
            store.get_or_create_session(source(platform=platform))
        clock.advance(minutes=2)
        reset = {p: store.get_or_create_session(source(platform=p)).was_auto_reset for p in list(Platform)[:6]}
        assert [p for p, was in reset.items() if was] == [Platform.SLACK]

    def test_new_entries_look_as_they_should(self, store, source):
        """G28."""
        entry = store.get_or_create_session(source(chat_name="Ada"))
        assert re.fullmatch(r"20260701_142530_[0-9a-f]{8}", entry.session_id)
        assert entry.created_at == entry.updated_at
        assert entry.display_name == "Ada"


class TestForceNew:
    def test_always_makes_a_session_and_leaves_the_old_one_open(self, store, source):
        """G26."""
        first = store.get_or_create_session(source())
        say(store, first.session_id, "hello")
        entry = store.get_or_create_session(source(), force_new=True)
        assert entry.session_id != first.session_id
        assert store.get_session(first.session_id).end_reason is None
        assert store.peek_session_id(KEY) == entry.session_id
        assert not entry.was_auto_reset

    def test_skips_every_step(self, open_store, clock, source):
        """G26: neither suspension nor expiry ends the old session, and nothing is recovered."""
        store = open_store(policy("idle", idle_minutes=1))
        first = store.get_or_create_session(source())
        store.suspend_session(KEY)
        clock.advance(hours=1)
        entry = store.get_or_create_session(source(), force_new=True)
        assert (entry.was_auto_reset, entry.suspended) == (False, False)
        assert store.get_session(first.session_id).end_reason is None

    def test_does_not_recover(self, store, source):
        """G26."""
        first = store.get_or_create_session(source())
        say(store, first.session_id, "hello")
        store.end_session(first.session_id, "agent_close")
        assert store.get_or_create_session(source(), force_new=True).session_id != first.session_id
        assert store.get_session(first.session_id).end_reason == "agent_close"

    def test_without_a_mapping_recover_else_create(self, store, clock, source):
        """G26."""
        first = store.get_or_create_session(source())
        say(store, first.session_id, "hello")
        clock.advance(days=3)
        assert store.prune_old_entries(2) == 1
        assert store.get_or_create_session(source()).session_id == first.session_id
        assert store.get_or_create_session(source("other")).session_id != first.session_id


class TestRecovery:
    """G27."""

    def lost(self, store, clock, reason=None, *, said=("hello",), **fields):
        """A session whose lane was forgotten."""
        from tests.gateway.support import source

        entry = store.get_or_create_session(source(**fields))
        say(store, entry.session_id, *said)
        if reason is not None:
            store.end_session(entry.session_id, reason)
        clock.advance(days=2)
        assert store.prune_old_entries(1) == 1
        return entry

    @pytest.mark.parametrize("reason", [None, "agent_close", "ws_orphan_reap"])
    def test_live_or_ended_by_accident(self, store, clock, source, reason):
        first = self.lost(store, clock, reason)
        entry = store.get_or_create_session(source())
        assert entry.session_id == first.session_id
        assert store.get_session(first.session_id).end_reason is None

    @pytest.mark.parametrize(
        "reason",
        ["session_reset", "session_switch", "idle", "daily", "suspended", "resume_pending_expired", "user_exit"],
    )
    def test_never_what_ended_on_purpose(self, store, clock, source, reason):
        first = self.lost(store, clock, reason)
        assert store.get_or_create_session(source()).session_id != first.session_id

    def test_never_what_was_compressed(self, store, clock, source):
        first = store.get_or_create_session(source())
        say(store, first.session_id, "hello")
        child = store.compress_session(first.session_id)
        clock.advance(days=2)
        store.prune_old_entries(1)
        assert store.get_or_create_session(source()).session_id not in (first.session_id, child), "an empty child"

    def test_never_without_messages(self, store, clock, source):
        first = self.lost(store, clock, said=())
        assert store.get_or_create_session(source()).session_id != first.session_id

    def test_undone_messages_are_none(self, store, clock, source):
        first = store.get_or_create_session(source())
        say(store, first.session_id, "hello")
        store.rewind_session(first.session_id)
        clock.advance(days=2)
        store.prune_old_entries(1)
        assert store.get_or_create_session(source()).session_id != first.session_id

    def test_a_deliberate_end_overrides_an_accidental_one(self, store, clock, source):
        first = store.get_or_create_session(source())
        say(store, first.session_id, "hello")
        store.end_session(first.session_id, "agent_close")
        reset = store.reset_session(KEY)
        assert store.get_session(first.session_id).end_reason == "session_reset"
        clock.advance(days=2)
        store.prune_old_entries(1)
        assert store.get_or_create_session(source()).session_id not in (first.session_id, reset.session_id)

    def test_the_newest_of_the_lane(self, store, clock, source):
        self.lost(store, clock)
        newer = store.get_or_create_session(source(), force_new=True)
        say(store, newer.session_id, "newer")
        clock.advance(days=2)
        store.prune_old_entries(1)
        assert store.get_or_create_session(source()).session_id == newer.session_id

    def test_the_entry_says_when_the_session_began(self, store, clock, source):
        first = self.lost(store, clock)
        entry = store.get_or_create_session(source())
        assert (entry.created_at, entry.updated_at) == (first.created_at, clock())

    def test_the_exact_lane_comes_before_the_same_person_and_place(self, open_store, clock, source):
        """However new the other session is."""
        place = {"chat_type": "group", "user_id": "u1"}
        store = open_store(GatewayConfig(group_sessions_per_user=True))
        older = store.get_or_create_session(source(**place))
        say(store, older.session_id, "older")
        store.close()
        clock.advance(minutes=1)
        store = open_store(GatewayConfig(group_sessions_per_user=False))
        newer = store.get_or_create_session(source(**place), force_new=True)
        say(store, newer.session_id, "newer")
        assert newer.session_key != older.session_key
        clock.advance(days=2)
        assert store.prune_old_entries(1) == 2
        store.close()
        store = open_store(GatewayConfig(group_sessions_per_user=True))
        assert store.get_or_create_session(source(**place)).session_id == older.session_id

    def test_flags_are_defaults_and_the_override_is_gone(self, store, clock, source):
        """G27, G39."""
        first = store.get_or_create_session(source(chat_name="Old"))
        say(store, first.session_id, "hello")
        store.update_session(KEY, 77, input_tokens=5, cost_usd=1)
        store.set_model_override(KEY, {"model": "large"})
        store.mark_resume_pending(KEY)
        store.end_session(first.session_id, "agent_close")
        entry = store.get_or_create_session(source(chat_name="New"))
        assert entry.session_id == first.session_id
        assert (entry.resume_pending, entry.model_override, entry.was_auto_reset) == (False, None, False)
        assert (entry.last_prompt_tokens, entry.total_tokens, entry.cost_status) == (0, 0, "unknown")
        assert entry.display_name == "New"

    def test_the_same_person_and_place_under_another_key(self, open_store, clock, source):
        """The lane's key changed with the configuration; platform, user, chat, type and thread are the same."""
        place = {"chat_type": "group", "user_id": "u1"}
        store = open_store(GatewayConfig(group_sessions_per_user=False))
        first = store.get_or_create_session(source(**place))
        say(store, first.session_id, "hello")
        store.close()
        store = open_store(GatewayConfig(group_sessions_per_user=True))
        entry = store.get_or_create_session(source(**place))
        assert entry.session_key != first.session_key
        assert entry.session_id == first.session_id

    @pytest.mark.parametrize(
        "other",
        [
            {"platform": Platform.SLACK},
            {"user_id": "u2"},
            {"chat_id": "elsewhere"},
            {"chat_type": "channel"},
            {"thread_id": "t"},
        ],
    )
    def test_but_no_other_person_or_place(self, open_store, source, other):
        place = {"chat_id": "c", "chat_type": "group", "user_id": "u1"}
        store = open_store(GatewayConfig(group_sessions_per_user=False))
        first = store.get_or_create_session(source(**place))
        say(store, first.session_id, "hello")
        store.close()
        store = open_store(GatewayConfig(group_sessions_per_user=True))
        assert store.get_or_create_session(source(**{**place, **other})).session_id != first.session_id

    def test_people_told_apart_only_by_the_other_id_do_not_get_each_others_session(self, store, source):
        """G10 with G27: neither has a chat id or a user id."""
        ann = store.get_or_create_session(source("", user_id_alt="ann"))
        say(store, ann.session_id, "a secret")
        bob = store.get_or_create_session(source("", user_id_alt="bob"))
        assert bob.session_id != ann.session_id

    def test_never_across_profiles(self, open_store, clock, source):
        store = open_store(GatewayConfig(multiplex_profiles=True), active_profile="home")
        work = store.get_or_create_session(source(profile="work"))
        say(store, work.session_id, "hello")
        assert work.session_key == "agent:work:telegram:dm:4711"
        home = store.get_or_create_session(source())
        assert home.session_key == "agent:home:telegram:dm:4711"
        assert home.session_id != work.session_id


class TestBusyHost:
    @pytest.mark.parametrize("busy", [lambda key: True, lambda key: 1 / 0], ids=["busy", "raises"])
    def test_never_reset_expired_or_pruned(self, open_store, clock, source, busy):
        """G30."""
        store = open_store(policy("both", idle_minutes=1), busy=busy)
        first = store.get_or_create_session(source())
        clock.advance(days=100)
        assert not store.is_session_expired(first)
        assert store.prune_old_entries(1) == 0
        entry = store.get_or_create_session(source())
        assert entry.session_id == first.session_id
        assert not entry.was_auto_reset

    def test_the_host_is_asked_for_the_lane_and_not_under_the_lock(self, open_store, clock, source):
        """G30: a callback that uses the store must not deadlock or fail."""
        asked = []
        store = open_store(policy("idle", idle_minutes=1), busy=lambda key: asked.append((key, lane(store, key))))
        store.get_or_create_session(source())
        clock.advance(minutes=2)
        assert store.get_or_create_session(source()).was_auto_reset
        assert [key for key, _ in asked] == [KEY]

    def test_a_held_reset_is_explained(self, open_store, clock, source):
        """G30: the log says that the policy would have reset, and what it saw."""
        store = open_store(policy("idle", idle_minutes=1), busy=lambda key: True)
        store.get_or_create_session(source())
        before = store.log.last_position
        clock.advance(minutes=2)
        store.get_or_create_session(source())
        (touched,) = since(store, before)
        assert touched.event.held == "idle"
        assert touched.event.saw.busy
        assert "working on this lane" in touched.reason

    def test_resume_pending_is_held_too(self, open_store, clock, source):
        """G30 with G23."""
        store = open_store(policy("idle", idle_minutes=100_000), busy=lambda key: True)
        first = store.get_or_create_session(source())
        store.mark_resume_pending(KEY)
        clock.advance(days=1)
        assert store.get_or_create_session(source()).session_id == first.session_id


class TestOverlap:
    def test_threads_on_one_lane_make_one_session(self, open_store, source):
        """G32: through two stores, as two processes have."""
        stores = [open_store(), open_store()]
        together = threading.Barrier(8)
        found = []

        def route(store):
            together.wait()
            found.append(store.get_or_create_session(source()).session_id)

        threads = [threading.Thread(target=route, args=(stores[number % 2],)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8
        assert len(set(found)) == 1
        assert stores[0].log.query("SELECT count(*) FROM sessions") == [(1,)]

    def test_overlapping_expiry_resets_once(self, open_store, clock, source):
        """G32."""
        store = open_store(policy("idle", idle_minutes=1))
        store.get_or_create_session(source())
        clock.advance(minutes=2)
        together = threading.Barrier(4)
        found = []

        def route():
            together.wait()
            found.append(store.get_or_create_session(source()).session_id)

        threads = [threading.Thread(target=route) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(set(found)) == 1
        assert store.log.query("SELECT count(*) FROM sessions") == [(2,)]

    def test_another_lane_does_not_wait_while_the_host_is_asked(self, open_store, clock, source):
        """G32: the callback of one lane takes its time; the other lane is answered meanwhile."""
        asked, answer = threading.Event(), threading.Event()

        def busy(key):
            asked.set()
            assert answer.wait(300)
            return False

        store = open_store(policy("idle", idle_minutes=1), busy=busy)
        store.get_or_create_session(source())
        clock.advance(minutes=2)
        slow = threading.Thread(target=store.get_or_create_session, args=(source(),))
        slow.start()
        assert asked.wait(300)
        assert store.get_or_create_session(source("other")).session_key.endswith("other")
        assert slow.is_alive()
        answer.set()
        slow.join()


class TestInternalTurns:
    def test_the_idle_clock_does_not_move(self, open_store, clock, source):
        """G33."""
        store = open_store(policy("idle", idle_minutes=10))
        first = store.get_or_create_session(source())
        for _ in range(2):
            clock.advance(minutes=5)
            entry = store.get_or_create_session(source(), touch=False)
            assert entry.session_id == first.session_id
            assert entry.updated_at == first.updated_at
        assert lane(store, KEY).updated_at == first.updated_at
        clock.advance(minutes=1)
        assert store.get_or_create_session(source(), touch=False).auto_reset_reason == "idle"

    def test_it_still_creates_and_resets(self, store, source):
        """G33."""
        first = store.get_or_create_session(source(), touch=False)
        store.suspend_session(KEY)
        assert store.get_or_create_session(source(), touch=False).session_id != first.session_id

    def test_the_same_when_the_lane_must_be_read_and_decided(self, open_store, clock, source):
        """G33: also with the host busy, where the slow path answers."""
        store = open_store(policy("idle", idle_minutes=10), busy=lambda key: True)
        first = store.get_or_create_session(source())
        clock.advance(minutes=30)
        assert store.get_or_create_session(source(), touch=False).updated_at == first.updated_at
        assert lane(store, KEY).updated_at == first.updated_at

    def test_a_message_whose_touch_is_not_written_yet_is_seen(self, store, clock, source, monkeypatch):
        """G33, G24: the clock stands where the last message put it."""
        monkeypatch.setattr(store.runner.touches, "_write", lambda keys: None)
        store.get_or_create_session(source())
        touched = clock.advance(minutes=5)
        store.get_or_create_session(source())
        clock.advance(minutes=1)
        assert store.get_or_create_session(source(), touch=False).updated_at == touched

    def test_a_message_that_came_through_another_process_is_seen(self, open_store, clock, source):
        """G33: also by a store that has the lane in memory."""
        store, other = open_store(), open_store()
        for _ in range(2):
            store.get_or_create_session(source())
        touched = clock.advance(minutes=5)
        other.get_or_create_session(source())
        other.close()
        clock.advance(minutes=1)
        assert store.get_or_create_session(source(), touch=False).updated_at == touched


class TestTouchesBehind:
    def test_a_clock_that_fails_once_does_not_stop_them(self, open_store, clock, source, caplog):
        """G24: what could not be written is tried again."""
        broken = threading.Event()

        def sometimes():
            if broken.is_set() and threading.current_thread().name == "session-touches":
                raise RuntimeError("no time")
            return clock()

        store = open_store(clock=sometimes)
        store.get_or_create_session(source())
        broken.set()
        clock.advance(minutes=5)
        store.get_or_create_session(source())
        until(lambda: "touches of 1 lanes stay pending" in caplog.text)
        broken.clear()
        until(lambda: store.metrics()["pending_touches"] == 0)
        assert since(store, 0)[-1].event.topic == "lane.touched"

    def test_a_process_that_ends_without_closing_writes_them(self, tmp_path, open_store):
        """G24: nothing but a crash loses a touch."""
        with Child("touch_and_leave", tmp_path / "sessions", "4711") as child:
            created, touched = map(datetime.fromisoformat, child.said())
            assert child.process.wait(300) == 0
        entry = lane(open_store(), KEY)
        assert (entry.created_at, entry.updated_at) == (created, touched)
        assert touched > created

    def test_listing_does_not_wait_for_the_traffic(self, open_store, clock, source):
        """G41: what is touched while the list is made is not waited for."""
        store = open_store()
        for chat in range(20):
            store.get_or_create_session(source(str(chat)))
        rounds = []
        write = store.runner.touches._write

        def write_and_touch_again(keys):
            rounds.append(len(keys))
            assert len(rounds) < 50, "the list is never made"
            write(keys)
            clock.advance(seconds=1)
            for chat in range(20):
                store.get_or_create_session(source(str(chat)))

        store.runner.touches._write = write_and_touch_again
        clock.advance(seconds=1)
        store.get_or_create_session(source("0"))
        assert len(store.list_sessions()) == 20
        store.runner.touches._write = write
