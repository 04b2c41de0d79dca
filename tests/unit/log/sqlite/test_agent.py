"""The tables of an agent's database, also of one that lacks columns."""

import sqlite3

import apsw
import pytest

from engine.log.errors import ForeignFileError, LockedLogError
from engine.log.sqlite import agent
from engine.log.sqlite.agent import AgentFile, delete_session


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


@pytest.fixture
def family(tmp_path):
    return make(
        tmp_path / "state.db",
        "CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT, started_at REAL, parent_session_id TEXT)",
        "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, timestamp REAL)",
        "INSERT INTO sessions VALUES ('s', 'cli', 1.0, NULL), ('t', 'cli', 2.0, 's')",
        "INSERT INTO messages VALUES (1, 's', 'user', 'hello', 3.0), (2, 't', 'user', 'hi', 4.0)",
    )


def test_sessions_in_short_say_when_they_were_last_spoken_in(family):
    """W21."""
    file = AgentFile(family)
    assert [(each.id, each.title, each.last_spoken) for each in file.brief()] == [("s", None, 3.0), ("t", None, 4.0)]
    assert (file.brief_of("t").parent_session_id, file.brief_of("u"), file.count_messages("t")) == ("s", None, 1)
    file.close()


def test_a_deleted_session_leaves_its_children_without_a_parent(family):
    """W21."""
    assert delete_session(family, "s") is True
    assert delete_session(family, "s") is False
    file = AgentFile(family)
    assert [(each.id, each.parent_session_id) for each in file.brief()] == [("t", None)]
    assert [row["id"] for row in file.rows("messages", ["id"], "id")] == [2]
    file.close()


def test_a_database_that_stays_locked_is_told(family, monkeypatch):
    """W21: what could not be deleted was not."""
    monkeypatch.setattr(agent, "_PATIENCE", 0.01)
    connection = apsw.Connection(family)
    connection.execute("BEGIN IMMEDIATE")
    with pytest.raises(LockedLogError, match="deleting a session of"):
        delete_session(family, "s")
    connection.execute("ROLLBACK")
    connection.close()
