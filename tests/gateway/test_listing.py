"""The list of lanes: it writes nothing, it waits for nobody, and it comes in pages (G41)."""

import asyncio
import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from engine import AsyncSessionStore, SessionEntry, SessionStore
from engine.listing import all_lanes
from projections.inline.lanes import Place, lanes_after
from tests.faults.disk import Disk, full_error
from tests.gateway.effort import watched
from tests.gateway.support import lane, source


def talked(store: SessionStore, count: int) -> list[str]:
    """The keys of so many lanes, the newest first; three each were touched in the same moment."""
    keys = []
    for n in range(count):
        if n % 3 == 0:
            store._clock.advance(seconds=1)
        keys.append(store.get_or_create_session(source(f"{n:04}")).session_key)
    times = {entry.session_key: entry.updated_at for entry in store.iter_sessions()}
    return sorted(sorted(keys), key=lambda key: times[key], reverse=True)


def keys_of(entries: list[SessionEntry]) -> list[str]:
    return [entry.session_key for entry in entries]


@contextmanager
def nothing_is_flushed(store: SessionStore) -> Iterator[None]:
    """Keep touches pending."""
    with store.runner.touches._flushing.once():
        yield


def test_pages_are_the_list(store):
    keys = talked(store, 20)
    assert keys_of(store.list_sessions()) == keys
    assert keys_of(list(store.iter_sessions())) == keys
    for limit in (1, 2, 7, 20, 100):
        found: list[str] = []
        last: SessionEntry | None = None
        while page := store.list_sessions(limit=limit, after=last):
            assert len(page) <= limit
            found += keys_of(page)
            last = page[-1]
        assert found == keys
    assert keys_of(store.list_sessions(after=lane(store, keys[11]))) == keys[12:]
    assert store.list_sessions(limit=0) == []


def test_pages_with_pending_touches_are_the_list_too(store, clock):
    keys = talked(store, 20)
    clock.advance(minutes=10)
    with nothing_is_flushed(store):
        for key in (keys[3], keys[17]):
            store.get_or_create_session(source(key.rsplit(":", 1)[1]))
        moved = [*sorted([keys[3], keys[17]]), *(key for key in keys if key not in (keys[3], keys[17]))]
        assert store.metrics()["pending_touches"] == 2
        assert keys_of(store.list_sessions()) == moved
        assert keys_of(store.list_sessions(limit=3)) == moved[:3]
        assert keys_of(store.list_sessions(limit=5, after=store.list_sessions(limit=1)[0])) == moved[1:6]
        assert keys_of(store.list_sessions(active_minutes=5)) == moved[:2]
        assert keys_of(list(store.iter_sessions(active_minutes=5))) == moved[:2]


@pytest.mark.parametrize("limit", [-1, 1.5, True, "3"])
def test_a_limit_is_a_number_of_lanes(store, limit):
    with pytest.raises(ValueError, match="limit"):
        store.list_sessions(limit=limit)


def test_a_page_reads_no_more_lanes_than_it_has(store):
    talked(store, 60)
    read = []
    reader = store.log.reader
    query = reader.query
    reader.query = lambda sql, bindings=(): read.append(query(sql, bindings)) or read[-1]
    try:
        first = store.list_sessions(limit=4)
        store.list_sessions(limit=4, after=first[-1])
    finally:
        del reader.query
    assert sum(map(len, read)) <= 10


def test_whatever_moves_meanwhile_every_lane_is_given_once(store, monkeypatch):
    """Lanes are touched between two pages, so that they jump over the place where the listing is."""
    chance = random.Random(7)
    keys = talked(store, 60)
    monkeypatch.setattr("engine.listing._PAGE", 5)
    listing = store.iter_sessions()
    found = []
    for entry in listing:
        found.append(entry.session_key)
        if len(found) % 4 == 0:
            store._clock.advance(seconds=1)
            for key in chance.sample(keys, 3):
                store.get_or_create_session(source(key.rsplit(":", 1)[1]))
            if chance.random() < 0.5:
                store.runner.touches.flush()
    assert len(found) == len(set(found))
    missing = set(keys) - set(found)
    store.runner.touches.flush()
    newest = {entry.session_key for entry in store.list_sessions(limit=60)}
    assert missing <= newest
    assert not missing, "those that moved came at the end"


