"""The event log's own interface, on a real file."""

import itertools
import pickle
import shutil
import threading
import time
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
    RefusedError,
    StorageError,
)
from engine.log.tail import Tail


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
        said(time=None),
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
        "no time",
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
        """UPDATE events SET state = '{"$erased":"zz'""",
        """UPDATE events SET state = '{"$erased":"' || hex(randomblob(32)) || '","at":1}'""",
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
    assert path.parent.parent.stat().st_mode & 0o777 == 0o700


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

    @pytest.mark.parametrize("name", ["busy_timeout", "payload_limit", "queue_limit", "checkpoint_pages"])
    @pytest.mark.parametrize("value", [-1, "5", None, True])
    def test_limits_are_numbers(self, path, name, value):
        with pytest.raises(ValueError, match=name):
            EventLog(path, **{name: value})
        assert not path.exists()

    @pytest.mark.parametrize("name", ["queue_limit", "checkpoint_pages"])
    def test_limits_that_let_nothing_through_are_refused(self, path, name):
        with pytest.raises(ValueError, match="at least 1"):
            EventLog(path, **{name: 0})

    def test_a_wal_that_was_left_is_emptied(self, path, tmp_path):
        (tmp_path / "copy").mkdir()
        with EventLog(path) as log:
            log.append([said()])
            for file in path.parent.glob("log.db*"):
                shutil.copy(file, tmp_path / "copy")
        copy = tmp_path / "copy" / "log.db"
        assert Path(f"{copy}-wal").stat().st_size
        with EventLog(copy) as log:
            assert Path(f"{copy}-wal").stat().st_size == 0
            assert texts(log.events()) == ["hello"]

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


class TestCommands:
    def test_a_command_may_not_close_its_log(self, log):
        with pytest.raises(NestedCommandError, match="closed"):
            log.transact(lambda transaction: log.close())
        assert log.append([said()]) == [1]

    def test_a_transaction_ends_with_its_command(self, log):
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

    def test_a_cursor_that_is_not_read_to_its_end_disturbs_nobody(self, log, path):
        log.append([said() for _ in range(10)])
        kept = []

        def command(transaction):
            kept.append(transaction.execute("SELECT position FROM events"))
            return next(kept[0])

        assert log.transact(command) == (1,)
        with EventLog(path) as other:
            assert other.append([said()]) == [11]
        assert log.append([said()]) == [12]

    def test_a_swallowed_error_does_not_leave_half_an_append(self, log):
        def command(transaction):
            with pytest.raises(ConflictError):
                transaction.append([said(stream="a", version=1), said(stream="b", version=7)])

        with pytest.raises(RefusedError, match="half way"):
            log.transact(command)
        assert log.last_position == 0
        assert log.append([said()]) == [1]
        assert log.verify().ok

    def test_an_append_that_failed_as_a_whole_may_be_swallowed(self, log):
        def command(transaction):
            with pytest.raises(ConflictError):
                transaction.append([said(version=7)])
            with pytest.raises(ConflictError):
                transaction.attempt(lambda inner: inner.append([said(), said(version=7)]))
            return transaction.append([said("instead")])

        assert log.transact(command) == [1]
        assert texts(log.events()) == ["instead"]
        assert log.verify().ok

    def test_a_swallowed_error_of_an_inline_projection_leaves_nothing(self, path):
        def command(transaction):
            with pytest.raises(RuntimeError):
                transaction.append([said(actor="bad")])

        with EventLog(path, inline=[Refusing()]) as log:
            with pytest.raises(RefusedError):
                log.transact(command)
            assert log.last_position == 0
            assert log.query("SELECT * FROM seen") == []

    @pytest.mark.parametrize("now", [1.5e15, "now", None, True, 1 << 63])
    def test_a_clock_that_gives_no_microseconds_is_refused(self, path, now):
        with EventLog(path, clock=lambda: now) as log:
            with pytest.raises(InvalidEventError, match="clock"):
                log.append([said()])
            assert log.append([said(time=5)]) == [1]
            assert log.verify().ok

    @pytest.mark.parametrize(
        "envelopes",
        [None, said(), "text", [None], [said(), None], (said() for _ in range(1))],
        ids=lambda v: str(v)[:9],
    )
    def test_what_is_not_a_list_of_envelopes_is_refused(self, log, envelopes):
        with pytest.raises(InvalidEventError, match="envelopes"):
            log.append(envelopes)
        assert log.last_position == 0

    def test_the_stream_and_the_metadata_count_too(self, path):
        with EventLog(path, payload_limit=200) as log:
            for envelope in (said(stream="x" * 200), said(metadata="x" * 200)):
                with pytest.raises(PayloadTooLargeError):
                    log.append([envelope])


