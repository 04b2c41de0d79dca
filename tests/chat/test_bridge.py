"""W21: the sessions in an agent's database, listed where they are, and deleted there for good."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys

import pytest

from engine.bridge import HostRow, cli_lineage, cli_messages, cli_sessions
from engine.domain.chat_rows import ROW
from engine.log.sqlite import foreign
from tests.imports.sources import START, add_message, add_session, agent_db

HOST = HostRow("/work", "default", lambda: "c0ffee000000")


@pytest.fixture
def source(tmp_path):
    connection = agent_db(tmp_path / "state.db")
    yield connection
    connection.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.db"


def listed(path):
    return cli_sessions(path, lambda _: (), HOST)


def open_files():
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_rows_are_newest_first_and_say_what_a_list_shows(source, path):
    """W21."""
    add_session(source, "old", source="cli", title="Old", model="m", message_count=7)
    add_message(source, "old", "x", timestamp=START + 5)
    add_session(source, "new", source="telegram", started_at=START + 10)
    add_message(source, "new", "x", timestamp=START + 20)
    add_message(source, "new", "y", timestamp=START + 30)
    add_session(source, "mine", source="webui")
    new, old = listed(path)
    assert set(ROW) <= set(new)
    assert (new["session_id"], new["title"], new["message_count"]) == ("new", "Telegram Session", 2)
    assert (new["created_at"], new["updated_at"]) == (START + 10, START + 30)
    assert (new["source_tag"], new["session_source"], new["source_label"]) == ("telegram", "messaging", "Telegram")
    assert new["is_cli_session"] is True
    assert (old["session_id"], old["title"], old["message_count"], old["model"]) == ("old", "Old", 7, "m")
    assert (old["workspace"], old["profile"], old["project_id"]) == ("/work", "default", None)


def test_a_session_without_messages_or_a_source_has_what_there_is(source, path):
    """W21: updated when it began; of the agent itself."""
    add_session(source, "bare", source="")
    (row,) = listed(path)
    assert (row["updated_at"], row["message_count"]) == (START, 0)
    assert (row["source_tag"], row["title"]) == ("cli", "CLI Session")


def test_at_most_the_newest_200(source, path):
    """W21."""
    rows = [(f"s{number:03}", "cli", START + number) for number in range(205)]
    source.executemany("INSERT INTO sessions (id, source, started_at) VALUES (?,?,?)", rows)
    source.commit()
    rows = listed(path)
    assert [row["session_id"] for row in (rows[0], rows[-1])] == ["s204", "s005"]
    assert len(rows) == 200


def test_a_timers_session_is_named_after_its_job_and_is_in_the_timers_project(source, path):
    """W21."""
    (path.parent / "cron").mkdir()
    jobs = {"jobs": [{"id": "a_b", "name": "Morning news"}, {"id": "a", "name": "Other"}, {"id": 3}, "bad"]}
    (path.parent / "cron" / "jobs.json").write_text(json.dumps(jobs))
    add_session(source, "cron_a_b_20260701_040000", source="cron")
    add_session(source, "cron_gone_20260701_040000", source="cron", started_at=START - 1)
    first, second = listed(path)
    assert (first["title"], first["project_id"]) == ("Morning news", "c0ffee000000")
    assert second["title"] == "Cron Session"


def test_a_compression_is_one_row_and_a_branch_its_own(source, path):
    """W21, W12."""
    ended = {"ended_at": START + 10, "end_reason": "compression"}
    add_session(source, "a", title="Trip", message_count=5, **ended)
    add_session(source, "b", title="Trip #2", parent_session_id="a", started_at=START + 10, model="large")
    add_message(source, "b", "x", timestamp=START + 50)
    add_session(source, "c", parent_session_id="b", started_at=START + 20)
    chain, branch = listed(path)
    assert (chain["session_id"], chain["title"], chain["created_at"]) == ("b", "Trip", START)
    assert (chain["_lineage_root_id"], chain["_lineage_tip_id"], chain["_compression_segment_count"]) == ("a", "b", 2)
    assert (chain["model"], chain["message_count"], chain["updated_at"]) == ("large", 1, START + 50)
    assert (branch["session_id"], branch["relationship_type"], branch["parent_session_id"]) == (
        "c",
        "child_session",
        "b",
    )
    assert (branch["parent_title"], branch["parent_source"]) == ("Trip #2", "telegram")
    assert branch["_parent_lineage_root_id"] == "a"
    assert cli_lineage(path, ["a", "b", "c", "unknown"]) == {
        "a": {key: chain[key] for key in ("_lineage_root_id", "_lineage_tip_id", "_compression_segment_count")},
        "b": {key: chain[key] for key in ("_lineage_root_id", "_lineage_tip_id", "_compression_segment_count")},
        "c": {
            key: branch[key]
            for key in (
                *("parent_session_id", "relationship_type", "parent_title"),
                *("parent_source", "_parent_lineage_root_id"),
            )
        },
    }


def test_circles_orphans_and_odd_values_are_harmless(source, path):
    """W21, W12."""
    ended = {"end_reason": "compression"}
    add_session(source, "a", parent_session_id="b", **ended)
    add_session(source, "b", parent_session_id="a", **ended)
    add_session(source, "c", parent_session_id="gone")
    add_session(source, "d", started_at="yesterday", message_count="many", title=b"\xff")
    rows = {row["session_id"]: row for row in listed(path)}
    assert len(rows) == 3
    assert rows["c"]["parent_session_id"] == "gone"
    assert "parent_title" not in rows["c"]
    assert (rows["d"]["created_at"], rows["d"]["updated_at"], rows["d"]["message_count"]) == (None, 0.0, 0)


def test_messages_come_by_their_rows_with_what_belongs_to_tools(source, path):
    """W21."""
    add_session(source, "s")
    add_message(source, "s", "late", timestamp=START + 9)
    add_message(source, "s", "early", timestamp=START + 1, role="tool", tool_call_id="c1", tool_name="f")
    add_message(source, "s", None, role="assistant", tool_calls=json.dumps([{"id": "c1"}]))
    add_message(source, "s", "undone", active=0)
    add_message(source, "s", "\0json:{broken")
    messages = cli_messages(path, "s")
    assert [message["_row_id"] for message in messages] == [1, 2, 3]
    assert messages[0] == {"role": "user", "content": "late", "timestamp": START + 9, "_row_id": 1}
    assert (messages[1]["tool_call_id"], messages[1]["tool_name"]) == ("c1", "f")
    assert messages[2]["tool_calls"] == [{"id": "c1"}]
    assert cli_messages(path, "unknown") == []


@pytest.mark.parametrize("content", [b"no database" * 500, b"", "folder"])
def test_a_file_that_cannot_be_read_is_a_warning_that_names_it(tmp_path, content, caplog):
    """W21: never an exception."""
    path = tmp_path / "state.db"
    path.mkdir() if content == "folder" else path.write_bytes(content)
    before = open_files()
    assert (listed(path), cli_lineage(path, ["s"]), cli_messages(path, "s")) == ([], {}, [])
    assert caplog.text.count(str(path)) >= 3
    assert open_files() == before


def test_a_foreign_schema_is_a_warning_and_a_missing_file_is_none(tmp_path, caplog):
    """W21."""
    assert (listed(tmp_path / "none"), cli_lineage(tmp_path / "none", ["s"])) == ([], {})
    assert caplog.text == ""
    with sqlite3.connect(tmp_path / "state.db") as connection:
        connection.execute("CREATE TABLE sessions (name TEXT)")
    connection.close()
    assert listed(tmp_path / "state.db") == []
    assert "state.db" in caplog.text


def test_an_older_schema_is_read_as_far_as_it_goes(tmp_path):
    """W21."""
    with sqlite3.connect(tmp_path / "state.db") as connection:
        connection.executescript(
            "CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT, started_at REAL);"
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, timestamp REAL);"
            "INSERT INTO sessions VALUES ('s', 'cli', 5.0);"
            "INSERT INTO messages VALUES (1, 's', 'user', 'x', 6.0);"
        )
    connection.close()
    (row,) = listed(tmp_path / "state.db")
    assert (row["message_count"], row["updated_at"], row["model"]) == (1, 6.0, None)
    assert len(cli_messages(tmp_path / "state.db", "s")) == 1


def test_listing_leaves_the_file_and_the_number_of_open_files_alone(source, path):
    """W21, W14: every connection is closed."""
    add_session(source, "s")
    add_message(source, "s", "x")
    source.close()
    before, files = path.read_bytes(), open_files()
    for _ in range(100):
        assert len(listed(path)) == 1
        assert len(cli_messages(path, "s")) == 1
    assert (path.read_bytes(), open_files()) == (before, files)
    assert [each.name for each in path.parent.iterdir()] == ["state.db"]


def test_what_a_writer_left_is_read_and_stays_as_it_is(tmp_path):
    """W21, V18: a write-ahead log of one that works, of one that died, and a copy without its index."""
    folders = [tmp_path / name for name in ("live", "dead", "copy")]
    folders[0].mkdir()
    connection = agent_db(folders[0] / "state.db")
    connection.execute("PRAGMA journal_mode=wal")
    add_session(connection, "s")
    add_message(connection, "s", "x")
    shutil.copytree(folders[0], folders[1])
    shutil.copytree(folders[0], folders[2], ignore=shutil.ignore_patterns("*-shm"))
    for folder in folders:
        before = {each.name: each.read_bytes() for each in folder.iterdir() if folder != folders[0]}
        names = sorted(each.name for each in folder.iterdir())
        assert len(listed(folder / "state.db")) == 1
        assert len(cli_messages(folder / "state.db", "s")) == 1
        assert sorted(each.name for each in folder.iterdir()) == names
        assert {name: (folder / name).read_bytes() for name in before} == before
    connection.close()


HOLD = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN EXCLUSIVE")
connection.execute("UPDATE sessions SET title = 'half'")
print("held", flush=True)
sys.stdin.read()
"""


def test_a_file_that_another_program_keeps_locked_is_a_warning(source, path, caplog, monkeypatch):
    """W21, V18: what is half written is not read."""
    monkeypatch.setattr(foreign, "_PATIENCE", 0.01)
    add_session(source, "s")
    source.close()
    child = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "held\n"
    assert listed(path) == []
    assert "keeps it locked" in caplog.text
    child.kill()
    child.communicate()
    assert listed(path)[0]["title"] == "Telegram Session"


def test_a_change_that_was_cut_off_is_a_warning(tmp_path, source, path, caplog):
    """W21, V18: its own program has to take it back first."""
    source.execute("PRAGMA cache_size = 1")
    add_session(source, "s")
    source.execute("BEGIN")
    source.executemany(
        "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s', 'user', ?, 1.0)",
        [("x" * 500,) for _ in range(200)],
    )
    (tmp_path / "cut").mkdir()
    for each in tmp_path.glob("state.db*"):
        shutil.copy(each, tmp_path / "cut")
    source.rollback()
    assert (tmp_path / "cut" / "state.db-journal").exists()
    assert listed(tmp_path / "cut" / "state.db") == []
    assert "open it with its own program" in caplog.text
    assert len(list((tmp_path / "cut").iterdir())) == 2
