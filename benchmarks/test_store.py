"""Speed of the session store, as ratios to plain SQL in the same run. Other session layers are in test_peers.py."""

import asyncio
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from benchmarks import rawrows
from benchmarks.baselines import Raw, locked_hops
from benchmarks.compare import Interleaved, Summary, duration, percentile, quartiles, spread, times
from benchmarks.conftest import COLD_EVENTS, COLD_LANES, LANES
from benchmarks.gateways import message, session_of, source, store_at
from engine import AsyncSessionStore, SessionStore
from engine.store import FILE_NAME

CONVERSATIONS = 64
LONG = 1_300
ROUTES = 5_000
MICROSECOND = 1e-6


def settled(store: SessionStore) -> None:
    """Wait until the touches behind the routing are written, so that they are not charged to somebody else."""
    while store.metrics()["pending_touches"]:
        time.sleep(0.005)


def timed(call: Callable[[Any], object], arguments: list[Any]) -> list[float]:
    found = []
    for argument in arguments:
        started = time.perf_counter()
        call(argument)
        found.append(time.perf_counter() - started)
    return found


# 1. Route an existing lane


class Routes:
    """Rounds of single routes at each number of lanes; the sizes alternate within a round."""

    def __init__(self, stores: dict[int, SessionStore]) -> None:
        self._stores = stores
        self._random = random.Random(3)
        self.rounds: list[dict[int, tuple[float, float]]] = []

    def run(self) -> None:
        found = {}
        for lanes, store in self._stores.items():
            sources = [source(self._random.randrange(lanes)) for _ in range(ROUTES)]
            seconds = timed(store.get_or_create_session, sources)
            settled(store)
            found[lanes] = percentile(seconds, 50), percentile(seconds, 99)
        self.rounds.append(found)

    def median(self, lanes: int, which: int) -> float:
        return statistics.median(each[lanes][which] for each in self.rounds[1:])

    def flatness(self) -> tuple[float, float, float]:
        few, many = min(self._stores), max(self._stores)
        return quartiles([each[many][0] / each[few][0] for each in self.rounds[1:]])


@pytest.mark.parametrize(
    ("cached", "name"),
    [(max(LANES), "all lanes within the cache, the default"), (10_000, "cache of 10,000 lanes")],
    ids=["within the cache", "beyond the cache"],
)
def test_1_route(benchmark: Any, gateways: dict[int, Path], summary: Summary, cached: int, name: str) -> None:
    stores = {lanes: store_at(path, cached_lanes=cached) for lanes, path in gateways.items()}
    for lanes, store in stores.items():
        for lane in range(lanes):
            store.get_or_create_session(source(lane), touch=False)
    routes = Routes(stores)
    benchmark.pedantic(routes.run, rounds=9, warmup_rounds=1, iterations=1)
    for store in stores.values():
        store.close()
    for lanes in stores:
        what = f"1. route one of {lanes:,} lanes at random, {name}"
        summary.bound(f"{what}: p50", routes.median(lanes, 0), 20 * MICROSECOND)
        summary.bound(f"{what}: p99", routes.median(lanes, 1), 200 * MICROSECOND)
    few, many = min(stores), max(stores)
    values, shown = routes.flatness(), [duration(routes.median(lanes, 0)) for lanes in (few, many)]
    summary.add(f"1. p50 at {many:,} lanes against at {few}, {name}", *shown, values[1], spread(values), 1.3, "<=")
    summary.curves[f"ours, {'cached' if cached == max(LANES) else 'cache 10,000'}"] = {
        lanes: routes.median(lanes, 0) for lanes in stores
    }


# 2 and 3. Create a session, append a message


def test_2_create(benchmark: Any, folder: Path, summary: Summary) -> None:
    each, rounds = 100, 15
    before, commands = rawrows.creations(folder / "create-rows", each * (rounds + 1))
    raw, store, lanes = rawrows.RawRows(folder / "create-raw"), store_at(folder / "create"), count()
    raw.commit(before)
    given = iter(commands)

    def baseline() -> None:
        for _ in range(each):
            raw.commit(next(given))

    def ours() -> None:
        for _ in range(each):
            store.get_or_create_session(source(next(lanes)))

    compared = Interleaved(baseline, ours, (each, each))
    compared.run(benchmark, rounds)
    store.close()
    assert raw.rows("sessions") == raw.rows("lanes") == next(lanes)
    raw.close()
    summary.compare("2. create a session, FULL, against the same rows by plain SQL", compared, "<=", 1.6)


def test_3_append(benchmark: Any, folder: Path, summary: Summary) -> None:
    each, rounds = 150, 15
    before, commands = rawrows.appends(folder / "append-rows", each * (rounds + 1))
    raw, store, given = rawrows.RawRows(folder / "append-raw"), store_at(folder / "append"), iter(commands)
    raw.commit(before)
    session, numbers = store.get_or_create_session(source(0)).session_id, count()

    def baseline() -> None:
        for _ in range(each):
            raw.commit(next(given))

    def ours() -> None:
        for _ in range(each):
            store.append_to_transcript(session, message(next(numbers)))

    compared = Interleaved(baseline, ours, (each, each))
    compared.run(benchmark, rounds)
    assert raw.rows("events") == store.log.last_position
    store.close()
    raw.close()
    summary.compare("3. append a message, FULL, against the same rows by plain SQL", compared, "<=", 1.25)


