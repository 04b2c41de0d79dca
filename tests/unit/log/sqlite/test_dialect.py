"""Expressions of SQLite: JSON that may be none, and times as text."""

import apsw
import pytest

from engine.log.sqlite.dialect import SQLiteDialect


@pytest.fixture
def value():
    connection = apsw.Connection(":memory:")
    yield lambda expression, binding: connection.execute(f"SELECT {expression} FROM (SELECT ? AS c)", (binding,)).get
    connection.close()


@pytest.mark.parametrize(
    ("time", "text"),
    [
        (0, "1970-01-01T00:00:00.000000Z"),
        (1782907200000001, "2026-07-01T12:00:00.000001Z"),
        (-1, "1969-12-31T23:59:59.999999Z"),
        (-(2**62), None),
        (2**62, None),
    ],
)
def test_a_time_is_iso_text_and_a_year_without_a_text_is_none(value, time, text):
    """V12."""
    assert value(SQLiteDialect().iso_time("c"), time) == text


def test_what_is_no_json_is_none(value):
    """V12."""
    assert value(SQLiteDialect().json("c"), '{"a":1}') == '{"a":1}'
    assert value(SQLiteDialect().json("c"), '{"a"') is None
