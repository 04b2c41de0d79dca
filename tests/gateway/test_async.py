"""AsyncSessionStore: the same answers, shared commits, cancellation, and a loop that never blocks."""

import asyncio
import inspect
import threading
from pathlib import Path

import apsw
import pytest

from engine import (
    AsyncFollower,
    AsyncSessionStore,
    SessionStore,
    UnknownSessionError,
    get_session_env,
    set_session_vars,
)
from tests.gateway.support import policy, texts

KEY = "agent:main:telegram:dm:4711"
SYNC_ONLY = {"log", "config", "sessions_dir", "runner", "routes", "open", "turn", "live_rows", "abandon_after_fork"}
ITERATED = {"iter_sessions"}
FOLLOWED = {"follow"}


def public(kind):
    return {name: member for name, member in inspect.getmembers(kind) if not name.startswith("_")}


def test_every_method_of_the_store_can_be_awaited_with_the_same_arguments():
    awaitable = public(AsyncSessionStore)
    for name, method in public(SessionStore).items():
        if name in SYNC_ONLY:
            continue
        if name in ITERATED:
            assert inspect.isasyncgenfunction(awaitable[name]), name
            assert list(inspect.signature(awaitable[name]).parameters) == list(inspect.signature(method).parameters)
            continue
        if name in FOLLOWED:
            given = [inspect.signature(each).parameters.values() for each in (awaitable[name], method)]
            assert list(given[0]) == list(given[1])
            assert inspect.iscoroutinefunction(AsyncFollower.__anext__), name
            continue
        assert inspect.iscoroutinefunction(awaitable[name]), name
        assert str(inspect.signature(awaitable[name])) == str(inspect.signature(method)), name


def test_the_same_results(store, source):
    async def talk():
        face = AsyncSessionStore(store)
        entry = await face.get_or_create_session(source())
        assert await face.get_or_create_session(source()) == entry
        sid = entry.session_id
        position = await face.append_to_transcript(sid, {"role": "user", "content": "one", "message_id": "m"})
        assert position == store.log.last_position
        assert await face.append_to_transcript(sid, {"role": "user", "content": "one", "message_id": "m"}) is None
        assert await face.append_to_transcript(sid, {"role": "user", "content": "x"}, skip_db=True) is None
        assert len(await face.append_messages(sid, [{"role": "assistant", "content": "two"}])) == 1
        await face.update_session(KEY, 5, input_tokens=2)
        await face.set_model_override(KEY, {"model": "large"})
        assert await face.get_model_override(KEY) == {"model": "large"}
        token = await face.begin_turn(KEY)
        assert await face.end_turn(token) is True
        assert (await face.rewind_session(sid))["target_text"] == "one"
        assert await face.restore_rewound(sid) == 2
        assert await face.load_transcript(sid) == store.load_transcript(sid)
        child = await face.compress_session(sid)
        assert (await face.get_session(child)).parent_session_id == sid
        assert (await face.reset_session(KEY, "")).display_name == ""
        assert (await face.consume_notices(KEY)).is_fresh_reset
        assert [each.session_key for each in await face.list_sessions()] == [KEY]
        assert (await face.health()).state == "ok"
        assert await face.load_transcript("nobody") == []
        with pytest.raises(UnknownSessionError):
            await face.append_to_transcript("nobody", {"content": "x"})
        with pytest.raises(ValueError, match="must be a dict"):
            await face.append_to_transcript(sid, "text")

    asyncio.run(talk())


def test_many_tasks_share_a_commit(store, source):
    """Group commit: while one commit runs, the others queue and go together."""

    async def talk():
        face = AsyncSessionStore(store)
        entries = await asyncio.gather(*(face.get_or_create_session(source(str(n))) for n in range(100)))
        assert len({entry.session_id for entry in entries}) == 100
        before = store.metrics()
        await asyncio.gather(*(face.append_to_transcript(e.session_id, {"content": e.session_id}) for e in entries))
        after = store.metrics()
        assert after["commands"] - before["commands"] == 100
        assert after["commits"] - before["commits"] < 50
        for entry in entries:
            assert texts(store, entry.session_id) == [entry.session_id]

    asyncio.run(talk())


def test_tasks_on_one_lane_make_one_session(store, source):
    """G32."""

    async def talk():
        face = AsyncSessionStore(store)
        entries = await asyncio.gather(*(face.get_or_create_session(source()) for _ in range(50)))
        assert len({entry.session_id for entry in entries}) == 1

    asyncio.run(talk())


def hold_the_lock(store):
    connection = apsw.Connection(str(Path(store.log.path)))
    connection.execute("BEGIN IMMEDIATE")
    return connection


