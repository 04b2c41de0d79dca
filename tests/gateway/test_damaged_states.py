"""A row of a state table that cannot be used: named, left out, and made again; it stands in nobody's way."""

import logging

import apsw
import pytest

from engine import CorruptStateError, SessionReader, SessionStore
from engine.log.errors import CorruptLogError
from tests.gateway.support import say, source

BAD = "agent:main:telegram:dm:bad"
UNREADABLE = {
    "no JSON": "'{'",
    "another shape": """'{"lane_id":7}'""",
    "no text": "CAST(x'ff' AS TEXT)",
}


@pytest.fixture(params=UNREADABLE.values(), ids=UNREADABLE)
def damaged(request, store: SessionStore) -> SessionStore:
    """A store with two lanes, one of them damaged behind its back."""
    for chat in ("good", "bad"):
        say(store, store.get_or_create_session(source(chat)).session_id, "hello")
    damage(store, f"UPDATE lanes SET state = {request.param} WHERE key = '{BAD}'")
    return store


def damage(store: SessionStore, sql: str) -> None:
    """Change the state tables as a failing disk would: nobody is told."""
    store.log.transact(lambda transaction: transaction.execute(sql))


def keys(store: SessionReader) -> list[str]:
    return [entry.session_key for entry in store.list_sessions()]


def test_a_bad_lane_is_reported_and_hides_no_other(damaged, caplog):
    assert keys(damaged) == ["agent:main:telegram:dm:good"]
    (said,) = {each.getMessage() for each in caplog.records if each.levelno == logging.ERROR}
    assert BAD in said
    assert "lanes" in said
    assert "rebuild()" in said


def test_a_lane_with_a_time_that_is_none_hides_no_other(store):
    for chat in ("good", "bad"):
        store.get_or_create_session(source(chat))
    damage(store, f"UPDATE lanes SET state = json_set(state, '$.created_at', 9000000000000000000) WHERE key = '{BAD}'")
    assert "agent:main:telegram:dm:good" in keys(store)


def test_a_bad_lane_is_an_error_that_names_table_and_key_and_the_others_go_on(damaged):
    with pytest.raises(CorruptStateError, match=r"rebuild\(\)") as caught:
        damaged.get_or_create_session(source("bad"))
    assert isinstance(caught.value, CorruptLogError)
    assert (caught.value.table, caught.value.key) == ("lanes", BAD)
    assert damaged.get_or_create_session(source("good")).session_key == "agent:main:telegram:dm:good"
    assert damaged.health().state == "ok"


def test_a_store_with_a_bad_lane_closes_and_writes_the_other_touches(damaged, open_store, clock):
    clock.advance(minutes=5)
    damaged.get_or_create_session(source("good"))
    damaged.runner.touches.add(BAD, damaged.runner.touches.pending["agent:main:telegram:dm:good"])
    damaged.close()
    (entry,) = open_store().list_sessions()
    assert entry.updated_at == clock()


def test_commands_on_many_lanes_pass_over_a_bad_one(damaged, clock):
    assert damaged.suspend_recently_active(60) == 1
    clock.advance(days=100)
    assert damaged.prune_old_entries(90) == 1


def test_a_rebuild_repairs_a_bad_lane(damaged):
    found = damaged.verify()
    assert (found.ok, found.table, found.key) == (False, "lanes", BAD)
    assert "rebuild()" in found.problem
    damaged.rebuild()
    assert sorted(keys(damaged)) == [BAD, "agent:main:telegram:dm:good"]
    assert damaged.verify().ok


def test_a_bad_row_in_the_way_of_opening_is_made_again(store, open_store):
    """Events appended past the tables need the bad row: the tables are made again, and the store opens."""
    entry = store.get_or_create_session(source("bad"))
    store.close()
    connection = apsw.Connection(store.log.path)
    connection.execute("UPDATE sessions SET state = '{'; UPDATE projections SET position = 1")
    connection.close()
    again = open_store()
    assert again.get_session(entry.session_id).session_id == entry.session_id
    assert again.verify().ok