class TestReading:
    def test_a_query_cannot_write_nor_leave_a_transaction(self, log):
        log.append([said()])
        for sql in ("PRAGMA query_only = 0", "BEGIN", "SELECT * FROM events"):
            log.query(sql)
        for sql in ("DROP TRIGGER events_are_kept", "DELETE FROM events", "CREATE TABLE t (x)"):
            with pytest.raises(ReadOnlyLogError):
                log.query(sql)
        log.append([said()])
        assert log.last_position == 2

    def test_topics_are_a_list(self, log):
        with pytest.raises(TypeError, match="topics"):
            list(log.events(topics="message.appended"))

    def test_a_name_with_lone_surrogates_is_refused(self, log):
        for use in (lambda: log.version("\ud800"), lambda: list(log.stream("\ud800"))):
            with pytest.raises(InvalidEventError):
                use()

    def test_waiting_keeps_no_commit_waiting(self):
        asked, answer = threading.Event(), threading.Event()

        def last_position():
            asked.set()
            answer.wait(30)
            return 0

        tail = Tail(last_position)
        waiting = threading.Thread(target=tail.wait_beyond, args=(0, 10, bool))
        waiting.start()
        assert asked.wait(10)
        publishing = threading.Thread(target=tail.publish, args=(1,))
        publishing.start()
        publishing.join(10)
        assert not publishing.is_alive()
        answer.set()
        waiting.join(10)
        assert not waiting.is_alive()

    def test_the_wal_is_measured_through_a_link(self, log, path, tmp_path):
        (tmp_path / "link.db").symlink_to(path)
        with EventLog(tmp_path / "link.db") as linked:
            log.append([said()])
            assert linked.health().wal_bytes == log.health().wal_bytes > 0


def test_a_conflict_can_be_sent_to_another_process():
    error = pickle.loads(pickle.dumps(ConflictError("s", 1, 2)))
    assert (error.stream, error.expected, error.actual) == ("s", 1, 2)


def test_a_time_the_caller_gave_is_no_fault_of_the_clock(log, caplog):
    log.append([said()])
    log.append([said(time=1)])
    assert log.health().clock_steps == 1
    assert "clock" not in caplog.text


class TestAFileThatIsTakenAway:
    """While a log is open its path leads to another file, or to none: nothing more is acknowledged."""

    @pytest.fixture(autouse=True)
    def look_always(self, monkeypatch):
        monkeypatch.setattr("engine.log.writer._LOOK_SECONDS", 0.0)

    def test_deleted(self, log, path):
        log.append([said()])
        path.unlink()
        for _ in range(2):
            with pytest.raises(StorageError, match="deleted"):
                log.append([said()])
        assert log.health().state == "storage"

    def test_moved_and_put_back(self, log, path):
        log.append([said()])
        path.rename(f"{path}.away")
        with pytest.raises(StorageError, match="moved"):
            log.append([said()])
        Path(f"{path}.away").rename(path)
        assert log.append([said()]) == [2]
        assert log.health().state == "ok"

    def test_replaced(self, log, path, tmp_path):
        log.append([said()])
        with EventLog(tmp_path / "other.db") as other:
            other.append([said("other"), said("other")])
        (tmp_path / "other.db").replace(path)
        with pytest.raises(StorageError, match="replaced"):
            log.append([said()])
        assert log.health().state == "storage"
        with pytest.raises(StorageError, match="replaced"):
            log.watch()

    def test_looking_is_not_paid_for_by_every_append(self, log, monkeypatch):
        monkeypatch.setattr("engine.log.writer._LOOK_SECONDS", 1000.0)
        looks = []
        log._writer._check_place = lambda: looks.append(1)
        for _ in range(5):
            log.append([said()])
        assert looks == [1]


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
    for nonsense in ("nonsense", f"7:{'z' * 64}", f"7:{'0' * 63}"):
        with pytest.raises(ValueError, match="published"):
            log.verify(published=nonsense)


def test_the_head_of_an_empty_log_tells_it_from_another(log, tmp_path):
    head = log.verify().head
    assert head.startswith("0:")
    log.append([said()])
    assert log.verify(published=head).ok
    with EventLog(tmp_path / "other.db") as other:
        assert not other.verify(published=head).ok


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
