"""The store against other session layers, in the same run; `make bench-peers` installs them."""

import asyncio
import random
import sqlite3
from collections.abc import Iterator
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from benchmarks.compare import Interleaved, Summary, spread
from benchmarks.conftest import COLD_EVENTS, COLD_LANES
from benchmarks.gateways import build, message, source, store_at
from benchmarks.peers import PEERS, Hermes, Peer
from benchmarks.results import Page
from benchmarks.test_store import CONVERSATIONS, LONG, converse, settled, timed
from engine import AsyncSessionStore, SessionStore

MODULES = ("hermes_state", "agents", "google.adk", "langgraph")


def _installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # of the package a submodule is in
        return False


pytestmark = [
    pytest.mark.peers,
    pytest.mark.filterwarnings("ignore"),  # what other people's packages warn about is theirs
    pytest.mark.skipif(not all(map(_installed, MODULES)), reason="the peers are installed by `make bench-peers`"),
]


@pytest.fixture
def peer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, folder: Path, page: Page) -> Any:
    found: Peer = PEERS[request.param]()
    found.open(folder / tmp_path_factory.mktemp(request.param).name)
    page.settings[found.name] = found.settings()
    page.versions |= {**found.versions(), "SQLite of the peers": sqlite3.sqlite_version}
    yield found
    found.close()


@pytest.fixture
def store(folder: Path, tmp_path_factory: pytest.TempPathFactory, page: Page) -> Iterator[SessionStore]:
    page.settings["ours"] = "journal_mode WAL, synchronous FULL; one commit per command, or per group of commands"
    with store_at(folder / tmp_path_factory.mktemp("ours").name) as found:
        yield found


def folder_of(store: SessionStore) -> Path:
    return Path(store.log.path).parent


everybody = pytest.mark.parametrize("peer", PEERS, indirect=True)
hermes_only = pytest.mark.parametrize("peer", ["hermes"], indirect=True)


# 1. Route an existing lane


@hermes_only
@pytest.mark.parametrize(
    ("lanes", "rounds", "each", "bar"),
    [(10, 9, (100, 2_000), 50), (1_000, 9, (10, 2_000), 1_000), (10_000, 5, (2, 2_000), 5_000)],
    ids=["10", "1000", "10000"],
)
def test_1_route(
    benchmark: Any,
    peer: Hermes,
    store: SessionStore,
    summary: Summary,
    lanes: int,
    rounds: int,
    each: tuple[int, int],
    bar: float,
) -> None:
    peer.build(lanes)
    build(folder_of(store), lanes)
    for lane in range(lanes):
        store.get_or_create_session(source(lane), touch=False)
    theirs, ours = [peer.source(lane) for lane in range(lanes)], [source(lane) for lane in range(lanes)]
    chosen = random.Random(5)

    compared = Interleaved(
        lambda: timed(peer.route, chosen.choices(theirs, k=each[0])),
        lambda: timed(store.get_or_create_session, chosen.choices(ours, k=each[1])),
        each,
        between=lambda: settled(store),
    )
    compared.run(benchmark, rounds)
    summary.compare(f"1. route an existing lane of {lanes:,}, against {peer.name}", compared, ">=", bar)
    summary.curves.setdefault(peer.name, {})[lanes] = compared.baseline.median


# 2. Create a session


@hermes_only
def test_2_create(benchmark: Any, peer: Hermes, store: SessionStore, summary: Summary) -> None:
    lanes, each = 1_000, (5, 50)
    peer.build(lanes)
    build(folder_of(store), lanes)
    theirs, ours = count(lanes), count(lanes)

    compared = Interleaved(
        lambda: [peer.route(peer.source(next(theirs))) for _ in range(each[0])],
        lambda: [store.get_or_create_session(source(next(ours))) for _ in range(each[1])],
        each,
        between=lambda: settled(store),
    )
    compared.run(benchmark, 9)
    summary.compare(f"2. create a session at {lanes:,} lanes, against {peer.name}", compared, ">=", 10)


