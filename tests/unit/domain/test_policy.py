"""G2, G29 and G31: the reset policy against the clock."""

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from engine.domain.platforms import Platform
from engine.domain.policy import (
    SessionResetPolicy,
    daily_boundary,
    daily_expired,
    idle_expired,
    parse_freshness,
    reset_reason,
)

BERLIN = ZoneInfo("Europe/Berlin")
NEW_YORK = ZoneInfo("America/New_York")
NOON = datetime(2026, 7, 1, 12, tzinfo=BERLIN)
IDLE = SessionResetPolicy(mode="idle", idle_minutes=60)
DAILY = SessionResetPolicy(mode="daily", at_hour=4)
BOTH = SessionResetPolicy(mode="both", at_hour=4, idle_minutes=60)
TICK = timedelta(microseconds=1)


def test_g2_defaults() -> None:
    policy = SessionResetPolicy()
    assert (policy.mode, policy.at_hour, policy.idle_minutes, policy.notify) == ("none", 4, 1440, True)
    assert policy.notify_exclude_platforms == ("api_server", "webhook")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mode", "weekly"),
        ("mode", None),
        ("mode", False),
        ("at_hour", -1),
        ("at_hour", 24),
        ("at_hour", 4.5),
        ("at_hour", "4"),
        ("at_hour", True),
        ("idle_minutes", 0),
        ("idle_minutes", -5),
        ("idle_minutes", True),
        ("idle_minutes", "60"),
        ("notify", "no"),
        ("notify_exclude_platforms", "webhook"),
        ("notify_exclude_platforms", [1]),
        ("notify_exclude_platforms", 5),
    ],
)
def test_g2_bad_value_is_refused_by_the_name_of_its_field(field: str, value: Any) -> None:
    with pytest.raises(ValueError, match=field):
        SessionResetPolicy(**{field: value})


@pytest.mark.parametrize("hour", [0, 23])
def test_g2_the_first_and_last_hour_are_allowed(hour: int) -> None:
    assert SessionResetPolicy(at_hour=hour, idle_minutes=1).at_hour == hour


def test_g2_excluded_platforms_may_be_a_list_of_members_or_names() -> None:
    policy = SessionResetPolicy(notify_exclude_platforms=[Platform.SMS, "relay"])  # type: ignore[arg-type]
    assert policy.notify_exclude_platforms == ("sms", "relay")


def test_g2_policy_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        IDLE.mode = "none"  # type: ignore[misc]


def test_g2_policy_round_trips_through_a_configuration_file() -> None:
    policy = SessionResetPolicy("both", 7, 30, False, ("sms",))
    data = policy.to_dict()
    assert data["notify_exclude_platforms"] == ["sms"]
    assert SessionResetPolicy.from_dict(data) == policy
    assert SessionResetPolicy.from_dict({"mode": None}) == SessionResetPolicy()


def test_g3a_keys_that_are_not_a_policys_are_ignored_when_read() -> None:
    assert SessionResetPolicy.from_dict({"mode": "idle", "hosts_own": 5}) == SessionResetPolicy("idle")
    with pytest.raises(ValueError, match="mapping"):
        SessionResetPolicy.from_dict("idle")  # type: ignore[arg-type]


def test_g29_idle_expires_only_after_the_last_minute_is_over() -> None:
    edge = NOON + timedelta(minutes=60)
    assert not idle_expired(NOON, edge, IDLE)
    assert idle_expired(NOON, edge + TICK, IDLE)


def test_g29_idle_time_is_real_time_when_the_clocks_go_forward() -> None:
    before = datetime(2026, 3, 29, 1, 30, tzinfo=BERLIN)
    assert not idle_expired(before, datetime(2026, 3, 29, 3, 30, tzinfo=BERLIN), IDLE)
    assert idle_expired(before, datetime(2026, 3, 29, 3, 31, tzinfo=BERLIN), IDLE)


def test_g29_idle_time_is_real_time_when_the_clocks_go_back() -> None:
    before = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN)
    again = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)
    assert not idle_expired(before, again, IDLE)
    assert idle_expired(before, again.replace(microsecond=1), IDLE)


