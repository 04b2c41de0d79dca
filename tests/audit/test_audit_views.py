"""V12: SQL views that any SQLite client can read, with nothing of ours loaded."""

import json
import sqlite3
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from engine import GatewayConfig, SessionResetPolicy, SessionStore
from tests.histories.histories import Clock, live_through

COLUMNS = {
    "audit_events": "position time stream version type actor command reason lane session_id platform chat_id user_id "
    "payload",
    "audit_sessions": "session_id conversation_id lane platform chat_id user_id created_at ended_at end_reason "
    "parent_session_id relation child_session_id title messages",
    "audit_lanes": "lane session_id platform chat_id user_id display_name updated_at suspended resume_pending "
    "resume_reason lane_id",
    "audit_resets": "position time lane platform chat_id user_id actor command reason session_id previous_session_id "
    "cause automatic mode at_hour idle_minutes idle_seconds pending_seconds freshness_seconds zone_offset_minutes",
    "audit_turns": "position begun ended outcome seconds evidence session_id conversation_id holder actor",
    "audit_messages": "position time session_id lane platform chat_id user_id actor role text message_id",
    "audit_erasures": "position time actor reason request positions",
    "audit_quarantine": "position projection error type stream",
}
"""Columns are added here, never renamed or removed."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A store that has seen everything once."""
    folder, clock = tmp_path_factory.mktemp("audited"), Clock()
    config = GatewayConfig(default_reset_policy=SessionResetPolicy(mode="idle", idle_minutes=30))
    with SessionStore(folder, config, clock=clock, synchronous="OFF", views=False) as store:
        live_through(store, clock)
        clock.advance(minutes=1)
    return folder


@pytest.fixture
def ask(folder):
    """Run SQL with Python's own SQLite, read-only."""
    connection = sqlite3.connect(f"file:{folder / 'sessions.db'}?mode=ro", uri=True)
    connection.row_factory = sqlite3.Row

    def asking(sql, *bindings):
        return [dict(row) for row in connection.execute(sql, bindings)]

    yield asking
    connection.close()


@pytest.mark.parametrize("name", COLUMNS)
def test_a_view_has_the_columns_that_people_rely_on(ask, name):
    """V12."""
    assert " ".join(row["name"] for row in ask(f"PRAGMA table_info({name})")) == COLUMNS[name]
    assert ask(f"SELECT * FROM {name}") or name == "audit_quarantine"


def test_every_event_is_there_with_whose_it_is(ask, folder):
    """V12."""
    rows = ask("SELECT * FROM audit_events ORDER BY position")
    assert [row["position"] for row in rows] == list(range(1, len(rows) + 1))
    with SessionStore(folder, views=False) as store:
        log = list(store.log.events())
    for row, event in zip(rows, log, strict=True):
        assert (row["stream"], row["version"], row["type"]) == (event.stream, event.version, event.event.topic)
        assert (row["actor"], row["command"], row["reason"]) == (event.actor, event.command, event.reason)
    lanes = {row["lane"] for row in rows if row["stream"].startswith("lane:")}
    assert "agent:main:telegram:dm:4711" in lanes
    ada = [row for row in rows if row["lane"] == "agent:main:telegram:dm:4711" and row["stream"].startswith("lane:")]
    assert {(row["platform"], row["chat_id"], row["user_id"]) for row in ada} == {("telegram", "4711", "u1")}
    assert rows[0]["time"] == "2026-07-01T12:00:00.000000Z"


def test_resets_show_what_the_decision_saw(ask):
    """V12, G25."""
    (row,) = ask("SELECT * FROM audit_resets WHERE cause = 'idle'")
    assert (row["automatic"], row["mode"], row["idle_minutes"], row["idle_seconds"]) == (1, "idle", 30, 1860.0)
    assert row["reason"] == "idle"
    by_hand = ask("SELECT * FROM audit_resets WHERE automatic = 0")
    assert {row["cause"] for row in by_hand} == {"session_reset"}


def test_turns_show_how_they_ended(ask):
    """V12, G36."""
    rows = ask("SELECT outcome, evidence, seconds FROM audit_turns ORDER BY position")
    assert [row["outcome"] for row in rows] == ["finished", "interrupted", "open"]
    assert "lease ran out" in rows[1]["evidence"]
    assert rows[1]["seconds"] == timedelta(seconds=91).total_seconds()


def test_sessions_and_lanes_are_the_state_tables_in_words(ask, folder):
    """V12."""
    with SessionStore(folder, views=False) as store:
        entries = {entry.session_key: entry.session_id for entry in store.list_sessions()}
        sessions = {row["session_id"]: row for row in ask("SELECT * FROM audit_sessions")}
        for session_id, row in sessions.items():
            info = store.get_session(session_id)
            assert (row["messages"], row["end_reason"], row["title"]) == (
                info.message_count,
                info.end_reason,
                info.title,
            )
            assert (row["ended_at"] is None) == (info.ended_at is None)
    assert {row["lane"]: row["session_id"] for row in ask("SELECT * FROM audit_lanes")} == entries


def test_an_erased_message_keeps_its_row_without_its_words(ask):
    """V12, V15."""
    (erasure,) = ask("SELECT * FROM audit_erasures")
    assert (erasure["actor"], erasure["reason"], erasure["request"]) == ("operator", "asked to", "R-1")
    (position,) = json.loads(erasure["positions"])
    (row,) = ask("SELECT * FROM audit_messages WHERE position = ?", position)
    assert row["text"] is None


def test_a_file_without_the_views_gets_them_when_it_is_opened(tmp_path):
    """V12: opening an older file adds them."""
    with SessionStore(tmp_path, views=False) as store:
        store.log.transact(lambda transaction: transaction.define([f"DROP VIEW {name}" for name in reversed(COLUMNS)]))
        store.log.transact(lambda transaction: transaction.execute("DELETE FROM projections WHERE name = 'audit'"))
    with SessionStore(tmp_path, views=False) as store:
        assert store.log.query("SELECT count(*) FROM audit_events") == [(0,)]


def test_the_sqlite_shell_of_another_program_reads_them(folder):
    """V12: a process that has nothing of this package."""
    asking = "sqlite3.connect(sys.argv[1]).execute('SELECT count(*) FROM audit_turns').fetchall()"
    command = [sys.executable, "-I", "-S", "-c", f"import sqlite3, sys; print({asking})", str(folder / "sessions.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "[(3,)]\n"


def test_the_page_answers_ten_questions_of_an_auditor_in_sql_with_their_output():
    """V13: `tests/docs/test_pages.py` runs them and compares."""
    page = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
    questions = [part for part in page.split("\n## ")[1:] if part.partition("\n")[0].endswith("?")]
    assert len(questions) >= 10
    for each in questions:
        assert "audit_" in each
        assert each.count("```text") >= 1, each
