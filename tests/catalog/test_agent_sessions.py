"""W21: the agent's own sessions beside those of a catalogue, and deleting one for good."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from engine import (
    AsyncSessionCatalog,
    AsyncSessionStore,
    ConflictError,
    LockedLogError,
    SessionCatalog,
    SessionReader,
    SessionStore,
    UnknownSessionError,
)
from engine.log.sqlite import agent
from tests.imports.sources import START, add_message, add_session, agent_db


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "agent").mkdir()
    return tmp_path / "agent" / "state.db"


@pytest.fixture
def source(path: Path) -> Iterator[sqlite3.Connection]:
    connection = agent_db(path)
    add_session(connection, "s1", title="Trip", source="cli")
    add_message(connection, "s1", "hello")
    add_session(connection, "s2", source="cli", parent_session_id="s1", started_at=START + 1)
    yield connection
    connection.close()


def ids(rows: list[dict[str, Any]]) -> list[str]:
    return [row["session_id"] for row in rows]


def test_the_host_gives_workspace_and_profile(store: SessionStore, source: sqlite3.Connection, path: Path) -> None:
    """W21."""
    catalog = SessionCatalog(store, last_workspace=lambda: "/work", active_profile=lambda: "ada")
    row = catalog.get_cli_sessions(path)[1]
    assert (row["session_id"], row["workspace"], row["profile"]) == ("s1", "/work", "ada")
    assert catalog.get_cli_lineage(path, ["s2"])["s2"]["parent_title"] == "Trip"
    (message,) = catalog.get_cli_session_messages(path, "s1")
    assert (message["content"], message["_row_id"]) == ("hello", 1)


def test_reading_writes_nothing_here_either(catalog: SessionCatalog, source: sqlite3.Connection, path: Path) -> None:
    """W21: also where a timer's session asks for the project that nobody has made yet."""
    add_session(source, "cron_a_1", source="cron")
    row = next(row for row in catalog.get_cli_sessions(path) if row["session_id"] == "cron_a_1")
    assert catalog.store.log.last_position == 0
    assert row["project_id"] == catalog.ensure_cron_project()
    assert row in catalog.get_cli_sessions(path)


def test_the_project_of_timers_is_told_as_it_is(
    catalog: SessionCatalog, source: sqlite3.Connection, path: Path
) -> None:
    """W21, W19: made by hand, and deleted."""
    add_session(source, "cron_a_1", source="cron", started_at=START + 9)
    first = catalog.ensure_cron_project()
    catalog.delete_project(first)
    assert catalog.get_cli_sessions(path)[0]["project_id"] is None
    second = catalog.ensure_cron_project()
    assert second != first
    assert catalog.get_cli_sessions(path)[0]["project_id"] == second


def test_what_is_listed_there_is_brought_here(catalog: SessionCatalog, source: sqlite3.Connection, path: Path) -> None:
    """W21, W20."""
    for _ in range(2):
        add_message(source, "s1", "more", role="assistant")
        messages = catalog.get_cli_session_messages(path, "s1")
        chat = catalog.import_cli_session("s1", "Trip", messages)
        assert len(chat.messages) == len(messages)
    assert catalog.store.import_from(path).messages == 0


def test_a_deleted_row_never_comes_back(catalog: SessionCatalog, source: sqlite3.Connection, path: Path) -> None:
    """W21: whoever writes it anew, and not by any import either."""
    assert catalog.delete_cli_session(path, "s1") is True
    assert catalog.delete_cli_session(path, "s1") is False
    assert source.execute("SELECT id, parent_session_id FROM sessions").fetchall() == [("s2", None)]
    assert source.execute("SELECT count(*) FROM messages").fetchone() == (0,)
    add_session(source, "s1", title="Trip")
    add_message(source, "s1", "hello")
    assert ids(catalog.get_cli_sessions(path)) == ["s2"]
    with pytest.raises(ConflictError, match="deleted"):
        catalog.import_cli_session("s1", "Trip", catalog.get_cli_session_messages(path, "s1"))
    with pytest.raises(ConflictError, match="deleted"):
        catalog.import_session({"session_id": "s1"})
    for dry_run in (True, False):
        report = catalog.store.import_from(path, dry_run=dry_run)
        assert (report.sessions, [each.item for each in report.skipped]) == (1, ["session 's1'"])
    with pytest.raises(UnknownSessionError):
        catalog.get_session("s1")


