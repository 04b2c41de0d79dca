"""Erasing a session, a lane, a person, a message: what goes along, what stays, and that no byte is left (V15)."""

import asyncio
import random
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from engine import AsyncSessionStore, Platform, SessionReader, SessionStore, acting, following
from engine.domain import events as e
from engine.log import EventLog
from engine.log.envelope import NEXT_VERSION, Envelope
from tests.gateway.support import lane, say, since, source, tables, texts

ADA = {"user_id": "u-ada-4711", "user_name": "Ada Lovelace", "chat_name": "Ada Lovelace"}
BOB = {"user_id": "u-bob-0815", "user_name": "Bob Builder", "chat_name": "Bob Builder"}
ASKED = {"reason": "asked to", "request": "R-1"}


def user(text: str, message_id: str | None = None, **more: Any) -> dict[str, Any]:
    message = {"role": "user", "content": text, **more}
    return message if message_id is None else {**message, "message_id": message_id}


def files(store: SessionStore) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(store.sessions_dir).iterdir()}


def found_in_files(store: SessionStore, words: Iterable[str]) -> list[tuple[str, str]]:
    """Each word with each file that has it, as text or in the escapes of JSON."""
    return [
        (word, name)
        for word in words
        for name, content in files(store).items()
        if word.encode() in content or word.encode("utf-16-le") in content
    ]


# Copies


def test_erasing_a_message_erases_its_copies_in_forks_compressed_children_and_rewrites(store, source):
    """It stayed in all of them."""
    session_id = store.get_or_create_session(source()).session_id
    secret, *_ = store.append_messages(session_id, [user("secret words", "m-secret"), user("b"), user("c"), user("d")])
    fork = store.fork_session(session_id)
    store.rewrite_transcript(fork, [user("new"), *store.load_transcript(fork)[:3]])
    store.rewrite_transcript(session_id, store.load_transcript(session_id)[:2])
    store.rewrite_transcript(session_id, [*store.load_transcript(session_id), user("e")])
    child = store.compress_session(session_id, None, [user("so far")], covers=0)
    report = store.erase(positions=[secret], **ASKED, purge=True)
    assert texts(store, fork) == ["new", "b", "c"]
    assert texts(store, session_id) == ["b", "e"]
    assert texts(store, child) == ["so far", "b", "e"]
    assert (report.events, report.messages, report.purged) == (4, 4, True)
    assert found_in_files(store, ["secret words", "m-secret"]) == []
    assert store.verify().ok
    assert store.log.verify().ok


def test_erasing_a_copy_erases_the_first_of_them(store, source):
    session_id = store.get_or_create_session(source()).session_id
    (first,) = store.append_messages(session_id, [user("secret words")])
    store.rewrite_transcript(session_id, store.load_transcript(session_id))
    (copy,) = [each.position for each in store.recorded_messages(session_id)]
    assert copy != first
    assert store.erase(positions=[copy], **ASKED).positions == (first, copy)
    assert found_in_files(store, ["secret words"]) == [] or store.purge()


def test_erasing_a_summary_leaves_what_was_carried_over(store, source):
    session_id = store.get_or_create_session(source()).session_id
    say(store, session_id, "a", "b", "c")
    child = store.compress_session(session_id, None, [user("a said something")], covers=1)
    say(store, child, "d")
    (summary, *_) = [each.position for each in store.recorded_messages(child)]
    store.erase(positions=[summary], **ASKED)
    assert texts(store, child) == ["b", "c", "d"]
    assert store.get_session(child).message_count == 3
    assert store.verify().ok


# Sessions


def test_a_session_goes_with_its_title_and_what_was_made_of_it(store, source):
    entry = store.get_or_create_session(source(**ADA))
    session_id = entry.session_id
    say(store, session_id, "secret words")
    store.set_session_title(session_id, "My secret")
    child = store.compress_session(session_id, None, [user("Ada told a secret")])
    say(store, child, "what came after")
    fork = store.fork_session(child)
    report = store.erase(session_id=session_id, **ASKED, purge=True)
    assert report.sessions == tuple(sorted([session_id, child, fork]))
    assert texts(store, session_id) == []
    assert texts(store, child) == ["what came after"]
    assert texts(store, fork) == ["what came after"]
    assert store.get_session(session_id).title is store.get_session(child).title is None
    assert found_in_files(store, ["secret"]) == []
    assert store.peek_session_id(entry.session_key) == child, "the lane goes on"
    assert store.verify().ok


