"""The corrected rules of sessions, as a gateway written for hermes-agent meets them, on a store (G44a to G51a)."""

import asyncio

import pytest

from engine import AsyncSessionStore, UnknownSessionError
from tests.gateway.support import said, say, texts

UNKNOWN = "20200101_000000_00000000"
SUMMARY = [{"role": "system", "content": "what was said"}]


class TestTitles:
    @pytest.mark.parametrize("nothing", [None, "", "  \n "])
    def test_g44a_a_title_can_be_cleared(self, store, source, nothing):
        session_id = store.get_or_create_session(source()).session_id
        store.set_session_title(session_id, "Trip")
        assert store.set_session_title(session_id, nothing) is None
        assert store.get_session(session_id).title is None
        other = store.get_or_create_session(source("other")).session_id
        assert store.set_session_title(other, "Trip") == "Trip", "the name is free again"

    def test_g44a_the_name_of_a_closed_parent_moves_to_the_child_that_asks_for_it(self, store, source):
        parent = store.get_or_create_session(source()).session_id
        store.set_session_title(parent, "Trip")
        child = store.compress_session(parent)
        assert store.get_session(child).title == "Trip #2"
        assert store.set_session_title(child, "Trip") == "Trip"
        assert (store.get_session(parent).title, store.get_session(child).title) == (None, "Trip")

    def test_g44a_a_name_moves_over_several_closed_segments_but_from_nobody_else(self, store, source):
        first = store.get_or_create_session(source()).session_id
        store.set_session_title(first, "Trip")
        last = store.compress_session(store.compress_session(first))
        assert store.set_session_title(last, "Trip") == "Trip"
        stranger = store.get_or_create_session(source("other")).session_id
        assert store.set_session_title(stranger, "Trip") == "Trip #3"
        fork = store.fork_session(last)
        assert store.set_session_title(fork, "Trip") != "Trip", "a fork is a conversation of its own"
        assert store.get_session(last).title == "Trip"


def with_id(number, text=None):
    return {"role": "user", "content": text or f"text {number}", "platform_message_id": f"m{number}"}


class TestPlatformIds:
    def told(self, store, source, count=4):
        session_id = store.get_or_create_session(source()).session_id
        store.append_messages(session_id, [with_id(number) for number in range(count)])
        return session_id

    def known(self, store, session_id, count=4):
        return {number for number in range(count) if store.has_platform_message_id(session_id, f"m{number}")}

    def test_g47a_a_rewrite_frees_the_ids_of_what_it_leaves_out(self, store, open_store, source):
        session_id = self.told(store, source)
        store.rewrite_transcript(session_id, store.load_transcript(session_id)[:2])
        assert self.known(store, session_id) == {0, 1}
        assert store.append_to_transcript(session_id, with_id(1)) is None
        assert store.append_to_transcript(session_id, with_id(3)) is not None
        for each in (store, open_store()):
            assert texts(each, session_id) == ["text 0", "text 1", "text 3"]

    def test_g47a_undo_compression_and_restart_keep_them(self, store, open_store, source):
        session_id = self.told(store, source)
        store.rewind_session(session_id, 2)
        assert self.known(store, session_id) == {0, 1, 2, 3}
        child = store.compress_session(session_id, None, SUMMARY)
        assert self.known(store, child) == {0, 1, 2, 3}
        store.close()
        again = open_store()
        again.rebuild()
        assert self.known(again, child) == {0, 1, 2, 3}
        assert again.append_messages(child, [with_id(number) for number in range(4)]) == []

    def test_g47a_what_was_carried_over_a_compression_is_freed_too_and_what_was_summarised_is_not(self, store, source):
        session_id = self.told(store, source)
        child = store.compress_session(session_id, None, SUMMARY, covers=2)
        store.rewrite_transcript(child, SUMMARY)
        assert self.known(store, child) == {0, 1}
        store.rebuild()
        assert self.known(store, child) == {0, 1}

    def test_g47a_what_a_fork_leaves_out_is_freed_for_the_fork_alone(self, store, source):
        session_id = self.told(store, source)
        fork = store.fork_session(session_id)
        assert self.known(store, fork) == {0, 1, 2, 3}
        store.rewrite_transcript(fork, store.load_transcript(fork)[:1])
        assert store.append_to_transcript(fork, with_id(3)) is not None
        assert store.append_to_transcript(fork, with_id(0)) is None
        assert self.known(store, session_id) == {0, 1, 2, 3}


