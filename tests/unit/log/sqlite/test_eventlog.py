"""The event log as a whole: its limits, its end, erasure and health."""

import time
from pathlib import Path

import apsw
import pytest

from engine.domain.encoding import Erased
from engine.domain.events import ContentErased
from engine.log import EventLog
from engine.log.envelope import LOG_STREAM
from engine.log.errors import (
    ClosedLogError,
    InvalidEventError,
    ReadOnlyLogError,
)
from tests.unit.log.samples import said, texts


@pytest.mark.parametrize("name", ["busy_timeout", "payload_limit", "queue_limit", "checkpoint_pages"])
@pytest.mark.parametrize("value", [-1, "5", None, True])
def test_limits_are_numbers(path, name, value):
    with pytest.raises(ValueError, match=name):
        EventLog(path, **{name: value})
    assert not path.exists()


@pytest.mark.parametrize("name", ["queue_limit", "checkpoint_pages"])
def test_limits_that_let_nothing_through_are_refused(path, name):
    with pytest.raises(ValueError, match="at least 1"):
        EventLog(path, **{name: 0})


def test_a_log_opened_for_reading_refuses_to_append(path):
    with EventLog(path) as log:
        log.append([said()])
    with EventLog(path, read_only=True) as log:
        assert texts(log.events()) == ["hello"]
        assert log.health().state == "read-only"
        with pytest.raises(ReadOnlyLogError):
            log.append([said()])


def test_a_closed_log_says_so(path):
    log = EventLog(path)
    log.close()
    log.close()
    with pytest.raises(ClosedLogError):
        log.append([said()])
    with pytest.raises(ClosedLogError):
        list(log.events())


def test_an_error_of_a_closed_log_does_not_grow(path):
    log = EventLog(path)
    log.close()
    for use in (lambda: log.append([said()]), lambda: log.last_position):
        depths = set()
        for _ in range(3):
            with pytest.raises(ClosedLogError) as caught:
                use()
            depths.add(len(caught.traceback))
        assert len(depths) == 1


class TestErasing:
    PRIVATE = "a private text of some length"

    def test_leaves_a_tombstone_and_an_account_of_it(self, log, path):
        log.append([said("first"), said(self.PRIVATE), said("last")])
        assert log.erase([2], actor="ada", reason="asked", request="R-1") == [2]
        _, erased, _, record = log.events()
        assert isinstance(erased.event, Erased)
        assert record.stream == LOG_STREAM
        assert record.event == ContentErased(positions=[2], request="R-1")
        assert (record.actor, record.reason) == ("ada", "asked")
        assert log.verify().ok
        assert log.verify().erased == 1
        assert log.erase([2], actor="ada", reason="asked") == []
        assert log.last_position == 4

    @pytest.mark.parametrize("size", [1, 1000])
    def test_removes_the_text_from_the_files(self, path, size):
        with EventLog(path) as log:
            log.append([said("x"), said(self.PRIVATE * size), said("y")])
            log.erase([2], actor="ada", reason="asked")
            for file in path.parent.glob("log.db*"):
                assert self.PRIVATE.encode() not in file.read_bytes(), file
        assert self.PRIVATE.encode() not in path.read_bytes()

    @pytest.mark.parametrize("position", [1, 2, 50, 299])
    def test_removes_the_text_from_pages_that_were_split(self, path, position):
        with EventLog(path) as log:
            for number in range(1, 300):
                log.append([said(f"{self.PRIVATE} <{number}>", f"stream {number % 5}")])
            log.erase([position], actor="ada", reason="asked")
        assert f"{self.PRIVATE} <{position}>".encode() not in path.read_bytes()

    def test_empties_the_wal_as_soon_as_no_reader_needs_it(self, log, path):
        log.append([said(self.PRIVATE)])
        reader = apsw.Connection(str(path))
        reader.execute("BEGIN; SELECT * FROM events").fetchall()
        log.erase([1], actor="ada", reason="asked")
        wal = Path(f"{path}-wal")
        assert self.PRIVATE.encode() in wal.read_bytes()
        reader.close()
        deadline = time.monotonic() + 20
        while wal.stat().st_size and time.monotonic() < deadline:
            time.sleep(0.05)
        assert wal.stat().st_size == 0

    @pytest.mark.parametrize("position", ["1", 1.0, True, None])
    def test_needs_positions(self, log, position):
        log.append([said(), said()])
        with pytest.raises(InvalidEventError, match="position"):
            log.erase([position], actor="ada", reason="asked")
        assert log.last_position == 2

    def test_during_a_verification_is_no_finding(self, log):
        log.append([said() for _ in range(5000)])
        erased = []

        def progress(done, total):
            if not erased:
                erased.extend(log.erase([4500], actor="ada", reason="asked"))

        found = log.verify(progress)
        assert found.ok, found
        assert (found.events, found.erased) == (5001, 1)

    def test_needs_a_reason_and_events_that_can_be_erased(self, log):
        log.append([said("x")])
        with pytest.raises(InvalidEventError, match="reason"):
            log.erase([1], actor="ada", reason="")
        with pytest.raises(InvalidEventError, match="no event"):
            log.erase([1, 9], actor="ada", reason="asked")
        assert texts(log.events()) == ["x"]
        log.erase([1], actor="ada", reason="asked")
        with pytest.raises(InvalidEventError, match="cannot be erased"):
            log.erase([2], actor="ada", reason="asked")


def test_health_counts_what_was_done(log, path):
    log.append([said(), said()])
    log.append([said(time=1)])
    health = log.health()
    assert (health.path, health.state, health.position, health.clock_steps) == (str(path), "ok", 3, 1)
    assert (health.commits, health.commands, health.largest_batch, health.queue_depth) == (2, 2, 1, 0)
    assert health.storage_errors == 0
    assert 0 < health.mean_commit_seconds <= health.slowest_commit_seconds
    assert health.wal_bytes == Path(f"{path}-wal").stat().st_size
