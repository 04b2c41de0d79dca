"""Damage and full or read-only disks: found, named, and never made worse."""

import contextlib
import os
import resource
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from engine.domain.encoding import Erased, tombstone
from engine.domain.events import MessageAppended
from engine.log import EventLog
from engine.log.chain import digest
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.log.errors import CorruptLogError, DiskFullError, LogError, ReadOnlyLogError, StorageError
from tests.faults.disk import Disk, DiskFile, failure, full_error, read_only_error

EVENTS = 3000
PER_STREAM = 250
PAGE = 4096


def message(number: int, size: int = 120) -> MessageAppended:
    return MessageAppended(message={"role": "user", "content": f"<{number:06}>" + "x" * size})


def stream(number: int) -> str:
    return f"session:{(number - 1) // PER_STREAM}"


def fill(path: Path, events: int = EVENTS) -> None:
    """A closed log, all of it in the one file."""
    with EventLog(path, synchronous="OFF") as log:
        for first in range(1, events + 1, 100):
            numbers = range(first, min(first + 100, events + 1))
            log.append([Envelope(stream(number), NEXT_VERSION, message(number)) for number in numbers])
    assert not Path(f"{path}-wal").exists()


def place(path: Path, number: int) -> int:
    """Return where in the file an event's payload is."""
    offset = path.read_bytes().find(f"<{number:06}>".encode())
    assert offset > 0
    return offset


