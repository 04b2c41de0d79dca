"""Times of the log and of the host, and nothing lost between them (G15, G29)."""

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, strategies as st

from engine.domain.times import FIRST, LAST, microseconds, moment, names_of

BERLIN = ZoneInfo("Europe/Berlin")
ZONES = ["UTC", "Europe/Berlin", "America/New_York", "Asia/Kathmandu", "Australia/Lord_Howe", "Pacific/Apia"]


def test_a_time_of_the_log_is_utc_microseconds() -> None:
    assert microseconds(datetime(1970, 1, 1, tzinfo=UTC)) == 0
    assert microseconds(datetime(1970, 1, 1, 1, 0, 0, 7, tzinfo=BERLIN)) == 7
    assert microseconds(datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC)) == -1_000_000


def test_a_time_without_a_zone_is_no_time_of_the_log() -> None:
    with pytest.raises(TypeError):
        microseconds(datetime(2026, 7, 1))


@given(
    st.datetimes(datetime(1900, 1, 2), datetime(2100, 1, 1), timezones=st.just(UTC)),
    st.sampled_from(ZONES),
)
def test_no_microsecond_is_lost_in_any_zone(instant: datetime, zone: str) -> None:
    back = moment(microseconds(instant), ZoneInfo(zone))
    assert back == instant
    assert microseconds(back) == microseconds(instant)
    assert isinstance(back.tzinfo, timezone)


def test_times_of_a_zone_subtract_to_what_passed_across_dst() -> None:
    before = microseconds(datetime(2026, 3, 29, 1, 30, tzinfo=BERLIN))
    after = microseconds(datetime(2026, 3, 29, 3, 30, tzinfo=BERLIN))
    assert moment(after, BERLIN) - moment(before, BERLIN) == timedelta(hours=1)


def test_the_second_coming_of_an_hour_keeps_its_own_offset() -> None:
    first, second = (microseconds(datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=fold)) for fold in (0, 1))
    assert second - first == 3_600_000_000
    shown = moment(second, BERLIN)
    assert (shown.isoformat(), shown.fold) == ("2026-10-25T02:30:00+01:00", 0)


def test_a_zone_is_named_alike_however_it_was_made() -> None:
    """G29: by its key, or by what it is called in winter and in summer."""
    with Path("/usr/share/zoneinfo/Europe/Berlin").open("rb") as file:
        unnamed = ZoneInfo.from_file(file)
    assert names_of(BERLIN) == ("Europe/Berlin",)
    assert names_of(unnamed) == ("CET", "CEST")
    assert names_of(UTC) == names_of(ZoneInfo("UTC")) == ("UTC",)
    assert names_of(timezone(timedelta(hours=2))) == ("UTC+02:00",)
    assert names_of(None) == ("None",)


@pytest.mark.parametrize("zone", ZONES)
@pytest.mark.parametrize("time", [-(2**63), -62_135_596_800_000_000, 253_402_300_799_999_999, 2**63 - 1])
def test_g41_a_time_that_no_zone_can_show_is_shown_as_the_first_or_the_last_that_can(time: int, zone: str) -> None:
    at = moment(time, ZoneInfo(zone))
    assert microseconds(at) == (FIRST if time < 0 else LAST)
