"""Loads of long transcripts go on in parts: nobody else waits for one, and each is of one moment (G49)."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import AsyncSessionStore, SessionReader, SessionStore
from tests.gateway.support import say, source, texts, until

PATIENCE = 300.0
PART = 10
LONG = [str(number) for number in range(3 * PART + 5)]


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("projections.inline.transcripts.PART", PART)
    monkeypatch.setattr("engine.loading.PART", PART)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    with SessionStore(tmp_path, synchronous="OFF", views=False) as opened:
        yield opened


def long_session(store: SessionStore, name: str) -> str:
    session_id = store.get_or_create_session(source(name)).session_id
    say(store, session_id, *LONG)
    return session_id


class Reads:
    """Calls a function before each read of some sessions' messages but the first part of each load."""

    def __init__(self, store: SessionStore, session_ids: list[str], before: Callable[[int], object]) -> None:
        self._streams = {f"session:{each}" for each in session_ids}
        self._payloads = store.log.reader.payloads
        self._before = before
        self.count = 0
        store.log.reader.payloads = self.payloads  # type: ignore[method-assign]

    def payloads(self, stream: str, after: int = 0, upto: int | None = None, **more: Any) -> Any:
        if stream in self._streams:
            self.count += 1
            if after or (upto or 0) > 2 * PART:
                self._before(self.count)
        return self._payloads(stream, after, upto, **more)


def in_thread(function: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(function()), daemon=True)
    thread.start()
    return thread, found


def test_four_long_loads_keep_nobody_waiting(store: SessionStore) -> None:
    """The four threads that read for tasks were busy with them: other loads, and routes, waited 3.7 s."""
    long = [long_session(store, f"long-{number}") for number in range(4)]
    short = store.get_or_create_session(source("short")).session_id
    going, go_on = threading.Event(), threading.Event()

    def wait(_: int) -> None:
        going.set()
        assert go_on.wait(PATIENCE)

    Reads(store, long, wait)

    async def main() -> None:
        face = AsyncSessionStore(store)
        loads = [asyncio.ensure_future(face.load_transcript(each)) for each in long]
        await asyncio.to_thread(going.wait, PATIENCE)
        try:
            async with asyncio.timeout(PATIENCE):
                for number in range(5):
                    await face.append_to_transcript(short, {"role": "user", "content": str(number)})
                    assert len(await face.load_transcript(short)) == number + 1
                    assert (await face.get_or_create_session(source("short"))).session_id == short
                    await face.get_or_create_session(source(f"new-{number}"))
                    await face.append_to_transcript(long[0], {"role": "user", "content": "later"})
                assert await face.list_sessions()
            assert not any(load.done() for load in loads)
        finally:
            go_on.set()
        for load in await asyncio.gather(*loads):
            assert [message["content"] for message in load] == LONG
        assert len(await face.load_transcript(long[0])) == len(LONG) + 5

    asyncio.run(main())


def test_a_load_is_of_the_moment_it_began_at(store: SessionStore) -> None:
    session_id = long_session(store, "long")
    Reads(store, [session_id], lambda count: count == 2 and change(store, session_id))

    def change(store: SessionStore, session_id: str) -> None:
        say(store, session_id, "more")
        store.rewind_session(session_id, 7)
        store.rewrite_transcript(session_id, [{"role": "user", "content": "all new"}])

    assert texts(store, session_id) == LONG
    assert texts(store, session_id) == ["all new"]


def test_an_erasure_between_two_parts_leaves_nothing_of_what_was_read(store: SessionStore) -> None:
    """V15: it is read again."""
    session_id = long_session(store, "long")
    position = store.recorded_messages(session_id)[3].position
    other = SessionReader.open(store.sessions_dir)
    reads = Reads(other, [session_id], lambda count: count == 3 and store.erase(positions=[position], reason="asked"))  # type: ignore[arg-type]
    assert texts(other, session_id) == [*LONG[:3], *LONG[4:]]  # type: ignore[arg-type]
    assert reads.count > len(LONG) // PART + 1
    other.close()


