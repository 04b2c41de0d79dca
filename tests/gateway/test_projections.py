"""Routing index, heads and turns are folds of the log, and nothing else."""

import asyncio

import pytest

from engine import AsyncSessionStore
from engine.domain import events as e
from engine.domain.encoding import encode
from engine.log import EventLog
from engine.log.envelope import NEXT_VERSION, Envelope
from tests.gateway.support import policy, say, since, stream_of, tables, texts
from tests.gateway.test_explanations import everything

KEY = "agent:main:telegram:dm:4711"
METRICS = {
    "queue_depth",
    "largest_batch",
    "mean_commit_seconds",
    "slowest_commit_seconds",
    "lane_cache_hits",
    "transcript_cache_hits",
    "projection_position",
    "quarantined_events",
    "position",
}


def test_the_tables_are_the_fold_of_the_log_and_replaying_twice_gives_the_same_bytes(open_store, clock, source):
    store = open_store(policy("both"))
    everything(store, clock, source)
    last = store.get_or_create_session(source("last", user_id="u\udc80", chat_name="é"))
    store.append_to_transcript(last.session_id, {"content": "x", "message_id": "m\ud800"})
    store.begin_turn(last.session_key)
    asyncio.run(AsyncSessionStore(store).prune_old_entries(1))
    store.list_sessions()
    before = tables(store)
    assert before["turns"]
    assert before["message_ids"]
    events = store.log.last_position
    for _ in range(2):
        assert store.rebuild() == events
        assert tables(store) == before
    store.close()
    after = tables(open_store())
    assert {**after, "projections": before["projections"]} == before  # but for what closing says of itself


def test_what_a_plain_log_appended_is_caught_up_at_opening(store, open_store, source):
    sid = store.get_or_create_session(source()).session_id
    stream = stream_of(store, KEY)
    store.close()
    with EventLog(store.log.path) as log:
        message = e.MessageAppended(message={"role": "user", "content": "from elsewhere"}, message_id="m")
        log.append([Envelope(f"session:{sid}", NEXT_VERSION, message)])
        log.append([Envelope(stream, NEXT_VERSION, e.LaneSuspended(session_id=sid))])
    store = open_store()
    metrics = store.metrics()
    assert metrics["projection_position"] == metrics["position"] == store.log.last_position
    assert texts(store, sid) == ["from elsewhere"]
    assert store.get_session(sid).message_count == 1
    assert store.has_platform_message_id(sid, "m")
    assert store.get_or_create_session(source()).auto_reset_reason == "suspended"


def test_and_while_the_store_is_open_before_anything_is_added(store, source):
    sid = store.get_or_create_session(source()).session_id
    with EventLog(store.log.path) as log:
        message = e.MessageAppended(message={"role": "user", "content": "from elsewhere"})
        log.append([Envelope(f"session:{sid}", NEXT_VERSION, message)])
    say(store, sid, "mine")
    assert texts(store, sid) == ["from elsewhere", "mine"]
    assert store.get_session(sid).message_count == 2
    before = tables(store)
    store.rebuild()
    assert tables(store) == before


def test_tables_of_another_definition_are_made_again(store, open_store, source):
    store.get_or_create_session(source())
    before = tables(store)["lanes"]
    store.log.transact(lambda t: t.execute("UPDATE projections SET fingerprint = 'another'"))
    store.log.transact(lambda t: t.execute("DELETE FROM lanes"))
    store.close()
    assert tables(open_store())["lanes"] == before


BROKEN = [
    ("message.appended", '{"type":"message.appended","message":7}'),
    ("message.appended", "not JSON"),
    ("transcript.rewritten", '{"type":"transcript.rewritten","messages":[7]}'),
    ("transcript.rewound", '{"type":"transcript.rewound","keep":"x"}'),
]


@pytest.mark.parametrize(("topic", "state"), BROKEN)
def test_a_broken_payload_is_quarantined_and_the_rest_of_its_stream_is_served(store, open_store, source, topic, state):
    """Regression 11, inside one session and one lane."""
    sid = store.get_or_create_session(source()).session_id
    say(store, sid, "one")
    stream = stream_of(store, KEY)
    store.close()
    with EventLog(store.log.path) as log:
        log.append([Envelope(f"session:{sid}", NEXT_VERSION, e.MessageAppended(message={"content": "broken"}))])
        broken = log.last_position
        log.append([Envelope(stream, NEXT_VERSION, e.LaneSuspended(session_id=sid))])
        log.transact(lambda t: damage(t, broken, topic, state))
    store = open_store()
    ((position, error),) = store.quarantined()
    assert position == broken
    assert error
    assert store.metrics()["quarantined_events"] == 1
    say(store, sid, "two")
    assert texts(store, sid) == ["one", "two"]
    assert store.get_session(sid).message_count == 2
    assert store.get_or_create_session(source()).auto_reset_reason == "suspended"
    assert not store.log.verify().ok, "the chain still tells that the record was changed"


