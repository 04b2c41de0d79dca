"""The event log's speed and size, each as a ratio to a baseline measured in the same run."""

import asyncio
import time
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from benchmarks.baselines import (
    Raw,
    Stock,
    in_threads,
    locked_hops,
    locked_tasks,
    locked_threads,
    size_on_disk,
    stock_application,
)
from benchmarks.compare import Interleaved, Line, Summary, duration, spread
from engine.domain.encoding import encode
from engine.domain.events import LaneTouched, MessageAppended, TurnBegun, TurnEnded, UsageRecorded
from engine.domain.registry import EVENTS
from engine.domain.streams import lane_stream
from engine.log import EventLog
from engine.log.envelope import NEXT_VERSION, Envelope

MANY, SOME, FEW = 1_000_000, 200_000, 1_000
PRODUCERS = 64
SESSION = "20260701_142530_{:08x}"


def message_of(size: int) -> MessageAppended:
    """A message whose JSON has exactly this many bytes."""
    spare = size - len(encode(MessageAppended(message={"role": "user", "content": ""})))
    return MessageAppended(message={"role": "user", "content": "x" * spare})


MESSAGE = message_of(200)
PAYLOAD = encode(MESSAGE).decode()


def mixed(number: int) -> Envelope:
    """Event `number` of a gateway's day: of five events of a turn, two are messages of 200 bytes."""
    turn, step = divmod(number, 5)
    key = SESSION.format(turn % 500)
    lane = lane_stream(f"{turn % 500:016x}")
    match step:
        case 0:
            stream, event = f"session:{key}", TurnBegun(token=f"t-{turn}", conversation_id=key)
        case 1 | 2:
            stream, event = f"session:{key}", MESSAGE
        case 3:
            stream, event = lane, UsageRecorded(session_id=key, input_tokens=1200, output_tokens=80)
        case _:
            stream, event = f"session:{key}", TurnEnded(token=f"t-{turn}")
    return Envelope(stream, NEXT_VERSION, event, 0, "gateway", "run_turn")


def build(path: Path, events: int, chunk: int = 1000) -> float:
    started = time.perf_counter()
    with EventLog(path, synchronous="OFF") as log:
        for first in range(0, events, chunk):
            log.append([mixed(number) for number in range(first, min(first + chunk, events))])
    return time.perf_counter() - started


@pytest.fixture(scope="module")
def million(folder: Path, summary: Summary) -> Path:
    path = folder / "million.db"
    took = build(path, MANY)
    slow = "; over a minute" if took > 60 else ""
    size = path.stat().st_size / 1e6
    summary.notes.append(
        f"the log of {MANY:,} mixed events ({size:.0f} MB) was built in {took:.0f} s at OFF, "
        f"1,000 events per command, {MANY / took:,.0f} events/s{slow}"
    )
    return path


def record(summary: Summary, what: str, compared: Interleaved, kind: str, bar: float, unit: str = "") -> None:
    values = compared.ratios(faster=kind == ">=")
    if kind == ">=":
        shown = [f"{1 / side.median:,.0f}/s" for side in (compared.baseline, compared.ours)]
    else:
        shown = [duration(side.median) + unit for side in (compared.baseline, compared.ours)]
    summary.add(what, shown[0], shown[1], values[1], spread(values), bar, kind)


# 1. One durable append


@pytest.mark.parametrize(("synchronous", "each", "bar"), [("FULL", 150, 1.3), ("OFF", 2000, 1.6)])
def test_1_lone_append(benchmark: Any, folder: Path, summary: Summary, synchronous: str, each: int, bar: float) -> None:
    raw = Raw(folder / f"lone-raw-{synchronous}.db", synchronous, PAYLOAD)
    log = EventLog(folder / f"lone-{synchronous}.db", synchronous=synchronous)
    rounds = {0: count(), 1: count()}

    def baseline() -> None:
        stream = "session:" + SESSION.format(next(rounds[0]))
        for version in range(1, each + 1):
            raw.commit_one(stream, version)

    def ours() -> None:
        stream = "session:" + SESSION.format(next(rounds[1]))
        for version in range(1, each + 1):
            log.append([Envelope(stream, version, MESSAGE, 0, "gateway", "append_message")])

    compared = Interleaved(baseline, ours, (each, each))
    compared.run(benchmark, 15)
    log.close()
    raw.close()
    record(summary, f"1. one append, {synchronous}, against raw apsw BEGIN/INSERT/COMMIT", compared, "<=", bar)