def overwrite(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


@contextlib.contextmanager
def tampering(path: Path) -> Iterator[apsw.Connection]:
    """A connection of somebody who does not care for the log's rules."""
    connection = apsw.Connection(str(path))
    triggers = connection.execute("SELECT name, tbl_name, sql FROM sqlite_schema WHERE type = 'trigger'").fetchall()
    for name, _, _ in triggers:
        connection.execute(f"DROP TRIGGER {name}")
    try:
        yield connection
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
        for _, table, sql in triggers:
            if table in tables:
                connection.execute(sql)
    finally:
        connection.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


# A page that cannot be read


@pytest.mark.parametrize("garbage", [b"\xa5" * PAGE, b"\0" * PAGE], ids=["garbage", "zeros"])
def test_a_bad_page(path: Path, garbage: bytes) -> None:
    fill(path)
    page = place(path, 1500) // PAGE * PAGE
    lost = [number for number in range(1, EVENTS + 1) if page <= place(path, number) < page + PAGE]
    assert path.read_bytes()[page] == 0x0D, "not a leaf of a table"
    overwrite(path, page, garbage)
    damaged = path.read_bytes()
    with EventLog(path) as log:
        served = []
        with pytest.raises(CorruptLogError) as caught:
            served.extend(log.events())
        # The exact position is the next test's.
        assert caught.value.position in (lost[0] - 1, lost[0])
        assert [envelope.position for envelope in served] == list(range(1, len(served) + 1))
        before = list(log.events(upto=caught.value.position - 1))
        assert [envelope.event for envelope in before] == [message(number) for number in range(1, len(before) + 1)]
        assert len(before) == caught.value.position - 1
        after = list(log.events(after=lost[-1] + 1))
        assert [envelope.event for envelope in after] == [message(number) for number in range(lost[-1] + 2, EVENTS + 1)]
        sick = {stream(number) for number in lost}
        for name in {stream(number) for number in range(1, EVENTS + 1)}:
            if name in sick:
                with pytest.raises(CorruptLogError):
                    list(log.stream(name))
            else:
                assert len(list(log.stream(name))) == PER_STREAM
        result = log.verify()
        assert not result.ok
        assert result.bad_position is not None
        with pytest.raises(CorruptLogError):
            log.append([Envelope("session:other", 1, message(1))])
        with pytest.raises(CorruptLogError):
            log.erase([1], actor="test", reason="asked")
        assert log.health().state == "corrupt"
        assert log.health().position == EVENTS
    assert path.read_bytes() == damaged
    assert sorted(file.name for file in path.parent.iterdir()) == ["log.db"]


def damage(path: Path, number: int) -> int:
    """Make the page of an event unreadable; the first event that is on it."""
    fill(path)
    page = place(path, number) // PAGE * PAGE
    first = min(other for other in range(1, EVENTS + 1) if page <= place(path, other) < page + PAGE)
    overwrite(path, page, b"\xa5" * PAGE)
    return first


def test_the_position_of_a_bad_page_is_exact(path: Path) -> None:
    first = damage(path, 1500)
    with EventLog(path) as log:
        with pytest.raises(CorruptLogError) as caught:
            list(log.events())
        assert caught.value.position == first
        assert len(list(log.events(upto=first - 1))) == first - 1


def test_every_event_after_a_bad_page_is_served(path: Path) -> None:
    fill(path)
    page = place(path, 1500) // PAGE * PAGE
    last = max(number for number in range(1, EVENTS + 1) if page <= place(path, number) < page + PAGE)
    overwrite(path, page, b"\xa5" * PAGE)
    with EventLog(path) as log:
        assert [envelope.position for envelope in log.events(after=last)] == list(range(last + 1, EVENTS + 1))


def test_every_event_before_a_bad_page_is_served(path: Path) -> None:
    """A reader who just iterates gets everything up to the damage, not only whole batches."""
    first = damage(path, 1500)
    served = []
    with EventLog(path) as log, pytest.raises(CorruptLogError):
        served.extend(envelope.position for envelope in log.events())
    assert served == list(range(1, first))


def test_verify_names_the_first_unreadable_position(path: Path) -> None:
    first = damage(path, 1500)
    with EventLog(path) as log:
        result = log.verify()
    assert (result.ok, result.bad_position, result.events) == (False, first, first - 1)


def test_a_bad_page_met_by_a_writer(path: Path) -> None:
    """The last leaf, which an append needs: the append finds the damage itself, and writes nothing."""
    damage(path, EVENTS)
    damaged = path.read_bytes()
    with EventLog(path) as log:
        for _ in range(2):
            with pytest.raises(CorruptLogError):
                log.append([Envelope("session:other", 1, message(1))])
        assert len(list(log.stream(stream(1)))) == PER_STREAM
    assert path.read_bytes() == damaged


def test_events_before_a_bad_last_page_are_served(path: Path) -> None:
    damage(path, EVENTS)
    with EventLog(path) as log:
        assert [envelope.event for envelope in log.events(upto=1000)] == [message(number) for number in range(1, 1001)]


def test_health_of_a_log_with_a_bad_last_page(path: Path) -> None:
    damage(path, EVENTS)
    with EventLog(path) as log:
        with pytest.raises(CorruptLogError):
            log.append([Envelope("session:other", 1, message(1))])
        assert log.health().state == "corrupt"


# Tampering, found by the chain


def test_a_flipped_byte(path: Path) -> None:
    fill(path)
    offset = place(path, 1234) + 20
    (byte,) = path.read_bytes()[offset : offset + 1]
    overwrite(path, offset, bytes([byte ^ 1]))
    with EventLog(path) as log:
        result = log.verify()
    assert not result.ok
    assert result.bad_position == 1234
    assert result.events == 1233


def test_a_removed_row(path: Path) -> None:
    fill(path, 300)
    with tampering(path) as connection:
        connection.execute("DELETE FROM events WHERE position = 77")
    with EventLog(path) as log:
        result = log.verify()
    assert not result.ok
    assert result.bad_position == 77


def test_a_removed_row_with_the_gap_closed(path: Path) -> None:
    fill(path, 300)
    with tampering(path) as connection:
        connection.execute("DELETE FROM events WHERE position = 77")
        for position in range(78, 301):
            connection.execute("UPDATE events SET position = ?1 - 1 WHERE position = ?1", (position,))
    with EventLog(path) as log:
        result = log.verify()
    assert not result.ok
    assert result.bad_position == 77


def test_reordered_rows(path: Path) -> None:
    fill(path, 300)
    with tampering(path) as connection:
        for old, new in ((77, 1000), (78, 77), (1000, 78)):
            connection.execute("UPDATE events SET position = ? WHERE position = ?", (new, old))
    with EventLog(path) as log:
        result = log.verify()
    assert not result.ok
    assert result.bad_position == 77


def test_a_cut_tail_is_seen_only_with_a_published_head(path: Path) -> None:
    fill(path, 300)
    with EventLog(path) as log:
        head = log.verify().head
    assert head.startswith("300:")
    with tampering(path) as connection:
        connection.execute("DELETE FROM events WHERE position > 290")
    with EventLog(path) as log:
        assert log.verify().ok
        result = log.verify(published=head)
    assert not result.ok
    assert result.bad_position == 291


def test_another_tail_is_seen_with_a_published_head(path: Path) -> None:
    fill(path, 300)
    with EventLog(path) as log:
        head = log.verify().head
    with tampering(path) as connection:
        connection.execute("DELETE FROM events WHERE position > 290")
    with EventLog(path) as log:
        log.append([Envelope("session:new", NEXT_VERSION, message(number)) for number in range(20)])
        assert log.verify().ok
        result = log.verify(published=head)
    assert not result.ok
    assert result.bad_position == 300


def test_an_erasure_that_nobody_recorded(path: Path) -> None:
    fill(path, 300)
    with EventLog(path) as log:
        assert log.erase([10], actor="test", reason="asked") == [10]
        assert log.verify().ok
    with tampering(path) as connection:
        state = connection.execute("SELECT state FROM events WHERE position = 42").get
        mark = tombstone(digest(state.encode()).hex(), 1)
        connection.execute("UPDATE events SET state = ? WHERE position = 42", (mark,))
    with EventLog(path) as log:
        result = log.verify()
        assert isinstance(next(log.events(after=41)).event, Erased)
    assert not result.ok
    assert result.bad_position == 42


@pytest.mark.parametrize(
    ("sql", "position"),
    [
        ("""UPDATE events SET state = '{"$erased":"zz' WHERE position = 2""", 2),
        ("""UPDATE events SET state = '{"$erased":"zz","at":1}' WHERE position = 2""", 2),
        ("UPDATE events SET state = 5 WHERE position = 2", 2),
        ("UPDATE events SET state = CAST(x'7bff7d' AS TEXT) WHERE position = 2", 2),
        ("UPDATE events SET reason = CAST(x'ff' AS TEXT) WHERE position = 2", 2),
        ("UPDATE events SET actor = actor - 1 WHERE position = 2", 2),
        ("UPDATE names SET name = 'mallory' WHERE id = (SELECT stream FROM events WHERE position = 2)", 1),
        ("UPDATE names SET name = CAST(x'ff' AS TEXT) WHERE id = (SELECT stream FROM events WHERE position = 2)", 1),
        ("DELETE FROM names WHERE id = (SELECT stream FROM events WHERE position = 2)", 1),
        ("UPDATE events SET hash = x'' WHERE position = 2", 2),
        ("UPDATE events SET position = 9000000000000 WHERE position = 7", 7),
        (
            "INSERT INTO events SELECT -5, 77, 1, topic, 5, 1, 1, '', event_id, '', state, hash FROM events LIMIT 1",
            -5,
        ),
        ("DELETE FROM meta", 1),
        ("UPDATE meta SET value = 'abc'", 1),
        ("DROP TABLE meta", 1),
        ("DROP TABLE events", 1),
        ("DROP TABLE names", 1),
        ("DROP TABLE clock_steps", 1),
    ],
)
def test_verifying_reports_whatever_was_done_to_the_file(path: Path, sql: str, position: int) -> None:
    fill(path, 9)
    with tampering(path) as connection:
        connection.execute(sql)
    with EventLog(path, read_only=True) as log:
        found = log.verify()
    assert (found.ok, found.bad_position) == (False, position), found


@pytest.mark.parametrize("column", ["state", "reason"])
def test_a_text_that_is_no_text_stops_reading_where_it_is(path: Path, column: str) -> None:
    fill(path, 9)
    with tampering(path) as connection:
        connection.execute(f"UPDATE events SET {column} = CAST(x'ff' AS TEXT) WHERE position = 5")
    served = []
    with EventLog(path, read_only=True) as log:
        with pytest.raises(CorruptLogError) as caught:
            served.extend(log.events())
        assert caught.value.position == 5
        assert len(served) == 4
        assert len(list(log.events(after=5))) == 4


@pytest.mark.parametrize("damage", ["DELETE FROM names", "UPDATE names SET name = CAST(x'ff' AS TEXT)"])
def test_a_name_that_cannot_be_read_stops_reading_at_the_first_event_that_has_it(path: Path, damage: str) -> None:
    with EventLog(path) as log:
        log.append([Envelope("s", NEXT_VERSION, message(n), actor="gone" if n == 5 else "here") for n in range(1, 10)])
    with tampering(path) as connection:
        connection.execute(f"{damage} WHERE name = 'gone'")
    served = []
    with EventLog(path, read_only=True) as log:
        with pytest.raises(CorruptLogError) as caught:
            served.extend(log.events())
        assert caught.value.position == 5
        assert len(served) == 4
        assert len(list(log.events(after=5))) == 4
        assert (log.verify().bad_position, log.verify().events) == (5, 4)


def test_a_payload_that_is_a_number_is_named_by_whoever_reads_its_stream(path: Path) -> None:
    fill(path, 9)
    with tampering(path) as connection:
        connection.execute("UPDATE events SET state = 5 WHERE position = 5")
    with (
        EventLog(path, read_only=True) as log,
        pytest.raises(CorruptLogError, match="neither text nor a blob") as caught,
    ):
        log.reader.payloads(stream(5))
    assert caught.value.position == 5


def test_a_gap_in_the_positions_is_passed_over(path: Path) -> None:
    fill(path, 9)
    with tampering(path) as connection:
        connection.execute("UPDATE events SET position = 9000000000000 WHERE position = 9")
    with EventLog(path, read_only=True) as log:
        assert [envelope.position for envelope in log.events()] == [*range(1, 9), 9000000000000]
        assert len(list(log.events(topics=["message.appended"]))) == 9
        with pytest.raises(CorruptLogError, match="missing"):
            log.position_at(1 << 60)


def test_a_log_without_its_id_takes_no_events(path: Path) -> None:
    EventLog(path).close()
    with tampering(path) as connection:
        connection.execute("DELETE FROM meta")
    with EventLog(path) as log, pytest.raises(CorruptLogError, match="id"):
        log.append([Envelope("session:a", NEXT_VERSION, message(1))])


# A full disk

CHILD = textwrap.dedent("""
    import resource, sys
    from engine.log.envelope import NEXT_VERSION, Envelope
    from engine.domain.events import MessageAppended
    from engine.log.errors import DiskFullError, StorageError
    from engine.log import EventLog

    def two(number):
        event = MessageAppended(message={"role": "user", "content": f"{number} " + "x" * 20000})
        return [Envelope("session:a", NEXT_VERSION, event), Envelope("session:b", NEXT_VERSION, event)]

    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    with EventLog(sys.argv[1]) as log:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, hard))
        done = failed = 0
        while failed < 3:
            try:
                log.append(two(done))
                done += 1
            except (DiskFullError, StorageError):
                failed += 1
            assert done < 1000
        assert log.last_position == 2 * done and log.verify().ok and log.health().state == "ok"
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))
        assert log.append(two(done)) == [2 * done + 1, 2 * done + 2]
    with EventLog(sys.argv[1]) as log:
        assert log.last_position == 2 * done + 2 and log.verify().ok
        contents = [envelope.event.message["content"].split()[0] for envelope in log.events()]
        assert contents == [str(number) for number in range(done + 1) for _ in "ab"]
    print("done", done)
""")


def test_a_file_that_may_not_grow(path: Path) -> None:
    """The operating system refuses to let the files grow, for a while."""
    if resource.getrlimit(resource.RLIMIT_FSIZE)[1] != resource.RLIM_INFINITY:
        pytest.skip("this process's files are limited already")
    child = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, timeout=300, check=False
    )
    assert child.returncode == 0, child.stderr
    assert int(child.stdout.split()[1]) > 3


