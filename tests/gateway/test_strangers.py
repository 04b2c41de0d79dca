"""G17a and G17b: every chat is served, and two different sources never share a lane, whatever their keys look like."""

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from engine import GatewayConfig, Platform, SessionResetPolicy, build_session_key
from engine.domain import events as e
from engine.log import EventLog
from engine.log.envelope import NEXT_VERSION, Envelope
from tests.gateway.support import lane, say, source, tables, texts

KEY = "agent:main:telegram:dm:alice:t1"
ANN: dict[str, Any] = {"chat_id": "alice:t1"}
BOB: dict[str, Any] = {"chat_id": "alice", "thread_id": "t1"}
GROUP = {"chat_id": "c", "chat_type": "group"}
PAIRS = [
    pytest.param(ANN, BOB, id="chat and thread"),
    pytest.param({**GROUP, "user_id": "4242"}, {**GROUP, "thread_id": "4242"}, id="a group's user and its topic"),
    pytest.param(
        {**GROUP, "user_id": "4242"}, {**GROUP, "thread_id": "4242", "user_id": "4242"}, id="the user's own topic"
    ),
    pytest.param({"chat_id": "1"}, {"chat_id": "", "user_id": "1"}, id="chat and person"),
    pytest.param(
        {"chat_id": "a:b", "thread_id": "c"}, {"chat_id": "a", "thread_id": "b:c"}, id="where the thread begins"
    ),
    pytest.param({"chat_id": "1"}, {"chat_id": "1", "profile": "main"}, id="a profile named main"),
]


def strangers(store, one, other):
    """Two lanes with keys of one text, each with a session in which something was said."""
    entries = [store.get_or_create_session(source(**each)) for each in (one, other)]
    for entry, text in zip(entries, ("of the one", "of the other"), strict=True):
        say(store, entry.session_id, text)
    return entries


@pytest.mark.parametrize(
    "chat",
    [
        "../../etc/passwd",
        "..",
        "CORP\\ada",
        "spaces/AAA/",
        "/",
        "\\",
        "C:",
        "ada@example.com",
        "a\nb",
        "\0",
        "\ud800",
        "🎉" * 200,
    ],
)
@pytest.mark.parametrize("place", ["chat_id", "thread_id", "user_id"])
def test_g17a_routing_serves_every_chat(store, open_store, chat, place):
    fields = {"chat_id": "c", "chat_type": "group", place: chat}
    entry = store.get_or_create_session(source(**fields))
    say(store, entry.session_id, "hello")
    again = open_store().get_or_create_session(source(**fields))
    assert (again.session_key, again.session_id) == (entry.session_key, entry.session_id)
    for call in (store.suspend_session, store.clear_resume_pending, store.peek_session_id, store.consume_notices):
        call(entry.session_key)
    assert store.reset_session(entry.session_key) is not None


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_g17b_strangers_have_lanes_sessions_and_flags_of_their_own(open_store, one, other):
    store = open_store(GatewayConfig(multiplex_profiles=True))
    first, second = strangers(store, one, other)
    key = build_session_key(source(**one), profile=one.get("profile"))
    assert key == build_session_key(source(**other), profile=other.get("profile")) == first.session_key
    assert re.fullmatch(re.escape(key) + "~[0-9a-f]{8}", second.session_key)
    store.suspend_session(first.session_key)
    store.set_model_override(second.session_key, {"model": "large"})
    assert [lane(store, each.session_key).suspended for each in (first, second)] == [True, False]
    assert store.get_model_override(first.session_key) is None
    for each, text in ((first, "of the one"), (second, "of the other")):
        assert texts(store, each.session_id) == [text]
        assert [info.session_id for info in store.sessions_of(each.session_key)] == [each.session_id]


