"""The write transaction: versions, half-done appends, inline projections."""

import pytest

from engine.log import EventLog
from engine.log.errors import (
    ConflictError,
    InvalidEventError,
    LogError,
    NestedCommandError,
    RefusedError,
    StorageError,
)
from tests.unit.log.samples import said, texts


class Refusing:
    def create(self, transaction):
        transaction.execute("CREATE TABLE IF NOT EXISTS seen (position INTEGER)")

    def apply(self, transaction, events):
        transaction.executemany("INSERT INTO seen VALUES (?)", [(e.position,) for e in events])
        if any(e.actor == "bad" for e in events):
            raise RuntimeError("refused")


@pytest.mark.parametrize(
    ("existing", "version", "expected", "actual"),
    [(3, 3, 2, 3), (3, 1, 0, 3), (3, 5, 4, 3), (0, 2, 1, None), (3, 0, -1, 3)],
    ids=["same", "old", "gap", "new stream at 2", "zero again"],
)
def test_a_wrong_version_is_a_conflict_that_says_what_it_found(log, existing, version, expected, actual):
    if existing:
        log.append([said(version=n) for n in range(1, existing + 1)])
    with pytest.raises(ConflictError) as caught:
        log.append([said(version=version)])
    assert (caught.value.stream, caught.value.expected, caught.value.actual) == ("s", expected, actual)
    assert log.last_position == existing


@pytest.mark.parametrize("first", [0, 1])
def test_a_stream_may_start_at_zero_or_one(log, first):
    log.append([said(version=first), said(version=first + 1)])
    assert log.version("s") == first + 1


def test_next_version_follows_whatever_is_there(log):
    log.append([said(), said()])
    log.append([said("x", "zero", 0)])
    log.append([said("y", "zero")])
    assert [e.version for e in log.stream("s")] == [1, 2]
    assert [e.version for e in log.stream("zero")] == [0, 1]


def test_several_streams_change_together_or_not_at_all(log):
    with pytest.raises(ConflictError):
        log.append([said(stream="a", version=1), said(stream="b", version=7)])
    assert log.last_position == 0
    assert log.append([said(stream="a", version=1), said(stream="b", version=1)]) == [1, 2]


def test_a_transaction_ends_with_its_command(log):
    kept = []
    log.transact(kept.append)
    uses = [
        lambda: kept[0].append([said()]),
        lambda: kept[0].execute("SELECT 1"),
        lambda: kept[0].query("SELECT 1"),
        lambda: kept[0].version("s"),
        lambda: kept[0].attempt(lambda transaction: None),
    ]
    for use in uses:
        with pytest.raises(NestedCommandError):
            use()
    assert log.append([said()]) == [1]


def test_a_swallowed_error_does_not_leave_half_an_append(log):
    def command(transaction):
        with pytest.raises(ConflictError):
            transaction.append([said(stream="a", version=1), said(stream="b", version=7)])

    with pytest.raises(RefusedError, match="half way"):
        log.transact(command)
    assert log.last_position == 0
    assert log.append([said()]) == [1]
    assert log.verify().ok


def test_an_append_that_failed_as_a_whole_may_be_swallowed(log):
    def command(transaction):
        with pytest.raises(ConflictError):
            transaction.append([said(version=7)])
        with pytest.raises(ConflictError):
            transaction.attempt(lambda inner: inner.append([said(), said(version=7)]))
        return transaction.append([said("instead")])

    assert log.transact(command) == [1]
    assert texts(log.events()) == ["instead"]
    assert log.verify().ok


@pytest.mark.parametrize("inside", [True, False], ids=["in an attempt", "alone"])
def test_nothing_is_stored_by_a_command_that_goes_on_after_an_error_has_ended_its_transaction(log, inside):
    """Some errors of the disk make SQLite roll back: what came after was stored at once, each statement alone."""

    def fails(transaction):
        transaction.execute("ROLLBACK")
        transaction.execute("SELECT * FROM nothing")

    def command(transaction):
        with pytest.raises(LogError):
            transaction.attempt(fails) if inside else fails(transaction)
        transaction.execute("CREATE TABLE stands_alone (id INTEGER)")

    with pytest.raises(StorageError, match="ended the transaction"):
        log.transact(command)
    assert log.query("SELECT name FROM sqlite_schema WHERE name = 'stands_alone'") == []
    assert log.append([said()]) == [1]