def test_g29_idle_compares_times_of_different_zones() -> None:
    assert not idle_expired(NOON.astimezone(UTC), NOON.astimezone(NEW_YORK), IDLE)
    assert idle_expired(NOON.astimezone(NEW_YORK), NOON + timedelta(hours=2), IDLE)


def test_g29_enormous_idle_time_never_expires() -> None:
    assert not idle_expired(NOON, NOON + timedelta(days=9999), SessionResetPolicy("idle", 4, 10**18))


def test_g29_time_in_the_future_is_not_idle() -> None:
    assert not idle_expired(NOON + timedelta(days=1), NOON, IDLE)


def test_g29_boundary_is_today_from_the_hour_on_and_yesterday_before_it() -> None:
    four = datetime(2026, 7, 1, 4, tzinfo=BERLIN)
    assert daily_boundary(four, 4) == four
    assert daily_boundary(NOON, 4) == four
    assert daily_boundary(four - TICK, 4) == datetime(2026, 6, 30, 4, tzinfo=BERLIN)


def test_g29_daily_expires_when_the_last_use_was_before_the_boundary() -> None:
    four = datetime(2026, 7, 1, 4, tzinfo=BERLIN)
    assert not daily_expired(four, NOON, DAILY)
    assert daily_expired(four - TICK, NOON, DAILY)
    assert not daily_expired(four - TICK, four - TICK, DAILY)


def test_g29_local_time_is_that_of_the_clock_and_not_of_the_stored_time() -> None:
    stored = datetime(2026, 7, 1, 1, 30, tzinfo=UTC)
    assert daily_expired(stored, datetime(2026, 7, 1, 4, 0, tzinfo=BERLIN), DAILY)
    assert not daily_expired(stored, datetime(2026, 7, 1, 3, 59, tzinfo=BERLIN), DAILY)


def test_g29_skipped_hour_is_the_moment_the_clocks_jumped() -> None:
    jump = datetime(2026, 3, 29, 3, tzinfo=BERLIN)
    boundary = daily_boundary(datetime(2026, 3, 29, 9, tzinfo=BERLIN), 2)
    assert boundary.astimezone(UTC) == datetime(2026, 3, 29, 1, tzinfo=UTC)
    assert (boundary.hour, boundary.tzinfo) == (3, BERLIN)
    assert daily_boundary(jump, 2) == jump
    policy = SessionResetPolicy("daily", at_hour=2)
    assert daily_expired(datetime(2026, 3, 29, 1, 59, tzinfo=BERLIN), jump, policy)
    assert not daily_expired(jump, jump + timedelta(hours=5), policy)


def test_g29_hour_that_comes_twice_resets_once_at_its_first_coming() -> None:
    first = datetime(2026, 11, 1, 1, 0, tzinfo=NEW_YORK)
    second = datetime(2026, 11, 1, 1, 30, tzinfo=NEW_YORK, fold=1)
    assert daily_boundary(first, 1).astimezone(UTC) == datetime(2026, 11, 1, 5, tzinfo=UTC)
    assert daily_boundary(second, 1).astimezone(UTC) == datetime(2026, 11, 1, 5, tzinfo=UTC)
    policy = SessionResetPolicy("daily", at_hour=1)
    used_after_the_first = datetime(2026, 11, 1, 1, 10, tzinfo=NEW_YORK)
    assert not daily_expired(used_after_the_first, second, policy)
    assert daily_expired(first - timedelta(minutes=1), second, policy)


def test_g29_stored_time_in_the_second_coming_is_after_a_boundary_in_the_first() -> None:
    policy = SessionResetPolicy("daily", at_hour=2)
    again = datetime(2026, 10, 25, 2, 0, tzinfo=BERLIN, fold=1)
    assert not daily_expired(again, again + timedelta(minutes=5), policy)
    assert daily_expired(datetime(2026, 10, 25, 1, 59, tzinfo=BERLIN), again, policy)


def test_g29_yesterdays_boundary_has_yesterdays_offset() -> None:
    early = datetime(2026, 3, 29, 3, 30, tzinfo=BERLIN)
    assert daily_boundary(early, 4).astimezone(UTC) == datetime(2026, 3, 28, 3, tzinfo=UTC)