# Lanes


def test_a_lane_goes_with_all_its_sessions_and_every_stream_it_ever_had(store, clock, source):
    """Also a pruned one: its sessions stayed, and the key in their columns."""
    key = store.get_or_create_session(source(**ADA)).session_key
    sessions = [store.peek_session_id(key)]
    say(store, sessions[0], "secret words")
    sessions.append(store.reset_session(key).session_id)
    store.set_model_override(key, {"model": "ada-secret-model"})
    clock.advance(days=100)
    assert store.prune_old_entries(90) == 1
    sessions.append(store.get_or_create_session(source(**ADA), force_new=True).session_id)
    sessions.append(store.fork_session(sessions[0]))
    other = store.get_or_create_session(source("0815", **BOB))
    say(store, other.session_id, "of somebody else")
    report = store.erase(lane=key, **ASKED, purge=True)
    assert report.sessions == tuple(sorted(sessions))
    assert report.lanes == 2
    assert found_in_files(store, ["secret", "Ada Lovelace", "u-ada-4711", ":4711", '"4711"']) == []
    assert [entry.session_key for entry in store.list_sessions()] == [other.session_key]
    assert texts(store, other.session_id) == ["of somebody else"]
    assert store.verify().ok
    again = store.get_or_create_session(source(**ADA))
    assert again.session_id not in sessions


def test_a_session_that_another_lane_led_to_stays_and_is_named(store, source):
    ada, bob = store.get_or_create_session(source(**ADA)), store.get_or_create_session(source("0815", **BOB))
    say(store, ada.session_id, "of both")
    store.switch_session(bob.session_key, ada.session_id)
    report = store.erase(lane=ada.session_key, **ASKED)
    assert [each.what for each in report.left] == [f"session {ada.session_id}"]
    assert texts(store, ada.session_id) == ["of both"]


# People


def everywhere(store: SessionStore, clock: Callable[..., Any]) -> dict[str, str]:
    """Ada in a private chat, in a group with a lane of her own, and in one that is shared."""
    private = store.get_or_create_session(source(**ADA))
    say(store, private.session_id, "private words")
    store.set_session_title(private.session_id, "Ada's title")
    store.begin_turn(private.session_key)
    own = store.get_or_create_session(source("group-1", chat_type="group", **{**ADA, "chat_name": "Team"}))
    say(store, own.session_id, "words in a group")
    thread = {"chat_type": "group", "thread_id": "t-1", "chat_name": "Team"}
    shared = store.get_or_create_session(source("group-2", **{**ADA, **thread}))
    theirs = [
        user("[Ada Lovelace] words of hers", "tg-ada-1", user_id=ADA["user_id"]),
        user("[Bob] words of Bob", "tg-bob-1", user_id=BOB["user_id"]),
        user("nobody said whose"),
    ]
    store.append_messages(shared.session_id, theirs)
    assert store.get_or_create_session(source("group-2", **{**BOB, **thread})).session_id == shared.session_id
    bob = store.get_or_create_session(source("0815", **BOB))
    say(store, bob.session_id, "words of Bob")
    eve = {"user_id": ADA["user_id"], "user_name": "Eve Else", "platform": Platform.SIGNAL}
    other = store.get_or_create_session(source("9999", **eve))
    say(store, other.session_id, "another person with the same id")
    clock.advance(minutes=5)
    store.get_or_create_session(source(**ADA))
    return {"private": private.session_id, "own": own.session_id, "shared": shared.session_id, "bob": bob.session_id}


HERS = ["private words", "words in a group", "words of hers", "Ada Lovelace", "Ada's title", "tg-ada-1", "dm:4711"]


def test_after_erasing_a_person_no_byte_of_theirs_is_in_any_file(store, clock):
    """Ids, names and words, in database, write-ahead log and views; names of streams included (issue 7, item 6)."""
    ids = everywhere(store, clock)
    report = store.erase(user_id=ADA["user_id"], platform="telegram", **ASKED, purge=True)
    assert report.purged
    assert found_in_files(store, [word for word in HERS if word != "dm:4711"]) == []
    assert found_in_files(store, ["dm:4711", '"4711"']) == []
    assert texts(store, ids["private"]) == texts(store, ids["own"]) == []
    assert texts(store, ids["shared"]) == ["[Bob] words of Bob", "nobody said whose"]
    assert texts(store, ids["bob"]) == ["words of Bob"]
    (left,) = report.left
    assert left.what == f"session {ids['shared']}"
    assert "do not name their sender stay" in left.why
    assert store.verify().ok
    assert store.log.verify().ok
    assert store._views is None or store.verify_views().ok


