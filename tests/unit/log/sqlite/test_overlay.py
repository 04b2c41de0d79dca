"""Temporary tables over those of a log."""

import pytest

from engine.log.errors import RefusedError
from tests.unit.log.samples import said

COUNTS = "CREATE TABLE counts (stream TEXT PRIMARY KEY, position INTEGER NOT NULL)"


@pytest.fixture
def overlay(log):
    log.append([said("one")])
    log.transact(lambda transaction: transaction.define([COUNTS]))
    log.transact(lambda transaction: transaction.executemany("INSERT INTO counts VALUES (?,?)", [("a", 1), ("b", 5)]))
    found = log.overlay()
    yield found
    found.close()


def counted(overlay):
    with overlay.one_state():
        return overlay.query("SELECT stream, position FROM counts ORDER BY stream")


def test_rows_are_hidden_and_put_in_their_place_and_the_log_stays_as_it_is(log, overlay):
    overlay.cover(COUNTS, hidden_by="stream")
    assert counted(overlay) == [("a", 1), ("b", 5)]
    overlay.hide("counts", ["b", "b", "nobody"])
    overlay.executemany("INSERT INTO counts VALUES (?,?)", [("b", 3)])
    assert counted(overlay) == [("a", 1), ("b", 3)]
    overlay.execute("UPDATE counts SET position = 4")
    assert counted(overlay) == [("a", 1), ("b", 4)]
    overlay.hide("counts", ["b"])
    assert counted(overlay) == [("a", 1)]
    assert overlay.own_query("SELECT * FROM counts") == log.query("SELECT * FROM counts") == [("a", 1), ("b", 5)]


@pytest.mark.parametrize(("options", "seen"), [({"upto": 1}, [("a", 1)]), ({"own": False}, []), ({"upto": 0}, [])])
def test_rows_of_later_positions_are_left_out(overlay, options, seen):
    overlay.cover(COUNTS, **options)
    assert counted(overlay) == seen


def test_a_log_that_is_written_is_seen_as_of_one_moment(log, overlay):
    overlay.cover(COUNTS, hidden_by="stream")
    with overlay.one_state():
        assert len(overlay.query("SELECT 1 FROM counts")) == 2
        log.transact(lambda transaction: transaction.execute("DELETE FROM counts"))
        assert len(overlay.query("SELECT 1 FROM counts")) == 2
    assert counted(overlay) == []


def test_only_tables_are_covered_and_their_rules_hold(overlay):
    with pytest.raises(ValueError, match="only a table"):
        overlay.cover("CREATE INDEX counts_by_position ON counts (position)")
    overlay.cover(COUNTS)
    overlay.executemany("INSERT INTO counts VALUES (?,?)", [("c", 1)])
    with pytest.raises(RefusedError):
        overlay.executemany("INSERT INTO counts VALUES (?,?)", [("c", 1)])
