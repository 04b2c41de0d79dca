"""The actor and the reason, per task; and what can be asked of a lane's and a conversation's past: awaited or not."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from engine import AsyncSessionStore, TurnLostError, UnknownSessionError, acting
from tests.gateway.support import say, since

KEY = "agent:main:telegram:dm:4711"
SUMMARY = [{"role": "system", "content": "what was said"}]


@pytest.fixture(params=["sync", "async"])
def ask(request, store):
    """Ask a store or its awaitable form by a method's name."""

    def asking(name, *arguments, **named):
        if request.param == "sync":
            return getattr(store, name)(*arguments, **named)
        return asyncio.run(getattr(AsyncSessionStore(store), name)(*arguments, **named))

    return asking


class TestActing:
    def by(self, store, position):
        """Actor and reason of what was written since."""
        return [(each.actor, each.reason) for each in since(store, position)]

    def test_commands_of_the_block_have_its_actor_and_reason(self, store, source, ask):
        """Those that have reasons of their own too: every event of the block."""
        entry = store.get_or_create_session(source())
        before = store.log.last_position
        with acting("ada", reason="she asked to start over"):
            ask("reset_session", KEY)
            ask("append_to_transcript", store.peek_session_id(KEY), {"role": "user", "content": "hi"})
        found = self.by(store, before)
        assert len(found) == 4
        assert set(found) == {("ada", "she asked to start over")}
        assert store.get_session(entry.session_id).end_reason == "session_reset"

    def test_without_a_reason_each_command_keeps_its_own(self, store, source, ask):
        store.get_or_create_session(source())
        before = store.log.last_position
        with acting("ada"):
            ask("suspend_session", KEY)
        assert self.by(store, before) == [("ada", "suspended by the host")]

    def test_outside_the_block_the_store_acts_again(self, store, source, ask):
        store.get_or_create_session(source())
        with acting("ada", reason="x"), acting("bob"):
            pass
        before = store.log.last_position
        ask("suspend_session", KEY)
        assert self.by(store, before) == [("gateway", "suspended by the host")]

    def test_the_inner_block_counts_and_the_outer_one_comes_back(self, store, source, ask):
        session_id = store.get_or_create_session(source()).session_id
        before = store.log.last_position
        with acting("ada", reason="outer"):
            with acting("bob"):
                ask("set_session_title", session_id, "a")
            ask("set_session_title", session_id, "b")
        assert self.by(store, before) == [("bob", None), ("ada", "outer")]

    def test_a_command_that_is_refused_does_not_leave_its_actor_behind(self, store, source, ask):
        session_id = store.get_or_create_session(source()).session_id
        with pytest.raises(TurnLostError), acting("ada", reason="x"):
            ask("append_to_transcript", session_id, {"role": "user"}, turn="gone")
        before = store.log.last_position
        ask("append_to_transcript", session_id, {"role": "user"})
        assert self.by(store, before) == [("gateway", None)]

    @pytest.mark.parametrize("bad", ["", None, 5, "a\0b", "\ud800"])
    def test_an_actor_or_a_reason_that_no_event_can_carry_is_refused(self, bad):
        with pytest.raises(ValueError, match="actor"), acting(bad):
            pass
        if bad is not None:
            with pytest.raises(ValueError, match="reason"), acting("ada", reason=bad):
                pass

    def test_concurrent_tasks_do_not_act_for_one_another(self, store, source):
        """Though their commands share a commit."""
        session_id = store.get_or_create_session(source()).session_id
        before = store.log.last_position

        async def say_as(faced, name, together):
            with acting(name, reason=f"{name}'s"):
                await together.wait()
                await faced.append_to_transcript(session_id, {"role": "user", "content": name})
                await asyncio.create_task(faced.append_to_transcript(session_id, {"role": "tool", "content": name}))

        async def main():
            faced, together = AsyncSessionStore(store), asyncio.Barrier(21)
            tasks = [asyncio.create_task(say_as(faced, f"user{number}", together)) for number in range(20)]
            await together.wait()
            await faced.append_to_transcript(session_id, {"role": "user", "content": "gateway"})
            await asyncio.gather(*tasks)

        asyncio.run(main())
        written = since(store, before)
        assert len(written) == 41
        for each in written:
            assert each.actor == each.event.message["content"]
            assert each.reason == (None if each.actor == "gateway" else f"{each.actor}'s")

    def test_routing_in_a_block_is_its_actors_though_it_is_shielded(self, store, source):
        async def main():
            with acting("ada", reason="first words"):
                return await AsyncSessionStore(store).get_or_create_session(source())

        asyncio.run(main())
        created = [each for each in since(store, 0) if each.stream != "log"]
        assert {(each.actor, each.reason) for each in created} == {("ada", "first words")}

    def test_threads_do_not_act_for_one_another(self, store, source):
        session_id = store.get_or_create_session(source()).session_id
        before = store.log.last_position
        together = threading.Barrier(5)

        def say_as(name):
            with acting(name):
                together.wait()
                store.append_to_transcript(session_id, {"role": "user", "content": name})

        def say_plainly():
            together.wait()
            store.append_to_transcript(session_id, {"role": "user", "content": "gateway"})

        with ThreadPoolExecutor(5) as pool, acting("outer"):
            runs = [pool.submit(say_as, f"user{number}") for number in range(4)] + [pool.submit(say_plainly)]
            for run in runs:
                run.result()
        written = since(store, before)
        assert len(written) == 5
        assert all(each.actor == each.event.message["content"] for each in written)