def test_3_append_against_one_insert(benchmark: Any, folder: Path, summary: Summary) -> None:
    each, numbers, versions = 150, count(), count(1)
    payload = msgspec.json.encode({"type": "message.appended", "message": message(0)}).decode()
    raw, store = Raw(folder / "insert.db", "FULL", payload), store_at(folder / "append-alone")
    session = store.get_or_create_session(source(0)).session_id

    def baseline() -> None:
        for _ in range(each):
            raw.commit_one(f"session:{session}", next(versions))

    def ours() -> None:
        for _ in range(each):
            store.append_to_transcript(session, message(next(numbers)))

    compared = Interleaved(baseline, ours, (each, each))
    compared.run(benchmark, 11)
    store.close()
    raw.close()
    summary.compare("3. append a message, FULL, against one INSERT of the event alone", compared, "<=", 0.0)


# 4. Many conversations at once


def test_4_many_conversations(benchmark: Any, folder: Path, summary: Summary) -> None:
    raw, store = Raw(folder / "many-raw.db", "FULL", message(0)["content"]), store_at(folder / "many")
    sessions = [store.get_or_create_session(source(lane)).session_id for lane in range(CONVERSATIONS)]
    few, many, tags = 10, 40, count()

    def ours() -> None:
        asyncio.run(converse(AsyncSessionStore(store), sessions, many))

    compared = Interleaved(
        lambda: locked_hops(raw, str(next(tags)), CONVERSATIONS, few), ours, (CONVERSATIONS * few, CONVERSATIONS * many)
    )
    compared.run(benchmark, 7)
    health = store.health()
    store.close()
    raw.close()
    values, sides = compared.ratios(faster=True), (compared.baseline, compared.ours)
    shown = [f"{1 / side.median:,.0f}/s" for side in sides]
    what = f"4. {CONVERSATIONS} conversations append, FULL, against one INSERT and commit each in a thread"
    summary.add(what, *shown, values[1], spread(values), 0.0, ">=")
    summary.notes.append(
        f"{CONVERSATIONS} conversations: {health.largest_batch} commands in the largest commit, "
        f"{health.commands / health.commits:.0f} on average with the setting up"
    )


async def converse(store: AsyncSessionStore, sessions: list[str], each: int) -> None:
    """One task per conversation; each waits until a message is durable before it sends the next."""

    async def talk(session: str) -> None:
        for number in range(each):
            await store.append_to_transcript(session, message(number))

    await asyncio.gather(*(talk(session) for session in sessions))


# 5. Load a transcript


@pytest.fixture(scope="module")
def talkative(folder: Path) -> Path:
    """A store with one long transcript."""
    path = folder / "talkative"
    with store_at(path, synchronous="OFF") as store:
        session = store.get_or_create_session(source(0)).session_id
        for number in range(LONG):
            store.append_to_transcript(session, message(number))
    return path


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_5_load(benchmark: Any, talkative: Path, summary: Summary, warm: bool) -> None:
    connection = apsw.Connection(str(talkative / FILE_NAME))
    decode = msgspec.json.Decoder(dict[str, Any]).decode
    with store_at(talkative) as store:
        session = store.get_or_create_session(source(0)).session_id
    opened: list[SessionStore] = []

    def reopen() -> None:
        if not opened or not warm:
            close()
            opened.append(store_at(talkative))
            opened[0].get_session(session)

    def close() -> None:
        while opened:
            opened.pop().close()

    def baseline() -> None:
        sql = "SELECT state FROM log WHERE stream = ? AND topic = 'message.appended' ORDER BY version"
        found = [decode(state)["message"] for (state,) in connection.execute(sql, (f"session:{session}",))]
        assert len(found) == LONG

    def ours() -> None:
        assert len(opened[0].load_transcript(session)) == LONG

    compared = Interleaved(baseline, ours, between=reopen)
    compared.run(benchmark, 15)
    close()
    connection.close()
    how = "again" if warm else "for the first time after opening"
    summary.compare(f"5. load {LONG:,} messages {how}, against SELECT and decode", compared, "<=", 1.5)


# 6. Cold start


def test_6_cold_start(benchmark: Any, veteran: Path, gateways: dict[int, Path], summary: Summary) -> None:
    opened: list[SessionStore] = []

    def start(path: Path, lanes: int) -> None:
        store = store_at(path)
        opened.append(store)
        assert store.get_or_create_session(source(lanes // 2)).session_id == session_of(lanes // 2)

    def close() -> None:
        while opened:
            opened.pop().close()

    few = min(LANES)
    compared = Interleaved(
        lambda: start(gateways[few], few), lambda: start(veteran, COLD_LANES), operations=(1, 1), between=close
    )
    compared.run(benchmark, 15)
    close()
    what = f"6. open with {COLD_LANES:,} lanes and {COLD_EVENTS:,} events until the first route is answered"
    summary.bound(what, compared.ours.median, 0.030)
    summary.compare(f"{what}, against {few} lanes", compared, "<=", 0.0)


# 7. Memory


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
def test_7_memory(benchmark: Any, gateways: dict[int, Path], summary: Summary) -> None:
    lanes, grown = max(LANES), {}

    def measure(cached: int) -> int:
        command = [sys.executable, "-m", "benchmarks.memory", str(gateways[lanes]), str(lanes), str(cached)]
        root = Path(__file__).parent.parent
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, timeout=300, check=True)
        size, held = map(int, done.stdout.split())
        assert held <= cached
        return size

    for cached in (1_000, 10_000):
        grown[cached] = measure(cached)
    grown[lanes] = benchmark.pedantic(measure, args=(lanes,), rounds=1, warmup_rounds=0)
    benchmark.extra_info.update({str(cached): size for cached, size in grown.items()})
    for cached, size in grown.items():
        what = f"7. memory grown by routing {lanes:,} lanes once each, cached_lanes={cached:,}, against all in memory"
        summary.tell(what, f"{size / 1e6:.1f} MB", f"{grown[lanes] / 1e6:.1f} MB", times(size / grown[lanes]))
