"""Following a store: in order, nothing missed, nothing told twice, from any process, and to a clean end (V14)."""

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from engine import AsyncSessionStore, Erased, SessionReader, SessionStore, following
from engine.domain import events as e
from engine.log import EventLog
from engine.log.envelope import NEXT_VERSION, Envelope
from tests.gateway.support import say, source, until

ROOT = Path(__file__).parents[2]
NOW = 0.0
"""A timeout: the iteration ends at the end of the log."""


def positions(follower):
    return [each.position for each in follower]


def words(changes):
    return [each.event.message["content"] for each in changes if isinstance(each.event, e.MessageAppended)]


def filled(store, chats=3, messages=4):
    """Sessions with messages; return their lanes."""
    entries = [store.get_or_create_session(source(str(chat))) for chat in range(chats)]
    for number in range(messages):
        for entry in entries:
            say(store, entry.session_id, f"{entry.origin.chat_id}.{number}")
    return entries


# In order, nothing missed, nothing twice


def test_a_follower_yields_what_is_there_in_the_order_of_positions(store):
    """V14."""
    filled(store)
    assert positions(store.follow(timeout=NOW)) == list(range(1, store.log.last_position + 1))


def test_after_a_reconnect_from_any_position_nothing_is_missing_and_nothing_comes_twice(store):
    """V14: also where the follower was cut off in the middle of what it had read."""
    entries = filled(store)
    whole = positions(store.follow(timeout=NOW))
    wanted = {"sessions": [entries[1].session_id]}
    some = positions(store.follow(**wanted, timeout=NOW))
    for cut in range(len(whole)):
        first = store.follow(timeout=NOW)
        seen = [next(first).position for _ in range(cut)]
        assert seen + positions(store.follow(first.position, timeout=NOW)) == whole
        follower = store.follow(whole[cut], **wanted, timeout=NOW)
        assert positions(follower) == [each for each in some if each > whole[cut]]


def test_a_follower_waits_for_what_comes(store):
    """V14: in the same process, while several threads write."""
    entries = filled(store, messages=0)
    follower = store.follow(store.log.last_position)

    def write(entry):
        for number in range(60):
            say(store, entry.session_id, f"{number}")

    threads = [threading.Thread(target=write, args=(entry,)) for entry in entries]
    for thread in threads:
        thread.start()
    seen = [next(follower) for _ in range(180)]
    for thread in threads:
        thread.join()
    first = seen[0].position
    assert [each.position for each in seen] == list(range(first, first + 180))
    for entry in entries:
        assert words(each for each in seen if each.stream.endswith(entry.session_id)) == [str(n) for n in range(60)]


FOLLOWS = """
import sys
from engine import SessionReader

with SessionReader.open(sys.argv[1]) as reader:
    print("open", flush=True)
    for change in reader.follow(int(sys.argv[2])):
        print(change.position, flush=True)
"""


