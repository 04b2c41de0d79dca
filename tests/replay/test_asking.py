"""SQL on now, on a moment, and on every moment (R13, R16)."""

import pytest

from engine import SessionStore, UnsafeQueryError
from engine.log import EventLog
from engine.log.protocol import Bounds
from projections.audit import create_audit_views
from replay import UnsupportedStoreError, sql, when
from tests.gateway.support import FakeClock, say, source

ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT max(x) FROM n"


def test_sql_of_a_moment_sees_tables_log_and_views_as_they_were(store: SessionStore) -> None:
    """R9, R16: `sql --at`."""
    create_audit_views(store.log)
    entry = store.get_or_create_session(source())
    say(store, entry.session_id, "one")
    then = store.log.last_position
    say(store, entry.session_id, "two")
    store.reset_session(entry.session_key)
    for query in (
        "SELECT key, session_id FROM lanes",
        "SELECT session_id, state ->> '$.live' FROM sessions ORDER BY 1",
        "SELECT count(*) FROM events",
        "SELECT max(position) FROM log",
        "SELECT lane, session_id FROM audit_lanes",
        "SELECT count(*), max(messages) FROM audit_sessions",
        "SELECT type FROM audit_events ORDER BY position DESC LIMIT 1",
    ):
        now, past = sql(store.log, query), sql(store.log, query, at=then)
        assert now.rows != past.rows, query
        assert now.columns == past.columns
    assert sql(store.log, "SELECT session_id FROM lanes", at=then).rows == [(entry.session_id,)]
    assert sql(store.log, "SELECT max(position) FROM events", at=then).rows == [(then,)]


@pytest.mark.parametrize("query", ["DELETE FROM lanes", "INSERT INTO lanes_over SELECT * FROM lanes", ENDLESS])
def test_a_query_that_writes_or_never_ends_is_refused(store: SessionStore, query: str) -> None:
    """R16."""
    store.get_or_create_session(source())
    for at in (None, 2):
        with pytest.raises(UnsafeQueryError):
            sql(store.log, query, at, bounds=Bounds(seconds=0.05))
    assert store.verify().ok


def test_without_tables_of_this_version_the_past_says_so(tmp_path) -> None:  # type: ignore[no-untyped-def]
    with EventLog(tmp_path / "bare.db") as log, pytest.raises(UnsupportedStoreError, match="rebuilds them"):
        sql(log, "SELECT 1", at=0)


def test_the_first_moment_of_a_row_is_found_also_where_it_went_again(store: SessionStore, clock: FakeClock) -> None:
    """R13: and the event that made it so."""
    first = store.get_or_create_session(source())
    say(store, first.session_id, "one", "two", "three")
    store.suspend_session(first.session_key)
    at = store.log.last_position
    store.get_or_create_session(source())
    clock.advance(days=100)
    store.prune_old_entries(90)
    suspended = "SELECT key, session_id FROM lanes WHERE state ->> '$.suspended' = 1"
    assert sql(store.log, suspended).rows == []
    found = when(store.log, suspended)
    assert found is not None
    assert (found.position, found.event.event.topic) == (at, "lane.suspended")
    assert dict(zip(found.columns, found.row, strict=True)) == {
        "key": first.session_key,
        "session_id": first.session_id,
    }
    three = when(store.log, "SELECT 1 FROM sessions WHERE state ->> '$.live' >= 3")
    assert three is not None
    assert three.event.event.topic == "message.appended"
    nobody = when(store.log, "SELECT 1 FROM lanes WHERE NOT EXISTS (SELECT 1 FROM sessions)")
    assert nobody is None
    assert when(store.log, "SELECT 1 FROM lanes WHERE key = 'nobody'") is None


def test_progress_is_told_and_time_is_bounded(store: SessionStore) -> None:
    """R13: bounded."""
    entry = store.get_or_create_session(source())
    say(store, entry.session_id, "one")
    told: list[tuple[int, int]] = []
    when(store.log, "SELECT 1 FROM lanes WHERE 1 = 0", progress=lambda done, of: told.append((done, of)))
    assert told[-1] == (store.log.last_position, store.log.last_position)
    for query in ("DELETE FROM lanes", "SELECT 1 FROM log", "SELECT * FROM nowhere"):
        with pytest.raises(UnsafeQueryError):
            when(store.log, query)
    with pytest.raises(UnsafeQueryError, match=r"within 0\.01 s"):
        when(store.log, f"SELECT 1 FROM lanes WHERE ({ENDLESS}) = 1", bounds=Bounds(seconds=0.01, rows=1))