# 2. Many producers, each waiting for durability


def produce_async(log: EventLog, tag: str, each: int) -> None:
    async def produce(number: int) -> None:
        for version in range(1, each + 1):
            envelope = Envelope(f"session:{tag}:{number}", version, MESSAGE, 0, "gateway", "append_message")
            await log.append_async([envelope])

    async def main() -> None:
        await asyncio.gather(*[produce(number) for number in range(PRODUCERS)])

    asyncio.run(main())


def produce_threads(log: EventLog, tag: str, each: int) -> None:
    def produce(number: int) -> None:
        for version in range(1, each + 1):
            log.append([Envelope(f"session:{tag}:{number}", version, MESSAGE, 0, "gateway", "append_message")])

    in_threads(produce, PRODUCERS)


@pytest.mark.parametrize(
    ("name", "baseline_name", "locked", "produce", "bar"),
    [
        ("64 asyncio producers", "asyncio.Lock, commit in a thread", locked_hops, produce_async, 10.0),
        ("64 asyncio producers", "asyncio.Lock, commit blocks the loop", locked_tasks, produce_async, 0.0),
        ("64 threads", "64 threads with a lock", locked_threads, produce_threads, 3.5),
    ],
    ids=["asyncio", "asyncio blocking", "threads"],
)
def test_2_many_producers(
    benchmark: Any,
    folder: Path,
    summary: Summary,
    name: str,
    baseline_name: str,
    locked: Any,
    produce: Any,
    bar: float,
) -> None:
    path = folder / f"many-{produce.__name__}-{locked.__name__}.db"
    raw = Raw(path.with_suffix(".raw"), "FULL", PAYLOAD)
    log = EventLog(path, synchronous="FULL")
    rounds = count()
    few, many = 15, 80

    compared = Interleaved(
        lambda: locked(raw, str(next(rounds)), PRODUCERS, few),
        lambda: produce(log, str(next(rounds)), many),
        (PRODUCERS * few, PRODUCERS * many),
    )
    compared.run(benchmark, 7)
    health = log.health()
    log.close()
    raw.close()
    batch = health.commands / health.commits
    what = f"2. {name}, FULL, against {baseline_name}"
    record(summary, what, compared, ">=", bar)
    summary.notes.append(f"{what}: {batch:.0f} commands per commit on average, most {health.largest_batch}")


# 3. Read, decode and fold


def fold(log: EventLog, upto: int) -> tuple[dict[str, tuple[int, int]], list[int]]:
    streams: dict[str, tuple[int, int]] = {}
    kinds = [0, 0, 0, 0, 0]
    for envelope in log.events(upto=upto):
        seen = streams.get(envelope.stream)
        streams[envelope.stream] = (seen[0] + 1 if seen else 1, envelope.version)
        match envelope.event:
            case MessageAppended():
                kinds[0] += 1
            case TurnBegun():
                kinds[1] += 1
            case TurnEnded():
                kinds[2] += 1
            case UsageRecorded() | LaneTouched():
                kinds[3] += 1
            case _:
                kinds[4] += 1
    return streams, kinds


@pytest.mark.parametrize(
    ("name", "columns", "bar"),
    [
        (
            "the same columns",
            "stream, version, time, actor, command, reason, position, event_id, metadata, topic, state",
            2,
        ),
        ("topic and payload alone", "topic, state", 0.0),
    ],
    ids=["same columns", "payload"],
)
def test_3_read_decode_fold(
    benchmark: Any, million: Path, summary: Summary, name: str, columns: str, bar: float
) -> None:
    decoders = {topic: msgspec.json.Decoder(kind).decode for topic, kind in EVENTS.items()}
    connection = apsw.Connection(str(million), flags=apsw.SQLITE_OPEN_READWRITE)
    log = EventLog(million)

    def baseline() -> None:
        for row in connection.execute(f"SELECT {columns} FROM events WHERE position <= ?", (SOME,)):
            decoders[row[-2]](row[-1])

    def ours() -> None:
        streams, kinds = fold(log, SOME)
        assert sum(kinds) == sum(seen for seen, _ in streams.values()) == SOME

    compared = Interleaved(baseline, ours)
    compared.run(benchmark, 7)
    log.close()
    connection.close()
    record(summary, f"3. read, decode, fold {SOME:,}, against SELECT of {name} + decode", compared, "<=", bar)


