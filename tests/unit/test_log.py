"""The event log's own interface, on a real file."""

import itertools
from pathlib import Path

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.domain.encoding import Erased, Unknown
from engine.domain.envelope import LOG_STREAM, NEXT_VERSION, Envelope
from engine.domain.events import ContentErased, LaneSuspended, MessageAppended
from engine.log import EventLog, database, schema
from engine.log.errors import (
    ClosedLogError,
    ConflictError,
    InvalidEventError,
    NestedCommandError,
    NewerSchemaError,
    NotALogError,
    OldSQLiteError,
    PayloadTooLargeError,
    ReadOnlyLogError,
)


def said(text="hello", stream="s", version=NEXT_VERSION, **columns):
    return Envelope(stream, version, MessageAppended(message={"content": text}), **columns)


def texts(events):
    return [envelope.event.message["content"] for envelope in events]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


@pytest.fixture
def log(path):
    with EventLog(path, synchronous="OFF") as opened:
        yield opened


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


def test_a_payload_over_the_limit_is_refused_and_nothing_stored(path):
    with EventLog(path, payload_limit=200) as log:
        with pytest.raises(PayloadTooLargeError):
            log.append([said("small"), said("x" * 200)])
        assert log.last_position == 0


@pytest.mark.parametrize(
    "envelope",
    [
        said(stream="a\ud800"),
        said(actor=7),
        said(actor="\ud800"),
        said(command=None),
        said(time=1 << 63),
        said(time="now"),
        said(event_id=b"short"),
        said(event_id="text-of-16-chars"),
        said(command=1.5),
        said(reason=2),
        said(metadata=3),
        said(time=True),
        said(time=5.0),
        said(version=1.0),
        said(stream="a\ud800", version=NEXT_VERSION),
        said(version=-7),
        said(version=1 << 64),
        said(stream=None),
        Envelope("s", 1, Unknown("x", {})),
        Envelope("s", 1, {"type": "message.appended"}),
    ],
    ids=[
        "surrogate in stream",
        "actor a number",
        "surrogate in actor",
        "no command",
        "time too large",
        "time a text",
        "event id too short",
        "event id a text",
        "command a number",
        "reason a number",
        "metadata a number",
        "time a flag",
        "time a fraction",
        "version a fraction",
        "surrogate in stream, any version",
        "negative version",
        "version too large",
        "no stream",
        "content not known",
        "content a dict",
    ],
)
def test_an_envelope_that_cannot_be_given_back_is_refused(log, envelope):
    with pytest.raises(InvalidEventError):
        log.append([envelope])
    assert log.append([said()]) == [1]
    assert log.verify().ok


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE events SET actor = 'x'",
        "UPDATE events SET state = '{}'",
        "UPDATE events SET position = 9 WHERE position = 1",
        "DELETE FROM events",
        "INSERT OR REPLACE INTO events SELECT * FROM events WHERE position = 1",
        "INSERT INTO events SELECT 9, 'n', 1, topic, time, '', '', '', event_id, '', state, hash FROM events LIMIT 1",
    ],
)
def test_the_database_itself_refuses_changes_by_any_connection(log, path, sql):
    log.append([said(), said()])
    raw = apsw.Connection(str(path))
    with pytest.raises(apsw.ConstraintError):
        raw.execute(sql)
    raw.close()
    assert log.verify().ok


def test_file_and_folder_are_private(tmp_path):
    path = tmp_path / "new" / "folder" / "log.db"
    EventLog(path).close()
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


