"""Speed of questions about decisions: `why` as a call, and `what-if` against reading and decoding the whole log."""

import os
import random
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from benchmarks.compare import Interleaved, Summary, duration, percentile
from benchmarks.gateways import message, source, store_at
from benchmarks.test_log import record
from benchmarks.test_store import timed
from engine.domain import events as e
from engine.domain.keys import name_lane
from engine.domain.registry import EVENTS
from engine.domain.streams import LOG, lane_stream, session_stream
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.store import FILE_NAME
from replay import open_log, policy_change, what_if, why

JUDGED = int(os.environ.get("DECISION_EVENTS", "1000000"))
DAYS, A_DAY, EXCHANGES = 4, 35, 4
LANES = JUDGED // (DAYS * A_DAY)
_START, _DAY, _SECOND = 1782892800_000000, 86_400_000000, 1_000000
_SAW = e.DecisionInputs(mode="daily", at_hour=4, idle_minutes=1440, idle_seconds=80000.0, zone_offset_minutes=120)
_POLICY = {"mode": "daily", "at_hour": 4, "idle_minutes": 1440}


def _a_day(lane: int, day: int) -> list[Envelope]:
    """Return a day of a lane: a reset in the morning, and exchanges of eight events, as an agent has them."""
    origin, now = source(lane), _START + day * _DAY + lane * _SECOND
    name, described, at = name_lane(origin), origin.known(), lane_stream(f"{lane:016x}")
    session_id, former = (f"2026070{each}_080000_{lane:08x}" for each in (day + 1, day))
    stream, command = session_stream(session_id), "get_or_create_session"
    events: list[tuple[str, e.AnyEvent, int]] = [
        (stream, e.SessionCreated(conversation_id=session_id, lane=name.key, source=described), now)
    ]
    if day == 0:
        routed = e.LaneRouted(
            session_id=session_id, how="created", key=name.key, identity=name.identity, origin=described
        )
        events.append((at, routed, now))
    else:
        reset = e.LaneReset(
            session_id=session_id, previous_session_id=former, cause="daily", automatic=True, origin=described, saw=_SAW
        )
        events += [(session_stream(former), e.SessionEnded(end_reason="daily"), now), (at, reset, now)]
    for number in range(EXCHANGES):
        token, when = f"t-{lane}-{day}-{number}", now + (number + 1) * 1800 * _SECOND
        events += [
            (at, e.LaneTouched(at=when), when),
            (stream, e.TurnBegun(token=token, conversation_id=session_id), when),
            *((stream, e.MessageAppended(message(each)), when) for each in range(4)),
            (at, e.UsageRecorded(session_id=session_id, input_tokens=1200, output_tokens=80), when),
            (stream, e.TurnEnded(token=token), when),
        ]
    return [Envelope(stream, NEXT_VERSION, event, time, "gateway", command) for stream, event, time in events]


@pytest.fixture(scope="module")
def judged(folder: Path) -> Path:
    """A gateway of many lanes over four days, with its tables."""
    path = folder / "judged"
    opened = e.StoreOpened(
        version="0.1.0", holder="h:1:1:1", zone="Europe/Amsterdam", settings={"default_reset_policy": _POLICY}
    )
    with store_at(path, synchronous="OFF") as store:
        store.log.append([Envelope(LOG, NEXT_VERSION, opened, _START, "gateway", "open")])
        for day in range(DAYS):
            for first in range(0, LANES, 200):
                lanes = range(first, min(first + 200, LANES))
                store.log.append([each for lane in lanes for each in _a_day(lane, day)])
    return path


@pytest.fixture
def connection(judged: Path) -> Iterator[apsw.Connection]:
    found = apsw.Connection(str(judged / FILE_NAME), flags=apsw.SQLITE_OPEN_READONLY)
    yield found
    found.close()


def test_1_why(benchmark: Any, judged: Path, summary: Summary) -> None:
    chance = random.Random(1)
    keys = [name_lane(source(chance.randrange(LANES))).key for _ in range(200)]
    with open_log(judged) as log:
        assert len(why(log, keys[0]).decisions) >= DAYS
        seconds = benchmark.pedantic(lambda: timed(lambda key: why(log, key), keys), rounds=1, warmup_rounds=1)
        summary.bound(f"1. why of a lane, {log.last_position:,} events: p50", percentile(seconds, 50), 0.010)
        sessions = [f"20260702_080000_{chance.randrange(LANES):08x}" for _ in range(200)]
        summary.bound("1. why of a session: p50", percentile(timed(lambda each: why(log, each), sessions), 50), 0.010)


def test_2_what_if(benchmark: Any, judged: Path, connection: apsw.Connection, summary: Summary) -> None:
    decoders = {topic: msgspec.json.Decoder(kind).decode for topic, kind in EVENTS.items()}
    change = policy_change(mode="both", idle_minutes=60)
    found = []

    def baseline() -> None:
        for topic, state in connection.execute("SELECT topic, state FROM events"):
            decoders[topic](state)

    with open_log(judged) as log:

        def ours() -> None:
            found.append(what_if(log, change))

        compared = Interleaved(baseline, ours, (1, 1))
        compared.run(benchmark, 5)
    record(summary, f"2. what-if over {JUDGED:,} events, against SELECT + decode", compared, "<=", 2.0)
    answer = found[-1]
    assert answer.recorded == LANES * (DAYS - 1)
    summary.notes.append(f"{answer.messages:,} messages judged again, {len(answer.added):,} resets added")


def test_3_from_the_shell(benchmark: Any, judged: Path, summary: Summary) -> None:
    """The command with its start-up; what Python alone takes to start stands beside it."""
    key = name_lane(source(LANES // 2)).key
    session = f"20260704_080000_{LANES // 2:08x}"
    position = JUDGED // 2
    asked = {
        "sessions --help": (["--help"], 0.200),
        "sessions why, a lane": (["--store", str(judged), "why", key], 0.250),
        "sessions at, a transcript": (["--store", str(judged), "at", "now", "--transcript", session], 0.250),
        "sessions at, a lane, the middle of the log": (
            ["--store", str(judged), "at", f"@{position}", "--lane", key],
            0,
        ),
    }

    def start(words: list[str]) -> None:
        subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def baseline() -> None:
        start(["-c", "pass"])

    for name, (words, bar) in asked.items():
        compared = Interleaved(baseline, partial(start, ["-m", "replay", *words]), (1, 1))
        compared.run(benchmark if name == next(iter(asked)) else Once(), 9)
        python, took = compared.baseline.median, compared.ours.median
        if bar:
            summary.bound(f"3. {name}, of which Python's start {duration(python)}", took, bar)
        else:
            summary.tell(f"3. {name}", duration(took), duration(python))


class Once:
    """Runs rounds as pytest-benchmark does, which takes one function a test."""

    def __init__(self) -> None:
        self.extra_info: dict[str, Any] = {}

    def pedantic(self, run: Any, *, args: Any, setup: Any, rounds: int, warmup_rounds: int, iterations: int) -> None:
        for _ in range((rounds + warmup_rounds) * iterations):
            setup()
            run(*args)
