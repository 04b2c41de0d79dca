"""V18: an agent's database is imported with its ids, times, order, titles, lineage, ends, tokens and cost."""

import json
from datetime import UTC, datetime

import pytest

from engine import ForeignFileError, Platform, SessionSource, SessionStore
from tests.imports.sources import START, add_message, add_route, add_session, agent_db, entry

KEY = "agent:main:telegram:dm:4711"
ADA = SessionSource(Platform.TELEGRAM, "4711", user_id="ada")


@pytest.fixture
def source(tmp_path):
    connection = agent_db(tmp_path / "state.db")
    yield connection
    connection.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "state.db"


@pytest.fixture
def store(tmp_path):
    with SessionStore(tmp_path / "sessions", synchronous="OFF", views=False) as store:
        yield store


def texts(store, session_id):
    return [message["content"] for message in store.load_transcript(session_id)]


def test_a_session_keeps_what_it_was(store, source, path):
    """V18."""
    fields = {"title": "Trip to Delft", "ended_at": START + 60, "end_reason": "session_reset"}
    tokens = {"input_tokens": 1200, "output_tokens": 80, "model": "large", "actual_cost_usd": 0.5}
    origin = {"platform": "telegram", "chat_id": "4711", "chat_type": "dm", "user_id": "ada"}
    add_session(source, "s1", session_key=KEY, origin_json=json.dumps(origin), **fields, **tokens)
    add_message(source, "s1", "hello", platform_message_id="tg-1")
    calls = [{"id": "c1", "function": {"name": "f"}}]
    add_message(source, "s1", None, role="assistant", tool_calls=json.dumps(calls), reasoning="hm")
    parts = [{"type": "text", "text": "found"}]
    add_message(source, "s1", "\0json:" + json.dumps(parts), role="tool", tool_call_id="c1", tool_name="f")
    report = store.import_from(path)
    assert (report.sessions, report.messages, report.lanes, report.skipped) == (1, 3, 0, [])
    info = store.get_session("s1")
    assert info.created_at == datetime.fromtimestamp(START, UTC)
    assert (info.title, info.end_reason, info.message_count) == ("Trip to Delft", "session_reset", 3)
    assert info.ended_at == datetime.fromtimestamp(START + 60, UTC)
    first, second, third = store.load_transcript("s1")
    assert first == {"role": "user", "content": "hello", "message_id": "tg-1", "timestamp": START + 1}
    assert (second["tool_calls"], second["reasoning"]) == (calls, "hm")
    assert (third["content"], third["tool_call_id"], third["tool_name"]) == (parts, "c1", "f")
    assert store.has_platform_message_id("s1", "tg-1")
    (usage,) = [each.event for each in store.log.events(topics=["usage.recorded"])]
    assert (usage.input_tokens, usage.output_tokens, usage.cost_usd, usage.model) == (1200, 80, 0.5, "large")
    assert store.log.verify().ok


def test_a_second_run_adds_nothing_and_a_source_that_grew_adds_what_is_new(store, source, path):
    """V18: idempotent and resumable."""
    add_session(source, "s1")
    add_message(source, "s1", "one")
    store.import_from(path)
    before = store.log.last_position
    again = store.import_from(path)
    assert (again.sessions, again.messages) == (0, 0)
    assert store.log.last_position == before
    add_message(source, "s1", "two")
    assert store.import_from(path).messages == 1
    assert texts(store, "s1") == ["one", "two"]


def test_an_import_that_was_cut_off_goes_on_where_it_was(store, source, path):
    """V18."""
    add_session(source, "s1")
    for number in range(450):
        add_message(source, "s1", f"m{number}")

    def stop(report):
        if report.messages >= 200:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.import_from(path, progress=stop)
    assert 200 <= len(texts(store, "s1")) < 450
    store.import_from(path)
    assert texts(store, "s1") == [f"m{number}" for number in range(450)]


def test_what_a_session_went_on_to_use_and_how_it_ended_comes_with_a_later_run(store, source, path):
    """V18: counted once, and a session that somebody reopened here is not ended again."""
    add_session(source, "s1", input_tokens=100, actual_cost_usd=0.5)
    store.import_from(path)
    source.execute("UPDATE sessions SET input_tokens = 150, actual_cost_usd = 0.75, ended_at = 5, title = 'Trip'")
    source.execute("UPDATE sessions SET end_reason = 'session_reset'")
    source.commit()
    store.import_from(path)
    spent = [each.event for each in store.log.events(topics=["usage.recorded"])]
    assert [(each.input_tokens, each.cost_usd) for each in spent] == [(100, 0.5), (50, 0.25)]
    assert (store.get_session("s1").end_reason, store.get_session("s1").title) == ("session_reset", "Trip")
    store.reopen_session("s1")
    store.import_from(path)
    assert store.get_session("s1").end_reason is None


def test_a_compression_whose_child_came_later_gets_it_with_a_later_run(store, source, path):
    """V18: until then it has its end and no child."""
    add_session(source, "s1", ended_at=START + 10, end_reason="compression")
    store.import_from(path)
    assert (store.get_session("s1").end_reason, store.get_session("s1").compressed_into) == ("compression", None)
    add_session(source, "s2", parent_session_id="s1", started_at=START + 10)
    store.import_from(path)
    assert store.get_session("s1").compressed_into == "s2"
    assert store.get_session("s2").conversation_id == "s1"


def test_undone_messages_stay_hidden_and_compacted_ones_are_no_history(store, source, path):
    """V18."""
    add_session(source, "s1")
    add_message(source, "s1", "long ago", active=0, compacted=1)
    add_message(source, "s1", "summary", role="system")
    add_message(source, "s1", "undone", active=0, platform_message_id="tg-2")
    add_message(source, "s1", "and on")
    store.import_from(path)
    assert texts(store, "s1") == ["summary", "and on"]
    assert store.has_platform_message_id("s1", "tg-2")