@pytest.mark.parametrize(("one", "other"), PAIRS)
@pytest.mark.parametrize("came_back", ["one", "other"])
def test_g17b_nobody_gets_a_strangers_session_after_the_lanes_were_pruned(open_store, clock, one, other, came_back):
    """G27: neither by the lane's key nor by person and place, and whoever comes back first."""
    store = open_store(GatewayConfig(multiplex_profiles=True))
    sources = {"one": source(**one), "other": source(**other)}
    had = dict(zip(sources, strangers(store, one, other), strict=True))
    clock.advance(days=100)
    assert store.prune_old_entries(90) == 2
    order = [came_back, *(each for each in sources if each != came_back)]
    for each in order:
        entry = store.get_or_create_session(sources[each])
        assert (entry.session_key, entry.session_id) == (had[each].session_key, had[each].session_id)


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_g17b_a_stranger_who_comes_first_after_the_lane_was_pruned_gets_a_session_of_his_own(
    open_store, clock, one, other
):
    store = open_store(GatewayConfig(multiplex_profiles=True))
    entry = store.get_or_create_session(source(**one))
    say(store, entry.session_id, "a secret")
    clock.advance(days=100)
    assert store.prune_old_entries(90) == 1
    for _ in range(2):
        stranger = store.get_or_create_session(source(**other))
        assert stranger.session_key != entry.session_key
        assert texts(store, stranger.session_id) == []
    assert [info.session_id for info in store.sessions_of(stranger.session_key)] == [stranger.session_id]
    assert store.get_or_create_session(source(**one)).session_id == entry.session_id


def test_g17b_a_strangers_lane_stays_his_while_the_other_was_pruned(store, clock):
    """G22: his flags too; and answered from memory like any other."""
    ann, bob = strangers(store, ANN, BOB)
    clock.advance(days=100)
    store.get_or_create_session(source(**BOB))
    assert store.prune_old_entries(90) == 1
    assert store.peek_session_id(ann.session_key) is None
    hits = store.metrics()["lane_cache_hits"]
    for _ in range(3):
        assert store.get_or_create_session(source(**BOB)).session_id == bob.session_id
    assert store.metrics()["lane_cache_hits"] > hits
    store.suspend_session(bob.session_key)
    entry = store.get_or_create_session(source(**BOB))
    assert (entry.session_key, entry.auto_reset_reason) == (bob.session_key, "suspended")


@pytest.mark.parametrize("later", ["reset_session", "end_session", "force_new", "compress", "suspend", "idle"])
def test_g17b_strangers_stay_apart_whatever_happens_to_one(open_store, clock, later):
    store = open_store(GatewayConfig(default_reset_policy=SessionResetPolicy(mode="idle", idle_minutes=60)))
    ann, bob = strangers(store, ANN, BOB)
    match later:
        case "reset_session":
            store.reset_session(ann.session_key)
        case "end_session":
            store.end_session(ann.session_id, "agent_close")
        case "force_new":
            store.get_or_create_session(source(**ANN), force_new=True)
        case "compress":
            store.compress_session(ann.session_id)
        case "suspend":
            store.suspend_session(ann.session_key)
        case "idle":
            clock.advance(minutes=50)
            store.get_or_create_session(source(**BOB))
            clock.advance(minutes=20)
    ours, theirs = (store.get_or_create_session(source(**each)) for each in (ANN, BOB))
    assert (ours.session_key, theirs.session_key) == (ann.session_key, bob.session_key)
    assert theirs.session_id == bob.session_id
    assert texts(store, theirs.session_id) == ["of the other"]


def test_g17b_force_new_of_a_stranger_makes_his_own_session(store):
    ann, bob = strangers(store, ANN, BOB)
    new = store.get_or_create_session(source(**BOB), force_new=True)
    assert new.session_key == bob.session_key
    assert new.session_id not in (ann.session_id, bob.session_id)
    assert store.peek_session_id(ann.session_key) == ann.session_id


def test_g17b_strangers_are_told_apart_by_every_process_and_after_a_rebuild(open_store):
    first, second = open_store(), open_store()
    ann, bob = first.get_or_create_session(source(**ANN)), second.get_or_create_session(source(**BOB))
    before = tables(first)
    first.rebuild()
    assert tables(first)["lanes"] == before["lanes"]
    for store in (first, second, open_store()):
        assert store.get_or_create_session(source(**ANN)).session_id == ann.session_id
        assert store.get_or_create_session(source(**BOB)).session_id == bob.session_id


