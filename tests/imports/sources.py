"""Small sources to import from, written by the schemas of the programs that make them."""

import json
import sqlite3
from pathlib import Path
from typing import Any

SCHEMA = """
CREATE TABLE schema_version (version INTEGER NOT NULL);
INSERT INTO schema_version VALUES (22);
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, source TEXT NOT NULL, user_id TEXT, session_key TEXT, chat_id TEXT, chat_type TEXT,
    thread_id TEXT, display_name TEXT, origin_json TEXT, expiry_finalized INTEGER DEFAULT 0, model TEXT,
    parent_session_id TEXT, started_at REAL NOT NULL, ended_at REAL, end_reason TEXT, message_count INTEGER DEFAULT 0,
    input_tokens INTEGER DEFAULT 0, output_tokens INTEGER DEFAULT 0, cache_read_tokens INTEGER DEFAULT 0,
    cache_write_tokens INTEGER DEFAULT 0, billing_provider TEXT, estimated_cost_usd REAL, actual_cost_usd REAL,
    title TEXT
);
CREATE TABLE messages (
    id INTEGER PRIMARY KEY AUTOINCREMENT, session_id TEXT NOT NULL, role TEXT NOT NULL, content TEXT, tool_call_id TEXT,
    tool_calls TEXT, tool_name TEXT, timestamp REAL NOT NULL, token_count INTEGER, finish_reason TEXT, reasoning TEXT,
    reasoning_details TEXT, platform_message_id TEXT, observed INTEGER DEFAULT 0,
    active INTEGER NOT NULL DEFAULT 1, compacted INTEGER NOT NULL DEFAULT 0
);
CREATE TABLE gateway_routing (
    scope TEXT NOT NULL DEFAULT '', session_key TEXT NOT NULL, entry_json TEXT NOT NULL, updated_at REAL NOT NULL,
    PRIMARY KEY (scope, session_key)
);
"""
START = 1_780_000_000.0


def agent_db(path: Path) -> sqlite3.Connection:
    """Make an empty agent's database."""
    connection = sqlite3.connect(path)
    connection.executescript(SCHEMA)
    return connection


def add_session(connection: sqlite3.Connection, session_id: str, **fields: Any) -> None:
    fields = {"id": session_id, "source": "telegram", "started_at": START} | fields
    marks = ",".join("?" * len(fields))
    connection.execute(f"INSERT INTO sessions ({','.join(fields)}) VALUES ({marks})", list(fields.values()))
    connection.commit()


def add_message(connection: sqlite3.Connection, session_id: str, content: Any, **fields: Any) -> None:
    fields = {"session_id": session_id, "role": "user", "content": content, "timestamp": START + 1} | fields
    marks = ",".join("?" * len(fields))
    connection.execute(f"INSERT INTO messages ({','.join(fields)}) VALUES ({marks})", list(fields.values()))
    connection.commit()


def add_route(connection: sqlite3.Connection, key: str, entry: dict[str, Any]) -> None:
    connection.execute("INSERT INTO gateway_routing VALUES ('', ?, ?, ?)", (key, json.dumps(entry), START))
    connection.commit()


def entry(key: str, session_id: str, **fields: Any) -> dict[str, Any]:
    """Return a lane as an index file has it."""
    origin = {"platform": "telegram", "chat_id": "4711", "chat_type": "dm", "user_id": "ada", "chat_name": "Ada"}
    times = {"created_at": "2026-06-01T10:00:00+00:00", "updated_at": "2026-06-02T11:00:00+00:00"}
    return {"session_key": key, "session_id": session_id, "origin": origin, "platform": "telegram"} | times | fields
