"""G42 to G44: sessions as a whole."""

import pytest

from engine import SessionStateError
from engine.domain import events as e
from tests.gateway.support import lane, said, say, since, texts

KEY = "agent:main:telegram:dm:4711"
SUMMARY = [{"role": "system", "content": "what was said"}]


class TestCompression:
    def test_one_step(self, store, source):
        """G42: parent closed, child made, lane moved, in one command."""
        parent = store.get_or_create_session(source()).session_id
        say(store, parent, "one", "two")
        before = store.log.last_position
        commits = store.metrics()["commits"]
        child = store.compress_session(parent, "20260701_142530_0000c41d", SUMMARY)
        assert child == "20260701_142530_0000c41d"
        assert store.metrics()["commits"] == commits + 1
        kinds = [type(each.event) for each in since(store, before)]
        made = [e.SessionCreated, e.SessionClaimed, e.TranscriptRewritten]
        assert kinds == [e.SessionCompressed, *made, e.LaneAdvanced]
        assert store.peek_session_id(KEY) == child
        closed = store.get_session(parent)
        assert (closed.end_reason, closed.compressed_into) == ("compression", child)
        assert texts(store, child) == ["what was said"]
        assert texts(store, parent) == ["one", "two"]

    def test_messages_appended_meanwhile_are_carried(self, store, source):
        """G42: the summary was made from two."""
        parent = store.get_or_create_session(source()).session_id
        say(store, parent, "one", "two")
        store.append_to_transcript(parent, {"role": "user", "content": "three", "message_id": "m3"})
        child = store.compress_session(parent, summary_messages=SUMMARY, covers=2)
        assert texts(store, child) == ["what was said", "three"]
        assert store.get_session(child).message_count == 2
        again = {"role": "user", "content": "three", "message_id": "m3"}
        assert store.append_to_transcript(child, again) is None, "a carried message is known"

    def test_the_event_says_how_many_were_carried(self, store, source):
        """G42."""
        parent = store.get_or_create_session(source()).session_id
        say(store, parent, "one", "two", "three")
        store.compress_session(parent, summary_messages=SUMMARY, covers=1)
        (event,) = (each.event for each in store.log.events() if isinstance(each.event, e.SessionCompressed))
        assert event.carried == 2

    @pytest.mark.parametrize("accident", ["agent_close", "ws_orphan_reap"])
    def test_what_ended_by_accident_can_be_compressed(self, store, source, accident):
        """G42, G44: compression is deliberate, and replaces the accident."""
        parent = store.get_or_create_session(source()).session_id
        store.end_session(parent, accident)
        child = store.compress_session(parent)
        closed = store.get_session(parent)
        assert (closed.end_reason, closed.compressed_into) == ("compression", child)
        assert store.get_or_create_session(source()).session_id == child

    def test_the_conversation_keeps_its_id(self, store, source):
        """G42."""
        first = store.get_or_create_session(source()).session_id
        second = store.compress_session(first)
        third = store.compress_session(second)
        assert {store.get_session(each).conversation_id for each in (first, second, third)} == {first}
        assert store.get_session(third).parent_session_id == second

    def test_flags_and_counts_of_the_lane_stay(self, store, source):
        """G42: compression is no reset."""
        first = store.get_or_create_session(source())
        store.update_session(KEY, 5, input_tokens=7)
        store.mark_resume_pending(KEY)
        store.compress_session(first.session_id)
        entry = lane(store, KEY)
        assert (entry.total_tokens, entry.resume_pending, entry.was_auto_reset) == (7, True, False)
        assert entry.created_at == first.created_at

    def test_a_message_that_comes_late_for_the_parent_is_not_lost_to_the_conversation(self, store, source):
        """G42: whoever still holds the parent's id writes where the conversation goes on."""
        parent = store.get_or_create_session(source()).session_id
        child = store.compress_session(store.compress_session(parent, None, SUMMARY))
        assert store.append_to_transcript(parent, {"role": "tool", "content": "late"}) is not None
        assert said(store, child)[-1] == {"role": "tool", "content": "late"}
        assert store.load_transcript(parent) == []

    def test_a_message_that_was_summarised_is_not_stored_again_when_it_is_delivered_again(self, store, source):
        """G42, G47 and regression 9: the child knows the platform ids of its parents."""
        parent = store.get_or_create_session(source()).session_id
        store.append_to_transcript(parent, {"role": "user", "content": "hi", "message_id": "m1"})
        child = store.compress_session(parent, None, SUMMARY)
        assert store.has_platform_message_id(child, "m1")
        assert store.append_to_transcript(child, {"role": "user", "content": "hi", "message_id": "m1"}) is None
        assert store.append_to_transcript(parent, {"role": "user", "content": "hi", "message_id": "m1"}) is None
        assert said(store, child) == SUMMARY

    def test_a_compressed_parent_without_a_child_cannot_exist(self, store, source):
        """G42: neither by ending, nor by a refused child, nor by compressing twice."""
        parent = store.get_or_create_session(source()).session_id
        other = store.get_or_create_session(source("other")).session_id
        before = store.log.last_position
        with pytest.raises(ValueError, match="use compress_session"):
            store.end_session(parent, "compression")
        for taken in (parent, other):
            with pytest.raises(SessionStateError, match="exists already"):
                store.compress_session(parent, taken)
        with pytest.raises(ValueError, match="a message must be a dict"):
            store.compress_session(parent, summary_messages=["text"])
        assert store.log.last_position == before
        child = store.compress_session(parent)
        with pytest.raises(SessionStateError, match=child):
            store.compress_session(parent)

    def test_what_ended_on_purpose_is_not_compressed(self, store, source):
        """G42, G44: its end stands."""
        parent = store.get_or_create_session(source()).session_id
        store.end_session(parent, "user_exit")
        with pytest.raises(SessionStateError, match="user_exit"):
            store.compress_session(parent)


