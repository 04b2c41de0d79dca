"""The cost of a command does not grow with what was there before: counted in rows and steps, never by a clock."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from engine import AsyncSessionStore, SessionStateError, SessionStore
from engine.commands import transcripts
from tests.gateway.effort import watched
from tests.gateway.support import say, source, texts

Growing = Callable[[int], int]


def test_each_compression_adds_no_platform_id(store, source):
    """They are kept by conversation: 100 compressions of 1,000 messages leave 1,000 ids, not 50,000 (G42, G47)."""
    session_id = store.get_or_create_session(source()).session_id
    messages = [{"role": "user", "content": "x", "message_id": f"m{n}"} for n in range(1000)]
    store.append_messages(session_id, messages)
    changed = []
    for _ in range(100):
        with watched(store) as effort:
            session_id = store.compress_session(session_id, covers=0)
        changed.append(effort.rows)
    assert store.log.query("SELECT count(*) FROM message_ids") == [(1000,)]
    assert len(set(changed[1:])) == 1, "a compression changes as many rows as the one before it"
    assert store.append_to_transcript(session_id, messages[17]) is None, "and the ids are still known"
    assert len(store.load_transcript(session_id)) == 1000


def test_naming_costs_the_same_however_many_have_the_name(store, source):
    """(G44) 20,000 equal titles took 17 ms under the lock."""

    def name(n: int) -> int:
        entries = [store.get_or_create_session(source(f"{n}-{each}")) for each in range(n)]
        for each in entries:
            store.set_session_title(each.session_id, "Trip")
        with watched(store) as effort:
            store.compress_session(entries[0].session_id)
        named = effort.steps
        with watched(store) as effort:
            store.set_session_title(entries[1].session_id, "Trip")
        return max(named, effort.steps)

    assert_flat(name, 20, 500)


def test_undos_do_not_make_appending_dearer(store, source):
    """(G51) 2,500 undos took 74 ms, because each append wrote down all of them again."""

    def undo(n: int) -> int:
        session_id = store.get_or_create_session(source(str(n))).session_id
        for _ in range(n):
            store.append_to_transcript(session_id, {"role": "user", "content": "x"})
            store.rewind_session(session_id)
        store.append_to_transcript(session_id, {"role": "user", "content": "x"})
        ((state,),) = store.log.query("SELECT state FROM sessions WHERE session_id = ?", (session_id,))
        return len(state)

    assert undo(500) <= undo(5) + 20, "the head is as long as after five, but for longer numbers"


def test_any_number_of_undos_is_undone_one_by_one(store, open_store, source):
    """(G51) Each undo names the one before it, so that the head need not."""
    session_id = store.get_or_create_session(source()).session_id
    say(store, session_id, *"abcdef")
    for _ in range(3):
        store.rewind_session(session_id)
    say(store, session_id, "x")
    store.rewind_session(session_id)
    for found in (store, open_store()):
        assert texts(found, session_id) == ["a", "b", "c"]
    assert [store.restore_rewound(session_id) for _ in range(5)] == [1, 1, 1, 1, 0]
    assert texts(store, session_id) == ["a", "b", "c", "d", "e", "f", "x"]
    assert store.get_session(session_id).message_count == 7
    assert store.rewind_session(session_id)["rewound_count"] == 1
    assert store.restore_rewound(session_id) == 1


def test_the_live_tip_is_found_in_one_step_however_long_the_chain_is(store, open_store, source):
    """(G20, G42) The chain of 10,000 compressions was walked for each message that named its first session."""

    def compress(n: int) -> int:
        root = tip = store.get_or_create_session(source(str(n))).session_id
        for _ in range(n):
            tip = store.compress_session(tip)
        another = open_store()  # it has no head in memory
        with watched(another) as effort:
            another.append_to_transcript(root, {"role": "user", "content": f"late {n}"})
        assert texts(store, tip) == [f"late {n}"]
        return effort.steps

    assert_flat(compress, 3, 300)


def test_a_reopened_segment_goes_on_for_those_before_it(store, source):
    """(G42, G44) There are two that go on then, and each of the others is led to its own."""
    first = store.get_or_create_session(source()).session_id
    second = store.compress_session(first)
    third = store.compress_session(second)
    store.reopen_session(second)
    store.append_to_transcript(first, {"role": "user", "content": "for the second"})
    assert texts(store, second) == ["for the second"]
    other = store.compress_session(second)
    store.append_to_transcript(first, {"role": "user", "content": "for the other"})
    store.append_to_transcript(third, {"role": "user", "content": "for the third"})
    assert texts(store, other) == ["for the other"]
    assert texts(store, third) == ["for the third"]


def long_session(store: SessionStore, chat: str, count: int) -> str:
    """A session of so many messages; the first and a few in the middle have platform ids."""
    session_id = store.get_or_create_session(source(chat)).session_id
    roles = ("user", "assistant")
    messages: list[dict[str, Any]] = [{"role": roles[n % 2], "content": f"m{n}"} for n in range(count)]
    messages[0]["message_id"] = f"{chat}-first"
    messages[-3]["message_id"] = f"{chat}-late"
    store.append_messages(session_id, messages)
    return session_id


LOCKED: dict[str, Callable[[SessionStore, str, str], object]] = {
    "undo": lambda store, session_id, _: store.rewind_session(session_id, 2),
    "undo of everything": lambda store, session_id, _: store.rewind_session(session_id, 10**9),
    "fork": lambda store, session_id, _: store.fork_session(session_id),
    "fork at a late message": lambda store, session_id, chat: store.fork_session(session_id, f"{chat}-late"),
    "fork at the first message": lambda store, session_id, chat: store.fork_session(session_id, f"{chat}-first"),
    "fork at a position": lambda store, session_id, _: store.fork_session(session_id, store.log.last_position - 1),
}


@pytest.mark.parametrize("name", LOCKED)
def test_a_long_transcript_is_not_read_under_the_write_lock(store, name):
    """(G43, G51) In a session of a million messages these held it for 1.7 to 3 seconds."""

    def cost(count: int) -> int:
        session_id = long_session(store, str(count), count)
        with watched(store) as effort:
            LOCKED[name](store, session_id, str(count))
        assert len(store.load_transcript(session_id)) == count - {"undo": 4, "undo of everything": count}.get(name, 0)
        return effort.steps

    assert cost(6000) < 25_000, "nine steps a row: a thousand rows or two may be looked at, then the lock is given back"


def test_what_far_back_was_looked_up_is_looked_up_again_if_the_session_moved(store, monkeypatch):
    """(G51) Somebody appends while an undo reads: it hides what is the end by then, and it does not read for ever."""
    session_id = long_session(store, "4711", 3000)
    looked = []
    find = transcripts._undo_point

    def interrupted(session, turns, reads, budget):
        looked.append(reads is store.log.reader)
        found = find(session, turns, reads, budget)
        if looked[-1]:
            store.append_to_transcript(session_id, {"role": "user", "content": f"meanwhile {len(looked)}"})
        return found

    monkeypatch.setattr(transcripts, "_undo_point", interrupted)
    undone = store.rewind_session(session_id, 2000)
    assert looked == [False, True] * 3 + [False], "three times outside of the lock, then inside"
    assert undone["turns_undone"] == 1503, "1500 of the beginning and those that came"
    assert store.load_transcript(session_id) == []
    assert store.restore_rewound(session_id) == 3003


def test_and_from_a_task(store):
    """(G43, G51) The event loop goes on meanwhile."""
    session_id = long_session(store, "4711", 3000)

    async def run() -> None:
        tasks = AsyncSessionStore(store)
        assert len(await tasks.load_transcript(await tasks.fork_session(session_id, "4711-first"))) == 1
        undone = await tasks.rewind_session(session_id, 1400)
        assert undone is not None
        assert undone["turns_undone"] == 1400
        with pytest.raises(SessionStateError):
            await tasks.fork_session(session_id, "nobody's")

    asyncio.run(run())


def assert_flat(cost: Growing, few: int, many: int) -> None:
    """Fail if something costs more after many than after few."""
    small, large = cost(few), cost(many)
    assert 0 < large <= small * 1.2, f"{large} steps after {many}, {small} after {few}"
