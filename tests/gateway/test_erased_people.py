"""Erasing a person whoever named them: other ids, numbers, private chats, and words where one does not look (V15)."""

import json

import pytest

from engine import Platform, SessionCatalog, SessionSource
from engine.domain.encoding import decode
from engine.erasure.content import is_somebodys
from tests.gateway.support import say, source, texts
from tests.gateway.test_erasure import ADA, ASKED, BOB, found_in_files, user

THREAD = {"chat_type": "group", "thread_id": "t-1", "chat_name": "Team"}


@pytest.mark.parametrize("given", [{"user_id": 4242}, {"user_id": "4242", "platform": Platform.TELEGRAM}])
def test_ids_as_numbers_and_platforms_as_members_are_taken(store, given):
    """G4a, G1a, V15: hosts hold ids as numbers, in sources and in messages. It found nothing, and said so."""
    own = store.get_or_create_session(source("4242", user_id=4242))
    say(store, own.session_id, "private words")
    shared = store.get_or_create_session(source("group", **{**BOB, **THREAD}))
    said = [user("words by number", user_id=4242), user("also", sender_id="4242"), user("of Bob", user_id=42)]
    store.append_messages(shared.session_id, said)
    report = store.erase(**given, **ASKED, purge=True)
    assert report.messages == 3
    assert texts(store, shared.session_id) == ["of Bob"]
    assert found_in_files(store, ["private words", "words by number", "4242"]) == []


def test_a_session_of_theirs_that_was_deleted_stands_in_no_way(store):
    """V15, W9: of a group that they began; nobody can claim it any more, and the erasure goes on."""
    began = store.get_or_create_session(source("group", **{**ADA, **THREAD}))
    say(store, began.session_id, "words of hers")
    SessionCatalog(store).delete_session(began.session_id)
    store.erase(user_id=ADA["user_id"], **ASKED, purge=True)
    assert found_in_files(store, [ADA["user_id"]]) == []
    assert store.verify().ok


def test_what_is_under_the_persons_other_id_goes_along(store):
    """V15: their sources name it beside the id that was given; on another platform it is somebody else's."""
    alt = {"user_id_alt": "uuid-of-ada"}
    store.get_or_create_session(source("room", chat_type="group", **{**ADA, **alt, "chat_name": "Team"}))
    only = store.get_or_create_session(source("uuid-of-ada", **alt, user_name="A. L."))
    say(store, only.session_id, "under her other id")
    shared = store.get_or_create_session(source("group", **{**BOB, **THREAD}))
    store.append_messages(shared.session_id, [user("said so too", user_id="uuid-of-ada"), user("of Bob")])
    signal = SessionSource(Platform.SIGNAL, "uuid-of-ada", user_id="uuid-of-ada", user_name="Eve Else")
    other = store.get_or_create_session(signal)
    say(store, other.session_id, "somebody else")
    store.erase(user_id=ADA["user_id"], **ASKED, purge=True)
    assert found_in_files(store, ["under her other id", "said so too", ADA["user_id"], "A. L."]) == []
    assert texts(store, shared.session_id) == ["of Bob"]
    assert texts(store, other.session_id) == ["somebody else"]
    assert store.verify().ok


def test_the_other_id_leads_no_further(store):
    """V15: who else has it may be a bot's or a relay's other people."""
    store.get_or_create_session(source("1", **{**ADA, "user_id_alt": "relay"}))
    bob = store.get_or_create_session(source("0815", **BOB, user_id_alt="bob-alt"))
    say(store, bob.session_id, "of Bob")
    relayed = store.get_or_create_session(source("0816", user_id="u-eve", user_id_alt="relay"))
    say(store, relayed.session_id, "relayed")
    eve = store.get_or_create_session(source("0817", user_id="u-eve"))
    say(store, eve.session_id, "of Eve alone")
    store.erase(user_id=ADA["user_id"], **ASKED)
    assert texts(store, relayed.session_id) == []
    assert (texts(store, bob.session_id), texts(store, eve.session_id)) == (["of Bob"], ["of Eve alone"])


def test_a_private_chat_without_a_user_is_found_by_its_chat(store):
    """V15: in a private chat most platforms give the person's own id to the chat; a group's id is nobody's."""
    private = store.get_or_create_session(source("4242"))
    say(store, private.session_id, "private words")
    group = store.get_or_create_session(source("4242", **THREAD))
    say(store, group.session_id, "of a group")
    store.erase(user_id="4242", platform="telegram", **ASKED, purge=True)
    assert found_in_files(store, ["private words"]) == []
    assert texts(store, group.session_id) == ["of a group"]


