"""Names are stored once, and what is in memory of them is never wrong."""

import apsw
import pytest

from engine.log import ConflictError, EventLog, InvalidEventError
from engine.log.sqlite import names
from tests.unit.log.samples import said


def stored(log):
    return [name for (name,) in log.query("SELECT name FROM names ORDER BY id")]


def test_a_name_is_stored_once(log):
    log.append([said(stream="s", actor="ada", command="say"), said(stream="t", actor="ada", command="say")])
    log.append([said(stream="ada", actor="s", command="t")])
    assert sorted(stored(log)) == ["ada", "s", "say", "t"]
    assert [(e.stream, e.actor, e.command) for e in log.events()] == [
        ("s", "ada", "say"),
        ("t", "ada", "say"),
        ("ada", "s", "t"),
    ]


def test_the_view_shows_rows_with_their_names(log, path):
    log.append([said("hello", "s", actor="ada", command="say", reason="why")])
    raw = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    shown = raw.execute("SELECT position, stream, version, topic, actor, command, reason FROM log").fetchall()
    raw.close()
    assert shown == [(1, "s", 1, "message.appended", "ada", "say", "why")]


def test_a_name_of_a_rolled_back_command_is_forgotten(log):
    def fails(transaction):
        transaction.append([said(stream="gone", actor="nobody")])
        raise RuntimeError("taken back")

    with pytest.raises(RuntimeError):
        log.transact(fails)
    assert stored(log) == []
    log.append([said(stream="other")])
    log.append([said(stream="gone", actor="nobody")])
    assert [(e.stream, e.actor) for e in log.events()] == [("other", ""), ("gone", "nobody")]
    assert log.verify().ok


def test_a_name_of_a_savepoint_that_was_undone_is_forgotten(log):
    def fails(transaction):
        transaction.append([said(stream="inner")])
        raise RuntimeError("taken back")

    def command(transaction):
        transaction.append([said(stream="before")])
        with pytest.raises(RuntimeError):
            transaction.attempt(fails)
        transaction.append([said(stream="after")])
        transaction.append([said(stream="inner")])
        return [envelope.stream for envelope in transaction.recorded(0, 9)]

    assert log.transact(command) == ["before", "after", "inner"]
    assert [e.stream for e in log.events()] == ["before", "after", "inner"]
    assert log.verify().ok


def test_names_of_other_processes_are_found(log, path):
    with EventLog(path) as other:
        log.append([said(stream="a")])
        other.append([said(stream="a"), said(stream="b")])
        log.append([said(stream="b"), said(stream="c")])
        other.append([said(stream="c")])
        assert [(e.stream, e.version) for e in other.events()] == [
            ("a", 1),
            ("a", 2),
            ("b", 1),
            ("b", 2),
            ("c", 1),
            ("c", 2),
        ]
    assert log.verify().ok


def test_more_names_than_memory_holds_are_looked_up_again(log, monkeypatch):
    monkeypatch.setattr(names, "_LIMIT", 3)
    for number in range(20):
        log.append([said(stream=f"s{number % 7}", actor=f"a{number % 5}")])
    assert [(e.stream, e.actor) for e in log.events()] == [(f"s{n % 7}", f"a{n % 5}") for n in range(20)]
    assert len(log.reader.names.by_id) <= 12
    assert len(stored(log)) == 7 + 5 + 1
    assert log.verify().ok


def test_a_long_name_is_not_kept_in_memory(log):
    log.append([said(stream="x" * 1000), said(stream="x" * 1000)])
    assert [e.version for e in log.events()] == [1, 2]
    assert "x" * 1000 not in log.reader.names.by_id.values()


@pytest.mark.parametrize("column", ["stream", "actor", "command", "reason", "metadata"])
def test_no_text_column_holds_a_nul(log, column):
    """PostgreSQL cannot store one."""
    with pytest.raises(InvalidEventError, match=f"{column}.*NUL"):
        log.append([said(**{column: "a\0b"})])
    assert log.last_position == 0


@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE names SET name = 'x'",
        "DELETE FROM names",
        "INSERT OR REPLACE INTO names VALUES (1, 'x')",
        "INSERT OR REPLACE INTO names VALUES (9, 's')",
    ],
)
def test_the_database_itself_keeps_names(log, path, sql):
    log.append([said()])
    raw = apsw.Connection(str(path))
    with pytest.raises(apsw.ConstraintError):
        raw.execute(sql)
    raw.close()
    assert log.verify().ok


def test_verifying_sees_a_name_that_was_changed_while_it_was_in_memory(log, path):
    log.append([said(stream="a"), said(stream="s")])
    assert [e.stream for e in log.events()] == ["a", "s"]
    raw = apsw.Connection(str(path))
    raw.execute("DROP TRIGGER names_are_immutable; UPDATE names SET name = 'mallory' WHERE name = 's'")
    raw.close()
    assert log.verify().bad_position == 2


def test_a_refused_append_leaves_the_names_of_others_right(log):
    with pytest.raises(ConflictError):
        log.append([said(stream="a", version=1), said(stream="b", version=7)])
    log.append([said(stream="b", version=1), said(stream="a", version=1)])
    assert [e.stream for e in log.events()] == ["b", "a"]
    assert log.verify().ok