def test_an_interrupted_load_leaves_nothing_half(store: SessionStore) -> None:
    session_id = long_session(store, "long")
    for number in range(1, 6):
        say(store, session_id, str(number))

        def interrupt(count: int, number: int = number) -> None:
            if count == number:
                raise KeyboardInterrupt

        reads = Reads(store, [session_id], interrupt)
        for _ in range(3):
            try:
                found = texts(store, session_id)
            except KeyboardInterrupt:
                continue
            assert found == [*LONG, *map(str, range(1, number + 1))]
        reads.count = 100
        kept = store._transcripts
        assert kept.size == sum(each.size for each in kept._cached.values())


def test_a_cancelled_load_reads_no_further_and_keeps_nobody_waiting(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("projections.inline.transcripts._LONGEST_WAIT", PATIENCE)
    session_id = long_session(store, "long")
    going, go_on = threading.Event(), threading.Event()

    def wait(count: int) -> None:
        if count == 2:
            going.set()
            assert go_on.wait(PATIENCE)

    reads = Reads(store, [session_id], wait)

    async def main() -> None:
        face = AsyncSessionStore(store)
        load = asyncio.ensure_future(face.load_transcript(session_id))
        await asyncio.to_thread(going.wait, PATIENCE)
        load.cancel()
        await asyncio.gather(load, return_exceptions=True)
        go_on.set()
        await asyncio.sleep(0)
        assert len(await face.load_transcript(session_id)) == len(LONG)
        assert reads.count <= 2 + len(LONG) // PART + 2

    asyncio.run(main())


def test_of_those_who_load_the_same_only_one_reads(store: SessionStore) -> None:
    session_id = long_session(store, "long")
    going, go_on = threading.Event(), threading.Event()

    def wait(count: int) -> None:
        if count == 2:
            going.set()
            assert go_on.wait(PATIENCE)

    reads = Reads(store, [session_id], wait)
    first, found = in_thread(lambda: texts(store, session_id))
    assert going.wait(PATIENCE)
    second, also = in_thread(lambda: texts(store, session_id))
    until(lambda: store._transcripts.misses == 2)
    go_on.set()
    first.join(PATIENCE)
    second.join(PATIENCE)
    assert found == also == [LONG]
    assert reads.count == len(LONG) // PART + 1


def test_who_waits_for_a_load_that_never_ends_reads_itself(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("projections.inline.transcripts._LONGEST_WAIT", 0.0)
    session_id = long_session(store, "long")
    going, go_on = threading.Event(), threading.Event()

    def wait(count: int) -> None:
        if count == 2:
            going.set()
            assert go_on.wait(PATIENCE)

    Reads(store, [session_id], wait)
    first, found = in_thread(lambda: texts(store, session_id))
    assert going.wait(PATIENCE)
    assert texts(store, session_id) == LONG
    go_on.set()
    first.join(PATIENCE)
    assert found == [LONG]


def test_a_transcript_too_long_to_be_kept_drops_no_other(tmp_path: Path) -> None:
    with SessionStore(tmp_path, synchronous="OFF", views=False, cached_transcript_bytes=4000) as store:
        short = store.get_or_create_session(source("short")).session_id
        say(store, short, "hello")
        long = long_session(store, "long")
        assert len(texts(store, short)) == 1
        for _ in range(3):
            assert texts(store, long) == LONG
        kept = store._transcripts
        assert (list(kept._cached), kept.size) == ([short], kept._cached[short].size)
        hits = kept.hits
        assert len(texts(store, short)) == 1
        assert kept.hits == hits + 1


def test_parts_give_what_the_whole_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SessionStore(tmp_path, synchronous="OFF", views=False) as store:
        first = long_session(store, "first")
        store.rewind_session(first, 4)
        say(store, first, "a", "b", "c")
        store.restore_rewound(first)
        fork = store.fork_session(first, store.recorded_messages(first)[17].position)
        say(store, fork, *LONG)
        again = store.fork_session(fork)
        store.rewrite_transcript(again, store.load_transcript(again)[5:])
        say(store, again, "x")
        tip = store.compress_session(first, summary_messages=[{"role": "user", "content": "short"}], covers=20)
        say(store, tip, *LONG)
        whole: list[list[Any]] = []
        for part in (10_000, 3, 1):
            monkeypatch.setattr("projections.inline.transcripts.PART", part)
            monkeypatch.setattr("engine.loading.PART", part)
            with SessionReader.open(tmp_path) as reader:
                whole.append([reader.load_transcript(each) for each in (first, fork, again, tip)])
        assert whole[0] == whole[1] == whole[2]
        assert min(map(len, whole[0])) > 20
