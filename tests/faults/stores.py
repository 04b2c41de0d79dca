"""Work of a whole store, for disks that fail: what a gateway does all day, and what its operator does at night."""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

from engine import SessionStore
from engine.domain.encoding import Erased
from engine.domain.errors import EngineError
from engine.errors import SessionError
from engine.log.sqlite.backend import SQLiteBackend
from tests.faults.disk import Disk
from tests.gateway.support import FakeClock, source

START = datetime(2026, 7, 1, 14, 25, 30, tzinfo=UTC)
LANES = [f"chat-{number}" for number in range(4)]

Work = Callable[[SessionStore], object]
"""Something that is done with a store; its answer says that it is durable."""


def key(chat: str) -> str:
    return f"agent:main:telegram:dm:{chat}"


class Says:
    """Appends a message, and knows where it was acknowledged."""

    def __init__(self, chat: str, number: int, chance: random.Random) -> None:
        words = "".join(chance.choices("abcdefghijklmnop", k=chance.choice((5, 60, 900))))
        self.chat = chat
        self.message = {"role": chance.choice(("user", "assistant")), "content": f"{number} {words}"}
        self.message_id = f"m-{number}"
        self.position: int | None = None

    def __call__(self, store: SessionStore) -> None:
        session_id = store.get_or_create_session(source(self.chat)).session_id
        message = {**self.message, "message_id": self.message_id}
        self.position = store.append_to_transcript(session_id, message) or self.position


def everyday(chance: random.Random, count: int) -> Iterator[Work]:
    """Messages, resets, undos, compressions, turns: what changes a lane and its sessions together."""
    for number in range(count):
        chat = chance.choice(LANES)
        yield Says(chat, number, chance)
        luck = chance.randrange(24)
        if luck < len(_OTHERS):
            yield _with_session(chat, _OTHERS[luck], number)
    yield lambda store: store.runner.touches.flush()


def _with_session(chat: str, act: Callable[[SessionStore, str, str, int], object], number: int) -> Work:
    def work(store: SessionStore) -> None:
        session_id = store.get_or_create_session(source(chat)).session_id
        act(store, key(chat), session_id, number)

    return work


def _take_a_turn(store: SessionStore, session_key: str, _session_id: str, number: int) -> None:
    token = store.begin_turn(session_key)
    with suppress(EngineError):  # a disk that fails leaves it to the lease
        store.end_turn(token, error=None if number % 2 else "failed")


_OTHERS: list[Callable[[SessionStore, str, str, int], object]] = [
    lambda store, lane, session_id, n: store.reset_session(lane),
    lambda store, lane, session_id, n: store.compress_session(
        session_id, None, [{"role": "system", "content": f"summary {n}"}]
    ),
    lambda store, lane, session_id, n: store.rewind_session(session_id),
    lambda store, lane, session_id, n: store.restore_rewound(session_id),
    lambda store, lane, session_id, n: store.switch_session(lane, store.fork_session(session_id)),
    lambda store, lane, session_id, n: store.rewrite_transcript(session_id, [{"role": "user", "content": f"new {n}"}]),
    lambda store, lane, session_id, n: store.set_session_title(session_id, "Trip to Delft"),
    lambda store, lane, session_id, n: store.set_model_override(lane, {"model": f"large-{n}"}),
    lambda store, lane, session_id, n: store.end_session(session_id, "agent_close"),
    lambda store, lane, session_id, n: store.suspend_session(lane),
    _take_a_turn,
]


class Erases:
    """Erases a session, and knows what of it was acknowledged as erased."""

    def __init__(self, chat: str) -> None:
        self.chat = chat
        self.positions: tuple[int, ...] = ()

    def __call__(self, store: SessionStore) -> None:
        session_id = store.get_or_create_session(source(self.chat)).session_id
        self.positions = store.erase(session_id=session_id, reason="asked to").positions


def upkeep(chance: random.Random, count: int) -> Iterator[Work]:
    """Do the work of the night, between messages: rebuilding, erasing, purging, pruning."""
    yield from everyday(chance, count)
    yield lambda store: store.rebuild()
    yield Erases(chance.choice(LANES))
    yield from everyday(chance, 3)
    yield lambda store: store.purge()
    yield lambda store: store.suspend_recently_active()
    yield lambda store: _in_a_year(store)
    yield lambda store: store.prune_old_entries(30)
    yield from everyday(chance, 3)
    yield lambda store: store.rebuild()


def _in_a_year(store: SessionStore) -> None:
    clock: Any = store._clock
    clock.advance(days=366)


