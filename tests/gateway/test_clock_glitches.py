"""Clocks that are wrong for a moment, or show a year that nobody can show: they decide nothing for ever."""

import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from engine import GatewayConfig, SessionReader, SessionStore
from engine.clock import boot_time
from engine.domain.events import LaneTouched, MessageAppended
from engine.domain.turn import BootTime
from engine.errors import TurnInProgressError
from engine.log import EventLog
from engine.log.envelope import NEXT_VERSION, Envelope
from replay import what_if
from replay.policies import PolicyChange
from tests.gateway.support import FakeClock, policy, source, stream_of

START = datetime(2026, 7, 1, 12, tzinfo=UTC)
WRONG = datetime(2036, 1, 1, tzinfo=UTC)
WAYS: dict[str, Callable[[SessionStore], object]] = {
    "routed": lambda store: store.get_or_create_session(source()),
    "counted": lambda store: store.update_session(store.get_or_create_session(source(), touch=False).session_key),
    "forced": lambda store: store.get_or_create_session(source(), force_new=True),
}


def sessions_of(folder: Path, config: GatewayConfig, wrong: Callable[[SessionStore], object] | None) -> list[str]:
    """The sessions of 60 days with a message each, after an hour in which the clock may be wrong once."""
    clock = FakeClock(START)
    with SessionStore(folder, config, clock=clock) as store:
        found = [store.get_or_create_session(source()).session_id]
        if wrong is not None:
            store.runner.touches.flush()
            clock.set(WRONG)
            wrong(store)
            store.runner.touches.flush()
            clock.set(START + timedelta(minutes=1))
        for day in range(1, 61):
            clock.set(START + timedelta(days=day, minutes=day))
            found.append(store.get_or_create_session(source()).session_id)
            if day == 30:
                store.runner.touches.flush()
        clock.advance(days=91)
        assert store.prune_old_entries(90) == 1
        assert store.list_sessions() == []
    return list(dict.fromkeys(found))


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("mode", ["idle", "daily"])
def test_a_touch_of_2036_disables_no_reset_and_no_pruning(tmp_path: Path, mode: str, how: str) -> None:
    """G29, G41: without the glitch it is 60 sessions on 60 idle days. It was one, and the lane stayed for ever."""
    config = policy(mode, idle_minutes=1440)
    usual = sessions_of(tmp_path / "usual", config, None)
    assert len(usual) == 61
    found = sessions_of(tmp_path / "wrong", config, WAYS[how])
    assert len(found) >= len(usual) - (how != "counted")  # a session made in 2036 was first used at nobody knows when


def test_a_lane_of_which_only_a_time_to_come_is_known_is_pruned_90_days_after_it_was_noticed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """G41, G58: told once, and the event keeps what the clock said."""
    clock = FakeClock(WRONG)
    with SessionStore(tmp_path, clock=clock) as store, caplog.at_level(logging.WARNING, "engine.store"):
        key = store.get_or_create_session(source()).session_key
        clock.set(START)
        for _ in range(3):
            assert store.prune_old_entries(90) == 0
        told = [record.getMessage() for record in caplog.records if "a clock was wrong" in record.getMessage()]
        assert len(told) == 1
        assert key in told[0]
        assert next(store.log.stream(stream_of(store, key))).time > 2_000_000_000_000_000
        clock.advance(days=91)
        assert store.prune_old_entries(90) == 1


def test_a_touch_before_its_time_resets_nothing(tmp_path: Path) -> None:
    """G29: the clock went back by years for one message."""
    clock = FakeClock(START)
    with SessionStore(tmp_path, policy("both"), clock=clock) as store:
        first = store.get_or_create_session(source()).session_id
        store.runner.touches.flush()
        clock.set(datetime(2020, 1, 1, tzinfo=UTC))
        assert store.get_or_create_session(source()).session_id == first
        store.runner.touches.flush()
        clock.set(START + timedelta(minutes=5))
    with SessionStore(tmp_path, policy("both"), clock=clock) as store:
        entry = store.list_sessions()[0]
        assert not store.is_session_expired(entry)
        assert store.prune_old_entries(90) == 0
        assert store.get_or_create_session(source()).session_id == first
        clock.advance(days=2)
        assert store.get_or_create_session(source()).session_id != first


