"""V7: views are held against a fresh fold, and the first difference is named."""

from threading import Thread

import pytest

from engine import Platform, SessionSource, SessionStore
from engine.log.sqlite.tables import SQLiteTables
from projections.views.runner import ViewRunner
from projections.views.search import Search
from projections.views.usage import Usage
from projections.views.verify import verify_views


@pytest.fixture
def views(tmp_path):
    """A store with some history, its tables of views, and a way to verify them."""
    tables = SQLiteTables(tmp_path / "views.db")
    kinds = [Search(tables.text), Usage(lambda: None)]
    with SessionStore(tmp_path, synchronous="OFF", views=False) as store:
        entry = store.get_or_create_session(SessionSource(Platform.TELEGRAM, "1", user_id="ada"))
        store.append_messages(entry.session_id, [{"role": "user", "content": f"word {n}"} for n in range(5)])
        store.rewind_session(entry.session_id, 2)
        child = store.compress_session(entry.session_id, None, [{"role": "system", "content": "so far"}], covers=1)
        store.append_to_transcript(child, {"role": "user", "content": "and on"})
        store.log.erase([3], actor="operator", reason="asked to")
        runner = ViewRunner(store.log, tables, kinds)
        while runner.step():
            pass
        yield tables, lambda: verify_views(store.log, tables, kinds, lambda: SQLiteTables(":memory:"))
        runner.stop()


def test_views_that_are_what_the_log_says_are_in_order(views):
    """V7."""
    _, verify = views
    found = verify()
    assert found.ok
    assert found.difference is None
    assert set(found.positions) == {"search", "usage"}
    assert min(found.positions.values()) > 0


def test_views_that_a_store_writes_meanwhile_are_in_order(tmp_path):
    """V7: what is compared is of one moment, however far the views are when it has been read."""
    tables = SQLiteTables(tmp_path / "views.db")
    said = {"role": "user", "content": "once more"}
    with SessionStore(tmp_path, synchronous="OFF", views=False) as store:
        session_id = store.get_or_create_session(SessionSource(Platform.TELEGRAM, "1", user_id="ada")).session_id

        def go_on() -> None:
            store.append_to_transcript(session_id, said)
            while runner.step():
                pass

        class Interrupted(SQLiteTables):
            """Tables that a store writes between any two questions."""

            def query(self, sql, bindings=()):
                found = super().query(sql, bindings)
                writer = Thread(target=go_on)
                writer.start()
                writer.join()
                return found

        looked_at = Interrupted(tmp_path / "views.db", read_only=True)
        kinds = [Search(looked_at.text), Usage(lambda: None)]
        runner = ViewRunner(store.log, tables, [Search(tables.text), Usage(lambda: None)])
        go_on()
        found = verify_views(store.log, looked_at, kinds, lambda: SQLiteTables(":memory:"))
        assert (found.ok, found.difference) == (True, None)
        assert set(found.positions) == {"search", "usage"}
        looked_at.close()
        runner.stop()


@pytest.mark.parametrize(
    ("table", "damage"),
    [
        ("search_messages", "UPDATE search_messages SET hidden = 0 WHERE hidden > 0"),
        ("search_messages", "DELETE FROM search_messages WHERE id = (SELECT max(id) FROM search_messages)"),
        ("search_words", "INSERT INTO search_words (rowid, words) VALUES (1, 'never said')"),
        ("search_sessions", "UPDATE search_sessions SET user_id = 'bob'"),
        ("usage", "UPDATE usage SET messages = messages + 1"),
    ],
)
def test_a_row_that_is_not_what_the_log_says_is_named(views, table, damage):
    """V7."""
    tables, verify = views
    tables.transact(lambda transaction: transaction.execute(damage))
    found = verify()
    assert not found.ok
    assert found.difference.table == table
    assert found.difference.row != found.difference.expected


def test_costs_that_were_added_in_another_order_are_no_difference(tmp_path):
    """V7, V11: 0.7 + 0.1 + 0.2 and 0.7 + (0.1 + 0.2) are not the same number."""
    tables = SQLiteTables(tmp_path / "views.db")
    kinds = [Usage(lambda: None)]
    with SessionStore(tmp_path, synchronous="OFF", views=False) as store:
        runner = ViewRunner(store.log, tables, kinds)
        key = store.get_or_create_session(SessionSource(Platform.TELEGRAM, "1", user_id="ada")).session_key
        for cost in (0.7, 0.1, 0.2):
            store.update_session(key, cost_usd=cost)
            runner.step()
        assert tables.query("SELECT sum(cost_usd) FROM usage") == [(0.7 + 0.1 + 0.2,)]
        assert verify_views(store.log, tables, kinds, lambda: SQLiteTables(":memory:")).ok
        runner.stop()