def damage(transaction, position, topic, state):
    """Change a record behind the engine's back, which its triggers refuse."""
    triggers = transaction.query("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'events'")
    for (name,) in triggers:
        transaction.execute(f"DROP TRIGGER {name}")
    transaction.execute("UPDATE events SET topic = ?, state = ? WHERE position = ?", (topic, state, position))


def test_an_event_of_a_newer_version_is_kept_and_passed_over(store, open_store, source):
    entry = store.get_or_create_session(source())
    stream = stream_of(store, KEY)
    store.close()
    with EventLog(store.log.path) as log:
        log.append([Envelope(stream, NEXT_VERSION, e.LaneSuspended(session_id=entry.session_id))])
        log.transact(lambda t: damage(t, log.last_position, "lane.painted", '{"type":"lane.painted","colour":"red"}'))
    store = open_store()
    assert store.quarantined() == []
    assert store.get_or_create_session(source()).session_id == entry.session_id
    assert store.suspend_session(KEY)
    assert store.peek_session_id(KEY) == entry.session_id


def test_health_and_metrics_have_what_a_dashboard_needs(store, source):
    sid = store.get_or_create_session(source()).session_id
    for _ in range(3):
        store.get_or_create_session(source())
        store.load_transcript(sid)
    metrics = store.metrics()
    assert metrics.keys() >= METRICS
    assert metrics["lane_cache_hits"] >= 2
    assert metrics["transcript_cache_hits"] >= 2
    assert metrics["commits"] >= 1
    health = store.health()
    assert (health.state, health.position) == ("ok", store.log.last_position)


@pytest.mark.parametrize("lanes", [1, 3])
def test_lanes_in_memory_are_bounded(open_store, source, lanes):
    store = open_store(cached_lanes=lanes)
    ids = {name: store.get_or_create_session(source(name)).session_id for name in "abcde"}
    for name in "abcdeedcba":
        assert store.get_or_create_session(source(name)).session_id == ids[name]
    assert store.metrics()["cached_lanes"] <= lanes


@pytest.mark.parametrize("backwards", [False, True])
def test_whatever_is_erased_the_tables_stay_the_fold_of_the_log(open_store, clock, source, backwards):
    store = open_store(policy("both"))
    everything(store, clock, source)
    begun = ("turn.begun", "turn.renewed")
    positions = [event.position for event in since(store, 0) if event.event.topic not in begun]
    for position in sorted(positions, reverse=backwards):
        store.log.erase([position], actor="operator", reason="asked to")
        after = tables(store)
        store.rebuild()
        assert tables(store) == after, position
    store.get_or_create_session(source())
    assert store.log.verify().ok


def test_what_is_erased_is_gone_from_the_tables_and_from_the_memory_of_every_store(store, open_store, source):
    entry = store.get_or_create_session(source(user_name="Ada Lovelace", chat_name="Ada Lovelace"))
    (told,) = store.append_messages(entry.session_id, [{"role": "user", "content": "my secret", "message_id": "m"}])
    say(store, entry.session_id, "kept")
    other = open_store()
    for each in (store, other):
        assert texts(each, entry.session_id) == ["my secret", "kept"]
        assert each.get_or_create_session(source()).session_id == entry.session_id
    named = [event.position for event in since(store, 0) if "Lovelace" in repr(event.event)]
    store.log.erase([told, *named], actor="operator", reason="asked to")
    for each in (store, other):
        assert texts(each, entry.session_id) == ["kept"]
        assert each.get_session(entry.session_id).message_count == 2, "an erased message keeps its place"
        assert "Lovelace" not in repr(each.list_sessions())
        assert not each.has_platform_message_id(entry.session_id, "m")
        assert each.peek_session_id(entry.session_key) is None, "what led there was erased"
    assert "Lovelace" not in repr(tables(store))
    say(other, entry.session_id, "and goes on")
    assert texts(store, entry.session_id) == ["kept", "and goes on"]
    assert store.get_or_create_session(source()).session_id != entry.session_id


def test_the_erased_error_of_a_turn_leaves_its_conversation_free(store, source):
    """G36: an error may repeat what somebody said; erasing it does not open the turn again when the log is replayed."""
    with pytest.raises(RuntimeError), store.turn(source()):
        raise RuntimeError("my secret")
    (ended,) = [event.position for event in since(store, 0) if event.event.topic == "turn.ended"]
    store.log.erase([ended], actor="operator", reason="asked to")
    with store.turn(source(), wait=0):
        before = tables(store)
        store.rebuild()
        assert tables(store) == before
        assert store.quarantined() == []


