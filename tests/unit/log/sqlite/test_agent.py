"""The tables of an agent's database, also of one that lacks columns."""

import sqlite3

import pytest

from engine.log.errors import ForeignFileError
from engine.log.sqlite.agent import AgentFile


def make(path, *statements):
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    return str(path)


def test_an_older_schema_without_ends_and_routes_is_read(tmp_path):
    """V18."""
    path = make(
        tmp_path / "state.db",
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT, started_at REAL)",
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, timestamp REAL)",
        "INSERT INTO sessions VALUES ('s', 'cli', 1.0)",
        "INSERT INTO messages VALUES (1, 's', 'user', 'hello', 2.0)",
    )
    file = AgentFile(path)
    assert file.parents() == {"s": None}
    assert file.session("s") == {"id": "s", "source": "cli", "started_at": 1.0}
    assert file.session("t") is None
    assert (file.end_of("s"), file.children_of("s"), file.routes()) == ((None, None), [], [])
    assert [row["content"] for row in file.messages("s", 0)] == ["hello"]
    assert list(file.messages("s", 1)) == []
    file.close()


def test_a_table_without_the_needed_columns_is_named(tmp_path):
    """V18."""
    path = make(tmp_path / "state.db", "CREATE TABLE sessions (id TEXT PRIMARY KEY)")
    with pytest.raises(ForeignFileError, match="'sessions' has no source, started_at"):
        AgentFile(path)
