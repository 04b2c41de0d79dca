"""Every statement above the seam means the same to PostgreSQL, so that a backend for it finds nothing to rewrite.

What is recorded while a store lives through everything is prepared there, and what was written is done again there
with the same bindings and must give the same rows. A statement that the scenario never gives fails a test of its own.
"""

from collections.abc import Iterator
from datetime import timedelta

import psycopg
import pytest

from engine import (
    NEXT_VERSION,
    Envelope,
    GatewayConfig,
    Platform,
    SessionCatalog,
    SessionReader,
    SessionResetPolicy,
    SessionSource,
    SessionStore,
)
from engine.domain.events import LaneSuspended, MessageAppended
from engine.log import EventLog
from engine.log.library.tables import advance, keep_snapshots, snapshots_of, tracked_position
from engine.log.protocol import Transaction
from projections.inline import rebuilding
from projections.inline.past import tables_at
from tests.histories.histories import Clock, live_through
from tests.portability.postgres import Connection, definition, is_definition, marked, numbered, server
from tests.portability.recorder import ROLLBACK, UNDO, Given, Seam, recording
from tests.sources import statements_above_the_seam

TABLES_OF_A_BACKEND = (
    "CREATE TABLE tracking (application_name TEXT PRIMARY KEY, notification_id INTEGER NOT NULL)",
    "CREATE TABLE snapshots (stream TEXT, version INTEGER, topic TEXT, state BLOB, PRIMARY KEY (stream, version))",
)
"""What `engine.log.sqlite.schema` makes for the eventsourcing library; a backend for PostgreSQL brings its own."""

BOB = SessionSource(Platform.WHATSAPP, "31612345678@s.whatsapp.net", chat_name="Bob \ud800 $", user_id="31612345678")


OTHERS = ("projections/views", "projections/audit")
"""What has a test of its own: test_views.py, test_audit.py."""


def ask_everything(store: SessionStore, key: str, session_id: str) -> None:
    """Every question about lanes, sessions and transcripts."""
    store.list_sessions()
    store.lookup_by_session_id(session_id)
    store.sessions_of(key)
    store.has_any_sessions()
    store.conversation(session_id)
    store.names_like("4711")
    store.has_platform_message_id(session_id, "tg-1")
    store.load_transcript(session_id)
    store.recover_interrupted_turns()
    store.suspend_recently_active()
    store.health()
    assert store.verify().ok


def append_past(store: SessionStore, *envelopes: Envelope) -> None:
    """Append as another program does, without the projections."""
    with EventLog(store.log.path, synchronous="OFF") as log:
        log.append(envelopes)


def live_on(store: SessionStore, clock: Clock) -> None:
    """Do what the histories have not: erasure of a lane, events of another program, a rebuild."""
    lane = store.get_or_create_session(BOB)
    store.append_to_transcript(lane.session_id, {"role": "user", "content": "nul \0 here", "message_id": "wa-\0"})
    child = store.compress_session(lane.session_id, None, [{"role": "system", "content": "so far"}], covers=0)
    store.rewrite_transcript(child, [*store.load_transcript(child)[:1], {"role": "user", "content": "another history"}])
    last = store.log.last_position
    store.log.erase([last - 2, last - 1, last], actor="operator", reason="asked to")
    store.end_session(lane.session_id, "ws_orphan_reap")
    store.get_or_create_session(BOB)
    append_past(
        store,
        Envelope("session:nowhere", 1, MessageAppended(message={"role": "user", "content": "lost"})),
        Envelope("lane:nobody", 1, LaneSuspended(session_id="nowhere")),
        *(
            Envelope("session:nowhere", 2 + n, MessageAppended(message={"role": "user"}, message_id="1"))
            for n in (0, 1)
        ),
    )
    first = next(each for each in store.log.events() if each.stream.startswith("lane:"))
    store.log.erase([first.position], actor="operator", reason="asked to")
    ask_everything(store, lane.session_key, lane.session_id)
    again = store.get_or_create_session(BOB)
    store.append_to_transcript(again.session_id, {"role": "user", "content": "told once, and again"})
    store.rewrite_transcript(again.session_id, store.load_transcript(again.session_id))
    store.erase(lane=again.session_key, reason="asked to")
    store.rebuild()
    for position in range(0, store.log.last_position, 5):
        past = tables_at(store.log, position)
        past.query("SELECT count(*) FROM message_ids")
        past.close()
    store.log.transact(rebuilding._begin)
    rebuilding.discard(store.log, building=True)
    with pytest.raises(ValueError, match="on purpose"):
        store.log.transact(fails)
    chat_on(store)
    clock.advance(days=200)
    store.prune_old_entries(30)
    archive = store.sessions_dir / "archive"
    store.archive(timedelta(days=1), archive)
    store.restore(archive)


