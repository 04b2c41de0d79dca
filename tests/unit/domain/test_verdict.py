"""G22 to G24, G29, G30 and G36: whether a message finds its lane stale, where the store would not even ask."""

import math
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import msgspec
import pytest

from engine.domain.lane import Lane
from engine.domain.policy import SessionResetPolicy
from engine.domain.times import microseconds
from engine.domain.verdict import KEEP, Verdict, automatic_reset, judge, recently_active

NOON = datetime(2026, 7, 1, 12, tzinfo=UTC)
IDLE = SessionResetPolicy(mode="idle", idle_minutes=60)
NEVER = SessionResetPolicy(mode="none")
USED = Lane("id", "key", session_id="s", updated_at=microseconds(NOON))
SUSPENDED = msgspec.structs.replace(USED, suspended=True)
MARKED = msgspec.structs.replace(USED, resume_pending=True, last_resume_marked_at=USED.updated_at)
MINUTE = timedelta(minutes=1)


def asked() -> bool:
    raise AssertionError("the host was asked")


def idle(lane: Lane, later: timedelta, freshness: float = 60.0, policy: SessionResetPolicy = IDLE) -> Verdict:
    return judge(lane, policy, NOON + later, freshness, bool)


def test_g22_suspension_wins_over_a_mark_the_policy_and_running_work() -> None:
    both = msgspec.structs.replace(MARKED, suspended=True)
    for lane in (SUSPENDED, both):
        for policy in (IDLE, NEVER):
            assert judge(lane, policy, NOON + 9 * MINUTE, 60.0, asked).reason == "suspended"


def test_g23_mark_does_not_go_stale_when_nothing_expires() -> None:
    assert idle(MARKED, 2 * MINUTE, policy=NEVER) is KEEP
    assert idle(MARKED, 2 * MINUTE).reason == "resume_pending_expired"


def test_g23_window_is_strict_and_the_policy_comes_before_it() -> None:
    assert idle(MARKED, MINUTE) is KEEP
    assert idle(MARKED, MINUTE + timedelta(microseconds=1)).reason == "resume_pending_expired"
    assert idle(MARKED, 61 * MINUTE).reason == "idle"


@pytest.mark.parametrize("window", [0, -1, math.inf, -math.inf])
def test_g23a_window_that_is_none_or_endless_never_passes(window: float) -> None:
    assert idle(MARKED, 59 * MINUTE, window) is KEEP


def test_g23_mark_counts_from_when_it_was_set_else_from_the_last_message() -> None:
    touched = msgspec.structs.replace(MARKED, updated_at=microseconds(NOON + 5 * MINUTE))
    assert idle(touched, 6 * MINUTE).reason == "resume_pending_expired"
    undated = msgspec.structs.replace(touched, last_resume_marked_at=None)
    assert idle(undated, 6 * MINUTE) is KEEP
    assert idle(undated, 7 * MINUTE).reason == "resume_pending_expired"


def test_g24_what_is_in_use_is_kept() -> None:
    assert idle(USED, 60 * MINUTE) is KEEP
    assert idle(USED, 61 * MINUTE).reason == "idle"
    assert idle(USED, timedelta(days=900), policy=NEVER) is KEEP
    assert idle(USED, 2 * MINUTE, freshness=60.0) is KEEP, "a lane without a mark has no window"


def test_g29_daily_boundary_is_that_of_the_clocks_zone() -> None:
    daily = SessionResetPolicy(mode="daily", at_hour=4)
    four = datetime(2026, 7, 2, 4, tzinfo=ZoneInfo("Europe/Berlin"))
    assert judge(USED, daily, four, 60.0, bool).reason == "daily"
    assert judge(USED, daily, four - MINUTE, 60.0, bool) is KEEP
    assert judge(USED, daily, four.astimezone(UTC), 60.0, bool) is KEEP, "in UTC it is two o'clock"


def test_g30_host_is_asked_only_when_something_is_due() -> None:
    assert judge(USED, IDLE, NOON, 60.0, asked) is KEEP
    assert judge(USED, NEVER, NOON + timedelta(days=9), 60.0, asked) is KEEP
    with pytest.raises(AssertionError, match="was asked"):
        judge(USED, IDLE, NOON + timedelta(hours=2), 60.0, asked)


def test_g30_running_work_holds_back_what_a_clock_would_do_and_the_verdict_says_so() -> None:
    for lane, held in ((USED, "idle"), (MARKED, "resume_pending_expired")):
        policy = IDLE if held == "idle" else SessionResetPolicy(mode="idle", idle_minutes=10**6)
        verdict = judge(lane, policy, NOON + timedelta(hours=2), 60.0, lambda: True)
        assert (verdict.reason, verdict.held) == (None, held)
        assert verdict.saw is not None
        assert verdict.saw.busy


def test_verdict_says_what_it_looked_at() -> None:
    now = datetime(2026, 7, 1, 15, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    saw = judge(MARKED, IDLE, now, 60.0, bool).saw
    assert saw is not None
    assert (saw.mode, saw.at_hour, saw.idle_minutes, saw.busy) == ("idle", 4, 60, False)
    assert (saw.idle_seconds, saw.pending_seconds, saw.freshness_seconds) == (5400.0, 5400.0, 60.0)
    assert saw.zone_offset_minutes == 120
    unmarked = judge(USED, IDLE, now, 60.0, bool).saw
    assert unmarked is not None
    assert (unmarked.pending_seconds, unmarked.freshness_seconds) == (None, None)


def test_endless_window_is_left_out_of_what_is_recorded() -> None:
    saw = judge(MARKED, IDLE, NOON + timedelta(hours=2), math.inf, bool).saw
    assert saw is not None
    assert saw.freshness_seconds is None


@pytest.mark.parametrize(("tokens", "active"), [(0, False), (1, True), (-1, False)])
def test_g25_event_of_an_automatic_reset(tokens: int, active: bool) -> None:
    lane = msgspec.structs.replace(USED, last_prompt_tokens=tokens)
    verdict = idle(lane, 61 * MINUTE)
    event = automatic_reset(lane, verdict, "new", {"platform": "sms"}, "Ada")
    assert (event.session_id, event.previous_session_id, event.cause) == ("new", "s", "idle")
    assert (event.automatic, event.had_activity, event.display_name) == (True, active, "Ada")
    assert (event.origin, event.saw) == ({"platform": "sms"}, verdict.saw)


@pytest.mark.parametrize(
    ("lane", "seconds", "recent"),
    [(USED, 120, True), (USED, 121, False), (SUSPENDED, 0, False), (MARKED, 0, False)],
    ids=["just within", "outside", "suspended", "pending"],
)
def test_g36_recently_active_are_lanes_that_a_restart_may_have_cut_off(lane: Lane, seconds: int, recent: bool) -> None:
    assert recently_active(lane, lane.updated_at + seconds * 1_000_000, 120) is recent
