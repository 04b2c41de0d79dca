"""Several processes on one log: conflicts, following, forks, locks, creation, the size of the WAL, exits."""

import contextlib
import os
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest

from engine.log import EventLog
from engine.log.envelope import Envelope
from engine.log.errors import LockedLogError
from engine.log.library.recorders import ApswApplicationRecorder
from tests.chance import SOAK
from tests.faults.children import Child, message

APPENDS = 2000 * SOAK
PATIENCE = 300.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


def check_versions(events: list[Envelope]) -> None:
    """Positions are 1, 2, 3 …, and so are the versions of each stream, in the order of the positions."""
    assert [envelope.position for envelope in events] == list(range(1, len(events) + 1))
    sizes: Counter[str] = Counter()
    for envelope in events:
        sizes[envelope.stream] += 1
        assert envelope.version == sizes[envelope.stream]


@pytest.mark.parametrize("synchronous", ["NORMAL", "FULL"])
def test_four_processes_win_each_version_once(synchronous: str, path: Path) -> None:
    with contextlib.ExitStack() as stack:
        children = [stack.enter_context(Child("race", path, f"p{n}", APPENDS, 3, synchronous)) for n in range(4)]
        for child in children:
            assert child.said() == "ready"
        for child in children:
            child.tell()
        reports = [child.end()[0] for child in children]
    wins = Counter((stream, version) for report in reports for stream, version in report["won"])
    assert sum(wins.values()) == 4 * APPENDS
    assert set(wins.values()) == {1}, "a version was won twice"
    assert sum(report["conflicts"] for report in reports) > 0, "the processes never met: this tested nothing"
    with EventLog(path) as log:
        events = list(log.events())
        check_versions(events)
        assert {(envelope.stream, envelope.version) for envelope in events} == wins.keys()
        assert len(events) == 4 * APPENDS
        assert len({envelope.command for envelope in events}) == 4 * APPENDS
        verification = log.verify()
        assert verification.ok, verification


def test_a_read_only_log_in_another_process_follows_a_live_one(path: Path) -> None:
    with EventLog(path) as log, Child("follow", path, 1000) as follower:
        assert follower.said() == "ready"
        follower.tell()
        for n in range(1000):
            log.append([message(f"e{n}", f"session:{n % 3}")])
        (report,) = follower.end()
    assert report == {"seen": [[n + 1, f"e{n}"] for n in range(1000)], "ok": True}


def test_a_subscription_sees_every_event_of_another_process_while_that_waits_for_it(path: Path) -> None:
    with EventLog(path) as log, Child("subscribe", path, 1000) as subscriber:
        assert subscriber.said() == "ready"
        subscriber.tell()
        for n in range(0, 1000, 40):
            positions = [log.append([message(f"e{n + each}", "session:s")])[0] for each in range(40)]
            assert [subscriber.said() for _ in positions] == positions  # then it is at the end, and waits
        assert subscriber.end() == []
        assert log.last_position == 1000


def test_wait_sees_events_of_another_process(path: Path) -> None:
    with EventLog(path) as log, Child("write", path, "w", 50, "FULL", 1000, 0.01) as writer:
        assert writer.said() == "ready"
        assert not log.wait(0, timeout=0.05)
        writer.tell()
        seen = 0
        while seen < 50:
            assert log.wait(seen, timeout=PATIENCE)
            seen += sum(1 for _ in log.events(seen))
        writer.end()
        assert seen == log.last_position == 50


def test_an_event_inserted_while_a_subscription_begins_is_never_missed(path: Path) -> None:
    """In the library an insert between a subscription's first read and its registration waits for the next."""
    with EventLog(path, synchronous="OFF") as log:
        recorder = ApswApplicationRecorder(log, "text")
        for number in range(300 * SOAK):
            before = log.last_position
            together = threading.Barrier(2)
            got: list[int] = []

            def listen(before: int = before, together: threading.Barrier = together, got: list[int] = got) -> None:
                together.wait()
                with recorder.subscribe(gt=before) as subscription:
                    got.append(next(subscription).id)

            listener = threading.Thread(target=listen, daemon=True)
            listener.start()
            together.wait()
            log.append([message(f"e{number}", "session:s")])
            listener.join(PATIENCE)
            assert not listener.is_alive(), f"round {number}: the event was missed"
            assert got == [before + 1]