@contextlib.contextmanager
def mounted(folder: Path, *options: str) -> Iterator[None]:
    """A small file system of its own; only root may do that, and not in every container."""
    folder.mkdir(exist_ok=True)
    command = ["/bin/mount", "-t", "tmpfs", "-o", ",".join(options), "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no right to mount; the same case is tested on a simulated disk")
    try:
        yield
    finally:
        subprocess.run(["/bin/umount", "-l", str(folder)], check=True, capture_output=True)


def pair(number: int) -> list[Envelope]:
    return [Envelope(f"session:{name}", NEXT_VERSION, message(number, 9000)) for name in "ab"]


def append_until_full(log: EventLog, errors: type[LogError]) -> int:
    done = 0
    while True:
        try:
            log.append(pair(done))
        except errors:
            return done
        done += 1
        assert done < 10_000


def check_pairs(log: EventLog, done: int) -> None:
    assert [envelope.event for envelope in log.events()] == [message(n, 9000) for n in range(done) for _ in "ab"]
    assert log.verify().ok
    assert log.query("PRAGMA integrity_check") == [("ok",)]


def test_a_file_system_that_is_full(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    with mounted(folder, "size=2m"):
        ballast = folder / "ballast"
        ballast.write_bytes(bytes(500_000))
        with EventLog(folder / "log.db", checkpoint_pages=50) as log:
            done = append_until_full(log, DiskFullError)
            assert done > 5
            check_pairs(log, done)
            ballast.unlink()
            assert log.append(pair(done)) == [2 * done + 1, 2 * done + 2]
            check_pairs(log, done + 1)
        with EventLog(folder / "log.db") as log:
            check_pairs(log, done + 1)


def test_a_log_that_does_not_fit_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "small"
    with mounted(folder, "size=64k"):
        ballast = folder / "ballast"
        with contextlib.suppress(OSError):
            ballast.write_bytes(bytes(100_000))
        with pytest.raises((DiskFullError, StorageError)):
            EventLog(folder / "log.db")
        ballast.unlink()
        subprocess.run(["/bin/mount", "-o", "remount,size=4m", str(folder)], check=True, capture_output=True)
        with EventLog(folder / "log.db") as log:
            log.append(pair(0))
            check_pairs(log, 1)


def test_a_simulated_full_disk(path: Path) -> None:
    disk = Disk()
    with disk.in_use(), EventLog(path, vfs=disk.name) as log:
        for number in range(5):
            log.append(pair(number))
        disk.fail = lambda _number, what: full_error(what) if what == "write" else None
        for _ in range(3):
            with pytest.raises(DiskFullError):
                log.append(pair(5))
        check_pairs(log, 5)
        assert log.health().state == "ok"
        assert log.health().storage_errors == 3
        disk.fail = None
        log.append(pair(5))
        check_pairs(log, 6)


# A disk that can only be read


class ReadOnlyMedium(Disk):
    """Opens what there is for reading, creates nothing: a mounted medium, or a file of somebody else."""

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        if flags[0] & (apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL):
            raise failure(apsw.CantOpenError, apsw.SQLITE_CANTOPEN)
        writing = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        flags[0] = flags[0] & ~writing | apsw.SQLITE_OPEN_READONLY
        file = DiskFile(self, name, flags)
        flags[1] = flags[1] & ~writing | apsw.SQLITE_OPEN_READONLY
        return file


def test_a_disk_that_becomes_read_only(path: Path) -> None:
    disk = Disk()
    changing = ("write", "truncate", "delete")
    with disk.in_use(), EventLog(path, vfs=disk.name) as log:
        log.append(pair(0))
        disk.fail = lambda _number, what: read_only_error(what) if what in changing else None
        for _ in range(2):
            with pytest.raises(ReadOnlyLogError):
                log.append(pair(1))
        check_pairs(log, 1)
        disk.fail = None
        log.append(pair(1))
        check_pairs(log, 2)


def test_a_read_only_medium(path: Path) -> None:
    with EventLog(path) as log:
        log.append(pair(0))
    content = path.read_bytes()
    disk = ReadOnlyMedium()
    with disk.in_use():
        with EventLog(path, vfs=disk.name, read_only=True) as log:
            check_pairs(log, 1)
            assert log.health().state == "read-only"
            with pytest.raises(ReadOnlyLogError):
                log.append(pair(1))
        with pytest.raises((ReadOnlyLogError, StorageError)), EventLog(path, vfs=disk.name) as log:
            log.append(pair(1))
    assert path.read_bytes() == content


def test_a_read_only_mount(tmp_path: Path) -> None:
    folder = tmp_path / "medium"
    with mounted(folder, "size=4m"):
        with EventLog(folder / "log.db") as log:
            log.append(pair(0))
        subprocess.run(["/bin/mount", "-o", "remount,ro", str(folder)], check=True, capture_output=True)
        with EventLog(folder / "log.db", read_only=True) as log:
            check_pairs(log, 1)
            with pytest.raises(ReadOnlyLogError):
                log.append(pair(1))
        with pytest.raises((ReadOnlyLogError, StorageError)), EventLog(folder / "log.db") as log:
            log.append(pair(1))
        with pytest.raises((ReadOnlyLogError, StorageError)):
            EventLog(folder / "new.db")
        subprocess.run(["/bin/mount", "-o", "remount,rw", str(folder)], check=True, capture_output=True)
        with EventLog(folder / "log.db") as log:
            log.append(pair(1))
            check_pairs(log, 2)


class ReadOnlyFile(Disk):
    """The log's file may only be read, its folder may be written."""

    def xOpen(self, name: Any, flags: list[int]) -> apsw.VFSFile:  # noqa: N802 - SQLite's name
        if not flags[0] & apsw.SQLITE_OPEN_MAIN_DB:
            return super().xOpen(name, flags)
        writing = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
        flags[0] = flags[0] & ~writing | apsw.SQLITE_OPEN_READONLY
        return DiskFile(self, name, flags)


def test_a_read_only_file(path: Path) -> None:
    with EventLog(path) as log:
        log.append(pair(0))
    content = path.read_bytes()
    disk = ReadOnlyFile()
    with disk.in_use():
        log = EventLog(path, vfs=disk.name)
        with pytest.raises(ReadOnlyLogError):
            log.append(pair(1))
        check_pairs(log, 1)
        # SQLite passes over what its last checkpoint meets; apsw raises it when the VFS is one of Python's.
        with contextlib.suppress(apsw.IOError):
            log.close()
    assert path.read_bytes() == content


SOMEBODY_ELSE = textwrap.dedent("""
    import os, sys
    from engine.log.envelope import NEXT_VERSION, Envelope
    from engine.domain.events import SessionEnded
    from engine.log.errors import ReadOnlyLogError, StorageError, UnsafeFileError
    from engine.log import EventLog

    os.setuid(65534)
    with EventLog(sys.argv[1], read_only=True) as log:
        assert log.last_position == 2 and log.verify().ok and log.health().state == "read-only"
    try:
        with EventLog(sys.argv[1]) as log:
            log.append([Envelope("session:a", NEXT_VERSION, SessionEnded(end_reason="test"))])
    except (ReadOnlyLogError, StorageError, UnsafeFileError) as error:
        print("refused", error.code)
""")


@pytest.mark.parametrize("folder_mode", [0o777, 0o755], ids=["in a folder to write", "in a folder to read"])
def test_a_file_of_somebody_else(folder_mode: int) -> None:
    """Permission bits, which stop everybody but root: so a child that is not root tries."""
    if os.getuid() != 0:
        pytest.skip("only root can become somebody else; the same case is tested on a simulated disk")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.db"
        with EventLog(path) as log:
            log.append(pair(0))
        content = path.read_bytes()
        path.chmod(0o444)
        Path(folder).chmod(folder_mode)
        command = [sys.executable, "-c", SOMEBODY_ELSE, str(path)]
        child = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        assert child.returncode == 0, child.stderr
        assert child.stdout.startswith("refused"), "a file that may not be written was written"
        assert path.read_bytes() == content
