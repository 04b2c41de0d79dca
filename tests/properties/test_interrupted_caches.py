"""Memory is forgotten or true, wherever an interrupt cuts the code that keeps it.

Each cache is interrupted before every bytecode of what it does, and then has to answer what the tables say.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from types import CodeType

import pytest

from engine import Platform, SessionReader, SessionSource, SessionStore
from engine.command import Command
from engine.domain.events import MessageAppended, StoreOpened
from engine.log import EventLog
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.work import Work
from projections.inline.projection import position
from projections.inline.sessions import find_session
from tests.faults.interrupts import InterruptedAt, in_class, in_files

NOW = datetime(2026, 7, 1, 14, 25, 30, tzinfo=UTC)


class Stores:
    """A store whose memory is tested, and another one on the same folder that changes what it remembers."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mine, self.other = self.open(), self.open()

    def open(self, **options: int) -> SessionStore:
        return SessionStore(self.folder, clock=lambda: NOW, synchronous="OFF", **options)

    def close(self) -> None:
        self.mine.close()
        self.other.close()


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[Stores]:
    opened = Stores(tmp_path / "sessions")
    yield opened
    opened.close()


def source(name: str) -> SessionSource:
    return SessionSource(Platform.TELEGRAM, name, user_id=name)


def at_every_bytecode(
    chosen: Callable[[CodeType], bool],
    change: Callable[[int], None],
    use: Callable[[], object],
    check: Callable[[], None],
) -> None:
    """Change something, use the cache and be interrupted before its n-th bytecode, and check it: for every n."""
    for number in count(1):
        change(number)
        with InterruptedAt(number, chosen) as interrupt:
            use()
        check()
        if interrupt.left > 0:
            break
    assert number > 30, "there was nothing to interrupt"


def test_an_interrupted_lane_cache_routes_to_where_the_lane_leads(stores: Stores) -> None:
    """G20: three lanes, two of them on one session, are moved by another store before each look."""
    mine, other = stores.mine, stores.other
    sources = [source(name) for name in ("a", "b", "c")]
    keys = [mine.get_or_create_session(each).session_key for each in sources]

    def change(number: int) -> None:
        fresh = other.reset_session(keys[0])
        assert fresh
        other.switch_session(keys[number % 2 + 1], fresh.session_id)

    def use() -> None:
        for each in sources:
            mine.get_or_create_session(each)

    def check() -> None:
        for each, key in zip(sources, keys, strict=True):
            assert mine.get_or_create_session(each).session_id == other.peek_session_id(key)

    at_every_bytecode(in_files("engine/lane_cache.py"), change, use, check)


def test_a_lane_cache_interrupted_while_it_drops_lanes_routes_to_where_the_lane_leads(tmp_path: Path) -> None:
    """G20: a cache of two lanes is asked for three, and all of them lead to one session that then ends."""
    stores = Stores(tmp_path / "sessions")
    mine, other = stores.open(cached_lanes=2), stores.other
    sources = [source(name) for name in ("a", "b", "c")]
    keys = [mine.get_or_create_session(each).session_key for each in sources]

    def change(_: int) -> None:
        fresh = other.reset_session(keys[0])
        assert fresh
        for key in keys[1:]:
            other.switch_session(key, fresh.session_id)

    def use() -> None:
        for each in (*sources, *sources):
            mine.get_or_create_session(each)

    def check() -> None:
        for each, key in zip(sources, keys, strict=True):
            assert mine.get_or_create_session(each).session_id == other.peek_session_id(key)
        tip = other.compress_session(other.peek_session_id(keys[0]) or "")
        for each in reversed(sources):
            assert mine.get_or_create_session(each).session_id == tip

    at_every_bytecode(in_files("engine/lane_cache.py"), change, use, check)
    mine.close()
    stores.close()


def heads(store: SessionStore, session_ids: list[str]) -> None:
    """Assert that what a command sees of sessions is what is in the tables."""

    def look(work: Work) -> None:
        for each in session_ids:
            assert work.session(each) == find_session(work.transaction, each)
        assert position(work.transaction) == work.transaction.position

    store.runner.run(Command("look", look))


