"""Moments in the words of people (R3)."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from engine import SessionStore
from replay import BadMomentError, Moment, moment_of
from replay.moments import shown, time_of
from tests.gateway.support import FakeClock, source

AMSTERDAM = ZoneInfo("Europe/Amsterdam")
NOW = datetime(2026, 7, 1, 14, 25, 30, tzinfo=AMSTERDAM)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("now", "2026-07-01 14:25:30 CEST (UTC+02:00)"),
        ("2h", "2026-07-01 12:25:30 CEST (UTC+02:00)"),
        ("90m ago", "2026-07-01 12:55:30 CEST (UTC+02:00)"),
        ("3d ago", "2026-06-28 14:25:30 CEST (UTC+02:00)"),
        ("1d 2h ago", "2026-06-30 12:25:30 CEST (UTC+02:00)"),
        ("0.5h", "2026-07-01 13:55:30 CEST (UTC+02:00)"),
        ("yesterday 04:00", "2026-06-30 04:00:00 CEST (UTC+02:00)"),
        ("Yesterday  4:00:30", "2026-06-30 04:00:30 CEST (UTC+02:00)"),
        ("today", "2026-07-01 00:00:00 CEST (UTC+02:00)"),
        ("2026-01-31", "2026-01-31 00:00:00 CET (UTC+01:00)"),
        ("2026-01-31t04:00", "2026-01-31 04:00:00 CET (UTC+01:00)"),
        ("2026-01-31 04:00Z", "2026-01-31 04:00:00 UTC"),
        ("2026-01-31T04:00-05:30", "2026-01-31 04:00:00 UTC-05:30"),
    ],
)
def test_a_time_is_in_the_local_zone_unless_it_names_one_and_the_zone_is_shown(text: str, meant: str) -> None:
    """R3: without a zone it is local and the zone is printed."""
    assert shown(time_of(text, NOW)) == meant


def test_hours_are_counted_as_they_pass_and_days_by_name_on_the_wall_clock() -> None:
    """R3: in the night the clocks change, `24h` is not `yesterday`."""
    after = datetime(2026, 3, 29, 12, tzinfo=AMSTERDAM)
    assert shown(time_of("24h", after)) == "2026-03-28 11:00:00 CET (UTC+01:00)"
    assert shown(time_of("yesterday 12:00", after)) == "2026-03-28 12:00:00 CET (UTC+01:00)"


@pytest.mark.parametrize(
    "text", ["", "soon", "2", "yesterday 25:00", "99999999w ago", "2026-13-01", "@", "@x", "@-1", "ago", "1d yesterday"]
)
def test_what_names_no_moment_is_refused_with_the_ways_to_write_one(
    open_store: Callable[..., SessionStore], text: str
) -> None:
    with pytest.raises(BadMomentError, match=r"write a time like .* or a position like @123"):
        moment_of(open_store().log, text, NOW)


def test_a_moment_is_the_last_position_recorded_until_then(
    open_store: Callable[..., SessionStore], clock: FakeClock
) -> None:
    store = open_store()
    start = clock()
    store.get_or_create_session(source())
    last = store.log.last_position
    clock.advance(hours=1)
    store.get_or_create_session(source("9"))
    assert moment_of(store.log, "30m", clock()) == Moment(last, clock() - timedelta(minutes=30))
    assert moment_of(store.log, "2h", clock()).position == 0
    assert moment_of(store.log, "2099-01-01", clock()).position == store.log.last_position
    assert moment_of(store.log, f"@{last}", clock()) == Moment(last, start)
    assert moment_of(store.log, "@0", clock()) == Moment(0, start)
    assert str(moment_of(store.log, "@2", clock())) == "@2 (2026-07-01 14:25:30 UTC)"


def test_a_position_behind_the_end_is_refused_with_the_end(open_store: Callable[..., SessionStore]) -> None:
    log = open_store().log
    with pytest.raises(BadMomentError, match=f"ends at @{log.last_position}"):
        moment_of(log, "@999", NOW)


def test_the_position_0_of_an_empty_log_has_the_time_that_no_event_can_contradict(
    open_store: Callable[..., SessionStore],
) -> None:
    assert moment_of(open_store().log, "@0", NOW.astimezone(UTC)).time == datetime(1970, 1, 1, tzinfo=UTC)