class TestUnknownIds:
    def test_g49a_reading_what_does_not_exist_is_empty(self, store):
        assert store.load_transcript(UNKNOWN) == []
        assert store.recorded_messages(UNKNOWN) == []
        assert store.rewind_session(UNKNOWN) is None
        assert store.has_platform_message_id(UNKNOWN, "m") is False
        assert store.log.last_position == 0

    @pytest.mark.parametrize(
        ("name", "arguments"),
        [
            ("append_to_transcript", [{"role": "user"}]),
            ("append_messages", [[{"role": "user"}]]),
            ("append_messages", [[]]),
            ("rewrite_transcript", [[]]),
            ("compress_session", []),
            ("fork_session", []),
        ],
    )
    def test_g49a_what_would_lose_something_raises(self, store, name, arguments):
        with pytest.raises(UnknownSessionError, match=UNKNOWN):
            getattr(store, name)(UNKNOWN, *arguments)

        async def main():
            with pytest.raises(UnknownSessionError, match=UNKNOWN):
                await getattr(AsyncSessionStore(store), name)(UNKNOWN, *arguments)

        asyncio.run(main())

    def test_a_session_id_and_a_lanes_key_are_told_apart_in_the_error(self, store, source):
        entry = store.get_or_create_session(source())
        for name, rest in (
            ("update_session", []),
            ("suspend_session", []),
            ("reset_session", []),
            ("switch_session", [entry.session_id]),
            ("set_model_override", [None]),
            ("begin_turn", []),
            ("peek_session_id", []),
        ):
            with pytest.raises(
                ValueError, match=r"^session_key .*looks like a session's id; pass the lane's session_key"
            ):
                getattr(store, name)(entry.session_id, *rest)
        for name, rest in (("append_to_transcript", [{}]), ("load_transcript", []), ("end_session", ["x"])):
            with pytest.raises(ValueError, match=r"^session_id .*looks like a lane's key; pass the lane's session_id"):
                getattr(store, name)(entry.session_key, *rest)


class TestTimes:
    def test_g49b_every_message_has_a_time_the_callers_else_the_recorded_one(self, store, open_store, clock, source):
        session_id = store.get_or_create_session(source()).session_id
        recorded = []
        for message in ({"content": "a"}, {"content": "b", "timestamp": 5}, {"content": "c", "timestamp": None}):
            clock.advance(seconds=10)
            recorded.append(clock().timestamp())
            store.append_to_transcript(session_id, message)
        for each in (store, open_store()):
            times = [message["timestamp"] for message in each.load_transcript(session_id)]
            assert times == [recorded[0], 5, recorded[2]]

    def test_g49b_a_rewritten_history_has_the_times_it_was_given_else_that_of_the_rewrite(self, store, clock, source):
        session_id = store.get_or_create_session(source()).session_id
        say(store, session_id, "a")
        before = store.load_transcript(session_id)
        clock.advance(seconds=10)
        store.rewrite_transcript(session_id, [*before, {"content": "b"}])
        times = [message["timestamp"] for message in store.load_transcript(session_id)]
        assert times == [before[0]["timestamp"], clock().timestamp()]

    def test_g46_a_message_without_a_role_is_unknowns(self, store, source):
        session_id = store.get_or_create_session(source()).session_id
        store.append_messages(session_id, [{"content": "a"}, {"role": None, "content": "b"}])
        assert [message["role"] for message in store.load_transcript(session_id)] == ["unknown", "unknown"]


def test_g51a_the_whole_hidden_user_message_comes_back(store, source):
    session_id = store.get_or_create_session(source()).session_id
    content = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "file:///a.png"}}]
    asked = {"role": "user", "content": content, "platform_message_id": "m1", "observed": True, "timestamp": 5}
    store.append_messages(session_id, [{"role": "user", "content": "first"}, asked])
    say(store, session_id, "a picture", role="assistant")
    found = store.rewind_session(session_id)
    assert found["target_text"] == "look"
    assert found["target_message"] == {
        "role": "user",
        "content": content,
        "message_id": "m1",
        "observed": True,
        "timestamp": 5,
    }
    assert [message["content"] for message in said(store, session_id)] == ["first"]