# 4. Verify


def test_4_verify(benchmark: Any, million: Path, summary: Summary) -> None:
    with EventLog(million) as log:
        found = benchmark.pedantic(log.verify, rounds=1, warmup_rounds=0)
    assert found.ok
    seconds = benchmark.stats.stats.median if benchmark.stats else 0.0
    speed = f"{found.events / seconds:,.0f} events/s" if seconds else "not timed"
    benchmark.extra_info["events_per_second"] = speed
    summary.lines.append(Line(f"4. verify() of {found.events:,} events", "-", duration(seconds), speed, "", "printed"))


# 5. Open


@pytest.mark.parametrize("append", [False, True], ids=["last_position", "first_append"])
def test_5_open(benchmark: Any, folder: Path, million: Path, summary: Summary, append: bool) -> None:
    small = folder / "thousand.db"
    if not small.exists():
        build(small, FEW)
    opened: list[EventLog] = []

    def open_one(path: Path) -> None:
        log = EventLog(path)
        opened.append(log)
        assert log.last_position
        if append:
            log.append([Envelope("session:opened", NEXT_VERSION, MESSAGE, 0, "gateway", "append_message")])

    def close_all() -> None:
        while opened:
            opened.pop().close()

    compared = Interleaved(lambda: open_one(small), lambda: open_one(million), between=close_all)
    compared.run(benchmark, 41)
    close_all()
    what = "and first append, FULL" if append else "until last_position is read"
    record(summary, f"5. open at {MANY:,} against at {FEW:,}, {what}", compared, "<=", 1.5)


# 6. Bytes on disk


def test_6_bytes(benchmark: Any, folder: Path, summary: Summary) -> None:
    streams, each = 100, 200
    names = ["session:" + SESSION.format(number * 2654435761 % (1 << 32)) for number in range(streams)]
    ours, stock, application = folder / "bytes.db", folder / "bytes-stock.db", folder / "bytes-application.db"

    def write() -> None:
        with EventLog(ours, synchronous="OFF") as log:
            for version in range(1, each + 1):
                log.append([Envelope(name, version, MESSAGE, 0, "gateway", "append_message") for name in names])

    benchmark.pedantic(write, rounds=1, warmup_rounds=0)
    recorder = Stock(stock)
    for version in range(1, each + 1):
        recorder.insert([(name, version, "message.appended", PAYLOAD.encode()) for name in names])
    recorder.close()
    written = stock_application(application, MESSAGE.message, streams, each)

    mine = size_on_disk(ours) / (streams * each)
    theirs = size_on_disk(stock) / (streams * each)
    theirs_too = size_on_disk(application) / written
    benchmark.extra_info.update(ours=mine, stock_recorder=theirs, stock_application=theirs_too)
    for what, other, bar in (("recorder, text ids", theirs, 1.0), ("Application + Aggregate", theirs_too, 0.0)):
        summary.add(
            f"6. bytes per {len(PAYLOAD)}-byte event, against the stock {what}",
            f"{other:.0f} B",
            f"{mine:.0f} B",
            mine / other,
            "",
            bar,
            "<=",
        )


# 7. For information: the stock library's append


def test_7_stock_append(benchmark: Any, folder: Path, summary: Summary) -> None:
    stock = Stock(folder / "stock.db")
    synchronous = stock.synchronous()
    log = EventLog(folder / "against-stock.db", synchronous=synchronous)
    each = 150
    rounds = {0: count(), 1: count()}
    payload = PAYLOAD.encode()

    def baseline() -> None:
        stream = "session:" + SESSION.format(next(rounds[0]))
        for version in range(1, each + 1):
            stock.insert([(stream, version, "message.appended", payload)])

    def ours() -> None:
        stream = "session:" + SESSION.format(next(rounds[1]))
        for version in range(1, each + 1):
            log.append([Envelope(stream, version, MESSAGE, 0, "gateway", "append_message")])

    compared = Interleaved(baseline, ours, (each, each))
    compared.run(benchmark, 9)
    log.close()
    stock.close()
    record(
        summary, f"7. one append, {synchronous} (stock's default, WAL), against stock's recorder", compared, "<=", 0.0
    )