def test_touches_that_are_written_while_they_are_listed_are_listed(store, monkeypatch):
    """A pending touch becomes durable between the page where its lane was and the one where it is."""
    keys = talked(store, 12)
    store._clock.advance(minutes=1)
    store.get_or_create_session(source(keys[-1].rsplit(":", 1)[1]))
    pending = dict(store.runner.touches.pending)
    store.runner.touches.flush()
    reads = store.log.reader
    assert sorted(each.key for each in all_lanes(reads, pending, 0)) == sorted(keys)


def test_a_lane_that_another_process_moves_is_listed_though_its_clock_is_behind(open_store, clock):
    """Its touch is pending here; meanwhile it is changed there, later than the touch and earlier than another lane."""
    store, there = open_store(), open_store()
    keys = talked(store, 2)
    store.runner.touches.flush()
    with nothing_is_flushed(store):
        for key in keys:
            clock.advance(minutes=10)
            store.get_or_create_session(source(key.rsplit(":", 1)[1]))
        listing = store.iter_sessions()
        found = [next(listing).session_key]
        clock.advance(minutes=-5)
        there.update_session(keys[0])
        assert found + [entry.session_key for entry in listing] == keys[::-1]


def test_a_full_disk_does_not_keep_lanes_from_being_listed(open_store, clock):
    """Listing wrote the pending touches first, and failed where nothing could be written."""
    with Disk().in_use() as disk:
        store = open_store(vfs=disk.name)
        keys = talked(store, 5)
        store.runner.touches.flush()
        disk.fail = lambda _, what: full_error(what) if what in ("write", "sync") else None
        clock.advance(minutes=1)
        store.get_or_create_session(source(keys[-1].rsplit(":", 1)[1]))
        moved = [keys[-1], *keys[:-1]]
        assert keys_of(store.list_sessions()) == moved
        assert keys_of(store.list_sessions(limit=2)) == moved[:2]
        assert keys_of(list(store.iter_sessions())) == moved
        disk.fail = None
        store.close()


def test_lanes_are_listed_while_a_command_holds_the_write_lock(store):
    """As `rebuild()` did: everybody who listed waited for it."""
    keys = talked(store, 5)
    store.runner.touches.flush()
    locked, done = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        locked.set()
        assert done.wait(300)

    holder = threading.Thread(target=store.log.transact, args=(hold,))
    holder.start()
    try:
        assert locked.wait(300)
        assert keys_of(store.list_sessions()) == keys
        assert len(store.list_sessions(limit=2)) == 2
    finally:
        done.set()
        holder.join()


def test_listing_writes_nothing(store):
    talked(store, 3)
    with nothing_is_flushed(store), watched(store) as effort:
        store.list_sessions()
        list(store.iter_sessions())
    assert effort.sections == []


def test_tasks_list_too(store):
    async def listing() -> list[str]:
        tasks = AsyncSessionStore(store)
        first = await tasks.list_sessions(limit=2)
        rest = await tasks.list_sessions(limit=100, after=first[-1])
        assert [entry.session_key async for entry in tasks.iter_sessions()] == keys_of([*first, *rest])
        return keys_of([*first, *rest])

    keys = talked(store, 7)
    assert asyncio.run(listing()) == keys


def test_lanes_touched_in_the_same_moment_stand_by_their_keys_on_every_page(store):
    for n in range(120):
        store.get_or_create_session(source(f"{n:04}"))
    assert len({entry.updated_at for entry in store.list_sessions()}) == 1
    keys: list[str] = []
    place: Place | None = None
    while found := lanes_after(store.log.reader, place, 0, 50):
        keys += [each.key for each in found]
        place = Place(found[-1].updated_at, found[-1].key)
    assert keys == sorted(keys)
    assert len(keys) == 120