def test_on_every_platform_if_none_is_named(store, clock):
    everywhere(store, clock)
    store.erase(user_id=ADA["user_id"], **ASKED, purge=True)
    assert found_in_files(store, [*HERS, ADA["user_id"], "Eve Else", "another person"]) == []
    assert store.verify().ok


def test_the_place_that_was_shared_goes_on_with_its_session(store, clock):
    """Its lane and its session said who spoke first; the others must not lose their conversation for that."""
    ids = everywhere(store, clock)
    store.erase(user_id=ADA["user_id"], platform="telegram", **ASKED)
    thread = {"chat_type": "group", "thread_id": "t-1", "chat_name": "Team"}
    entry = store.get_or_create_session(source("group-2", **{**BOB, **thread}))
    assert entry.session_id == ids["shared"]
    assert lane(store, entry.session_key).origin.user_name == "Bob Builder"


def test_a_dry_run_changes_nothing_and_tells_what_would_be_erased(store, clock):
    everywhere(store, clock)
    store.runner.touches.flush()
    before, end = tables(store), store.log.last_position
    told = store.erase(user_id=ADA["user_id"], **ASKED, dry_run=True)
    assert told.dry_run
    assert (tables(store), store.log.last_position) == (before, end)
    done = store.erase(user_id=ADA["user_id"], **ASKED)
    assert set(told.positions) <= set(done.positions)
    assert (told.sessions, told.lanes) == (done.sessions, done.lanes)
    assert store.erase(user_id=ADA["user_id"], **ASKED).events == 0, "nothing is left to erase"


def test_what_stands_beside_the_payload_is_named(store, source):
    """Actors and reasons are covered by the hash chain: the report says who put the person there."""
    session_id = store.get_or_create_session(source(**ADA)).session_id
    with acting("Ada Lovelace", reason="Ada Lovelace said so"):
        say(store, session_id, "words")
    report = store.erase(user_id=ADA["user_id"], **ASKED)
    assert {each.what for each in report.left} == {"the actor 'Ada Lovelace'", "the reason 'Ada Lovelace said so'"}
    assert all(each.positions for each in report.left)


def test_what_is_in_quarantine_goes_too(store, open_store, source):
    """An error may repeat what could not be read, in the table and in the log."""
    session_id = store.get_or_create_session(source(**ADA)).session_id
    with EventLog(store.log.path) as log:
        lost = e.LaneRouted(session_id="../secret words", how="created", key="k", origin={"user_id": ADA["user_id"]})
        log.append([Envelope("lane:theirs", NEXT_VERSION, lost)])
    store.close()
    store = open_store()
    say(store, session_id, "words")
    assert store.quarantined()
    store.erase(user_id=ADA["user_id"], **ASKED, purge=True)
    assert store.quarantined() == []
    assert found_in_files(store, ["secret words", ADA["user_id"]]) == []


def test_what_was_being_rebuilt_goes_too(store, clock):
    """Tables that a killed rebuild left behind have the words as well."""
    from projections.inline import rebuilding

    everywhere(store, clock)
    store.log.transact(rebuilding._begin)
    store.log.transact(lambda t: t.execute("INSERT INTO lanes_next SELECT * FROM lanes"))
    store.erase(user_id=ADA["user_id"], **ASKED, purge=True)
    assert found_in_files(store, [*HERS, ADA["user_id"]]) == []


def test_what_arrives_while_a_person_is_erased_is_erased_too(store, source, monkeypatch):
    session_id = store.get_or_create_session(source(**ADA)).session_id
    say(store, session_id, "before")
    erase = store.log.erase
    said = []

    def meanwhile(*arguments, **named):
        if not said:
            said.append(store.append_to_transcript(session_id, user("meanwhile")))
        return erase(*arguments, **named)

    monkeypatch.setattr(store.log, "erase", meanwhile)
    report = store.erase(user_id=ADA["user_id"], **ASKED)
    assert said[0] in report.positions
    assert texts(store, session_id) == []