def test_a_whatsapp_person_is_found_under_every_alias(store, tmp_path, monkeypatch):
    """G12, V15: a phone number, with device and server, and the hidden id that the bridge's files map to it."""
    folder = tmp_path / "whatsapp" / "session"
    folder.mkdir(parents=True)
    (folder / "lid-mapping-4915112345.json").write_text(json.dumps("998877"))
    (folder / "lid-mapping-998877_reverse.json").write_text(json.dumps("4915112345"))
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    phone = SessionSource(Platform.WHATSAPP, "4915112345:12@s.whatsapp.net", user_id="4915112345:12@s.whatsapp.net")
    hidden = SessionSource(Platform.WHATSAPP, "group@g.us", chat_type="group", user_id="998877@lid", thread_id="t")
    say(store, store.get_or_create_session(phone).session_id, "private words")
    shared = store.get_or_create_session(hidden).session_id
    store.append_messages(shared, [user("hidden words", sender_id="998877@lid"), user("of Bob", sender_id="49222")])
    store.erase(user_id="+4915112345", **ASKED, purge=True)
    assert found_in_files(store, ["private words", "hidden words", "4915112345", "998877"]) == []
    assert texts(store, shared) == ["of Bob"]


def test_words_that_the_host_gave_as_reasons_go_too(store, source):
    """V15: why a session ended and why a lane is to be resumed are texts of the host's, not the engine's words."""
    entry = store.get_or_create_session(source(**ADA))
    say(store, entry.session_id, "x")
    store.mark_resume_pending(entry.session_key, "SECRETWORD was cut off")
    store.end_session(entry.session_id, "SECRETWORD left")
    store.reopen_session(entry.session_id)
    store.end_session(entry.session_id, "SECRETWORD left again")
    again = store.get_or_create_session(source(**ADA))
    assert again.session_id != entry.session_id
    store.end_session(again.session_id, "agent_close")
    store.end_turn(store.begin_turn(store.get_or_create_session(source(**ADA)).session_key), error="SECRETWORD")
    report = store.erase(user_id=ADA["user_id"], **ASKED, purge=True)
    assert found_in_files(store, ["SECRETWORD"]) == []
    assert report.left == ()
    assert store.get_session(entry.session_id).end_reason == "erased"
    assert store.get_session(again.session_id).end_reason == "agent_close", "the engine's own words are nobody's"
    assert store.verify().ok


def test_what_nobody_can_read_counts_as_somebodys():
    """V15: an event of a kind that names nobody, with something else in it than that kind has."""
    assert is_somebodys(decode("session.compressed", b'{"child_session_id":["words"]}'))
    assert not is_somebodys(decode("session.compressed", b'{"child_session_id":"s2"}'))


def test_a_compressed_conversation_stays_one_for_the_others(store, clock):
    """G42, G47, V15: erasing who spoke first tore it, and the others' messages were taken twice."""
    shared = store.get_or_create_session(source("group", **{**ADA, **THREAD})).session_id
    hers = user("hers", "tg-a", user_id=ADA["user_id"])
    store.append_messages(shared, [hers, user("of Bob", "tg-b", user_id=BOB["user_id"])])
    clock.advance(minutes=1)
    child = store.compress_session(shared, None, [user("so far")], covers=2)
    assert store.erase(user_id=ADA["user_id"], **ASKED, purge=True).messages == 1
    entry = store.get_or_create_session(source("group", **{**BOB, **THREAD}))
    assert entry.session_id == child
    assert store.get_session(child).conversation_id == shared
    assert [each.session_id for each in store.conversation(child)] == [shared, child]
    assert store.append_to_transcript(child, user("of Bob", "tg-b")) is None, "delivered again"
    assert found_in_files(store, [ADA["user_id"], "Ada Lovelace"]) == []
    assert store.verify().ok


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"user_id": ""}, "user_id"),
        ({"user_id": True}, "user_id"),
        ({"user_id": "u", "platform": 5}, "platform"),
        ({"user_id": "u", "platform": ""}, "platform"),
        ({"session_id": ""}, "session_id"),
        ({"session_id": 5}, "session_id"),
        ({"lane": ""}, "lane"),
        ({"positions": "12"}, "positions"),
        ({"positions": [True]}, "positions"),
        ({"positions": 5}, "positions"),
        ({"user_id": "u", "reason": ""}, "reason"),
        ({"user_id": "u", "request": 7}, "request"),
    ],
)
def test_bad_input_is_refused_by_name_before_anything_is_erased(store, source, given, named):
    """V15: an empty id matched everybody's texts, and a number as request could not be read back."""
    store.get_or_create_session(source(**ADA, message_id="u"))
    end = store.log.last_position
    with pytest.raises(ValueError, match=named):
        store.erase(**{"reason": "asked to", **given})
    assert store.log.last_position == end