def test_an_erased_rewrite_does_not_bring_back_what_it_replaced(store, source):
    session_id = store.get_or_create_session(source()).session_id
    say(store, session_id, "first", "second")
    store.rewrite_transcript(session_id, [{"role": "user", "content": "a summary"}])
    rewrite = store.log.last_position - 1
    say(store, session_id, "third")
    assert texts(store, session_id) == ["a summary", "third"]
    store.log.erase([rewrite], actor="operator", reason="asked to")
    assert texts(store, session_id) == ["a summary", "third"], "its messages are events of their own"
    assert store.get_session(session_id).message_count == 2
    store.log.erase([rewrite + 1], actor="operator", reason="asked to")
    assert texts(store, session_id) == ["third"]
    assert texts(store, store.fork_session(session_id, at=rewrite + 2)) == ["third"]
    say(store, session_id, "fourth")
    assert store.get_session(session_id).message_count == 3, "an erased message keeps its place"


def test_sessions_whose_creation_was_erased_do_not_share_a_turn(store, source):
    entries = [store.get_or_create_session(source(chat)) for chat in ("1", "2")]
    created = [event.position for event in since(store, 0) if event.event.topic == "session.created"]
    store.log.erase(created, actor="operator", reason="asked to")
    tokens = [store.begin_turn(entry.session_key) for entry in entries]
    assert len(set(tokens)) == 2


@pytest.mark.parametrize(
    "bad",
    [
        lambda sid, _: (
            f"session:{sid}",
            e.MessageAppended(message={"role": "user", "content": "again"}, message_id="1"),
        ),
        lambda _, stream: (stream, e.LaneRouted(session_id="../x", how="created")),
    ],
    ids=["a message id twice", "a session id that is none"],
)
def test_a_stream_goes_on_after_an_event_that_was_quarantined(store, source, bad):
    entry = store.get_or_create_session(source())
    store.append_to_transcript(entry.session_id, {"role": "user", "content": "a", "message_id": "1"})
    stream, event = bad(entry.session_id, stream_of(store, KEY))
    with EventLog(store.log.path) as log:
        log.append([Envelope(stream, NEXT_VERSION, event)])
    say(store, entry.session_id, "b")
    assert [position for position, _ in store.quarantined()] == [store.log.last_position - 1]
    assert texts(store, entry.session_id) == ["a", "b"]
    assert store.get_or_create_session(source()).session_id == entry.session_id
    assert store.suspend_session(KEY)
    store.rebuild()  # which also reports what was quarantined
    before = tables(store)
    store.rebuild()
    assert tables(store) == before
    assert store.reset_session(KEY).session_id != entry.session_id


def test_an_event_from_outside_the_commands_is_checked_before_it_is_taken(store, source):
    store.get_or_create_session(source())
    with pytest.raises(ValueError, match="is refused"):
        store.log.append(
            [Envelope(stream_of(store, KEY), NEXT_VERSION, e.LaneRouted(session_id="../x", how="created"))]
        )
    assert len(store.list_sessions()) == 1


def test_a_command_that_failed_does_not_hide_what_another_program_appends_next(store, source):
    sid = store.get_or_create_session(source()).session_id

    def fails(transaction):
        transaction.append([Envelope(f"session:{sid}", NEXT_VERSION, e.MessageAppended(message={"role": "user"}))])
        raise KeyError("on purpose")

    with pytest.raises(KeyError):
        store.log.transact(fails)
    with EventLog(store.log.path) as log:
        message = e.MessageAppended(message={"role": "user", "content": "from elsewhere"})
        log.append([Envelope(f"session:{sid}", NEXT_VERSION, message)])
    say(store, sid, "mine")
    assert texts(store, sid) == ["from elsewhere", "mine"]


def test_what_was_quarantined_is_tried_again_when_the_tables_are_made_again(store, source):
    sid = store.get_or_create_session(source()).session_id
    message = e.MessageAppended(message={"role": "user", "content": "mended"})
    with EventLog(store.log.path) as log:
        (broken,) = log.append([Envelope(f"session:{sid}", NEXT_VERSION, message)])
        log.transact(lambda t: damage(t, broken, "message.appended", '{"type":"message.appended","message":7}'))
    say(store, sid, "after")
    for _ in range(2):
        store.rebuild()
        assert [position for position, _ in store.quarantined()] == [broken]
    assert [each.event.topic for each in since(store, 0)].count("log.quarantined") == 1, "reported once"
    with EventLog(store.log.path) as log:
        log.transact(lambda t: damage(t, broken, "message.appended", encode(message).decode()))
    store.rebuild()
    assert store.quarantined() == []
    assert store.get_session(sid).message_count == 2
    store._transcripts._cached.clear()  # the record was changed behind the engine's back
    assert texts(store, sid) == ["mended", "after"]


def test_what_another_projection_quarantined_stays_in_the_transcript(store, source):
    sid = store.get_or_create_session(source()).session_id
    (position,) = store.append_messages(sid, [{"role": "user", "content": "for all but search"}])
    store.log.transact(lambda t: t.execute("INSERT INTO quarantine VALUES (?,'search','too long',1)", (position,)))
    assert texts(store, sid) == ["for all but search"]
