"""The views' SQL means the same to PostgreSQL: each statement is prepared there, but for those of the text index."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from engine import GatewayConfig, SessionCatalog, SessionStore
from engine.log.sqlite.tables import SQLiteTables, SQLiteTableTransaction
from engine.views import StoreViews
from projections.views import listed
from projections.views.find import Question
from projections.views.progress import put_aside
from tests.histories.histories import Clock, live_through
from tests.portability.postgres import Connection, definition, is_definition, numbered, server
from tests.sources import statements_above_the_seam

TEXT_INDEX = "CREATE TABLE search_words (id BIGINT PRIMARY KEY, words TEXT)"
"""What a backend for PostgreSQL will make in a way of its own."""
VOCABULARY = "CREATE TABLE vocabulary (id BIGINT, word TEXT, place BIGINT)"


@pytest.fixture(scope="module")
def given(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Return every statement that the views gave while they followed a store that lives through everything."""
    folder, clock, seen = tmp_path_factory.mktemp("views"), Clock(), []
    with pytest.MonkeyPatch.context() as patch:
        for kind, name in (
            (SQLiteTables, "query"),
            (SQLiteTableTransaction, "query"),
            (SQLiteTableTransaction, "execute"),
            (SQLiteTableTransaction, "executemany"),
        ):
            patch.setattr(kind, name, _noting(getattr(kind, name), seen))
        define = SQLiteTableTransaction.define
        patch.setattr(
            SQLiteTableTransaction,
            "define",
            lambda self, sql: (seen.extend(sql), define(self, sql)),  # type: ignore[func-returns-value]
        )
        words = SQLiteTables.query_words
        patch.setattr(
            SQLiteTables, "query_words", lambda self, index, sql: (seen.append(sql), words(self, index, sql))[1]
        )
        _follow(folder, clock)
    return list(dict.fromkeys(seen))


def _noting(function: Any, seen: list[str]) -> Any:
    def noting(self: Any, sql: str, *rest: Any) -> Any:
        seen.append(sql)
        return function(self, sql, *rest)

    return noting


def _follow(folder: Path, clock: Clock) -> None:
    with SessionStore(folder, GatewayConfig(), clock=clock, synchronous="OFF", views=False) as store:
        views = StoreViews(store.log, folder, clock, search=True)
        views.start()
        live_through(store, clock)
        catalog = SessionCatalog(store)
        catalog.set_attributes(catalog.new_session().session_id, parent_session_id="nobody_there")
        assert views.wait(None, 30)
        first = store.log.query("SELECT position FROM log WHERE topic = 'message.appended' LIMIT 1")[0][0]
        store.log.erase([first], actor="operator", reason="asked to")
        assert views.wait(None, 30)
        everything = Question("hello", "telegram", "lane", "session", "ada", "user", clock(), clock(), "newest")
        views.search(everything, 5, None)
        views.search(Question("hello"), 5, None)
        views.usage(["day", "user"], clock(), clock())
        views.usage([], None, None)
        rows = listed.page(views._tables, True, listed.FIRST, 5)
        listed.page(views._tables, True, listed.place_of(rows[-1]), None)
        listed.changed(views._tables, False, (0, ""), views._log.last_position, 5)
        assert views.verify().ok
        views.rebuild([])
        while any(status.building_position is not None for status in views.status()):
            time.sleep(0.01)
        views._tables.transact(lambda transaction: put_aside(transaction, "search", 1, "unusable"))
        views.close()


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    with server() as uri, psycopg.connect(uri, autocommit=True) as connection:
        yield connection


def portable(sql: str) -> str | None:
    """Return a statement without the parts that every backend does in its own way; None if nothing else is left."""
    ranked = "(SELECT rowid AS id, rank FROM search_words WHERE search_words MATCH ?)"
    sql = sql.replace(ranked, "(SELECT id, 0 AS rank FROM search_words WHERE words = ?)")
    own = ("fts5", "secure-delete", "(rowid, words)", "WHERE rowid")
    return None if any(part in sql for part in own) else sql


def test_the_scenario_gives_every_statement_of_the_views(given: list[str]) -> None:
    written = {
        place: sql for place, sql in statements_above_the_seam().items() if place.startswith("projections/views")
    }
    assert len(written) > 20
    assert [place for place, sql in written.items() if not any(map(sql.search, given))] == []


def test_postgresql_prepares_every_statement_of_the_views(given: list[str], connection: Connection) -> None:
    statements = [sql for each in given if (sql := portable(each)) is not None]
    made = [sql for sql in statements if is_definition(sql)]
    for sql in (TEXT_INDEX, VOCABULARY, *dict.fromkeys(made)):
        if "_next" not in sql and not sql.startswith("DROP"):
            connection.execute(definition(sql).encode())
    asked = [sql for sql in statements if not is_definition(sql) and "_next" not in sql and "ALTER" not in sql]
    assert len(asked) > 20
    for number, sql in enumerate(asked):
        connection.execute(f"PREPARE v{number} AS {numbered(sql)}".encode())