def test_a_compression_keeps_its_lineage_and_a_lane_on_the_parent_goes_to_the_tip(store, source, path):
    """V18, G20."""
    add_session(source, "s1", ended_at=START + 10, end_reason="compression", session_key=KEY)
    add_session(source, "s2", parent_session_id="s1", started_at=START + 10, session_key=KEY)
    add_session(source, "s3", parent_session_id="s2", started_at=START + 20)
    add_message(source, "s2", "going on")
    add_route(source, KEY, entry(KEY, "s1"))
    report = store.import_from(path)
    assert (report.sessions, report.lanes) == (3, 1)
    assert store.get_session("s1").compressed_into == "s2"
    assert store.get_session("s2").conversation_id == "s1"
    assert (store.get_session("s3").relation, store.get_session("s3").conversation_id) == ("child", "s3")
    assert store.get_or_create_session(ADA).session_id == "s2"


def test_a_lane_keeps_its_flags_and_its_idle_clock(store, source, path):
    """V18."""
    add_session(source, "s1")
    flags = {
        "resume_pending": True,
        "resume_reason": "restart_timeout",
        "model_override": {"model": "m", "api_key": "x"},
    }
    add_route(source, KEY, entry(KEY, "s1", **flags))
    store.import_from(path)
    (found,) = store.list_sessions()
    assert (found.session_id, found.resume_pending, found.model_override) == ("s1", True, {"model": "m"})
    assert found.updated_at == datetime(2026, 6, 2, 11, tzinfo=UTC)
    assert found.created_at == datetime(2026, 6, 1, 10, tzinfo=UTC)
    assert store.get_or_create_session(ADA).session_id == "s1"


def test_a_lane_that_leads_somewhere_already_is_left_alone(store, source, path):
    """V18."""
    here = store.get_or_create_session(ADA)
    add_session(source, "s1")
    add_route(source, here.session_key, entry(here.session_key, "s1"))
    assert store.import_from(path).lanes == 0
    assert store.peek_session_id(here.session_key) == here.session_id


def test_a_damaged_row_is_reported_and_the_rest_is_imported(store, source, path, caplog):
    """V18."""
    add_session(source, "s1")
    add_session(source, "s2", started_at="yesterday")
    add_session(source, "../evil")
    add_message(source, "s1", "good")
    add_message(source, "s1", "\0json:{broken")
    add_message(source, "s1", b"\xff\xfe")
    add_message(source, "s1", "bad time", timestamp=1e300)
    source.execute(
        "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s1', 'user', CAST(x'ff' AS TEXT), 1.0)"
    )
    add_message(source, "s1", "good too")
    add_route(source, KEY, {"session_id": "s1"})
    report = store.import_from(path)
    assert texts(store, "s1") == ["good", "good too"]
    assert {each.item for each in report.skipped} == {
        "session 's2'",
        "session '../evil'",
        "message 2 of session 's1'",
        "message 3 of session 's1'",
        "message 4 of session 's1'",
        "message 5 of session 's1'",
        f"lane {KEY!r}",
    }
    assert "left out" in caplog.text


def test_a_dry_run_says_what_would_be_and_changes_nothing(store, source, path):
    """V18."""
    add_session(source, "s1")
    add_message(source, "s1", "one")
    add_session(source, "../evil")
    add_route(source, KEY, entry(KEY, "s1"))
    told = []
    report = store.import_from(path, dry_run=True, progress=lambda report: told.append(report.messages))
    assert (report.sessions, report.messages, report.lanes, report.dry_run) == (1, 1, 1, True)
    assert [each.item for each in report.skipped] == ["session '../evil'"]
    assert told == [1]
    assert store.log.last_position == 0


def test_the_source_is_only_read(store, source, path):
    """V18."""
    add_session(source, "s1")
    source.close()
    before = {each.name: each.read_bytes() for each in path.parent.iterdir() if each.is_file()}
    store.import_from(path)
    assert {each.name: each.read_bytes() for each in path.parent.iterdir() if each.is_file()} == before


def test_what_is_no_agents_database_is_refused_with_what_to_do(store, tmp_path, source):
    """V18."""
    (tmp_path / "text").write_text("hello " * 1000)
    source.executescript("DROP TABLE messages; CREATE TABLE messages (id INTEGER PRIMARY KEY)")
    for path, said in (
        (tmp_path / "nothing", "does not exist"),
        (tmp_path / "text", "not a SQLite file"),
        (tmp_path / "state.db", "no content, role, session_id, timestamp"),
        (tmp_path / "sessions", "neither sessions.json nor _index.json nor state.db"),
    ):
        with pytest.raises(ForeignFileError, match=said):
            store.import_from(path)
    assert store.log.last_position == 0


def test_a_locked_source_is_told(store, source, path):
    """V18."""
    add_session(source, "s1")
    source.execute("PRAGMA journal_mode=wal")
    add_session(source, "s2")
    source.execute("BEGIN EXCLUSIVE")
    assert store.import_from(path).sessions == 2
    source.rollback()


def test_parents_that_name_each_other_are_imported_all_the_same(store, source, path):
    """V18."""
    add_session(source, "s1", parent_session_id="s2")
    add_session(source, "s2", parent_session_id="s1")
    add_session(source, "s3", parent_session_id="gone")
    assert store.import_from(path).sessions == 3


def test_the_log_says_what_was_imported(store, source, path):
    """V18."""
    add_session(source, "s1")
    store.import_from(path)
    (said,) = [each.event for each in store.log.events(topics=["log.imported"])]
    assert (said.sessions, said.messages) == (1, 0)