class TestSessionsOfALane:
    def test_every_session_a_lane_ever_led_to_the_latest_first(self, store, clock, source, ask):
        ids = [store.get_or_create_session(source()).session_id]
        for step in ("reset", "force", "compress"):
            clock.advance(minutes=1)
            match step:
                case "reset":
                    ids.append(store.reset_session(KEY).session_id)
                case "force":
                    ids.append(store.get_or_create_session(source(), force_new=True).session_id)
                case "compress":
                    ids.append(store.compress_session(ids[-1]))
        found = ask("sessions_of", KEY)
        assert [info.session_id for info in found] == ids[::-1]
        assert [info.end_reason for info in found] == [None, "compression", None, "session_reset"]

    def test_a_session_the_lane_came_back_to_is_the_latest(self, store, clock, source, ask):
        first = store.get_or_create_session(source()).session_id
        second = store.reset_session(KEY).session_id
        store.switch_session(KEY, first)
        assert [info.session_id for info in ask("sessions_of", KEY)] == [first, second]

    def test_they_stay_when_the_lane_is_forgotten_and_are_nobody_elses(self, store, clock, source, ask):
        first = store.get_or_create_session(source()).session_id
        store.get_or_create_session(source("other"))
        clock.advance(days=100)
        store.prune_old_entries(90)
        assert [info.session_id for info in ask("sessions_of", KEY)] == [first]
        again = store.get_or_create_session(source()).session_id
        assert [info.session_id for info in ask("sessions_of", KEY)] == [again, first]
        store.rebuild()
        assert [info.session_id for info in ask("sessions_of", KEY)] == [again, first]

    def test_a_lane_nobody_knows_has_none(self, store, ask):
        assert ask("sessions_of", KEY) == []
        with pytest.raises(ValueError, match="session_key"):
            ask("sessions_of", "")


class TestConversation:
    def family(self, store, source):
        root = store.get_or_create_session(source()).session_id
        say(store, root, "one", "two")
        child = store.compress_session(root, None, SUMMARY)
        fork = store.fork_session(root)
        forks_child = store.compress_session(fork, None, SUMMARY)
        forks_fork = store.fork_session(forks_child)
        return [root, child, fork, forks_child, forks_fork]

    def test_all_segments_and_forks_whichever_is_asked_about(self, store, source, ask):
        family = self.family(store, source)
        store.get_or_create_session(source("stranger"))
        for each in family:
            assert {info.session_id for info in ask("conversation", each)} == set(family)
        relations = {
            info.session_id: (info.relation, info.parent_session_id) for info in ask("conversation", family[0])
        }
        root, child, fork, forks_child, forks_fork = family
        assert relations == {
            root: ("root", None),
            child: ("compression", root),
            fork: ("fork", root),
            forks_child: ("compression", fork),
            forks_fork: ("fork", forks_child),
        }

    def test_oldest_first(self, store, clock, source, ask):
        root = store.get_or_create_session(source()).session_id
        ids = [root]
        for _ in range(3):
            clock.advance(seconds=1)
            ids.append(store.fork_session(root))
        assert [info.session_id for info in ask("conversation", ids[-1])] == ids

    def test_segments_share_a_conversation_and_forks_begin_their_own(self, store, source, ask):
        root, child, fork, forks_child, forks_fork = self.family(store, source)
        of = {info.session_id: info.conversation_id for info in ask("conversation", root)}
        assert of == {root: root, child: root, fork: fork, forks_child: fork, forks_fork: forks_fork}

    def test_a_session_alone_is_its_own_conversation_and_an_unknown_one_is_an_error(self, store, source, ask):
        entry = store.get_or_create_session(source())
        [info] = ask("conversation", entry.session_id)
        assert info == ask("get_session", entry.session_id)
        with pytest.raises(UnknownSessionError):
            ask("conversation", "20200101_000000_00000000")


class TestRecordedMessages:
    def test_each_with_the_position_and_the_time_of_its_event(self, store, clock, source, ask):
        session_id = store.get_or_create_session(source()).session_id
        written = []
        for text in ("a", "b"):
            clock.advance(seconds=7)
            written.append((store.append_to_transcript(session_id, {"content": text, "timestamp": 5}), clock()))
        found = ask("recorded_messages", session_id)
        assert [(each.position, each.time) for each in found] == written
        assert [each.message for each in found] == store.load_transcript(session_id)

    def test_only_what_is_live_and_of_a_rewritten_history_the_rewrite(self, store, clock, source, ask):
        session_id = store.get_or_create_session(source()).session_id
        say(store, session_id, "a", "b", "c")
        store.rewind_session(session_id)
        assert [each.message["content"] for each in ask("recorded_messages", session_id)] == ["a", "b"]
        clock.advance(minutes=1)
        store.rewrite_transcript(session_id, SUMMARY)
        [rewritten] = ask("recorded_messages", session_id)
        assert (rewritten.position, rewritten.time) == (store.log.last_position, clock())

    def test_what_was_carried_over_a_compression_has_its_own_position(self, store, source, ask):
        session_id = store.get_or_create_session(source()).session_id
        positions = [store.append_to_transcript(session_id, {"content": text}) for text in ("a", "b")]
        child = store.compress_session(session_id, None, SUMMARY, covers=1)
        found = ask("recorded_messages", child)
        assert [each.message["content"] for each in found] == ["what was said", "b"]
        assert found[1].position == positions[1]

    def test_an_erased_message_is_left_out_and_the_others_keep_their_positions(self, store, source, ask):
        session_id = store.get_or_create_session(source()).session_id
        positions = [store.append_to_transcript(session_id, {"content": text}) for text in ("a", "b", "c")]
        store.log.erase(positions[1:2], actor="ada", reason="asked to")
        assert [each.position for each in ask("recorded_messages", session_id)] == [positions[0], positions[2]]