def test_a_glitch_is_told_once_and_the_list_is_in_order_again(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """G41, G58."""
    clock = FakeClock(WRONG)
    with SessionStore(tmp_path, clock=clock) as store, caplog.at_level(logging.WARNING, "engine.store"):
        for name in ("a", "b", "c"):
            store.get_or_create_session(source(name))
        clock.set(START)
        for name in ("b", "c", "a", "b"):
            clock.advance(minutes=1)
            store.get_or_create_session(source(name))
            store.runner.touches.flush()
        assert [entry.origin.chat_id for entry in store.list_sessions() if entry.origin] == ["b", "a", "c"]
        assert [entry.updated_at.year for entry in store.list_sessions()] == [2026] * 3
        assert sum("a clock was wrong" in record.getMessage() for record in caplog.records) == 3
        assert store.list_sessions(active_minutes=1.5) == store.list_sessions()[:2]


def test_a_mark_of_2036_expires(tmp_path: Path) -> None:
    """G23."""
    clock = FakeClock(START)
    with SessionStore(tmp_path, policy("idle", idle_minutes=100_000), clock=clock) as store:
        entry = store.get_or_create_session(source())
        clock.set(WRONG)
        store.mark_resume_pending(entry.session_key)
        clock.set(START + timedelta(hours=2))
        again = store.get_or_create_session(source())
        assert (again.session_id != entry.session_id, again.auto_reset_reason) == (True, "resume_pending_expired")


def test_what_if_judges_a_glitch_as_the_store_does(tmp_path: Path) -> None:
    """R12: by the policy that was in force nothing changes; by one that resets each day, each idle day resets."""
    clock = FakeClock(START)
    with SessionStore(tmp_path, policy("none"), clock=clock) as store:
        store.get_or_create_session(source())
        clock.set(WRONG)
        WAYS["counted"](store)
        for day in range(1, 61):
            clock.set(START + timedelta(days=day, minutes=day))
            store.get_or_create_session(source())
            store.runner.touches.flush()
        for mode, resets in (("none", 0), ("idle", 60), ("daily", 60)):
            assert what_if(store.log, PolicyChange(mode=mode), zone=UTC).would_be == resets, mode


def test_what_if_finds_the_resets_that_a_store_made_around_a_glitch(tmp_path: Path) -> None:
    """R12: with the policy that was in force nothing changes."""
    for how in WAYS:
        sessions_of(tmp_path / how, policy("both"), WAYS[how])
        with EventLog(tmp_path / how / "sessions.db", read_only=True) as log:
            found = what_if(log, zone=UTC)
            assert (found.gone, found.added, found.otherwise) == ((), (), ())
            again = what_if(log, PolicyChange(mode="daily"), zone=UTC)
            assert again.would_be == again.recorded >= 59


YEARS = {
    "year 1": datetime(1, 1, 1, tzinfo=UTC),
    "year 1, where it began earlier": datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
    "year 9999": datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC),
    "year 9999, where it ends later": datetime(9999, 12, 31, 23, 59, 59, tzinfo=timezone(-timedelta(hours=12))),
    "before 1970": datetime(1960, 5, 5, tzinfo=UTC),
}
ZONES = [UTC, ZoneInfo("Pacific/Kiritimati"), ZoneInfo("America/Los_Angeles"), ZoneInfo("Etc/GMT+12")]


@pytest.mark.parametrize("mode", ["none", "both"])
@pytest.mark.parametrize("year", YEARS)
def test_a_clock_of_any_year_breaks_nothing(tmp_path: Path, year: str, mode: str) -> None:
    """G29, G41, G49."""
    clock = FakeClock(YEARS[year])
    with SessionStore(tmp_path, policy(mode), clock=clock) as store:
        entry = store.get_or_create_session(source())
        store.append_to_transcript(entry.session_id, {"role": "user", "content": "hello"})
        store.get_or_create_session(source())
        store.runner.touches.flush()
        _ask_everything(store, entry.session_id)
        clock.set(START)
        store.get_or_create_session(source("other"))
        _ask_everything(store, entry.session_id)
        assert store.get_or_create_session(source()).updated_at == START


@pytest.mark.parametrize("zone", ZONES, ids=str)
@pytest.mark.parametrize("time", [-(2**62), -62_200_000_000_000_000, 253_402_300_799_999_999, 2**62])
def test_a_time_that_no_zone_can_show_breaks_no_listing_and_no_transcript(
    tmp_path: Path, time: int, zone: tzinfo
) -> None:
    """G41, G49: written by another program, or by a bit that flipped before it was hashed."""
    clock = FakeClock(START.astimezone(zone))
    with SessionStore(tmp_path, policy("both"), clock=clock) as store:
        entry = store.get_or_create_session(source())
        message = MessageAppended(message={"role": "user", "content": "hello"})
        store.log.append(
            [
                Envelope(stream_of(store, entry.session_key), NEXT_VERSION, LaneTouched(at=time), time),
                Envelope(f"session:{entry.session_id}", NEXT_VERSION, message, time),
            ]
        )
        store.append_to_transcript(entry.session_id, {"role": "user", "content": "again"})
        _ask_everything(store, entry.session_id)
        assert [message["content"] for message in store.load_transcript(entry.session_id)] == ["hello", "again"]
        store.get_or_create_session(source())
        clock.advance(days=2)
        assert store.get_or_create_session(source()).session_id != entry.session_id
    with SessionReader.open(tmp_path, clock=clock) as reader:
        _ask_everything(reader, entry.session_id)