def test_a_cancelled_await_neither_loses_nor_doubles(store, source):
    sid = store.get_or_create_session(source()).session_id

    async def talk():
        face = AsyncSessionStore(store)
        lock = hold_the_lock(store)
        tasks = [asyncio.create_task(face.append_to_transcript(sid, {"content": n})) for n in range(5)]
        for _ in range(5):
            await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(each, asyncio.CancelledError) for each in ended)
        lock.execute("ROLLBACK")
        lock.close()
        await face.append_to_transcript(sid, {"content": "last"})

    asyncio.run(talk())
    assert texts(store, sid) == [0, 1, 2, 3, 4, "last"]


def test_a_cancelled_await_while_the_host_is_asked_is_carried_out(open_store, clock, source):
    """The question comes between two transactions; the command was given and happens, once."""
    asked, answer = threading.Event(), threading.Event()

    def busy(_key):
        asked.set()
        assert answer.wait(300)
        return False

    store = open_store(policy("idle", idle_minutes=1), busy=busy)
    first = store.get_or_create_session(source()).session_id
    clock.advance(minutes=2)

    async def talk():
        face = AsyncSessionStore(store)
        task = asyncio.create_task(face.get_or_create_session(source()))
        await asyncio.to_thread(asked.wait, 300)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        answer.set()
        while store.peek_session_id(KEY) == first:
            await asyncio.sleep(0.001)

    asyncio.run(asyncio.wait_for(talk(), 300))
    assert store.get_session(first).end_reason == "idle"
    assert store.log.query("SELECT count(*) FROM sessions") == [(2,)]


def test_the_loop_runs_on_while_another_process_holds_the_lock(store, source):
    sid = store.get_or_create_session(source()).session_id

    async def talk():
        face = AsyncSessionStore(store)
        lock = hold_the_lock(store)
        waiting = [
            asyncio.create_task(face.append_to_transcript(sid, {"content": "x"})),
            asyncio.create_task(face.get_or_create_session(source("new"))),
            asyncio.create_task(face.prune_old_entries(1)),
            asyncio.create_task(face.list_sessions()),
            asyncio.create_task(face.load_transcript(sid)),
        ]
        for _ in range(200):
            await asyncio.sleep(0)
        assert not any(task.done() for task in waiting[:3]), "the loop came here while the commands wait"
        lock.execute("ROLLBACK")
        lock.close()
        await asyncio.gather(*waiting)

    asyncio.run(talk())
    assert texts(store, sid) == ["x"]


def test_closing_by_the_context_manager(open_store, source):
    async def talk():
        async with AsyncSessionStore(open_store()) as face:
            await face.get_or_create_session(source())
        with pytest.raises(Exception, match="closed"):
            await face.reset_session(KEY)

    asyncio.run(talk())


def test_a_slow_answer_of_the_host_keeps_no_other_lane_waiting(open_store, clock, source):
    """G32: however many lanes wait for the host's answer."""
    slow = threading.Event()
    store = open_store(policy("idle", idle_minutes=1), lambda key: slow.wait(300))
    for lane in range(40):
        store.get_or_create_session(source(str(lane)))
    clock.advance(hours=1)

    async def talk():
        face = AsyncSessionStore(store)
        waiting = [asyncio.create_task(face.get_or_create_session(source(str(lane)))) for lane in range(40)]
        await asyncio.sleep(0.1)
        fresh = await asyncio.wait_for(face.get_or_create_session(source("fresh")), 300)
        assert await asyncio.wait_for(face.load_transcript(fresh.session_id), 300) == []
        assert not any(task.done() for task in waiting)
        slow.set()
        return await asyncio.gather(*waiting)

    assert len(asyncio.run(talk())) == 40


def test_a_cancelled_first_message_still_makes_its_lane(store, source):
    async def talk():
        face = AsyncSessionStore(store)
        for steps in range(4):
            task = asyncio.create_task(face.get_or_create_session(source(str(steps))))
            for _ in range(steps + 1):
                await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        while len(await face.list_sessions()) < 4:  # the test's own time limit ends it if they never come
            await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(talk(), 300))
    assert len({entry.session_id for entry in store.list_sessions()}) == 4


def test_the_host_is_asked_in_the_context_of_the_task(open_store, clock, source):
    """G57: the callback may look at the session's variables."""
    seen = []

    def idle(_key):
        seen.append(get_session_env("HERMES_SESSION_CHAT_ID"))
        return False

    store = open_store(policy("idle", idle_minutes=1), idle)
    store.get_or_create_session(source())
    clock.advance(hours=1)

    async def talk():
        set_session_vars(chat_id="4711")
        await AsyncSessionStore(store).get_or_create_session(source())

    asyncio.run(talk())
    assert seen == ["4711"]


def test_pruning_asks_the_host_about_every_lane_once(open_store, clock, source):
    """G41, G30: also about more lanes than there are threads to ask in."""
    asked = []
    store = open_store(None, lambda key: asked.append(key) or key.endswith("7"))
    for chat in range(150):
        store.get_or_create_session(source(str(chat)))
    clock.advance(days=100)
    assert asyncio.run(AsyncSessionStore(store).prune_old_entries(90)) == 135
    assert len(asked) == len(set(asked)) == 150
    assert len(store.list_sessions()) == 15
