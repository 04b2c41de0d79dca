"""The audit views have the same names and columns on PostgreSQL, whose dialect differs in two expressions (V12)."""

from collections.abc import Iterator

import psycopg
import pytest

from projections.audit import definitions
from projections.inline import lanes, quarantine, sessions
from tests.audit.test_audit_views import COLUMNS
from tests.portability.postgres import Connection, definition, server

LOG = (
    "CREATE TABLE log (position INTEGER, stream TEXT, version INTEGER, topic TEXT, time INTEGER, actor TEXT, "
    "command TEXT, reason TEXT, state TEXT)"
)
EVENTS = [
    (1, "session:s", 1, "session.created", '{"conversation_id":"s","lane":"k","source":{"platform":"telegram"}}'),
    (2, "session:s", 2, "message.appended", '{"message":{"role":"user","content":"hello"},"message_id":"m"}'),
    (3, "session:s", 3, "turn.begun", '{"token":"t","conversation_id":"s"}'),
    (4, "session:s", 4, "turn.interrupted", '{"token":"t","evidence":"its worker is gone"}'),
    (5, "lane:l", 1, "lane.reset", '{"automatic":true,"cause":"idle","saw":{"idle_minutes":30,"idle_seconds":1.5}}'),
    (6, "session:s", 5, "message.appended", "no json"),
]


class PostgresDialect:
    def json(self, column: str) -> str:
        return f"CASE WHEN pg_input_is_valid({column}, 'jsonb') THEN CAST({column} AS jsonb) END"

    def iso_time(self, column: str) -> str:
        moment = f"to_timestamp({column} / 1000000.0) AT TIME ZONE 'UTC'"
        return f'to_char({moment}, \'YYYY-MM-DD"T"HH24:MI:SS.US"Z"\')'


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    with server() as uri, psycopg.connect(uri, autocommit=True) as connection:
        for sql in (LOG, *lanes.TABLES, *sessions.TABLES, *quarantine.TABLES):
            connection.execute(definition(sql).encode())
        for position, stream, version, topic, state in EVENTS:
            row = (position, stream, version, topic, 1782907200000000 + position, "ada", "c", None, state)
            connection.execute("INSERT INTO log VALUES (%s,%s,%s,%s,%s,%s,%s,%s,%s)", row)
        for name, query in definitions(PostgresDialect()).items():
            connection.execute(f"CREATE VIEW {name} AS {query}".encode())
        yield connection


@pytest.mark.parametrize("name", COLUMNS)
def test_a_view_has_the_same_columns(connection: Connection, name: str) -> None:
    """V12."""
    cursor = connection.execute(f"SELECT * FROM {name}".encode())
    assert [column.name for column in cursor.description or ()] == COLUMNS[name].split()


def test_the_views_say_the_same(connection: Connection) -> None:
    """V12."""
    messages = connection.execute("SELECT time, lane, role, text FROM audit_messages ORDER BY position").fetchall()
    assert messages == [
        ("2026-07-01T12:00:00.000002Z", "k", "user", "hello"),
        ("2026-07-01T12:00:00.000006Z", "k", "unknown", None),
    ]
    assert connection.execute("SELECT outcome, evidence FROM audit_turns").fetchall() == [
        ("interrupted", "its worker is gone")
    ]
    assert connection.execute("SELECT automatic, idle_minutes, idle_seconds FROM audit_resets").fetchall() == [
        (1, 30, 1.5)
    ]