def test_g17b_a_lane_of_unknown_origin_takes_the_identity_of_the_first_who_comes(store, open_store):
    """As an imported log, or one of an erased person, may have it."""
    session = "20260701_000000_0000aaaa"
    store.close()
    with EventLog(store.log.path) as log:
        created = e.SessionCreated(conversation_id=session, lane=KEY)
        log.append([Envelope(f"session:{session}", 1, created)])
        log.append([Envelope("lane:1111", NEXT_VERSION, e.LaneRouted(session_id=session, how="created", key=KEY))])
    again = open_store()
    assert again.get_or_create_session(source(**BOB)).session_id == session
    stranger = again.get_or_create_session(source(**ANN))
    assert stranger.session_id != session
    assert again.get_or_create_session(source(**BOB)).session_id == session


def test_g17b_the_identity_that_a_lane_of_unknown_origin_took_holds_after_it_was_pruned(store, open_store, clock):
    session = "20260701_000000_0000aaaa"
    store.close()
    with EventLog(store.log.path) as log:
        created = e.SessionCreated(conversation_id=session, lane=KEY)
        said_there = e.MessageAppended(message={"role": "user", "content": "imported"})
        log.append([Envelope(f"session:{session}", 1, created), Envelope(f"session:{session}", 2, said_there)])
        log.append([Envelope("lane:1111", 1, e.LaneRouted(session_id=session, how="created", key=KEY))])
    again = open_store()
    assert again.get_or_create_session(source(**BOB)).session_id == session
    clock.advance(days=3650)  # what another program appended has the time of the machine
    assert again.prune_old_entries(90) == 1
    assert texts(again, again.get_or_create_session(source(**ANN)).session_id) == []
    assert again.get_or_create_session(source(**BOB)).session_id == session


@pytest.mark.parametrize("alone", [False, True], ids=["at the end of a batch", "one by one"])
def test_a_lane_that_was_released_keeps_its_key_however_the_log_is_cut_when_it_is_replayed(
    store, open_store, source, alone
):
    """G21: the release and what follows it may be replayed in transactions of their own."""
    entry = store.get_or_create_session(source())
    other = store.get_or_create_session(source("other")).session_id
    store.end_session(entry.session_id, "user_exit")
    position = store.log.last_position
    if alone:  # an event that cannot be used: those beside it are tried one by one
        store.close()
        with EventLog(store.log.path) as log:
            log.append([Envelope("lane:9", 1, e.LaneRouted(session_id="", how="created", key="x"))])
        store = open_store()
    else:
        say(store, other, *["x"] * (499 - position % 500))
    new = store.get_or_create_session(source())
    store.rebuild()
    assert len(store.quarantined()) == alone
    assert store.peek_session_id(entry.session_key) == new.session_id
    assert store.get_or_create_session(source()).session_id == new.session_id


TEXT = st.text(st.sampled_from("ab:"), max_size=3)
PLACES = st.fixed_dictionaries(
    {
        "chat_id": TEXT,
        "chat_type": st.sampled_from(["dm", "group", "thread"]),
        "user_id": st.none() | TEXT,
        "thread_id": st.none() | TEXT,
        "profile": st.sampled_from([None, "", "default", "main", "a"]),
    }
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PLACES, min_size=2, max_size=8), st.booleans())
def test_g17b_what_is_said_in_one_place_is_read_in_no_other(open_store, clock, places, pruned):
    """However many of their keys are the same text, and also when all lanes are forgotten in between."""
    store = open_store(GatewayConfig(multiplex_profiles=True), actor="test")
    mine: dict[str, str] = {}
    for place in places:
        entry = store.get_or_create_session(source(platform=Platform.SLACK, **place))
        word = repr(identity(place))
        if not texts(store, entry.session_id):
            say(store, entry.session_id, word)
        assert texts(store, entry.session_id) == [word]
        assert mine.setdefault(word, entry.session_key) == entry.session_key
        if pruned:
            clock.advance(days=2)
            store.prune_old_entries(1)


def identity(place: dict[str, Any]) -> tuple[Any, ...]:
    """Return who a place is, in the words of G9 to G11."""
    chat, thread, user = place["chat_id"], place["thread_id"] or "", place["user_id"] or ""
    if place["chat_type"] == "dm":
        user = "" if chat else user
    elif thread:
        user = ""
    profile = place["profile"] if place["profile"] not in ("", "default") else None
    return profile, place["chat_type"], chat, thread, user
