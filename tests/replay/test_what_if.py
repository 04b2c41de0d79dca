"""Recorded history under another reset policy (R12)."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from engine import Platform, SessionStore
from engine.domain.events import LaneReset
from engine.log.sqlite.eventlog import EventLog
from replay import WhatIf, policy_change, what_if
from tests.gateway.support import FakeClock, policy, source
from tests.replay.incident import LINUS, ZONE

KEY = "agent:main:telegram:dm:4711"


def summed(found: WhatIf) -> tuple[int, int, int]:
    return len(found.gone), len(found.added), len(found.otherwise)


def visits(store: SessionStore, clock: FakeClock, *hours: float) -> EventLog:
    """A lane whose messages come after so many hours each."""
    store.get_or_create_session(source())
    for each in hours:
        clock.advance(hours=each)
        store.get_or_create_session(source())
        store.runner.touches.flush()
    return store.log


def test_with_the_recorded_policy_nothing_changes(incident: EventLog) -> None:
    """R12: neither without a change, nor with what was in force spelled out."""
    automatic = [each for each in incident.events() if isinstance(each.event, LaneReset) and each.event.automatic]
    for change in (None, policy_change(), policy_change(idle_minutes=1440), policy_change(at_hour=4)):
        found = what_if(incident, change)
        assert summed(found) == (0, 0, 0)
        assert found.recorded == found.would_be == len(automatic)
        assert found.lanes == ()


def test_resets_that_would_not_have_happened_and_those_that_would(
    open_store: Callable[..., SessionStore], clock: FakeClock
) -> None:
    """R12: with their times, per lane and in total."""
    log = visits(open_store(policy("idle", idle_minutes=600)), clock, 11, 3, 9, 1)
    longer = what_if(log, policy_change(idle_minutes=720), zone=UTC)
    assert summed(longer) == (1, 0, 0)
    assert (longer.recorded, longer.would_be, longer.messages) == (1, 0, 4)
    [gone] = longer.gone
    assert (gone.lane, gone.platform, gone.time) == (KEY, "telegram", datetime(2026, 7, 2, 1, 25, 30, tzinfo=UTC))
    assert gone.sentence == "would not have happened; recorded: idle 11 h, limit 10 h, mode idle"
    shorter = what_if(log, policy_change(idle_minutes=120), zone=UTC)
    assert [each.sentence for each in shorter.added] == [
        "would have happened: idle 3 h, limit 2 h, mode idle",
        "would have happened: idle 9 h, limit 2 h, mode idle",
    ]
    [lane] = shorter.lanes
    assert (lane.lane, lane.recorded, lane.would_be, lane.gone, lane.added) == (KEY, 1, 3, 0, 2)


def test_a_reset_may_have_come_for_another_cause(open_store: Callable[..., SessionStore], clock: FakeClock) -> None:
    """R12: it is told apart, and changes no sum."""
    log = visits(open_store(policy("idle", idle_minutes=600)), clock, 15)
    found = what_if(log, policy_change(mode="daily"))
    assert summed(found) == (0, 0, 1)
    assert found.otherwise[0].sentence.startswith("would have been for daily, not for idle: last used before")


def test_days_begin_in_the_recorded_time_zone_across_its_changes(
    open_store: Callable[..., SessionStore], clock: FakeClock
) -> None:
    """R12, G29: at 03:30 in winter time the clocks had gone back, and 04:00 had not come."""
    berlin = ZoneInfo("Europe/Berlin")
    clock.set(datetime(2026, 10, 24, 22, 0, tzinfo=berlin))
    store = open_store(policy("none"))
    log = visits(store, clock, 6.4, 0.2, 0.6)  # 03:24, 03:36 and 04:12 in winter
    found = what_if(log, policy_change(mode="daily"), zone=berlin)
    assert [f"{each.time:%H:%M %z}" for each in found.added] == ["04:12 +0100"]


def test_a_policy_file_takes_the_place_of_all_recorded_policies(
    open_store: Callable[..., SessionStore], clock: FakeClock
) -> None:
    """R12: --policy FILE, with the reset fields of a GatewayConfig."""
    log = visits(open_store(policy("idle", idle_minutes=60)), clock, 2)
    never = {"default_reset_policy": {"mode": "none"}, "platforms": {"nonsense": 1}}
    assert summed(what_if(log, policy_change(config=never))) == (1, 0, 0)
    by_platform = never | {"reset_by_platform": {"telegram": {"mode": "idle", "idle_minutes": 60}}}
    assert summed(what_if(log, policy_change(config=by_platform))) == (0, 0, 0)
    by_type = never | {"reset_by_type": {"dm": {"mode": "idle", "idle_minutes": 60}}}
    assert summed(what_if(log, policy_change(config=by_type))) == (0, 0, 0)
    assert summed(what_if(log, policy_change(idle_minutes=180, config=by_type))) == (1, 0, 0)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"mode": "weekly"}, "mode"),
        ({"idle_minutes": 0}, "idle_minutes"),
        ({"at_hour": 24}, "at_hour"),
        ({"config": {}}, "default_reset_policy"),
        ({"config": {"default_reset_policy": {"mode": "weekly"}}}, "default_reset_policy: mode"),
        ({"config": {"reset_by_platform": {"nowhere": {}}}}, "nowhere"),
    ],
)
def test_a_bad_policy_is_refused_by_the_name_of_its_field(given: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        policy_change(**given)


def test_only_the_platforms_that_are_asked_for_are_judged(incident: EventLog) -> None:
    """R12: --platform."""
    whole, slack = (what_if(incident, policy_change(mode="none"), platforms=each) for each in (None, ["slack"]))
    assert {each.platform for each in slack.gone} == {"slack"}
    assert slack.gone == tuple(each for each in whole.gone if each.platform == "slack")
    assert what_if(incident, policy_change(mode="none"), platforms=[]).messages == 0
    with pytest.raises(ValueError, match="list of names"):
        what_if(incident, platforms="slack")


def test_suspended_lanes_are_reset_under_every_policy(
    open_store: Callable[..., SessionStore], clock: FakeClock
) -> None:
    """R12, G22."""
    store = open_store(policy("both"))
    visits(store, clock, 1)
    store.suspend_session(KEY)
    log = visits(store, clock, 0)
    found = what_if(log, policy_change(mode="none"))
    assert (found.recorded, found.would_be, summed(found)) == (1, 1, (0, 0, 0))


def test_what_the_host_was_never_asked_is_said(incident: EventLog) -> None:
    """R12: a host that is known to have been busy holds back under any policy; another is not known."""
    later = what_if(incident, policy_change(at_hour=3))
    assert not [each for each in later.added if each.lane == LINUS and each.time.astimezone(ZONE).hour == 4]
    hourly = what_if(incident, policy_change(idle_minutes=60))
    assert any("the host was never asked whether it was working when" in each for each in hourly.unknown)
    assert any("within 50 ms count as one" in each for each in hourly.unknown)
    assert "3 events of lanes were erased: what they decided is left as it was" in hourly.unknown


def test_a_finished_expiry_and_an_unrecorded_window_are_said(
    open_store: Callable[..., SessionStore], clock: FakeClock
) -> None:
    store = open_store(policy("idle", idle_minutes=60))
    visits(store, clock, 0.1)
    store.mark_resume_pending(KEY)
    visits(store, clock, 0.5)
    clock.advance(hours=2)
    store.set_expiry_finalized(KEY)
    found = what_if(store.log, policy_change(idle_minutes=90))
    assert any("expiry finished by the host" in each for each in found.unknown)
    assert any("freshness window was not recorded" in each for each in found.unknown)


def test_what_came_before_the_settings_were_recorded_counts_as_no_policy(
    open_store: Callable[..., SessionStore], clock: FakeClock
) -> None:
    """A log of another program's making, or of an import."""
    store = open_store(policy("none"))
    log = visits(store, clock, 30)
    log.erase([1], actor="desk", reason="test")
    found = what_if(log, policy_change(mode="idle"))
    assert summed(found) == (0, 1, 0)
    assert any("the policy was not recorded" in each for each in found.unknown)


def test_history_up_to_a_position_is_judged(incident: EventLog) -> None:
    half = what_if(incident, policy_change(mode="none"), upto=3000)
    assert half.gone
    assert all(each.position <= 3000 for each in half.gone)


def test_a_platform_of_this_hosts_own_needs_no_registration_to_be_judged(
    open_store: Callable[..., SessionStore], clock: FakeClock
) -> None:
    store = open_store(policy("idle", idle_minutes=60))
    there = source("room", platform=Platform.register("irc"))
    store.get_or_create_session(there)
    clock.advance(hours=2)
    store.get_or_create_session(there)
    assert [each.platform for each in what_if(store.log, policy_change(mode="none")).gone] == ["irc"]
