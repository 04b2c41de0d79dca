"""Tables that disagree with the log: named, and made again from it (R19)."""

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from engine import SessionStore, acting
from engine.domain.events import TablesHealed
from engine.log.errors import CorruptLogError
from engine.verification import verify_store
from engine.views import VIEWS_FILE
from replay import Disagreement, heal, open_log, restore, verify
from tests.gateway.support import FakeClock, say, source

KEY = "agent:main:telegram:dm:4711"


@pytest.fixture
def talked(open_store: Callable[..., SessionStore]) -> SessionStore:
    """A store with one lane, its views up to date, closed."""
    store = open_store(views=True)
    say(store, store.get_or_create_session(source()).session_id, "the order is late", "it is on its way")
    store.wait_for_views()
    store.close()
    return store


def change(store: SessionStore, sql: str, file: str = "sessions.db") -> None:
    """Change a file behind everybody's back."""
    connection = apsw.Connection(str(Path(store.sessions_dir) / file))
    connection.execute(sql)
    connection.close()


def verified(store: SessionStore) -> bool:
    with open_log(store.sessions_dir) as log:
        return verify_store(log, None, None).ok


def test_a_sound_store_is_left_as_it_is(talked: SessionStore) -> None:
    """R19."""
    before = Path(talked.log.path).read_bytes()
    found = heal(talked.sessions_dir)
    assert (found.found, found.views, found.healed) == ((), (), False)
    assert found.rows > 3
    assert Path(talked.log.path).read_bytes() == before


def test_a_row_that_differs_is_told_with_both_values_and_its_event(talked: SessionStore) -> None:
    """R19: which event, which table, both values; then it is made again, and that is recorded."""
    change(talked, "UPDATE lanes SET session_id = 'another', updated_at = 7")
    dry = heal(talked.sessions_dir, dry_run=True)
    (told,) = dry.found
    with open_log(talked.sessions_dir) as log:
        (routed,) = log.events(topics=["lane.routed"])
        session_id = routed.event.session_id  # type: ignore[union-attr]
    assert told == Disagreement(
        table="lanes",
        key=KEY,
        problem="the row is not what the log says",
        position=routed.position,
        event="lane.routed",
        values={"session_id": (session_id, "another"), "updated_at": (routed.time, 7)},
    )
    assert not verified(talked)
    with acting("ada", reason="the disk of May"):
        found = heal(talked.sessions_dir)
    assert (found.healed, found.found, found.events > 3) == (True, (told,), True)
    assert verified(talked)
    with open_log(talked.sessions_dir) as log:
        (said,) = log.events(topics=["store.healed"])
    assert (said.event, said.actor, said.reason) == (
        TablesHealed(table="lanes", rows=1, key=KEY, position=routed.position, problem=told.problem),
        "ada",
        "the disk of May",
    )
    assert heal(talked.sessions_dir).found == ()


@pytest.mark.parametrize(
    ("sql", "table", "problem"),
    [
        ("DELETE FROM lanes", "lanes", "the row is missing"),
        ("INSERT INTO message_ids SELECT session_id, 'm', 0, session_id, 3 FROM sessions", "message_ids", "nothing of"),
        ("UPDATE sessions SET state = '{'", "sessions", "not what the log says"),
        ("UPDATE sessions SET state = CAST(x'ff' AS TEXT)", "sessions", "cannot be read"),
        ("DROP INDEX lanes_by_time", "sqlite_schema", "is missing"),
        ("DROP TABLE lanes", "sqlite_schema", "table lanes is missing"),
        ("DROP TABLE projections", "sqlite_schema", "table projections is missing"),
        ("DELETE FROM projections", "projections", "it is missing"),
        ("UPDATE lanes SET session_id = CAST(x'ff' AS TEXT)", "lanes", "cannot be read"),
        ("UPDATE projections SET position = position + 9", "projections", "are said to be at position"),
    ],
)  # fmt: skip
def test_whatever_of_the_tables_differs_is_made_again(talked: SessionStore, sql: str, table: str, problem: str) -> None:
    """R19."""
    change(talked, sql)
    found = heal(talked.sessions_dir)
    assert found.healed
    assert found.found[0].table == table
    assert problem in found.found[0].problem
    assert verified(talked)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        (
            "UPDATE projections SET fingerprint = 'another', version = '9.9'",
            "another build of this package, version 9.9",
        ),
        ("DROP TABLE projections; {rest}", "there are no state tables"),
    ],
)
def test_tables_that_are_not_to_be_compared_are_left_alone(talked: SessionStore, sql: str, said: str) -> None:
    """R18, R19: opening the store with a build makes them of the log."""
    with open_log(talked.sessions_dir) as log:
        names = [name for (name,) in log.query("SELECT name FROM sqlite_schema WHERE type = 'table'")]
    kept = {"events", "names", "meta", "clock_steps", "tracking", "snapshots", "projections"}
    change(talked, sql.format(rest=";".join(f"DROP TABLE {name}" for name in names if name not in kept)))
    before = Path(talked.log.path).read_bytes()
    found = heal(talked.sessions_dir)
    assert (found.healed, found.found, said in (found.not_compared or "")) == (False, (), True)
    with open_log(talked.sessions_dir) as log:
        verified = verify_store(log, None, None)
    assert (verified.ok, said in (verified.not_compared or "")) == (True, True)
    assert Path(talked.log.path).read_bytes() == before