def test_the_tombstone_is_an_event(
    open_store: Callable[..., SessionStore], source: sqlite3.Connection, path: Path
) -> None:
    """W21: it lives as long as the log, and rebuilding the tables keeps it."""
    store = open_store()
    SessionCatalog(store).delete_cli_session(path, "s1")
    assert [each.stream for each in store.log.events(topics=["session.deleted_at_agent"])] == ["session:s1"]
    add_session(source, "s1")
    store.rebuild()
    store.close()
    store = open_store()
    assert ids(SessionCatalog(store).get_cli_sessions(path)) == ["s2"]
    assert store.verify().ok


def test_what_was_imported_stays_when_its_row_goes(
    catalog: SessionCatalog, source: sqlite3.Connection, path: Path
) -> None:
    """W21: only the agent's row goes, and does not come back; what is deleted here is not listed there either."""
    catalog.import_cli_session("s1", "Trip", catalog.get_cli_session_messages(path, "s1"))
    assert catalog.delete_cli_session(path, "s1")
    assert len(catalog.get_session("s1").messages) == 1
    assert catalog.rename_session("s1", "Mine").title == "Mine"
    add_session(source, "s1")
    assert ids(catalog.get_cli_sessions(path)) == ["s2"]
    with pytest.raises(ConflictError, match="deleted"):
        catalog.import_cli_session("s1", "Trip", [])
    catalog.import_cli_session("s2", "Other", [])
    catalog.delete_session("s2")
    assert catalog.get_cli_sessions(path) == []


def test_a_file_without_the_row_deletes_nothing_and_leaves_no_tombstone(
    catalog: SessionCatalog, source: sqlite3.Connection, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """W21: True only if the session's row existed; a file that cannot be read is named in a warning."""
    damaged = path.with_name("damaged.db")
    damaged.write_bytes(b"no database" * 500)
    for place, session_id in ((path, "unknown"), (path.with_name("none.db"), "s1"), (damaged, "s1")):
        assert catalog.delete_cli_session(place, session_id) is False
    assert str(damaged) in caplog.text
    assert catalog.store.log.last_position == 0
    with pytest.raises(ValueError, match="session_id"):
        catalog.delete_cli_session(path, "../evil")


def test_a_row_that_could_not_be_deleted_is_told_and_not_listed(
    catalog: SessionCatalog, source: sqlite3.Connection, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W21: the tombstone comes first; the same call again deletes it."""
    monkeypatch.setattr(agent, "_PATIENCE", 0.01)
    source.close()
    holder = apsw.Connection(str(path))
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(LockedLogError):
        catalog.delete_cli_session(path, "s1")
    holder.execute("ROLLBACK")
    holder.close()
    assert ids(catalog.get_cli_sessions(path)) == ["s2"]
    assert catalog.delete_cli_session(path, "s1") is True
    assert len(list(catalog.store.log.events(topics=["session.deleted_at_agent"]))) == 1


def test_deleting_leaves_no_file_behind(catalog: SessionCatalog, source: sqlite3.Connection, path: Path) -> None:
    """W21: of a database with a write-ahead log that nobody has open."""
    source.execute("PRAGMA journal_mode=wal")
    source.close()
    assert catalog.delete_cli_session(path, "s1")
    assert len(catalog.get_cli_sessions(path)) == 1
    assert [each.name for each in path.parent.iterdir()] == ["state.db"]


def test_what_was_never_here_is_counted_nowhere(
    catalog: SessionCatalog, source: sqlite3.Connection, path: Path
) -> None:
    """W21: a tombstone is no session."""
    catalog.delete_cli_session(path, "s1")
    folder = Path(catalog.store.log.path).parent
    with SessionReader.open(folder) as reader:
        assert reader.load_transcript("s1") == []
        with pytest.raises(UnknownSessionError):
            reader.get_session("s1")


@pytest.mark.parametrize("bad", [None, 7, ""])
def test_what_names_no_file_is_refused(catalog: SessionCatalog, bad: Any) -> None:
    """W21."""
    for ask in (
        catalog.get_cli_sessions,
        lambda path: catalog.get_cli_lineage(path, ["s1"]),
        lambda path: catalog.get_cli_session_messages(path, "s1"),
        lambda path: catalog.delete_cli_session(path, "s1"),
    ):
        with pytest.raises(ValueError, match="db_path"):
            ask(bad)


def test_all_of_it_can_be_awaited(
    open_store: Callable[..., SessionStore], source: sqlite3.Connection, path: Path
) -> None:
    """W21."""
    store = open_store()

    async def ask() -> None:
        catalog = AsyncSessionCatalog(AsyncSessionStore(store))
        assert ids(await catalog.get_cli_sessions(path)) == ["s2", "s1"]
        assert list(await catalog.get_cli_lineage(path, ["s1", "s2"])) == ["s2"]
        assert len(await catalog.get_cli_session_messages(path, "s1")) == 1
        assert await catalog.delete_cli_session(path, "s1")

    asyncio.run(ask())
