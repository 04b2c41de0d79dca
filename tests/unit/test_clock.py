"""The default clock."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib.resources import files
from pathlib import Path

import pytest

from engine.clock import Instant, boot_time, is_of_the_machine, local_now, local_zone
from engine.domain.policy import SessionResetPolicy, reset_reason
from engine.domain.times import microseconds


@pytest.fixture(autouse=True)
def found_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    local_zone.cache_clear()
    yield
    monkeypatch.undo()
    local_zone.cache_clear()


@pytest.mark.parametrize("name", ["Europe/Berlin", ":Europe/Berlin"])
def test_g29_a_boundary_before_the_clocks_changed_is_not_an_hour_off(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("TZ", name)
    zone = local_zone()
    assert local_now().tzinfo is zone
    policy = SessionResetPolicy(mode="daily", at_hour=1)
    touched = datetime(2026, 10, 25, 1, 30, tzinfo=zone)
    assert reset_reason(policy, touched, datetime(2026, 10, 25, 10, tzinfo=zone)) is None
    touched = datetime(2026, 3, 29, 0, 30, tzinfo=zone)
    assert reset_reason(policy, touched, datetime(2026, 3, 29, 10, tzinfo=zone)) == "daily"


def test_a_zone_in_a_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "zone").write_bytes((files("tzdata.zoneinfo.Asia") / "Tokyo").read_bytes())
    monkeypatch.setenv("TZ", str(tmp_path / "zone"))
    assert local_now().utcoffset() == timedelta(hours=9)


@pytest.mark.parametrize("name", ["CET-1CEST,M3.5.0,M10.5.0/3", "/nowhere/at/all", "No/Such_Zone"])
def test_without_a_zone_the_time_is_still_right(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv("TZ", name)
    assert local_zone() is None
    assert abs(local_now() - datetime.now(UTC)) < timedelta(minutes=1)


def test_an_instant_of_the_machine_is_shown_in_the_zone_of_its_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    shown = Instant(microseconds(datetime(2026, 7, 1, 12, 0, 0, 123457, tzinfo=UTC))).shown
    assert shown.tzinfo is local_zone()
    assert shown.replace(tzinfo=None) == datetime(2026, 7, 1, 14, 0, 0, 123457)


def test_an_instant_of_a_host_is_shown_as_its_clock_said_it() -> None:
    said = datetime(2026, 7, 1, 12, tzinfo=UTC)
    assert Instant(microseconds(said), said).shown is said


def test_g36_the_time_since_boot_goes_on_and_names_the_run() -> None:
    first, second = boot_time(), boot_time()
    assert first.boot == second.boot
    assert first.at <= second.at


def test_g36_where_no_run_of_the_machine_is_named_it_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine.clock._CLOCK", None)
    first, second = boot_time(), boot_time()
    assert first.boot == second.boot
    assert first.boot.startswith("process ")
    assert first.at <= second.at


def test_g36_a_clock_that_shows_the_same_is_the_machines() -> None:
    now = datetime.now(UTC)
    assert is_of_the_machine(local_now, now - timedelta(days=9))
    assert is_of_the_machine(lambda: now, now)
    assert not is_of_the_machine(lambda: now, now - timedelta(minutes=2))