@pytest.mark.parametrize("file", ["inline/memory.py", "inline/projection.py"])
def test_interrupted_heads_are_those_of_the_tables(stores: Stores, file: str) -> None:
    """G46: another store writes, and another program without tables, which are then brought up to date by replay."""
    mine, other = stores.mine, stores.other
    ids = [mine.get_or_create_session(source(name)).session_id for name in ("a", "b")]
    bare = EventLog(mine.log.path, synchronous="OFF")

    def change(number: int) -> None:
        other.append_to_transcript(ids[0], {"role": "user", "content": str(number)})
        if number % 2:
            bare.append([Envelope(f"session:{ids[1]}", NEXT_VERSION, MessageAppended(message={"role": "user"}))])

    def use() -> None:
        for each in ids:
            mine.append_to_transcript(each, {"role": "assistant", "content": "x"})

    at_every_bytecode(in_files(file), change, use, lambda: heads(mine, ids))
    bare.close()
    assert mine.log.verify().ok


def test_an_interrupted_transcript_is_that_of_the_log(stores: Stores) -> None:
    """G49: and the bytes that are counted are those that are kept."""
    mine, other = stores.mine, stores.other
    ids = [mine.get_or_create_session(source(name)).session_id for name in ("a", "b")]
    reader = SessionReader.open(stores.folder, cached_transcript_bytes=0)

    def change(number: int) -> None:
        if number % 2:  # else the transcript that is kept is brought up to date
            for each in ids:
                other.rewrite_transcript(each, [{"role": "user", "content": f"again {number}"}])
        other.append_messages(ids[0], [{"role": "user", "content": str(number)}] * 2)
        if number % 3 == 0:
            other.rewind_session(ids[0])

    def use() -> None:
        for each in ids:
            mine.load_transcript(each)

    def check() -> None:
        for each in ids:
            assert mine.load_transcript(each) == reader.load_transcript(each)
        kept = mine._transcripts
        assert kept.size == sum(each.size for each in kept._cached.values())

    at_every_bytecode(in_files("inline/transcripts.py", "domain/transcript.py"), change, use, check)
    reader.close()


def test_interrupted_names_are_those_of_the_log(tmp_path: Path) -> None:
    """G57: names are added by two logs in turn; each row keeps the name it was given."""
    path = tmp_path / "log.db"
    streams: list[str] = []
    with EventLog(path, synchronous="OFF") as mine, EventLog(path, synchronous="OFF") as other:

        def append(log: EventLog, stream: str) -> None:
            log.append([Envelope(stream, NEXT_VERSION, MessageAppended(message={"in": stream}), actor=stream)])
            streams.append(stream)

        def change(number: int) -> None:
            append(other, f"session:other-{number}")

        def use() -> None:
            append(mine, f"session:mine-{len(streams)}")
            append(mine, f"session:other-{len(streams) // 3}")
            assert mine.stream(streams[-1])

        def check() -> None:
            append(mine, f"session:after-{len(streams)}")
            names = mine._backend._transaction.names if mine._backend else None
            rows = dict(other.query("SELECT name, id FROM names"))
            assert names
            assert names.ids.items() <= rows.items()
            assert {name: each for each, name in names.by_id.items()}.items() <= rows.items()

        at_every_bytecode(in_files("sqlite/names.py"), change, use, check)
        for envelope in other.events():
            assert envelope.event == MessageAppended(message={"in": envelope.stream})
            assert envelope.actor == envelope.stream
        assert other.verify().ok


def test_a_store_interrupted_at_its_first_command_says_once_that_it_was_opened(stores: Stores) -> None:
    """G57."""
    opened: list[SessionStore] = []

    def change(_: int) -> None:
        opened.append(stores.open())

    session_id = stores.other.get_or_create_session(source("a")).session_id

    def use() -> None:
        for _ in range(3):
            opened[-1].append_to_transcript(session_id, {"role": "user", "content": "hello"})

    def check() -> None:
        store = opened[-1]
        use()
        events = [each.event for each in store.log.events() if isinstance(each.event, StoreOpened)]
        assert [each.holder for each in events].count(store._holder) == 1
        store.close()

    at_every_bytecode(in_class("engine/runner.py", "Opening"), change, use, check)