class StoreWorkload:
    """A store's work on a recording disk: after a power loss the log is what was written, up to a whole command.

    The hash of a row covers every row before it. So a log with the right hash at its end has lost nothing before, and
    changed nothing; it has to reach what was acknowledged, and to end where a commit did.
    """

    def __init__(
        self, folder: Path, disk: Disk, works: list[Work], *, synchronous: str = "FULL", together: bool = False
    ) -> None:
        self.folder, self.disk, self.synchronous, self.together = folder, disk, synchronous, together
        self.works = works
        self.clock = FakeClock(START)
        self.commits = {0}
        self.acknowledged: list[tuple[int, int]] = []
        self.erased: list[tuple[int, tuple[int, ...]]] = []
        self.hashes: dict[int, bytes] = {}

    def open(self, folder: Path, **options: Any) -> SessionStore:
        return SessionStore(folder, clock=self.clock, views=False, **options)

    def run(self) -> None:
        """Do it in two openings, the first with some of the work at once if it is to be together."""
        plain = SQLiteBackend.commit

        def commit(backend: SQLiteBackend) -> int:
            position = plain(backend)
            self.commits.add(position)
            return position

        half = len(self.works) // 2
        with mock.patch.object(SQLiteBackend, "commit", commit):
            for works in (self.works[:half], self.works[half:]):
                options = {"vfs": self.disk.name, "synchronous": self.synchronous, "checkpoint_pages": 25}
                with self.open(self.folder, **options) as store:
                    self._work(store, works)
                    self.hashes = dict(store.log.query("SELECT position, hash FROM events"))
            with self.open(self.folder) as store:
                assert store.verify().ok
                self.hashes = dict(store.log.query("SELECT position, hash FROM events"))

    def _work(self, store: SessionStore, works: list[Work]) -> None:
        if not self.together:
            for work in works:
                self._one(store, work)
            return
        failed: list[BaseException] = []

        def some(share: list[Work]) -> None:
            try:
                for work in share:
                    self._one(store, work)
            except BaseException as error:  # noqa: BLE001 - handed to the test's thread
                failed.append(error)

        threads = [threading.Thread(target=some, args=(works[first::4],)) for first in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed, failed

    def _one(self, store: SessionStore, work: Work) -> None:
        with suppress(SessionError):  # another thread was faster, or there is nothing to be done
            work(store)
        position = store.log.last_position
        self.acknowledged.append((len(self.disk.operations), position))
        if isinstance(work, Erases):
            self.erased.append((len(self.disk.operations), work.positions))

    def check(self, folder: Path, index: int) -> None:
        """Raise if the store in a folder is not what a power loss at an operation may leave."""
        with self.open(folder, synchronous="OFF") as store:
            position = store.log.last_position
            wanted = max((reached for at, reached in self.acknowledged if at <= index), default=0)
            assert position >= wanted, f"{wanted} was acknowledged and is lost: the log ends at {position}"
            assert position in self.commits, f"the log ends at {position}, in the middle of a commit"
            assert store.log.health().damaged_wal is None, "a power cut is taken for a damaged WAL"
            verification = store.verify()
            assert verification.ok, verification
            if position:
                ((found,),) = store.log.query("SELECT hash FROM events WHERE position = ?", (position,))
                assert found == self.hashes[position], f"another history up to {position}"
            for at, positions in self.erased:
                if at <= index:
                    left = [each.position for each in store.log.events() if each.position in positions]
                    gone = [each.position for each in store.log.events() if isinstance(each.event, Erased)]
                    assert set(left) <= set(gone), "what was acknowledged as erased is there"
            session_id = store.get_or_create_session(source("after")).session_id
            assert store.append_to_transcript(session_id, {"role": "user", "content": "and on"})
            assert [each["content"] for each in store.load_transcript(session_id)] == ["and on"]


def gateway_by_day(folder: Path, disk: Disk, chance: random.Random, synchronous: str = "FULL") -> StoreWorkload:
    """Threads that share a store."""
    return StoreWorkload(folder, disk, list(everyday(chance, 36)), synchronous=synchronous, together=True)


def operator_by_night(folder: Path, disk: Disk, chance: random.Random) -> StoreWorkload:
    """Rebuilding, erasing, purging and pruning, one after the other."""
    return StoreWorkload(folder, disk, list(upkeep(chance, 14)))


class StoreTrial:
    """A store's work on a disk that may fail, then on the healed disk: nothing acknowledged is lost."""

    def __init__(self, folder: Path, disk: Disk, works: list[Work]) -> None:
        self.folder, self.disk, self.works = folder, disk, works
        self.clock = FakeClock(START)
        self.refused: list[EngineError] = []

    def open(self, **options: Any) -> SessionStore:
        return SessionStore(self.folder, clock=self.clock, views=False, busy_timeout=0.5, **options)

    def work(self) -> None:
        """Do it; whatever fails must fail with an error of the engine's own."""
        store: SessionStore | None = None
        try:
            for work in self.works:
                try:
                    store = store or self.open(vfs=self.disk.name, checkpoint_pages=8)
                    work(store)
                except EngineError as error:
                    self.refused.append(error)
        finally:
            if store is not None:
                with suppress(EngineError):
                    store.close()

    def healed(self) -> None:
        """Open the store again on a disk that works, and look for what was acknowledged."""
        self.disk.fail = None
        with self.open() as store:
            assert store.verify().ok, store.verify()
            assert store.quarantined() == []
            events = {each.position: each.event for each in store.log.events()}
            for work in self.works:
                if isinstance(work, Says) and work.position is not None:
                    event: Any = events.get(work.position)
                    assert event is not None, f"position {work.position} was acknowledged and is lost"
                    if not isinstance(event, Erased):
                        assert (event.message_id, event.message) == (work.message_id, work.message)
            self.works[0](store)
            assert store.verify().ok
