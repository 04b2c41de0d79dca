"""The rules, indexes and pages of a file, which the hashes do not cover."""

import apsw
import pytest

from engine.log import EventLog
from tests.unit.log.samples import said

FOLLOW = "events_follow_each_other"


@pytest.fixture
def damage(path):
    """Runs SQL on a closed log, like somebody who does not care for its rules."""
    with EventLog(path) as log:
        log.append([said(stream=name, version=number) for number in (1, 2, 3) for name in ("session:a", "session:b")])
        assert log.verify().ok

    def run(sql: str) -> None:
        connection = apsw.Connection(str(path))
        connection.execute(sql)
        connection.close()

    return run


def verified(path):
    with EventLog(path, read_only=True) as log:
        return log.verify()


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("DROP TRIGGER events_are_kept", "trigger events_are_kept is missing"),
        (
            "DROP TRIGGER events_are_kept; CREATE TRIGGER events_are_kept BEFORE DELETE ON events BEGIN SELECT 1; END",
            "trigger events_are_kept is not as it was defined",
        ),
        ("CREATE TRIGGER more AFTER INSERT ON events BEGIN SELECT 1; END", "trigger more is not one of the log's"),
        ("DROP VIEW log", "view log is missing"),
        ("DROP TABLE tracking", "table tracking is missing"),
        ("ALTER TABLE snapshots ADD COLUMN more TEXT", "table snapshots is not as it was defined"),
    ],
)
def test_what_the_file_defines_is_compared(path, damage, sql, problem):
    damage(sql)
    found = verified(path)
    assert not found.ok
    assert problem in found.problem


def test_tables_of_others_are_nobodys_business(path, damage):
    damage("CREATE TABLE theirs (a); CREATE INDEX theirs_by_a ON theirs (a); ANALYZE")
    assert verified(path).ok


def test_an_index_that_does_not_fit_its_table_is_found(path, damage):
    damage(
        "PRAGMA writable_schema = on; "
        "UPDATE sqlite_schema SET rootpage = (SELECT rootpage FROM sqlite_schema WHERE name = 'clock_steps') "
        "WHERE name = 'sqlite_autoindex_events_1'"
    )
    found = verified(path)
    assert not found.ok
    assert "integrity_check" in found.problem or "damaged" in found.problem


@pytest.mark.parametrize(("stream", "version"), [("session:a", 5), ("session:c", 3)])
def test_versions_of_a_stream_that_do_not_follow_each_other_are_found(path, damage, stream, version):
    """With hashes that fit: written by a program that dropped the rule and put it back."""
    connection = apsw.Connection(str(path))
    (sql,) = connection.execute("SELECT sql FROM sqlite_schema WHERE name = ?", (FOLLOW,)).fetchone()
    connection.close()
    damage(f"DROP TRIGGER {FOLLOW}")
    with EventLog(path) as log:
        log.append([said(stream=stream, version=version)])
    damage(sql)
    found = verified(path)
    assert (found.ok, found.bad_position) == (False, 7)
    assert "version" in found.problem


def test_a_changed_column_is_named_also_where_reading_needs_it(path, damage):
    damage("ALTER TABLE meta RENAME COLUMN value TO walue")
    found = verified(path)
    assert not found.ok
    assert "table meta is not as it was defined" in found.problem