def _ask_everything(store: SessionReader, session_id: str) -> None:
    for entry in [*store.list_sessions(), *store.iter_sessions(), *store.list_sessions(limit=1)]:
        store.is_session_expired(entry)
        assert store.peek_entry(entry.session_key) is not None
        assert type(entry).from_dict(entry.to_dict()) == entry
    assert store.list_sessions()
    assert store.load_transcript(session_id)
    assert store.recorded_messages(session_id)
    assert store.get_session(session_id)
    assert store.lookup_by_session_id(session_id) or store.conversation(session_id)


# Leases


class Machine:
    """The machine's clocks: one on the wall, which may be set, and one that runs since it was switched on."""

    def __init__(self) -> None:
        self.offset = timedelta(0)
        self.passed = 0
        self.boot = boot_time().boot

    def wall(self) -> datetime:
        return datetime.now(UTC) + self.offset

    def since_boot(self) -> BootTime:
        return BootTime(self.boot, boot_time().at + self.passed)

    def passes(self, seconds: float) -> None:
        self.offset += timedelta(seconds=seconds)
        self.passed += int(seconds * 1e6)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    found = Machine()
    monkeypatch.setattr("engine.store.boot_time", found.since_boot)
    return found


@pytest.fixture
def two(tmp_path: Path, machine: Machine) -> Iterator[tuple[SessionStore, SessionStore, str]]:
    with SessionStore(tmp_path, clock=machine.wall) as one, SessionStore(tmp_path, clock=machine.wall) as other:
        yield one, other, one.get_or_create_session(source()).session_key


def test_g36_the_clock_on_the_wall_takes_no_live_lease(two: tuple[SessionStore, SessionStore, str], machine: Machine):
    one, other, key = two
    token = one.begin_turn(key, lease_seconds=600)
    machine.offset += timedelta(hours=1)
    assert other.recover_interrupted_turns() == 0
    with pytest.raises(TurnInProgressError):
        other.begin_turn(key)
    assert one.renew_turn(token)
    assert one.end_turn(token)


def test_g36_the_clock_on_the_wall_stretches_no_lease(two: tuple[SessionStore, SessionStore, str], machine: Machine):
    one, other, key = two
    lost = one.begin_turn(key, lease_seconds=600)
    machine.offset -= timedelta(hours=5)
    machine.passes(599)
    with pytest.raises(TurnInProgressError):
        other.begin_turn(key)
    assert one.renew_turn(lost, lease_seconds=600)
    machine.passes(600.5)
    token = other.begin_turn(key)
    assert not one.end_turn(lost)
    assert other.end_turn(token)


@pytest.mark.parametrize("boot", ["of another machine, or after it was switched on again", None])
def test_g36_elsewhere_the_clock_on_the_wall_decides(
    two: tuple[SessionStore, SessionStore, str], machine: Machine, monkeypatch: pytest.MonkeyPatch, boot: str | None
):
    one, other, key = two
    if boot is None:  # a turn that an older version began
        one.runner._context = one.runner._context._replace(boot_time=None)
    one.begin_turn(key, lease_seconds=600)
    machine.boot = boot or machine.boot
    machine.offset += timedelta(seconds=599)
    with pytest.raises(TurnInProgressError):
        other.begin_turn(key)
    machine.offset += timedelta(seconds=2)
    assert other.recover_interrupted_turns() == 1


def test_g36_a_store_with_a_clock_of_its_own_goes_by_that(tmp_path: Path) -> None:
    clock = FakeClock(START)
    with SessionStore(tmp_path, clock=clock) as store:
        key = store.get_or_create_session(source()).session_key
        store.begin_turn(key, lease_seconds=600)
        clock.advance(seconds=601)
        assert store.recover_interrupted_turns() == 1


_OTHER = """
import sys, time
from datetime import timedelta
import engine.clock, engine.store
from engine import SessionStore
from engine.errors import TurnInProgressError
hours = int(sys.argv[3])
time_ns = time.time_ns
engine.store.time_ns = lambda: time_ns() + hours * 3_600_000_000_000  # what the wall shows to this process
with SessionStore(sys.argv[1]) as store:
    shown = store._instant().time // 1000 - time.time_ns() // 1_000_000
    assert abs(shown - hours * 3_600_000) < 60_000
    try:
        store.begin_turn(sys.argv[2])
        print("taken")
    except TurnInProgressError:
        print("in progress")
"""


@pytest.mark.parametrize("hours", [1, -5])
def test_g36_another_process_whose_wall_is_wrong_takes_no_live_lease(tmp_path: Path, hours: int) -> None:
    """Real processes: the clock of both is the machine's own, with the time that one of them sees set."""
    with SessionStore(tmp_path) as store:
        key = store.get_or_create_session(source()).session_key
        token = store.begin_turn(key, lease_seconds=600)
        command = [sys.executable, "-c", _OTHER, str(tmp_path), key, str(hours)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout == "in progress\n"
        assert store.end_turn(token)