def test_stopping_a_subscription_ends_its_iteration(path: Path) -> None:
    with EventLog(path) as log:
        log.append([message("one", "session:s")])
        for _ in range(50):
            subscription = ApswApplicationRecorder(log, "text").subscribe()
            seen = threading.Event()

            def iterate(subscription: object = subscription, seen: threading.Event = seen) -> None:
                for _ in subscription:
                    seen.set()

            thread = threading.Thread(target=iterate, daemon=True)
            thread.start()
            assert seen.wait(PATIENCE)
            subscription.stop()
            thread.join(PATIENCE)
            assert not thread.is_alive()


def test_a_subscription_that_nobody_stopped_does_not_keep_the_interpreter(path: Path) -> None:
    with Child("leave_a_subscription_running", path) as child:
        assert child.said() == "main thread ends"
        assert child.end() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_of_a_busy_process_disturbs_nobody(path: Path) -> None:
    with Child("fork", path) as child:
        *forks, report = child.end()
    assert forks == [{"status": 0}] * 10
    assert report["verified"]
    assert report["events"] == sum(report["counts"]) + 1
    with EventLog(path) as log:
        events = list(log.events())
        check_versions(events)
        counts = Counter(envelope.stream for envelope in events)
        assert [counts[f"session:{worker}"] for worker in range(3)] == report["counts"]
        assert counts["session:fork"] == 0
        assert log.verify().ok


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_while_a_thread_waits_for_events_does_not_hang(path: Path) -> None:
    with Child("fork_while_a_thread_waits", path) as child:
        assert child.end() == [{"status": 0}]


@pytest.mark.skipif(sys.platform != "linux", reason="the holder of a lock is known on Linux only")
def test_a_lock_held_for_too_long_is_an_error_that_names_its_holder(path: Path) -> None:
    with EventLog(path, busy_timeout=0.3) as log:
        log.append([message("one", "session:s")])
        with Child("hold_the_lock", path) as holder:
            assert holder.said() == "ready"
            with pytest.raises(LockedLogError, match=rf"process {holder.pid} "):
                log.append([message("two", "session:s")])
            assert log.version("session:s") == 1, "reading does not need the lock"
            holder.tell()
            holder.end()
        assert log.append([message("three", "session:s")]) == [2]
        assert [envelope.command for envelope in log.events()] == ["one", "three"]
        assert log.verify().ok


def test_two_processes_that_create_a_log_together_share_it(tmp_path: Path) -> None:
    paths = [tmp_path / str(number) / "log.db" for number in range(20 * SOAK)]
    for path in paths:
        path.parent.mkdir()
    with Child("create", *paths) as one, Child("create", *paths) as two:
        for child in (one, two):
            assert child.said() == "ready"
            child.tell()
        for path in paths:
            deadline = time.monotonic() + PATIENCE
            while len(list(path.parent.glob("*.here"))) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.0005)
            Path(f"{path}.gate").touch()
        assert one.end() == two.end() == ["done"]
    for path in paths:
        with EventLog(path) as log:
            assert {envelope.command for envelope in log.events()} == {str(one.pid), str(two.pid)}
            assert log.verify().ok


def test_the_wal_stays_bounded_while_two_processes_write_and_one_reads(path: Path) -> None:
    pages, count = 100, 3000
    largest = 0
    wal = Path(f"{path}-wal")
    with EventLog(path, read_only=False) as log, contextlib.ExitStack() as stack:
        writers = [stack.enter_context(Child("write", path, f"w{n}", count, "NORMAL", pages)) for n in range(2)]
        for writer in writers:
            assert writer.said() == "ready"
            writer.tell()
        seen = 0
        while seen < 2 * count:
            assert log.wait(seen, timeout=PATIENCE)
            seen += sum(1 for _ in log.events(seen))
            largest = max(largest, wal.stat().st_size)
        for writer in writers:
            writer.end()
        check_versions(list(log.events()))
        assert log.verify().ok
    assert 0 < largest < 40 * pages * 4096, f"the WAL grew to {largest / 4096 / pages:.1f} times the checkpoint size"


@pytest.mark.parametrize("how", ["idle", "busy"])
def test_a_process_that_does_not_close_its_log_ends_and_keeps_what_was_acknowledged(how: str, path: Path) -> None:
    with Child("leave_the_log_open", path, how) as child:
        acknowledged = child.end()
    assert {f"m-{n}" for n in range(100)} <= set(acknowledged)
    with EventLog(path) as log:
        events = list(log.events())
        check_versions(events)
        stored = Counter(envelope.command for envelope in events)
        assert set(stored.values()) == {1}
        assert set(acknowledged) <= stored.keys()
        assert log.verify().ok