def test_a_swallowed_error_of_an_inline_projection_leaves_nothing(path):
    def command(transaction):
        with pytest.raises(RuntimeError):
            transaction.append([said(actor="bad")])

    with EventLog(path, inline=[Refusing()]) as log:
        with pytest.raises(RefusedError):
            log.transact(command)
        assert log.last_position == 0
        assert log.query("SELECT * FROM seen") == []


@pytest.mark.parametrize("now", [1.5e15, "now", None, True, 1 << 63])
def test_a_clock_that_gives_no_microseconds_is_refused(path, now):
    with EventLog(path, clock=lambda: now) as log:
        with pytest.raises(InvalidEventError, match="clock"):
            log.append([said()])
        assert log.append([said(time=5)]) == [1]
        assert log.verify().ok


def test_a_time_the_caller_gave_is_no_fault_of_the_clock(log, caplog):
    log.append([said()])
    log.append([said(time=1)])
    assert log.health().clock_steps == 1
    assert "clock" not in caplog.text


def test_an_inline_projection_that_fails_takes_its_command_back(path):
    with EventLog(path, inline=[Refusing()]) as log:
        log.append([said()])
        with pytest.raises(RuntimeError, match="refused"):
            log.append([said(actor="bad")])
        log.append([said()])
        assert [e.position for e in log.events()] == [1, 2]
        assert log.query("SELECT position FROM seen") == [(1,), (2,)]


class TestInsert:
    def test_writes_events_that_no_inline_projection_is_told_of(self, path):
        with EventLog(path, inline=[Refusing()]) as log:
            assert log.transact(lambda transaction: transaction.insert([said("a"), said("b", actor="bad")])) == [1, 2]
            assert texts(log.events()) == ["a", "b"]
            assert log.query("SELECT * FROM seen") == []
            assert log.append([said("c")]) == [3]
            assert log.query("SELECT * FROM seen") == [(3,)]
            assert log.verify().ok

    def test_that_fails_half_way_and_is_swallowed_leaves_nothing(self, log):
        def command(transaction):
            with pytest.raises(ConflictError):
                transaction.insert([said(version=1), said(version=7)])

        with pytest.raises(RefusedError, match="half way"):
            log.transact(command)
        assert log.last_position == 0


class TestRollbacks:
    """A cache of the tables is true as long as the count stays."""

    def count(self, log):
        return log.transact(lambda transaction: transaction.rollbacks)

    def test_stay_with_commits_of_anybody(self, log, path):
        before = self.count(log)
        log.append([said()])
        with EventLog(path) as other:
            other.append([said()])
        assert self.count(log) == before

    def test_grow_when_a_command_fails(self, log):
        before = self.count(log)
        with pytest.raises(ConflictError):
            log.append([said(version=7)])
        assert self.count(log) > before

    def test_grow_when_a_savepoint_is_undone(self, log):
        def command(transaction):
            before = transaction.rollbacks
            with pytest.raises(ConflictError):
                transaction.attempt(lambda inner: inner.append([said(version=7)]))
            return transaction.rollbacks - before

        assert log.transact(command) == 1


class TestDefine:
    def test_makes_tables_strict_and_without_rowid(self, log):
        def command(transaction):
            transaction.define(
                [
                    "CREATE TABLE IF NOT EXISTS t (key TEXT PRIMARY KEY, n INTEGER NOT NULL);",
                    "CREATE INDEX IF NOT EXISTS t_n ON t (n)",
                ]
            )
            transaction.execute("INSERT INTO t VALUES ('a', 1)")
            with pytest.raises(RefusedError):
                transaction.execute("INSERT INTO t VALUES ('b', 'no number')")
            with pytest.raises(LogError, match="rowid"):
                transaction.query("SELECT rowid FROM t")

        log.transact(command)
        assert log.query("SELECT * FROM t") == [("a", 1)]

    def test_takes_a_list_of_statements(self, log):
        with pytest.raises(ValueError, match="statements"):
            log.transact(lambda transaction: transaction.define("CREATE TABLE t (x)"))


def test_execute_runs_every_statement_even_after_one_that_gives_rows(log):
    def command(transaction):
        transaction.execute("CREATE TABLE t (x); INSERT INTO t VALUES (1) RETURNING x; INSERT INTO t VALUES (2)")
        return transaction.query("SELECT x FROM t ORDER BY x")

    assert log.transact(command) == [(1,), (2,)]
