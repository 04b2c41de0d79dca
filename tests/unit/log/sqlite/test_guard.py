"""Queries of people (R16)."""

import pytest

from engine.log.errors import UnsafeQueryError
from engine.log.protocol import Bounds
from tests.unit.log.samples import said

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT {} FROM n"


@pytest.fixture
def filled(log):
    log.append([said("one"), said("two", stream="other"), said("three")])
    return log


def test_a_query_gives_its_columns_and_rows(filled):
    """R16."""
    answer = filled.ask("SELECT position, stream AS of FROM log ORDER BY position", Bounds())
    assert (answer.columns, answer.rows, answer.truncated) == (
        ("position", "of"),
        [(1, "s"), (2, "other"), (3, "s")],
        False,
    )
    bounded = filled.ask("SELECT position FROM log", Bounds(rows=2))
    assert (len(bounded.rows), bounded.truncated) == (2, True)
    assert filled.ask("SELECT 1 WHERE 1 = 0", Bounds()).rows == []


@pytest.mark.parametrize(
    "sql",
    [
        "DELETE FROM events",
        "UPDATE names SET name = 'x'",
        "INSERT INTO names (name) VALUES ('x')",
        "CREATE TABLE t (x)",
        "CREATE TEMP TABLE t (x)",
        "DROP TABLE events",
        "PRAGMA query_only = 0",
        "PRAGMA writable_schema = 1",
        "ATTACH '/tmp/other.db' AS other",
        "VACUUM INTO '/tmp/other.db'",
        "BEGIN IMMEDIATE",
        "COMMIT",
        "SELECT load_extension('x')",
        "SELECT 1; DELETE FROM events",
        "SELECT 1; SELECT 2",
        "WITH gone AS (SELECT 1) DELETE FROM events",
        "nonsense",
        "SELECT nothing FROM events",
        "SELECT ?",
        "SELECT '\ud800'",
        "",
    ],
)
def test_what_writes_or_is_no_query_is_refused(filled, sql):
    """R16: read-only."""
    head = filled.head()
    if not sql:
        assert filled.ask(sql, Bounds()).rows == []
        return
    with pytest.raises(UnsafeQueryError):
        filled.ask(sql, Bounds())
    assert filled.head() == head
    assert filled.verify().ok


@pytest.mark.parametrize(
    ("sql", "bounds", "why"),
    [
        (ENDLESS.format("max(x)"), Bounds(seconds=0.05), "did not end within 0.05 s"),
        (ENDLESS.format("x, zeroblob(1000000)") + " ORDER BY x", Bounds(size=10_000_000), "bytes of memory"),
        (ENDLESS.format("printf('%.*c', 100000, 'x')"), Bounds(size=1_000_000), "over 1,000,000 bytes"),
        ("SELECT length(zeroblob(1000000000) || 'x')", Bounds(), "a value of it is over"),
    ],
)
def test_what_takes_too_long_or_too_much_is_stopped(filled, sql, bounds, why):
    """R16: bounded in time and memory."""
    with pytest.raises(UnsafeQueryError, match=why):
        filled.ask(sql, bounds)
    assert filled.ask("SELECT count(*) FROM events", Bounds()).rows == [(3,)]


def test_the_tables_of_a_query_are_known_without_running_it(filled):
    scratch = filled.scratch()
    scratch.define(["CREATE TABLE counts (stream TEXT PRIMARY KEY)", "CREATE TABLE others (x INTEGER PRIMARY KEY)"])
    assert scratch.tables_of("SELECT 1 FROM counts WHERE stream > 'a'", Bounds()) == {"counts"}
    assert scratch.ask("SELECT count(*) FROM others", Bounds()).rows == [(0,)]
    scratch.close()