def test_g29_day_that_a_zone_left_out_does_not_put_the_boundary_into_the_future() -> None:
    apia = ZoneInfo("Pacific/Apia")
    early = datetime(2011, 12, 31, 3, 0, tzinfo=apia)
    assert daily_boundary(early, 4).astimezone(UTC) <= early.astimezone(UTC)
    assert not daily_expired(early, early + timedelta(minutes=1), DAILY)


@given(
    instant=st.datetimes(datetime(1990, 1, 1), datetime(2035, 1, 1), timezones=st.just(UTC)),
    zone=st.sampled_from(
        ["Europe/Berlin", "America/New_York", "America/St_Johns", "Australia/Lord_Howe", "America/Sao_Paulo"]
    ),
    hour=st.integers(0, 23),
)
def test_g29_boundary_is_within_the_last_day_at_the_hour_or_at_a_jump(instant: datetime, zone: str, hour: int) -> None:
    now = instant.astimezone(ZoneInfo(zone))
    boundary = daily_boundary(now, hour).astimezone(UTC)
    assert timedelta(0) <= instant - boundary <= timedelta(hours=25)
    wall = boundary.astimezone(now.tzinfo)
    just_before = (boundary - TICK).astimezone(now.tzinfo)
    jumped = wall.utcoffset() != just_before.utcoffset()
    assert (wall.hour, wall.minute, wall.second) == (hour, 0, 0) or jumped


@pytest.mark.parametrize(
    ("policy", "updated_at", "reason"),
    [
        (SessionResetPolicy(), NOON - timedelta(days=400), None),
        (IDLE, NOON - timedelta(minutes=61), "idle"),
        (IDLE, NOON - timedelta(minutes=60), None),
        (DAILY, NOON - timedelta(hours=9), "daily"),
        (DAILY, NOON - timedelta(hours=8), None),
        (BOTH, NOON - timedelta(hours=9), "idle"),
        (SessionResetPolicy("both", 4, 6000), NOON - timedelta(hours=9), "daily"),
        (SessionResetPolicy("both", 4, 6000), NOON, None),
    ],
)
def test_g29_reset_reason_tests_idle_before_daily(
    policy: SessionResetPolicy, updated_at: datetime, reason: str | None
) -> None:
    assert reset_reason(policy, updated_at, NOON) == reason


def test_g29_a_rule_that_the_mode_leaves_out_does_not_expire() -> None:
    long_ago = NOON - timedelta(days=9)
    assert not idle_expired(long_ago, NOON, DAILY)
    assert not daily_expired(long_ago, NOON, IDLE)


@pytest.mark.parametrize("test", [idle_expired, daily_expired])
def test_g29_time_without_a_zone_is_refused(
    test: Callable[[datetime, datetime, SessionResetPolicy], bool],
) -> None:
    naive = datetime(2026, 7, 1)
    with pytest.raises(ValueError, match="updated_at must be a datetime with a time zone"):
        test(naive, NOON, BOTH)
    with pytest.raises(ValueError, match="now must be a datetime with a time zone"):
        test(NOON, naive, BOTH)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120.0),
        (" 0.5 ", 0.5),
        ("0", 0.0),
        ("-1", -1.0),
        ("", 3600.0),
        ("an hour", 3600.0),
        ("nan", 3600.0),
        ("inf", math.inf),
        ("-inf", -math.inf),
    ],
)
def test_g23a_freshness_window_may_be_endless_and_a_malformed_one_is_the_default(text: str, seconds: float) -> None:
    assert parse_freshness(text) == seconds


@pytest.mark.parametrize("hour", [0, 4, 23])
@pytest.mark.parametrize("offset", [-12, 0, 14])
@pytest.mark.parametrize("now", [datetime(1, 1, 1), datetime(1, 1, 2, 3), datetime(9999, 12, 31, 23, 59)])
def test_g29_a_year_at_the_end_of_all_years_raises_nothing(now: datetime, offset: int, hour: int) -> None:
    here = now.replace(tzinfo=timezone(timedelta(hours=offset)))
    policy = SessionResetPolicy("both", hour, 1)
    assert reset_reason(policy, here, here) in (None, "daily")
    assert idle_expired(datetime(2026, 7, 1, tzinfo=UTC), here, policy) is (now.year > 2026)