class TestOpening:
    def test_a_file_of_another_kind_is_refused_and_left_alone(self, path):
        path.write_bytes(b"not a database " * 100)
        with pytest.raises(NotALogError):
            EventLog(path)
        assert path.read_bytes() == b"not a database " * 100

    def test_another_programs_database_is_refused(self, path):
        raw = apsw.Connection(str(path))
        raw.execute("CREATE TABLE theirs (x)")
        raw.close()
        before = path.read_bytes()
        with pytest.raises(NotALogError):
            EventLog(path)
        assert path.read_bytes() == before

    def test_a_newer_schema_is_refused(self, path):
        EventLog(path).close()
        raw = apsw.Connection(str(path))
        raw.pragma("user_version", 99)
        raw.close()
        with pytest.raises(NewerSchemaError, match="99"):
            EventLog(path)
        with pytest.raises(NewerSchemaError):
            EventLog(path, read_only=True)

    def test_an_old_sqlite_is_refused(self, path, monkeypatch):
        monkeypatch.setattr(database.apsw, "sqlite_lib_version", lambda: "3.51.2")
        with pytest.raises(OldSQLiteError):
            EventLog(path)
        assert not path.exists()

    def test_reading_only_creates_nothing(self, path):
        with pytest.raises(NotALogError):
            EventLog(path, read_only=True)
        assert not path.exists()

    @pytest.mark.parametrize("name", [":memory:", ""])
    def test_a_log_is_a_file(self, name):
        with pytest.raises(NotALogError):
            EventLog(name)

    def test_the_durability_setting_is_checked(self, path):
        with pytest.raises(ValueError, match="synchronous"):
            EventLog(path, synchronous="SOMETIMES")

    def test_an_older_file_is_migrated(self, path, monkeypatch):
        with EventLog(path) as log:
            log.append([said()])
        second = [*schema.MIGRATIONS, lambda connection: connection.execute("CREATE TABLE added (x)")]
        monkeypatch.setattr(schema, "MIGRATIONS", second)
        with pytest.raises(NotALogError):
            EventLog(path, read_only=True)
        with EventLog(path) as log:
            assert log.query("PRAGMA user_version") == [(2,)]
            assert log.query("SELECT count(*) FROM added") == [(0,)]
            assert texts(log.events()) == ["hello"]

    def test_a_failing_migration_leaves_the_file_as_it_was(self, path, monkeypatch):
        with EventLog(path) as log:
            log.append([said()])

        def fail(connection):
            connection.execute("CREATE TABLE added (x)")
            raise RuntimeError("half way")

        with monkeypatch.context() as patch:
            patch.setattr(schema, "MIGRATIONS", [*schema.MIGRATIONS, fail])
            with pytest.raises(RuntimeError, match="half way"):
                EventLog(path)
        with EventLog(path) as log:
            assert log.query("PRAGMA user_version") == [(1,)]
            assert log.query("SELECT count(*) FROM sqlite_schema WHERE name = 'added'") == [(0,)]
            assert log.verify().ok


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


def test_a_command_may_not_give_another(log):
    with pytest.raises(NestedCommandError):
        log.transact(lambda transaction: log.append([said()]))
    assert log.append([said()]) == [1]


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


def test_verifying_reports_progress_and_holds_the_log_to_a_published_head(log):
    log.append([said() for _ in range(2500)])
    seen = []
    found = log.verify(progress=lambda done, total: seen.append((done, total)))
    assert found.ok
    assert found.events == 2500
    assert seen[-1] == (2500, 2500)
    log.append([said()])
    assert log.verify(published=found.head).ok
    assert not log.verify(published=f"2500:{'0' * 64}").ok
    cut = log.verify(published=f"9999:{'0' * 64}")
    assert (cut.ok, cut.bad_position) == (False, 2502)
    with pytest.raises(ValueError, match="published"):
        log.verify(published="nonsense")


def test_verifying_finds_a_changed_row(path):
    with EventLog(path) as log:
        log.append([said(), said(), said()])
    raw = apsw.Connection(str(path))
    raw.execute("DROP TRIGGER events_are_immutable; UPDATE events SET actor = 'mallory' WHERE position = 2")
    raw.close()
    with EventLog(path) as log:
        found = log.verify()
    assert (found.ok, found.bad_position) == (False, 2)


def test_health_counts_what_was_done(log, path):
    log.append([said(), said()])
    log.append([said(time=1)])
    health = log.health()
    assert (health.path, health.state, health.position, health.clock_steps) == (str(path), "ok", 3, 1)
    assert (health.commits, health.commands, health.largest_batch, health.queue_depth) == (2, 2, 1, 0)
    assert health.storage_errors == 0
    assert 0 < health.mean_commit_seconds <= health.slowest_commit_seconds
    assert health.wal_bytes == Path(f"{path}-wal").stat().st_size


class Refusing:
    def create(self, transaction):
        transaction.execute("CREATE TABLE IF NOT EXISTS seen (position INTEGER)")

    def apply(self, transaction, events):
        transaction.executemany("INSERT INTO seen VALUES (?)", [(e.position,) for e in events])
        if any(e.actor == "bad" for e in events):
            raise RuntimeError("refused")


def test_an_inline_projection_that_fails_takes_its_command_back(path):
    with EventLog(path, inline=[Refusing()]) as log:
        log.append([said()])
        with pytest.raises(RuntimeError, match="refused"):
            log.append([said(actor="bad")])
        log.append([said()])
        assert [e.position for e in log.events()] == [1, 2]
        assert log.query("SELECT position FROM seen") == [(1,), (2,)]


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