def test_a_reader_meets_a_bad_row_with_the_same_error(store):
    entry = store.get_or_create_session(source())
    token = store.begin_turn(entry.session_key)
    damage(store, "UPDATE sessions SET state = '['")
    damage(store, "UPDATE turns SET holder = CAST(x'fe' AS TEXT)")
    with SessionReader.open(store.sessions_dir) as reader, pytest.raises(CorruptStateError, match="sessions"):
        reader.get_session(entry.session_id)
    with pytest.raises(CorruptStateError, match="turns"):
        store.end_turn(token)
    store.rebuild()
    assert store.end_turn(token)


class TestVerifyingTheStateTables:
    """`verify` folds the log again and compares row by row; the first difference is named."""

    @pytest.fixture
    def session_id(self, store) -> str:
        entry = store.get_or_create_session(source())
        store.append_to_transcript(entry.session_id, {"role": "user", "content": "hello", "message_id": "m-1"})
        store.begin_turn(entry.session_key)
        assert store.verify().ok
        return entry.session_id

    @pytest.mark.parametrize(
        ("sql", "table", "key"),
        [
            ("UPDATE lanes SET updated_at = updated_at + 1", "lanes", "agent:main:telegram:dm:4711"),
            ("DELETE FROM lanes", "lanes", "agent:main:telegram:dm:4711"),
            ("UPDATE sessions SET state = json_set(state, '$.live', 0)", "sessions", "SESSION"),
            ("UPDATE sessions SET recoverable = 0", "sessions", "SESSION"),
            ("DELETE FROM lane_sessions", "lane_sessions", "agent:main:telegram:dm:4711 SESSION"),
            ("UPDATE message_ids SET message_id = 'm-2'", "message_ids", "SESSION m-1 0"),
            ("DELETE FROM message_ids", "message_ids", "SESSION m-1 0"),
            ("INSERT INTO message_ids SELECT conversation_id, 'm-0', 0, session_id, position FROM message_ids",
             "message_ids", "SESSION m-0 0"),
            ("UPDATE turns SET ends_at = ends_at + 1", "turns", "SESSION"),
            ("DELETE FROM turns", "turns", "SESSION"),
            ("INSERT INTO quarantine VALUES (1, 'inline', 'no reason', 1)", "quarantine", "1"),
            ("UPDATE projections SET position = position + 9", "projections", "inline"),
            ("UPDATE projections SET erased_at = 1", "projections", "inline"),
            ("DROP INDEX lanes_by_time", "sqlite_schema", None),
        ],
    )  # fmt: skip
    def test_the_first_difference_is_named(self, store, session_id, sql, table, key):
        damage(store, sql)
        found = store.verify()
        assert (found.ok, found.table) == (False, table), found
        assert found.key == (key and key.replace("SESSION", session_id))
        assert "rebuild()" in found.problem
        assert store.log.verify().ok, "the log itself is sound"
        store.rebuild()
        assert store.verify().ok

    def test_the_position_is_that_of_the_last_event_of_the_row(self, store, session_id):
        last = max(each.position for each in store.log.stream(f"session:{session_id}"))
        store.set_model_override("agent:main:telegram:dm:4711", {"model": "large-2"})
        damage(store, "UPDATE sessions SET created_at = 1")
        assert store.verify().bad_position == last

    def test_a_store_is_verified_while_it_is_written(self, store, session_id):
        """The tables are compared as of one moment, however many commits come meanwhile."""
        say(store, session_id, *(str(number) for number in range(50)))

        def go_on(_done: int, _all: int) -> None:
            say(store, session_id, "meanwhile")

        found = store.verify(progress=go_on)
        assert found.ok, found

    def test_erasures_quarantine_and_pruning_are_no_differences(self, store, session_id, clock):
        store.log.erase([each.position for each in store.recorded_messages(session_id)], actor="t", reason="r")
        clock.advance(days=100)
        store.prune_old_entries(1)
        assert store.verify().ok