# 3. Append a message

_WARMING = 20
"""Sessions filled beforehand, so that every WAL has grown to its size and is written over, as in a long run."""


@everybody
def test_3_append(benchmark: Any, peer: Peer, store: SessionStore, summary: Summary) -> None:
    each, rounds = 20, 11
    theirs, *others = peer.sessions(1 + _WARMING)
    ours = [store.get_or_create_session(source(lane)).session_id for lane in range(1 + _WARMING)]

    def append(session: str = ours[0]) -> None:
        for number in range(each):
            store.append_to_transcript(session, message(number))

    for other, session in zip(others, ours[1:], strict=True):
        peer.append(other, each)
        append(session)

    compared = Interleaved(lambda: peer.append(theirs, each), append, (each, each))
    compared.run(benchmark, rounds)
    assert peer.stored() >= each * (rounds + 1)
    summary.compare(f"3. append a message, against {peer.name}", compared, ">=", 1)


# 4. Many conversations at once


@everybody
def test_4_many_conversations(benchmark: Any, peer: Peer, store: SessionStore, summary: Summary) -> None:
    few, many, rounds = 5, 20, 7
    theirs = peer.sessions(CONVERSATIONS)
    ours = [store.get_or_create_session(source(lane)).session_id for lane in range(CONVERSATIONS)]

    compared = Interleaved(
        lambda: peer.converse(theirs, few),
        lambda: asyncio.run(converse(AsyncSessionStore(store), ours, many)),
        (CONVERSATIONS * few, CONVERSATIONS * many),
    )
    compared.run(benchmark, rounds)
    assert peer.stored() >= CONVERSATIONS * few * (rounds + 1)
    values, sides = compared.ratios(faster=True), (compared.baseline, compared.ours)
    shown = [f"{1 / side.median:,.0f}/s" for side in sides]
    what = f"4. {CONVERSATIONS} conversations append, against {peer.name}"
    summary.add(what, *shown, values[1], spread(values), 10, ">=")


# 5. Load a transcript


@hermes_only
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_5_load(benchmark: Any, peer: Hermes, store: SessionStore, summary: Summary, warm: bool) -> None:
    (theirs,), ours = peer.sessions(1), store.get_or_create_session(source(0)).session_id
    messages = [message(number) for number in range(LONG)]
    peer.fill(theirs, messages)
    store.append_messages(ours, messages)
    opened: list[SessionStore] = []

    def reopen() -> None:
        if not opened or not warm:
            close()
            opened.append(store_at(folder_of(store)))
            opened[0].get_session(ours)

    def close() -> None:
        while opened:
            opened.pop().close()

    compared = Interleaved(lambda: peer.load(theirs), lambda: opened[0].load_transcript(ours), between=reopen)
    compared.run(benchmark, 15)
    assert peer.load(theirs)
    assert len(opened[0].load_transcript(ours)) == LONG
    close()
    how = "again" if warm else "for the first time after opening"
    summary.compare(f"5. load {LONG:,} messages {how}, against {peer.name}", compared, ">=", 4)


# 6. Cold start


@hermes_only
def test_6_cold_start(benchmark: Any, peer: Hermes, veteran: Path, summary: Summary) -> None:
    peer.build(COLD_LANES)
    folder, opened = peer._folder, [peer.store]

    def theirs() -> None:
        peer.open(folder)
        opened.append(peer.store)
        peer.route(peer.source(COLD_LANES // 2))

    def ours() -> None:
        found = store_at(veteran)
        opened.append(found)
        found.get_or_create_session(source(COLD_LANES // 2))

    def close() -> None:
        while opened:
            last = opened.pop()
            last.close() if isinstance(last, SessionStore) else last._db.close()

    compared = Interleaved(theirs, ours, between=close)
    compared.run(benchmark, 5)
    what = f"6. open with {COLD_LANES:,} lanes until the first route is answered"
    summary.compare(f"{what}, ours with {COLD_EVENTS:,} events, against {peer.name} with none", compared, ">=", 10)