class TestFork:
    def parent(self, store, source):
        parent = store.get_or_create_session(source()).session_id
        positions = [
            store.append_to_transcript(parent, {"role": role, "content": text, "message_id": f"id-{text}"})
            for role, text in (("user", "one"), ("assistant", "two"), ("user", "three"))
        ]
        return parent, positions

    def test_up_to_a_message_its_id_or_a_position(self, store, source):
        """G43."""
        parent, positions = self.parent(store, source)
        message = store.load_transcript(parent)[1]
        forks = [store.fork_session(parent, at) for at in (message, "id-two", positions[1])]
        assert [texts(store, fork) for fork in forks] == [["one", "two"]] * 3
        assert texts(store, store.fork_session(parent)) == ["one", "two", "three"]
        assert texts(store, store.fork_session(parent, 1)) == []

    def test_of_equal_messages_the_last_is_meant(self, store, source):
        """G43."""
        parent = store.get_or_create_session(source()).session_id
        say(store, parent, "yes", "no", "yes", "end")
        message = store.load_transcript(parent)[0]
        assert texts(store, store.fork_session(parent, message)) == ["yes", "no", "yes"]

    @pytest.mark.parametrize(
        "message", [{"content": "x"}, {"role": "user", "content": ("a", "b")}], ids=["no role", "tuple"]
    )
    def test_a_message_is_found_as_it_was_given(self, store, source, message):
        """G43: not only as it comes back."""
        parent = store.get_or_create_session(source()).session_id
        say(store, parent, "one")
        store.append_to_transcript(parent, message)
        say(store, parent, "two")
        fork = store.fork_session(parent, message)
        assert store.load_transcript(fork) == store.load_transcript(parent)[:2]

    def test_the_original_is_untouched(self, store, source):
        """G43."""
        parent, _ = self.parent(store, source)
        before = store.get_session(parent), store.load_transcript(parent), store.log.version(f"session:{parent}")
        fork = store.fork_session(parent, "id-one")
        say(store, fork, "other")
        after = store.get_session(parent), store.load_transcript(parent), store.log.version(f"session:{parent}")
        assert after == before
        assert store.peek_session_id(KEY) == parent
        found = store.get_session(fork)
        assert (found.parent_session_id, found.relation, found.message_count) == (parent, "fork", 2)
        assert found.conversation_id == fork

    def test_a_position_before_an_undo_still_has_what_was_live_then(self, store, source):
        """G43: the log forgets nothing."""
        parent, positions = self.parent(store, source)
        store.rewind_session(parent)
        store.rewrite_transcript(parent, SUMMARY)
        assert texts(store, store.fork_session(parent, positions[2])) == ["one", "two", "three"]

    def test_an_unknown_message_is_refused(self, store, source):
        """G43."""
        parent, _ = self.parent(store, source)
        store.rewind_session(parent)
        for at in ("id-nobody", {"role": "user", "content": "never"}, "id-three"):
            with pytest.raises(SessionStateError, match="no live message"):
                store.fork_session(parent, at)
        with pytest.raises(ValueError, match="at must be"):
            store.fork_session(parent, 1.5)

    def test_a_fork_is_recovered_by_nobody(self, store, clock, source):
        """G43, G27: it belongs to no lane until a lane is switched to it."""
        parent, _ = self.parent(store, source)
        fork = store.fork_session(parent)
        store.reset_session(KEY)
        clock.advance(days=2)
        store.prune_old_entries(1)
        assert store.get_or_create_session(source()).session_id != fork
        assert store.switch_session(KEY, fork).session_id == fork


