"""Speed of the past, of verifying and of making stores again, on 1,000,000 events of a gateway at work."""

import os
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from benchmarks.compare import Interleaved, Summary
from benchmarks.gateways import message, session_of, source, store_at
from benchmarks.test_log import record
from engine.domain.events import (
    LaneRouted,
    LaneTouched,
    MessageAppended,
    SessionCreated,
    TurnBegun,
    TurnEnded,
    UsageRecorded,
)
from engine.domain.keys import name_lane
from engine.domain.registry import EVENTS
from engine.domain.streams import lane_stream, session_stream
from engine.log import EventLog
from engine.log.envelope import Envelope
from engine.reader import FILE_NAME
from replay import as_of, heal, lane_at, restore, salvage, transcript_at, verify

EVENTS_OF_ALL = int(os.environ.get("REPLAY_EVENTS", "1000000"))
LANES = EVENTS_OF_ALL // 100
ACTIVE, LATELY = LANES // 100, EVENTS_OF_ALL // 100
_AT_ONCE = 5_000


class Gateway:
    """Lanes at work in turns: each exchange is two messages, a turn, a touch and what it cost."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}
        self.now = time.time_ns() // 1000
        self.turns = 0

    def event(self, stream: str, event: Any, command: str) -> Envelope:
        self.versions[stream] = self.versions.get(stream, 0) + 1
        self.now += 1000
        return Envelope(stream, self.versions[stream], event, self.now, "gateway", command)

    def begins(self, lane: int) -> list[Envelope]:
        origin, session_id, name = source(lane), session_of(lane), name_lane(source(lane))
        known = origin.known()
        created = SessionCreated(conversation_id=session_id, lane=name.key, source=known)
        routed = LaneRouted(
            session_id=session_id,
            how="created",
            key=name.key,
            identity=name.identity,
            origin=known,
            display_name=origin.chat_name,
        )
        command = "get_or_create_session"
        return [
            self.event(session_stream(session_id), created, command),
            self.event(lane_stream(f"{lane:016x}"), routed, command),
        ]

    def exchange(self, lane: int) -> list[Envelope]:
        session_id = session_of(lane)
        stream, of_lane = session_stream(session_id), lane_stream(f"{lane:016x}")
        self.turns += 1
        token, platform_id = f"turn-{self.turns}", f"tg-{self.turns}"
        usage = UsageRecorded(session_id=session_id, last_prompt_tokens=900, input_tokens=1200, output_tokens=80)
        begun = TurnBegun(token=token, conversation_id=session_id, lane_id=f"{lane:016x}", lease_seconds=600.0)
        return [
            self.event(of_lane, LaneTouched(at=self.now), "touch"),
            self.event(stream, begun, "begin_turn"),
            self.event(stream, MessageAppended(message(0), message_id=platform_id), "append_to_transcript"),
            self.event(stream, MessageAppended(message(1)), "append_to_transcript"),
            self.event(of_lane, usage, "update_session"),
            self.event(stream, TurnEnded(token=token), "end_turn"),
        ]

    def events(self) -> Iterator[Envelope]:
        """All lanes in turns, and at the end a few of them."""
        for lane in range(LANES):
            yield from self.begins(lane)
        for _ in range((EVENTS_OF_ALL - LATELY - 2 * LANES) // (6 * LANES)):
            for lane in range(LANES):
                yield from self.exchange(lane)
        for _ in range(1 + LATELY // (6 * ACTIVE)):
            for lane in range(ACTIVE):
                yield from self.exchange(lane)


@pytest.fixture(scope="module")
def gateway(folder: Path) -> Path:
    """A store at the end of its work, and how long that took to record."""
    path = folder / "replayed"
    with store_at(path, synchronous="OFF") as store:
        part: list[Envelope] = []
        for each in Gateway().events():
            part.append(each)
            if len(part) == _AT_ONCE:
                store.log.append(part)
                part = []
        store.log.append(part)
    return path / FILE_NAME


@pytest.fixture
def log(gateway: Path) -> Iterator[EventLog]:
    with EventLog(gateway, read_only=True) as log:
        yield log


class Everything:
    """SELECT and decode of the whole log, with the columns that any fold needs."""

    def __init__(self, path: Path) -> None:
        self._connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        self._decoders = {topic: msgspec.json.Decoder(kind).decode for topic, kind in EVENTS.items()}

    def __call__(self) -> None:
        wanted = "SELECT stream, version, topic, state, position, time FROM events"
        for _, _, topic, state, _, _ in self._connection.execute(wanted):
            self._decoders[topic](state)


# 1. As of a position


@pytest.mark.parametrize(
    ("what", "bar"),
    [("1/100 of the events back, 1/100 of the lanes since", 0.1), ("every lane since", 1.5), ("the middle", 1.5)],
    ids=["few lanes", "every lane", "middle"],
)
def test_1_as_of(benchmark: Any, log: EventLog, gateway: Path, summary: Summary, what: str, bar: float) -> None:
    last = log.last_position
    lately = 6 * ACTIVE * (1 + LATELY // (6 * ACTIVE))
    position = {"every lane since": last - lately - 6 * LANES, "the middle": last // 2}.get(what, last - LATELY)

    def ours() -> None:
        with as_of(log, position) as past:
            assert past.has_any_sessions()

    compared = Interleaved(Everything(gateway), ours)
    compared.run(benchmark, 5)
    record(summary, f"1. as_of, {what}, of {last:,} events, against SELECT + decode of all", compared, "<=", bar)


# 2. One of them


@pytest.mark.parametrize("what", ["lane", "transcript"])
def test_2_one_of_them_as_a_call(log: EventLog, summary: Summary, what: str) -> None:
    position, lane = log.last_position // 2, LANES // 2
    key, session_id = name_lane(source(lane)).key, session_of(lane)
    measured = []
    for _ in range(51):
        started = time.perf_counter()
        assert lane_at(log, key, position) if what == "lane" else transcript_at(log, session_id, position)
        measured.append(time.perf_counter() - started)
    summary.bound(f"2. one {what} in the middle of {log.last_position:,} events", statistics.median(measured), 0.01)


# 3. Verify, restore, salvage, heal


def told(summary: Summary, what: str, log_position: int, work: Callable[[], object]) -> None:
    started = time.perf_counter()
    assert work()
    summary.tell(f"3. {what}", f"{log_position / (time.perf_counter() - started):,.0f} events/s")


def test_3_verify(log: EventLog, summary: Summary) -> None:
    what = "verify: the chain, the file, and the state tables against a fresh fold"
    told(summary, what, log.last_position, lambda: verify(log).ok)


def test_3_restore(log: EventLog, folder: Path, summary: Summary) -> None:
    what = "restore: a store as of the end from the log alone, folded and verified"
    told(summary, what, log.last_position, lambda: restore(log, folder / "restored"))


def test_3_salvage(log: EventLog, folder: Path, summary: Summary) -> None:
    what = "salvage: every row held to its hash and written anew, folded and verified"
    told(summary, what, log.last_position, lambda: salvage(log, folder / "salvaged").lost == 0)


def test_3_heal(log: EventLog, folder: Path, summary: Summary) -> None:
    with EventLog(folder / "restored" / FILE_NAME) as damaged:
        damaged.transact(
            lambda transaction: transaction.execute(
                "UPDATE lanes SET session_id = '' WHERE key IN (SELECT key FROM lanes LIMIT 3)"
            )
        )
    what = "heal: verified, compared, made again, and verified once more"
    told(summary, what, log.last_position, lambda: heal(folder / "restored").healed)
