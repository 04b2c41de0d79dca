"""Refusals of the database itself, and of files that are no logs."""

import contextlib

import apsw
import pytest

from engine.log import EventLog
from engine.log.errors import (
    NewerSchemaError,
    NotALogError,
)
from engine.log.sqlite import schema
from tests.unit.log.samples import said, texts


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE events SET actor = 9",
        "UPDATE events SET state = '{}'",
        """UPDATE events SET state = '{"$erased":"zz'""",
        """UPDATE events SET state = '{"$erased":"' || hex(randomblob(32)) || '","at":1}'""",
        "UPDATE events SET position = 9 WHERE position = 1",
        "DELETE FROM events",
        "INSERT OR REPLACE INTO events SELECT * FROM events WHERE position = 1",
        "INSERT INTO events SELECT 9, 5, 1, topic, time, 1, 1, '', event_id, '', state, hash FROM events LIMIT 1",
    ],
)
def test_the_database_itself_refuses_changes_by_any_connection(log, path, sql):
    log.append([said(), said()])
    raw = apsw.Connection(str(path))
    with pytest.raises((apsw.ConstraintError, apsw.SQLError)):  # the trigger needs a function of the log's
        raw.execute(sql)
    raw.close()
    assert log.verify().ok


def test_another_programs_database_is_refused(path):
    raw = apsw.Connection(str(path))
    raw.execute("CREATE TABLE theirs (x)")
    raw.close()
    before = path.read_bytes()
    with pytest.raises(NotALogError):
        EventLog(path)
    assert path.read_bytes() == before


def test_a_file_that_another_process_is_just_making_is_no_other_programs(path):
    """Its tables may be there between two looks at it."""

    class Late:
        def __init__(self, connection):
            self.execute = connection.execute
            self._connection = connection

        def pragma(self, name):
            found = self._connection.pragma(name)
            EventLog(path).close()  # made now
            return found

    with contextlib.closing(apsw.Connection(str(path))) as connection:
        assert schema.check(Late(connection), str(path)) == schema.current_version()


def test_a_newer_schema_is_refused(path):
    EventLog(path).close()
    raw = apsw.Connection(str(path))
    raw.pragma("user_version", 99)
    raw.close()
    with pytest.raises(NewerSchemaError, match="99"):
        EventLog(path)
    with pytest.raises(NewerSchemaError):
        EventLog(path, read_only=True)


def test_an_older_file_is_migrated(path, monkeypatch):
    with EventLog(path) as log:
        log.append([said()])
    second = [*schema.MIGRATIONS, lambda connection: connection.execute("CREATE TABLE added (x)")]
    monkeypatch.setattr(schema, "MIGRATIONS", second)
    with pytest.raises(NotALogError):
        EventLog(path, read_only=True)
    with EventLog(path) as log:
        assert log.query("PRAGMA user_version") == [(len(second),)]
        assert log.query("SELECT count(*) FROM added") == [(0,)]
        assert texts(log.events()) == ["hello"]


def test_a_failing_migration_leaves_the_file_as_it_was(path, monkeypatch):
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
        assert log.query("PRAGMA user_version") == [(schema.current_version(),)]
        assert log.query("SELECT count(*) FROM sqlite_schema WHERE name = 'added'") == [(0,)]
        assert log.verify().ok


@pytest.mark.parametrize("read_only", [False, True])
def test_a_file_of_the_unreleased_layout_is_refused_and_left_alone(path, read_only):
    raw = apsw.Connection(str(path))
    raw.execute("CREATE TABLE events (position INTEGER PRIMARY KEY, stream TEXT NOT NULL)")
    raw.pragma("application_id", 0x53455345)
    raw.pragma("user_version", 1)
    raw.close()
    before = path.read_bytes()
    with pytest.raises(NotALogError, match="made by an unreleased version"):
        EventLog(path, read_only=read_only)
    assert path.read_bytes() == before