def test_every_row_that_differs_is_told(open_store: Callable[..., SessionStore], clock: FakeClock) -> None:
    """R19: not only the first."""
    store = open_store()
    for chat in "abc":
        store.get_or_create_session(source(chat))
    store.close()
    change(store, "DELETE FROM lanes WHERE key LIKE '%:b'; UPDATE sessions SET recoverable = 1")
    found = heal(store.sessions_dir, dry_run=True).found
    assert [(each.table, each.problem) for each in found] == [
        *[("sessions", "the row is not what the log says")] * 3,
        ("lanes", "the row is missing"),
    ]
    assert {tuple(each.values) for each in found[:3]} == {("recoverable",)}


def test_a_damaged_log_is_left_as_it_is(talked: SessionStore) -> None:
    """R19: on a log whose own rows are damaged it changes nothing and says how to salvage."""
    change(talked, "UPDATE lanes SET updated_at = 7")
    file = Path(talked.log.path)
    file.write_bytes(file.read_bytes().replace(b"the order is late", b"the order is lost"))
    before = file.read_bytes()
    with pytest.raises(CorruptLogError, match="sessions salvage TO") as caught:
        heal(talked.sessions_dir)
    assert caught.value.position is not None
    assert file.read_bytes() == before


def test_a_rule_of_the_log_that_is_missing_is_not_healed(talked: SessionStore) -> None:
    """R19: the tables are sound; only a new log has the rules again."""
    change(talked, "DROP TRIGGER events_are_kept")
    with pytest.raises(CorruptLogError, match=r"events_are_kept is missing.*restore"):
        heal(talked.sessions_dir)


def test_a_page_of_a_table_that_cannot_be_replaced_is_restored(talked: SessionStore, tmp_path: Path) -> None:
    """R19, R20: the rows of the log are sound, so a new file has everything."""
    file = Path(talked.log.path)
    connection = apsw.Connection(str(file))
    (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'sessions'").fetchone()
    connection.close()
    with file.open("r+b") as opened:
        opened.seek((root - 1) * 4096)
        opened.write(b"\xff" * 4096)
    assert heal(talked.sessions_dir, dry_run=True).found[0].table == "sessions"
    with pytest.raises(CorruptLogError, match="sessions restore FROM TO"):
        heal(talked.sessions_dir)
    with open_log(talked.sessions_dir) as log:
        restore(log, tmp_path / "new")
    with open_log(tmp_path / "new") as log:
        assert verify_store(log, None, None).ok


def test_an_index_of_a_table_that_lacks_a_row_is_made_again(talked: SessionStore) -> None:
    """R19: every row is there, and SQLite's own check finds that it cannot be found."""
    file = Path(talked.log.path)
    connection = apsw.Connection(str(file))
    (root,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'lanes_by_time'").fetchone()
    connection.close()
    data = bytearray(file.read_bytes())
    begins = (root - 1) * 4096
    data[begins + 3 : begins + 5] = b"\0\0"  # its number of cells
    file.write_bytes(data)
    found = heal(talked.sessions_dir)
    assert "integrity_check" in found.found[0].problem
    assert found.healed
    assert verified(talked)


def test_a_view_that_differs_is_made_again(talked: SessionStore) -> None:
    """R19, V7."""
    change(talked, "UPDATE usage SET messages = 99", VIEWS_FILE)
    assert heal(talked.sessions_dir, dry_run=True).views == ("usage",)
    found = heal(talked.sessions_dir)
    assert (found.views, found.healed, found.events) == (("usage",), True, 0)
    assert heal(talked.sessions_dir).views == ()


def test_views_are_held_to_the_tables_after_these_were_made_again(talked: SessionStore) -> None:
    """R19, V7: a view that is as the log says is not blamed for a table that is not."""
    change(talked, "UPDATE lanes SET session_id = 'another'")
    assert heal(talked.sessions_dir, dry_run=True).views == ()
    assert heal(talked.sessions_dir).views == ()
    change(talked, "DELETE FROM lanes")
    change(talked, "UPDATE search_sessions SET lane = 'another'", VIEWS_FILE)
    found = heal(talked.sessions_dir)
    assert (found.found[0].table, found.views) == ("lanes", ("search",))
    with open_log(talked.sessions_dir) as log:
        assert verify(log, full=True).ok


def test_a_file_of_views_that_cannot_be_read_is_made_again(talked: SessionStore) -> None:
    """R19, V2: it may be deleted at any time."""
    views = Path(talked.sessions_dir) / VIEWS_FILE
    views.write_bytes(b"no database at all, and long enough for a header" * 200)
    found = heal(talked.sessions_dir)
    assert (found.views, found.healed) == ((VIEWS_FILE,), True)
    assert heal(talked.sessions_dir).views == ()


def test_a_store_without_views_gets_none(open_store: Callable[..., SessionStore]) -> None:
    store = open_store()
    store.get_or_create_session(source())
    store.close()
    assert heal(store.sessions_dir).views == ()
    assert not (Path(store.sessions_dir) / VIEWS_FILE).exists()


def test_others_go_on_while_it_heals(store: SessionStore) -> None:
    """R19: a gateway has the store open."""
    entry = store.get_or_create_session(source())
    store.log.transact(lambda transaction: transaction.execute("UPDATE lanes SET updated_at = 7"))
    assert heal(store.sessions_dir).healed
    say(store, entry.session_id, "still here")
    assert store.get_or_create_session(source()).session_id == entry.session_id
    assert store.verify().ok