class TestEnding:
    @pytest.mark.parametrize(
        ("first", "second", "stands"),
        [
            ("agent_close", "session_reset", "session_reset"),
            ("agent_close", "ws_orphan_reap", "agent_close"),
            ("session_reset", "agent_close", "session_reset"),
            ("session_reset", "idle", "session_reset"),
        ],
    )
    def test_the_first_reason_wins_unless_it_was_an_accident(self, store, source, first, second, stands):
        """G44."""
        session_id = store.get_or_create_session(source()).session_id
        assert store.end_session(session_id, first) is True
        assert store.end_session(session_id, second) is (first != stands)
        assert store.get_session(session_id).end_reason == stands

    def test_reopen(self, store, clock, source):
        """G44."""
        session_id = store.get_or_create_session(source()).session_id
        assert store.reopen_session(session_id) is False
        store.end_session(session_id, "idle")
        assert store.get_session(session_id).ended_at == clock()
        assert store.reopen_session(session_id) is True
        assert store.get_session(session_id).ended_at is None
        assert store.get_or_create_session(source()).session_id == session_id


class TestTitles:
    def sessions(self, store, source, count=4):
        return [store.get_or_create_session(source(str(number))).session_id for number in range(count)]

    def test_unique_per_store(self, store, source):
        """G44."""
        a, b, c, d = self.sessions(store, source)
        assert [store.set_session_title(each, "Trip") for each in (a, b, c)] == ["Trip", "Trip #2", "Trip #3"]
        assert store.set_session_title(d, "Trip #2") == "Trip #4"
        assert store.set_session_title(a, "Trip") == "Trip", "one's own name is free"
        before = store.log.last_position
        assert [store.set_session_title(each, "Trip") for each in (b, c)] == ["Trip #2", "Trip #3"], "and one's number"
        assert store.log.last_position == before
        assert [store.get_session(each).title for each in (a, b)] == ["Trip", "Trip #2"]

    def test_a_number_that_somebody_chose_is_not_given_again(self, store, source):
        """G44: also when there is a gap before it."""
        a, b, c, _ = self.sessions(store, source)
        store.set_session_title(a, "Trip")
        assert store.set_session_title(b, "Trip #3") == "Trip #3"
        assert store.set_session_title(c, "Trip") == "Trip #4"

    def test_choosing_the_automatic_title_makes_it_chosen(self, store, source):
        """G44."""
        (session_id,) = self.sessions(store, source, 1)
        assert store.set_auto_title(session_id, "Guess") == "Guess"
        assert store.set_session_title(session_id, "Guess") == "Guess"
        assert store.set_auto_title(session_id, "Better guess") == "Guess"

    def test_a_lineage_counts_up(self, store, source):
        """G44."""
        (first,) = self.sessions(store, source, 1)
        store.set_session_title(first, "Trip")
        second = store.compress_session(first)
        third = store.compress_session(second)
        fork = store.fork_session(third)
        assert [store.get_session(each).title for each in (second, third, fork)] == ["Trip #2", "Trip #3", "Trip #4"]

    def test_an_automatic_title_does_not_replace_a_chosen_one(self, store, source):
        """G44: nor one that was inherited from a chosen one."""
        a, b, _, _ = self.sessions(store, source)
        assert store.set_auto_title(a, "Guess") == "Guess"
        assert store.set_auto_title(a, "Better guess") == "Better guess"
        assert store.set_session_title(a, "Chosen") == "Chosen"
        assert store.set_auto_title(a, "Guess") == "Chosen"
        assert store.set_auto_title(store.compress_session(a), "Guess") == "Chosen #2"
        store.set_auto_title(b, "Auto")
        assert store.set_auto_title(store.compress_session(b), "Guess") == "Guess"

    def test_hostile_titles(self, store, source):
        """G44, G52: a lone surrogate is marked, and the title is still unique."""
        a, b, _, _ = self.sessions(store, source)
        assert store.set_session_title(a, " x\ud800\n y ") == "x\\ud800 y"
        assert store.set_session_title(b, "x\ud800 y") == "x\\ud800 y #2"
        with pytest.raises(ValueError, match="title"):
            store.set_session_title(a, 5)