def chat_on(store: SessionStore) -> None:
    """The commands of a web chat, and an erasure of what they said."""
    catalog = SessionCatalog(store)
    project = catalog.create_project("$ Trip")["project_id"]
    catalog.ensure_cron_project()
    chat, other = catalog.new_session(workspace="/work"), catalog.new_session()
    catalog.move_to_project(chat.session_id, project)
    catalog.rotate_session(chat.session_id, "another")
    catalog.pin_session("another")
    catalog.save_messages("another", [{"role": "user", "content": "hello"}], [{"role": "user", "content": "hello"}])
    catalog.save_messages("another", [{"role": "user", "content": "hello", "seen": True}])
    catalog.start_turn("another", "$ s1", "more")
    catalog.repair_stale_turns(0)
    catalog.sweep_drafts(10**6)
    catalog.list_projects()
    erased = [each.position for each in store.log.events(0) if each.stream == f"project:{project}"]
    store.log.erase(erased, actor="operator", reason="asked to")
    catalog.delete_project(project)
    store.erase(session_id=chat.session_id, reason="asked to")
    catalog.delete_session(other.session_id)


def fails(transaction: Transaction) -> None:
    transaction.append([Envelope("session:nowhere", NEXT_VERSION, MessageAppended(message={"role": "user"}))])
    raise ValueError("on purpose")


def use_the_tables_of_the_library(log: EventLog) -> None:
    log.transact(lambda transaction: [advance(transaction, "upstream", at) for at in (3, 3, 4)])
    tracked_position(log.reader, "upstream")
    keep_snapshots(log, [("s", 1, "t", b"{}"), ("s", 5, "t", b"{}")])
    for backwards in (False, True):
        snapshots_of(log.reader, "s", 0, 9, 5, backwards=backwards)


@pytest.fixture(scope="module")
def seam(tmp_path_factory: pytest.TempPathFactory) -> Seam:
    """Return what crossed the seam while a store lived through everything."""
    folder, clock = tmp_path_factory.mktemp("recorded"), Clock()
    config = GatewayConfig(default_reset_policy=SessionResetPolicy(mode="idle", idle_minutes=30))
    with recording() as seam:
        with SessionStore(folder, config, clock=clock, synchronous="OFF") as store:
            live_through(store, clock)
            live_on(store, clock)
            use_the_tables_of_the_library(store.log)
        SessionReader.open(folder).close()
    return seam


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with server() as uri:
        yield uri


@pytest.fixture
def connection(postgres: str) -> Iterator[Connection]:
    """Yield a connection to a schema of its own."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("CREATE SCHEMA fresh")
        connection.execute("SET search_path TO fresh")
        yield connection
        connection.rollback()
        connection.execute("DROP SCHEMA fresh CASCADE")


def tables(seam: Seam) -> list[str]:
    """Return what the projections define, each table and index once."""
    return [*dict.fromkeys(each.sql for each in seam.written if each.sql.startswith("CREATE"))]


def define(connection: Connection, *statements: str) -> None:
    for sql in statements:
        connection.execute(definition(sql).encode())


def test_the_scenario_gives_every_statement_that_is_written_above_the_seam(seam: Seam) -> None:
    written = {place: sql for place, sql in statements_above_the_seam().items() if not place.startswith(OTHERS)}
    assert len(written) > 40
    never = [place for place, sql in written.items() if not any(map(sql.search, seam.statements))]
    assert never == [], "extend `live_on` or `ask_everything` by what runs these statements"


def test_postgresql_prepares_every_statement(seam: Seam, connection: Connection) -> None:
    replaced = [sql.replace("_next ", "_old ") for sql in tables(seam) if "_next (" in sql and "INDEX" not in sql]
    define(connection, *TABLES_OF_A_BACKEND, *tables(seam), *replaced)
    for number, sql in enumerate(sorted(seam.statements)):
        if not (is_definition(sql) or sql.startswith(("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE"))):
            connection.execute(f"PREPARE s{number} AS {numbered(sql)}".encode())


def test_postgresql_does_the_same(seam: Seam, connection: Connection) -> None:
    define(connection, *TABLES_OF_A_BACKEND)
    assert {each.sql for each in seam.written} >= {ROLLBACK, UNDO}
    assert any(each.refused for each in seam.written)
    for given in seam.written:
        rows, refused = done(connection, given)
        assert (in_order(given.sql, rows), refused) == (in_order(given.sql, given.rows), given.refused), given


def in_order(sql: str, rows: list[tuple[object, ...]] | None) -> list[tuple[object, ...]] | None:
    """Return rows in one order if the statement leaves it open."""
    return rows if rows is None or "ORDER BY" in sql else sorted(rows, key=repr)


def done(connection: Connection, given: Given) -> tuple[list[tuple[object, ...]] | None, bool]:
    """Do on PostgreSQL what was given; return the rows if anybody looked at them, and whether it was refused."""
    try:
        cursor = connection.execute(definition(marked(given.sql)).encode(), given.bindings)
    except psycopg.IntegrityError:
        return None, True
    return None if given.rows is None else cursor.fetchall(), False


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT OR REPLACE INTO lanes VALUES (?,?,?,?,?)",
        "SELECT state FROM lanes WHERE key GLOB ?",
        "SELECT rowid FROM lanes",
        "SELECT count(*) FROM (SELECT 1 FROM lanes LIMIT ?) AS some",
    ],
)
def test_what_only_sqlite_understands_is_refused(sql: str, seam: Seam, connection: Connection) -> None:
    define(connection, *tables(seam))
    with pytest.raises(psycopg.Error):
        connection.execute(f"PREPARE refused AS {numbered(sql)}".encode())