def test_a_follower_in_another_process_goes_on_where_one_here_was_cut_off(store):
    """V14: it reads what this process commits, while it does."""
    entries = filled(store)
    follower = store.follow()
    for _ in range(5):
        next(follower)
    command = [sys.executable, "-c", FOLLOWS, str(store.sessions_dir), str(follower.position)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout.readline() == "open\n"
        say(store, entries[0].session_id, "while it follows")
        wanted = list(range(follower.position + 1, store.log.last_position + 1))
        assert [int(child.stdout.readline()) for _ in wanted] == wanted
        child.kill()


def test_what_another_process_writes_is_followed_here(store):
    """V14."""
    entry = store.get_or_create_session(source())
    follower = store.follow(store.log.last_position, ["message.appended"], timeout=300)
    writes = "import sys; from engine import SessionStore\nwith SessionStore(sys.argv[1], views=False) as store:\n"
    writes += "    for n in range(20): store.append_to_transcript(sys.argv[2], {'role': 'user', 'content': str(n)})"
    with subprocess.Popen([sys.executable, "-c", writes, str(store.sessions_dir), entry.session_id], cwd=ROOT) as child:
        assert words(next(follower) for _ in range(20)) == [str(n) for n in range(20)]
    assert child.returncode == 0


# What is asked for


def test_topics_lanes_and_sessions_narrow_it(store):
    """V14: a lane is followed with every session it ever led to, those to come included."""
    entries = filled(store)
    one, other = entries[0], entries[1]
    by_topic = list(store.follow(topics=["message.appended"], timeout=NOW))
    assert {each.event.topic for each in by_topic} == {"message.appended"}
    assert len(by_topic) == 12
    by_session = list(store.follow(sessions=[one.session_id], timeout=NOW))
    assert {each.stream for each in by_session} == {f"session:{one.session_id}"}
    follower = store.follow(lanes=[one.session_key], timeout=NOW)
    assert words(follower) == ["0.0", "0.1", "0.2", "0.3"]
    new = store.reset_session(one.session_key)
    say(store, new.session_id, "after the reset")
    say(store, other.session_id, "of another lane")
    found = list(follower)
    assert words(found) == ["after the reset"]
    assert "lane.reset" in {each.event.topic for each in found}
    both = store.follow(lanes=[one.session_key], sessions=[other.session_id], topics=["message.appended"], timeout=NOW)
    assert words(both)[-2:] == ["after the reset", "of another lane"]
    assert positions(store.follow(sessions=["nobody"], lanes=[], timeout=NOW)) == []


def test_who_follows_a_session_learns_that_something_of_it_was_erased(store):
    """V14, V15: and not what else happens to the log."""
    entries = filled(store)
    follower = store.follow(sessions=[entries[0].session_id], timeout=NOW)
    first = next(each for each in follower if isinstance(each.event, e.MessageAppended))
    positions(follower)
    store.erase(session_id=entries[1].session_id, reason="asked to")
    assert positions(follower) == []
    store.erase(positions=[first.position], reason="asked to")
    (change,) = follower
    assert change.event == e.ContentErased(positions=[first.position])


def test_many_other_events_are_passed_over_at_once(store):
    """V14: a session in a long log is not looked for event by event."""
    entries = filled(store, messages=0)
    store.append_messages(entries[0].session_id, [{"role": "user", "content": str(n)} for n in range(1500)])
    say(store, entries[1].session_id, "the only one")
    asked = []
    reader = store.log.reader
    stored = reader.stored
    reader.stored = lambda *given: asked.append(given) or stored(*given)
    assert words(store.follow(sessions=[entries[1].session_id], timeout=NOW)) == ["the only one"]
    assert len(asked) == 1


def test_what_the_tables_do_not_know_yet_is_told_once_they_do(store):
    """V14: another program led a lane to a session, past the tables that say so."""
    entry = store.get_or_create_session(source())
    follower = store.follow(store.log.last_position, lanes=[entry.session_key], timeout=NOW)
    ((lane_id,),) = store.log.query("SELECT lane_id FROM lanes")
    with EventLog(store.log.path) as log:
        created = e.SessionCreated(conversation_id="new")
        routed = e.LaneSwitched(session_id="new", previous_session_id=entry.session_id)
        log.append([Envelope("session:new", NEXT_VERSION, created)])
        log.append([Envelope(f"lane:{lane_id}", NEXT_VERSION, routed)])
    assert positions(follower) == []
    store.end_session(entry.session_id, "done")
    assert [each.stream.partition(":")[2] for each in follower] == ["new", lane_id, entry.session_id]


# Slow followers


def test_a_follower_slower_than_the_writer_keeps_few_changes_in_memory(store):
    """V14: bounded memory, however far behind it is."""
    (entry,) = filled(store, chats=1, messages=0)
    follower = store.follow(store.log.last_position, timeout=NOW)
    store.append_messages(entry.session_id, [{"role": "user", "content": str(n)} for n in range(3000)])
    most, seen = 0, []
    for change in follower:
        seen.append(change)
        most = max(most, len(follower._place._ready))
    assert words(seen) == [str(n) for n in range(3000)]
    assert most < 250


def test_what_was_erased_while_a_follower_kept_it_is_not_told(store, monkeypatch):
    """V14, V15: a follower lets go of what it had read."""
    (entry,) = filled(store, chats=1, messages=0)
    follower = store.follow(store.log.last_position, timeout=NOW)
    asked = store.append_messages(entry.session_id, [{"role": "user", "content": f"words {n}"} for n in range(5)])
    assert words([next(follower)]) == ["words 0"]
    store.erase(positions=asked[1:3], reason="asked to")
    monkeypatch.setattr(following, "_STALE_SECONDS", -1.0)
    found = list(follower)
    assert [type(each.event) for each in found[:2]] == [Erased, Erased]
    assert words(found) == ["words 3", "words 4"]
    assert [each.position for each in found] == list(range(asked[1], store.log.last_position + 1))


# To an end


def test_with_a_timeout_it_ends_and_goes_on_when_begun_again(store):
    """V14."""
    entries = filled(store)
    follower = store.follow(timeout=0.05)
    assert len(positions(follower)) == store.log.last_position
    say(store, entries[0].session_id, "later")
    assert words(follower) == ["later"]
    assert follower.position == store.log.last_position


@pytest.mark.parametrize("ending", ["close", "with", "store"])
def test_a_waiting_follower_ends_cleanly(store, ending):
    """V14: closed from another thread, or with the store."""
    filled(store, chats=1)
    follower, seen = store.follow(), []
    thread = threading.Thread(target=lambda: seen.extend(follower))
    thread.start()
    until(lambda: len(seen) == store.log.last_position)
    if ending == "close":
        follower.close()
    elif ending == "with":
        with follower:
            pass
    else:
        store.close()
    thread.join(300)
    assert not thread.is_alive()
    assert list(follower) == []


@pytest.mark.parametrize(
    "given",
    [
        {"after": -1},
        {"after": True},
        {"after": 10**9},
        {"topics": "message.appended"},
        {"lanes": "agent:main:telegram:dm:1"},
        {"lanes": ["20260701_142530_1a2b3c4d"]},
        {"sessions": ["../x"]},
        {"sessions": [1]},
        {"timeout": -1},
        {"timeout": "soon"},
    ],
)
def test_what_cannot_be_followed_is_refused(store, given):
    """V14: also a position of another log, or of one that was set back."""
    with pytest.raises(ValueError, match=r"must be|after the end of the log|refused"):
        next(store.follow(**given))


# For tasks


def test_tasks_follow_too_with_one_thread_for_all(store):
    """V14: in order, with filters, while others write; nothing blocks the loop."""
    entries = filled(store, messages=0)

    async def run():
        tasks = AsyncSessionStore(store)
        start = store.log.last_position

        async def follow(entry):
            found = []
            async with tasks.follow(start, ["message.appended"], sessions=[entry.session_id]) as follower:
                async for change in follower:
                    found.append(change)
                    if len(found) == 20:
                        break
            return words(found)

        following_tasks = [asyncio.ensure_future(follow(entry)) for entry in entries for _ in range(5)]
        await asyncio.sleep(0)
        for number in range(20):
            for entry in entries:
                await tasks.append_to_transcript(entry.session_id, {"role": "user", "content": str(number)})
        assert sum(each.name == "session-following" for each in threading.enumerate()) <= 1
        assert await asyncio.gather(*following_tasks) == [[str(n) for n in range(20)]] * 15
        assert tasks.arrivals._waiting == {}
        until(lambda: not any(each.name == "session-following" for each in threading.enumerate()))

    asyncio.run(run())


def test_a_cancelled_wait_of_a_task_loses_nothing(store):
    """V14."""
    (entry,) = filled(store, chats=1, messages=0)

    async def run():
        tasks = AsyncSessionStore(store)
        follower = tasks.follow(store.log.last_position)
        for number in range(30):
            waiting = asyncio.ensure_future(anext(follower))
            for _ in range(number % 5):
                await asyncio.sleep(0)
            if not waiting.done():
                waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            say(store, entry.session_id, str(number))
            assert words([await anext(follower)]) == [str(number)]

    asyncio.run(run())


def test_a_follower_of_a_task_ends_with_its_timeout_its_close_and_its_store(store):
    """V14."""
    filled(store, chats=1)

    async def run():
        tasks = AsyncSessionStore(store)
        follower = tasks.follow(timeout=0.05)
        assert [each.position async for each in follower] == list(range(1, store.log.last_position + 1))
        assert follower.position == store.log.last_position
        waiting = [tasks.follow(store.log.last_position) for _ in range(2)]
        ends = [asyncio.ensure_future(anext(each, "the end")) for each in waiting]
        await asyncio.sleep(0.05)
        await waiting[0].aclose()
        assert await ends[0] == "the end"
        assert not ends[1].done()
        await tasks.close()
        assert await ends[1] == "the end"
        assert await anext(follower, "the end") == "the end"

    asyncio.run(run())


def test_a_reader_follows_a_store_of_another_process_or_a_copy(store, tmp_path):
    """V14."""
    filled(store)
    store.backup(tmp_path / "copy.db")
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy.db").rename(tmp_path / "copy" / "sessions.db")
    with SessionReader.open(tmp_path / "copy") as reader:
        assert positions(reader.follow(timeout=NOW)) == list(range(1, store.log.last_position + 1))


def test_a_store_of_a_child_process_says_that_it_is_not_the_parents(tmp_path):
    """V14: after a fork, following is an error and no silent end."""
    forks = """
import os, sys
from engine import ForkedLogError, SessionStore
with SessionStore(sys.argv[1], views=False) as store:
    follower = store.follow()
    if os.fork() == 0:
        try:
            next(follower)
        except ForkedLogError:
            os._exit(7)
        os._exit(0)
    sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    with SessionStore(tmp_path):
        pass
    assert subprocess.run([sys.executable, "-c", forks, str(tmp_path)], cwd=ROOT).returncode == 7
