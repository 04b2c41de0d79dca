"""Tables in memory over the events of a log."""

import pytest

from engine.log.errors import LogError, RefusedError
from tests.unit.log.samples import said, texts

COUNTS = "CREATE TABLE counts (stream TEXT PRIMARY KEY, events INTEGER NOT NULL)"


@pytest.fixture
def scratch(log):
    log.append([said("one"), said("two", stream="other"), said("three")])
    found = log.scratch()
    found.define([COUNTS])
    yield found
    found.close()


def test_events_are_the_logs_and_tables_are_its_own(log, scratch):
    assert texts(scratch.recorded(0, 3)) == ["one", "two", "three"]
    assert texts(scratch.recorded_at([2])) == ["two"]
    assert scratch.positions_of(["s"], 9) == [1, 3]
    assert scratch.changed_streams(1, 3) == ["other", "s"]
    assert [row[0] for row in scratch.payloads("s", until_position=1)] == [1]
    scratch.executemany("INSERT INTO counts VALUES (?,?)", [("s", 2), ("other", 1)])
    assert scratch.query("SELECT events FROM counts WHERE stream = ?", ("s",)) == [(2,)]
    with pytest.raises(LogError, match="counts"):
        log.query("SELECT * FROM counts")


def test_what_fails_leaves_nothing_behind(scratch):
    def fails(tables):
        tables.execute("INSERT INTO counts VALUES ('s', 2)")
        tables.execute("INSERT INTO counts VALUES ('s', 3)")

    with pytest.raises(RefusedError):
        scratch.attempt(fails)
    with pytest.raises(RefusedError):
        scratch.executemany("INSERT INTO counts VALUES (?,?)", [("s", None)])
    assert scratch.query("SELECT * FROM counts") == []
    scratch.attempt(lambda tables: tables.execute("INSERT INTO counts VALUES ('s', 2)"))
    assert scratch.query("SELECT * FROM counts") == [("s", 2)]


def test_definitions_are_compared_with_those_of_a_log(log, scratch):
    assert "counts is missing" in scratch.definition_problem(log.reader)
    log.transact(lambda transaction: transaction.define([COUNTS.replace("NOT NULL", "")]))
    assert "not as it was defined" in scratch.definition_problem(log.reader)
    log.transact(lambda transaction: transaction.execute("DROP TABLE counts"))
    log.transact(lambda transaction: transaction.define([COUNTS]))
    assert scratch.definition_problem(log.reader) is None


def test_a_table_that_was_renamed_is_defined_the_same(log, scratch):
    log.transact(lambda transaction: transaction.define([COUNTS.replace("counts", "counts_new")]))
    log.transact(lambda transaction: transaction.execute("ALTER TABLE counts_new RENAME TO counts"))
    assert scratch.definition_problem(log.reader) is None
