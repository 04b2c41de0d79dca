"""Reading by position, stream, topic and time."""

import itertools
import sys
from concurrent.futures import ThreadPoolExecutor

import apsw
import pytest
from hypothesis import given, settings, strategies as st

from engine.domain.events import LaneSuspended
from engine.log import EventLog
from engine.log.envelope import Envelope
from engine.log.errors import (
    InvalidEventError,
    ReadOnlyLogError,
)
from tests.unit.log.samples import said


def test_appended_events_are_read_by_position_stream_and_topic(log):
    assert log.append([said("a", "s", 1), said("b", "t", 1)]) == [1, 2]
    assert log.append([Envelope("s", 2, LaneSuspended(session_id="x"))]) == [3]
    assert log.last_position == 3
    assert [e.position for e in log.events()] == [1, 2, 3]
    assert [e.position for e in log.events(after=1, upto=2)] == [2]
    assert [e.position for e in log.events(topics=["lane.suspended"])] == [3]
    assert [e.position for e in log.events(topics=["lane.suspended", "message.appended"])] == [1, 2, 3]
    assert [(e.stream, e.version) for e in log.stream("s")] == [("s", 1), ("s", 2)]
    assert log.version("s") == 2
    assert log.version("missing") is None
    assert list(log.stream("missing")) == []


def test_an_envelope_comes_back_whole(log):
    written = said("a", version=1, time=17, actor="ada", command="say", reason="why", event_id=b"i" * 16, metadata="{}")
    log.append([written])
    [read] = log.events()
    assert read == Envelope(
        "s", 1, written.event, 17, "ada", "say", "why", position=1, event_id=b"i" * 16, metadata="{}"
    )


def test_streams_longer_than_a_batch_are_read_both_ways_and_in_ranges(log):
    log.append([said(str(n), version=n) for n in range(1, 2502)])
    assert [e.version for e in log.stream("s")] == list(range(1, 2502))
    assert [e.version for e in log.stream("s", backwards=True)] == list(range(2501, 0, -1))
    assert [e.version for e in log.stream("s", 5, 2005)] == list(range(6, 2006))
    assert [e.version for e in log.stream("s", 5, 1005, backwards=True)] == list(range(1005, 5, -1))
    assert [e.position for e in log.events()] == list(range(1, 2502))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=25), st.integers(0, 31), st.integers(0, 31))
def test_times_are_found_like_by_brute_force_even_when_the_clock_jumps(tmp_path_factory, times, start, end):
    clock = iter(times)
    with EventLog(tmp_path_factory.mktemp("t") / "log.db", synchronous="OFF", clock=lambda: next(clock)) as log:
        for _ in times:
            log.append([said()])
        for time in range(32):
            expected = max((n for n, t in enumerate(times, 1) if t <= time), default=0)
            assert log.position_at(time) == expected
        expected = [n for n, t in enumerate(times, 1) if start <= t < end]
        assert [e.position for e in log.between(start, end)] == expected
        assert log.health().clock_steps == sum(b < a for a, b in itertools.pairwise(times))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM events WHERE stream = ? AND version > ? ORDER BY version",
        "SELECT max(version) FROM events WHERE stream = ?",
        "SELECT * FROM events WHERE position > ? AND position <= ? ORDER BY position",
        "SELECT max(position) FROM events",
        "SELECT time FROM events WHERE position = ?",
    ],
)
def test_lookups_never_scan_the_log(log, sql):
    plan = " ".join(row[-1] for row in log.query(f"EXPLAIN QUERY PLAN {sql}", (1,) * sql.count("?")))
    assert "SEARCH" in plan
    assert "SCAN" not in plan
    assert "TEMP B-TREE" not in plan


def test_a_query_cannot_write_nor_leave_a_transaction(log):
    log.append([said()])
    for sql in ("PRAGMA query_only = 0", "BEGIN", "SELECT * FROM events"):
        log.query(sql)
    for sql in ("DROP TRIGGER events_are_kept", "DELETE FROM events", "CREATE TABLE t (x)"):
        with pytest.raises(ReadOnlyLogError):
            log.query(sql)
    log.append([said()])
    assert log.last_position == 2


def test_topics_are_a_list(log):
    with pytest.raises(TypeError, match="topics"):
        list(log.events(topics="message.appended"))


def test_a_name_with_lone_surrogates_is_refused(log):
    for use in (lambda: log.version("\ud800"), lambda: list(log.stream("\ud800"))):
        with pytest.raises(InvalidEventError):
            use()


def test_no_two_threads_use_a_reading_connection_at_once(log, monkeypatch):
    """SQLite does not lock these connections."""
    log.append([said("x" * 100, "s", version) for version in range(1, 200)])
    using, shared, usual = {}, [], log.reader.query_on

    def query_on(connection: apsw.Connection, sql: str, bindings: object = ()) -> object:
        shared.append(connection in using)
        using[connection] = sql
        try:
            return usual(connection, sql, bindings)
        finally:
            del using[connection]

    monkeypatch.setattr(log.reader, "query_on", query_on)
    watch, interval = log.watch(), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            asked = [threads.submit(reads.payloads, "s") for _ in range(50) for reads in (log.reader, watch)]
            assert all(len(each.result()) == 199 for each in asked)
    finally:
        sys.setswitchinterval(interval)
    assert len(shared) >= 100
    assert not any(shared)