@pytest.mark.parametrize(
    "given",
    [{}, {"session_id": "s", "lane": "agent:main:telegram:dm:1"}, {"lane": "k", "platform": "telegram"}],
)
def test_exactly_one_thing_is_erased(store, given):
    with pytest.raises(ValueError, match=r"exactly one|platform goes with"):
        store.erase(**given, reason="asked to")


def test_positions_that_do_not_exist_are_refused(store):
    with pytest.raises(ValueError, match="no event is at"):
        store.erase(positions=[10**9], reason="asked to")


def test_from_a_task(store, clock):
    ids = everywhere(store, clock)

    async def erase() -> None:
        tasks = AsyncSessionStore(store)
        report = await tasks.erase(session_id=ids["private"], **ASKED)
        assert report.messages == 1
        assert await tasks.purge()

    asyncio.run(erase())
    assert found_in_files(store, ["private words"]) == []


@pytest.mark.parametrize("seed", range(3))
def test_no_byte_is_left_whatever_pages_they_were_on(open_store, clock, seed):
    """Many lanes, messages of all sizes, undone and rewritten: pages were split and freed, rows grew and shrank."""
    chance = random.Random(seed)
    store = open_store()
    for n in range(30):
        hers = n % 3 == 0
        who = {**ADA, "user_name": f"Ada Lovelace {n}"} if hers else {**BOB, "user_id": f"u{n}"}
        entry = store.get_or_create_session(source(f"{'ada' if hers else 'bob'}-{n}", **who))
        word = "SECRETWORD" if hers else "otherword"
        for m in range(chance.randrange(3, 25)):
            text = f"{word} {m} " + "x" * chance.choice([0, 10, 300, 5000])
            store.append_to_transcript(entry.session_id, user(text, f"{word}-{n}-{m}"))
        if chance.random() < 0.5:
            store.rewind_session(entry.session_id, 2)
            store.rewrite_transcript(entry.session_id, store.load_transcript(entry.session_id)[1:])
        if chance.random() < 0.5:
            store.compress_session(entry.session_id, None, [user(f"{word} in short")], covers=2)
        store.set_session_title(entry.session_id, f"{word} title")
        store.update_session(entry.session_key, 5, input_tokens=10)
        if chance.random() < 0.3:
            store.reset_session(entry.session_key)
    if seed == 1:
        store.rebuild()
    report = store.erase(user_id=ADA["user_id"], **ASKED, purge=True)
    assert report.purged
    assert found_in_files(store, ["SECRETWORD", "Ada Lovelace", ADA["user_id"], "ada-"]) == []
    assert found_in_files(store, ["otherword"])
    assert store.verify().ok
    assert not any("SECRETWORD" in repr(event) for event in since(store, 0))


@pytest.mark.parametrize(
    "given", [{"user_id": "nobody"}, {"session_id": "nothing"}, {"lane": "agent:main:signal:dm:0"}]
)
@pytest.mark.parametrize("dry_run", [True, False])
def test_somebody_unknown_is_a_report_of_nothing(store, clock, given, dry_run):
    """V15: not an error, since a request may come twice, and nothing is recorded."""
    everywhere(store, clock)
    store.runner.touches.flush()
    end = store.log.last_position
    report = store.erase(**given, **ASKED, dry_run=dry_run)
    assert (report.events, report.sessions, report.left) == (0, (), ())
    assert store.log.last_position == end


def test_every_store_reader_and_follower_has_let_go(store, open_store, clock, monkeypatch):
    """V15, V14: whoever had the words in memory does not give them any more."""
    ids = everywhere(store, clock)
    other = open_store()
    readers = [store, other, SessionReader.open(store.sessions_dir)]
    follower = store.follow(timeout=0)
    assert next(follower).position == 1
    for each in readers:
        assert texts(each, ids["private"]) == ["private words"]
    store.erase(user_id=ADA["user_id"], **ASKED)
    monkeypatch.setattr(following, "_STALE_SECONDS", -1.0)
    for each in readers:
        assert texts(each, ids["private"]) == []
        assert "Ada" not in repr(each.list_sessions())
    told = repr([change.event for change in follower])
    assert all(word not in told for word in [*HERS, ADA["user_id"]] if word != "dm:4711")
    readers[2].close()
