"""V11: what was used, by any of day, platform, user, model, lane and session."""

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from engine import Platform, SessionSource, SessionStore
from engine.log.sqlite.tables import SQLiteTables
from projections.views.bill import usage
from projections.views.runner import ViewRunner
from projections.views.usage import Usage
from tests.gateway.support import FakeClock

ZONE = ZoneInfo("Europe/Amsterdam")


@pytest.fixture
def clock():
    return FakeClock(datetime(2026, 7, 1, 21, 30, tzinfo=UTC).astimezone(ZONE))


@pytest.fixture
def store(tmp_path, clock):
    with SessionStore(tmp_path, clock=clock, synchronous="OFF", views=False) as store:
        yield store


@pytest.fixture
def bill(store, tmp_path):
    tables = SQLiteTables(tmp_path / "views.db")
    runner = ViewRunner(store.log, tables, [Usage(lambda: ZONE)])

    def ask(*by, since=None, until=None):
        while runner.step():
            pass
        return usage(tables, by, since, until)

    yield ask
    runner.stop()


@pytest.fixture
def spent(store, clock):
    """Ada uses two models on two days of the store's zone, Bob one."""
    ada = store.get_or_create_session(SessionSource(Platform.TELEGRAM, "1", user_id="ada"))
    bob = store.get_or_create_session(SessionSource(Platform.SLACK, "2", user_id="bob"))
    store.append_messages(ada.session_id, [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}])
    store.end_turn(store.begin_turn(ada.session_key))
    store.update_session(ada.session_key, input_tokens=10, output_tokens=1, cost_usd=0.5, model="large", provider="p")
    clock.advance(hours=1)
    store.update_session(ada.session_key, input_tokens=5, cost_usd=0.25, model="small")
    store.update_session(bob.session_key, input_tokens=7, cache_read_tokens=3)
    return ada, bob


def test_everything_in_one_row(bill, spent):
    """V11."""
    (row,) = bill()
    assert (row.sessions, row.messages, row.turns) == (2, 2, 1)
    assert (row.input_tokens, row.output_tokens, row.cache_read_tokens, row.cost_usd) == (22, 1, 3, 0.75)


def test_by_day_of_the_stores_time_zone(bill, spent):
    """V11: half past eleven in the evening in Amsterdam is still the first of July, an hour later is not."""
    assert [(row.day, row.input_tokens) for row in bill("day")] == [("2026-07-01", 10), ("2026-07-02", 12)]
    assert [row.day for row in bill("day", since="2026-07-02")] == ["2026-07-02"]
    assert [row.day for row in bill("day", until="2026-07-02")] == ["2026-07-01"]


def test_by_person_and_model(bill, spent):
    """V11."""
    ada, bob = spent
    assert {(row.user, row.platform, row.cost_usd) for row in bill("user", "platform")} == {
        ("ada", "telegram", 0.75),
        ("bob", "slack", 0.0),
    }
    assert {(row.model, row.input_tokens) for row in bill("model")} == {(None, 7), ("large", 10), ("small", 5)}
    assert {(row.lane, row.session) for row in bill("lane", "session")} == {
        (ada.session_key, ada.session_id),
        (bob.session_key, bob.session_id),
    }


def test_what_nobody_counts_by_is_refused(bill):
    with pytest.raises(ValueError, match="no dimension 'colour'; there are day"):
        bill("colour")
    with pytest.raises(ValueError, match="list of dimensions"):
        usage(None, "day", None, None)


def test_nothing_used_is_no_row(bill):
    assert bill() == []
    assert bill("day") == []


def test_an_erased_session_is_counted_no_more_and_the_others_are(store, bill, spent):
    """V11, V15."""
    ada, bob = spent
    bill()
    positions = [each.position for each in store.log.stream(f"session:{ada.session_id}")]
    store.log.erase(positions, actor="operator", reason="asked to")
    assert [(row.user, row.messages) for row in bill("user") if row.user == "ada"] == []
    assert [row.input_tokens for row in bill("session") if row.session == bob.session_id] == [7]
