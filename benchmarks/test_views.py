"""Speed of the views: catching up, what following costs an append, search, and what a rebuild costs everybody else."""

import asyncio
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC
from itertools import count
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest
from eventsourcing.persistence import Tracking
from eventsourcing.projection import Projection, ProjectionRunner
from eventsourcing.sqlite import SQLiteTrackingRecorder

from benchmarks.compare import Interleaved, Summary, percentile, quartiles, spread, times
from benchmarks.gateways import build as build_gateway, source
from benchmarks.peers import Hermes
from benchmarks.test_log import build, record
from benchmarks.test_peers import MODULES, _installed
from benchmarks.test_store import converse, settled, timed
from engine import AsyncSessionStore, SessionStore
from engine.domain.events import MessageAppended
from engine.domain.registry import EVENTS
from engine.log import EventLog
from engine.log.library.application import LogApplication
from engine.log.sqlite.tables import SQLiteTables
from engine.views import VIEWS_FILE
from projections.views.catalogue import Catalogue
from projections.views.catchup import CatchUp
from projections.views.search import Search
from projections.views.usage import Usage
from projections.views.view import View

EVENTS_READ = int(os.environ.get("VIEW_EVENTS", "100000"))
LIBRARY_EVENTS = 300
MESSAGES = int(os.environ.get("SEARCH_MESSAGES", "100000"))
"""1,000,000 is the size that is spoken of; it takes minutes to make."""
REBUILT = int(os.environ.get("REBUILD_EVENTS", "200000"))
"""500,000 is the size that is spoken of."""
PRODUCERS = 64


@contextmanager
def caught_up(path: Path, views: Callable[[EventLog, SQLiteTables], list[View]], upto: int) -> Iterator[SQLiteTables]:
    """Views of a log, made from its beginning."""
    for old in path.parent.glob(f"{path.name}-views*"):
        old.unlink()
    tables = SQLiteTables(path.with_name(f"{path.name}-views"))
    with EventLog(path) as log:
        catch_up = CatchUp(log, tables, views(log, tables))
        catch_up.prepare()
        while parts := [each for each in catch_up.behind().values() if each.position < upto]:
            catch_up.advance(parts, upto)
        yield tables
    tables.close()


def but_search(log: EventLog, _: SQLiteTables) -> list[View]:
    return [Usage(lambda: UTC), Catalogue(log.reader)]


def with_search(log: EventLog, tables: SQLiteTables) -> list[View]:
    return [*but_search(log, tables), Search(tables.text)]


@pytest.fixture(scope="module")
def mixed(folder: Path) -> Path:
    path = folder / "views-mixed.db"
    build(path, EVENTS_READ)
    return path


# 1. Catch up


@pytest.mark.parametrize(
    ("name", "views", "bar"),
    [("all views but search", but_search, 10.0), ("all views with search", with_search, 0.0)],
    ids=["but search", "with search"],
)
def test_1_catch_up(
    benchmark: Any,
    mixed: Path,
    summary: Summary,
    name: str,
    views: Callable[[EventLog, SQLiteTables], list[View]],
    bar: float,
) -> None:
    decoders = {topic: msgspec.json.Decoder(kind).decode for topic, kind in EVENTS.items()}
    connection = apsw.Connection(str(mixed))

    def baseline() -> None:
        for topic, state in connection.execute("SELECT topic, state FROM events"):
            decoders[topic](state)

    def ours() -> None:
        with caught_up(mixed, views, EVENTS_READ):
            pass

    compared = Interleaved(baseline, ours, (EVENTS_READ, EVENTS_READ))
    compared.run(benchmark, 7)
    connection.close()
    record(summary, f"1. catch-up of {name}, {EVENTS_READ:,} events, against SELECT + decode", compared, "<=", bar)
    summary.notes.append(f"catch-up of {name}: {1 / compared.ours.median:,.0f} events/s")


class Messages(SQLiteTrackingRecorder):
    """The library's own SQLite view: how many messages each stream has."""

    def construct_create_table_statements(self) -> list[str]:
        table = "CREATE TABLE IF NOT EXISTS messages (stream TEXT PRIMARY KEY, messages INTEGER NOT NULL)"
        return [*super().construct_create_table_statements(), table]

    def count(self, stream: str, tracking: Tracking) -> None:
        with self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)
            cursor.execute(
                "INSERT INTO messages VALUES (?, 1) ON CONFLICT (stream) DO UPDATE SET messages = messages + 1",
                (stream,),
            )

    def seen(self, tracking: Tracking) -> None:
        self.insert_tracking(tracking)


class CountMessages(Projection[Messages]):
    name = "messages"

    def process_event(self, envelope: Any, tracking: Tracking) -> None:
        if isinstance(envelope.event, MessageAppended):
            self.view.count(envelope.stream, tracking)
        else:
            self.view.seen(tracking)


def test_1_catch_up_against_the_library(benchmark: Any, folder: Path, summary: Summary) -> None:
    few, many, number = folder / "views-few.db", folder / "views-many.db", count()
    build(few, LIBRARY_EVENTS)
    build(many, 20_000)

    def baseline() -> None:
        name = folder / f"views-library-{next(number)}.db"
        env = {
            "SQLITE_DBNAME": str(few),
            "MESSAGES_SQLITE_DBNAME": str(name),
            "MESSAGES_PERSISTENCE_MODULE": "eventsourcing.sqlite",
        }
        with ProjectionRunner(
            application_class=LogApplication, projection_class=CountMessages, view_class=Messages, env=env
        ) as runner:
            runner.wait(LIBRARY_EVENTS, timeout=120)

    def ours() -> None:
        with caught_up(many, but_search, 20_000):
            pass

    compared = Interleaved(baseline, ours, (LIBRARY_EVENTS, 20_000))
    compared.run(benchmark, 5)
    what = "1. catch-up of all views but search, against the library's ProjectionRunner that counts messages"
    record(summary, what, compared, ">=", 30.0)


# 2. Append while the views follow


def test_2_append_while_views_follow(benchmark: Any, folder: Path, summary: Summary) -> None:
    stores = [SessionStore(folder / f"views-{views}", views=views) for views in (False, True)]
    sessions = [store.get_or_create_session(source(0)).session_id for store in stores]
    halves: tuple[list[float], list[float]] = ([], [])

    def side(which: int) -> Callable[[], None]:
        def append() -> None:
            messages = [prose(number) for number in range(150)]
            seconds = timed(lambda each: stores[which].append_to_transcript(sessions[which], each), messages)
            halves[which].append(percentile(seconds, 50))

        return append

    compared = Interleaved(side(0), side(1), (150, 150), between=lambda: stores[1].wait_for_views(timeout=60))
    compared.run(benchmark, 15)
    for store in stores:
        store.close()
    ratio = quartiles([ours / without for without, ours in zip(*halves, strict=True)][1:])
    shown = [f"{sorted(half)[len(half) // 2] * 1e6:.0f} µs" for half in halves]
    what = "2. append, FULL, all views following, against a store without views: p50"
    summary.add(what, *shown, ratio[1], spread(ratio), 1.1, "<=")


def test_2_many_append_while_views_follow(benchmark: Any, folder: Path, summary: Summary) -> None:
    stores = [SessionStore(folder / f"views-many-{views}", views=views) for views in (False, True)]
    sessions = [[store.get_or_create_session(source(lane)).session_id for lane in range(PRODUCERS)] for store in stores]
    each = 40

    def side(which: int) -> Callable[[], None]:
        return lambda: asyncio.run(converse(AsyncSessionStore(stores[which]), sessions[which], each))

    compared = Interleaved(
        side(0), side(1), (PRODUCERS * each, PRODUCERS * each), lambda: stores[1].wait_for_views(timeout=60)
    )
    compared.run(benchmark, 9)
    for store in stores:
        store.close()
    what = f"2. {PRODUCERS} conversations append, FULL, all views following, against a store without views"
    record(summary, what, compared, "<=", 1.3)


# 3. Search

WORDS = [f"{first}{second}" for first in ("ba", "ke", "lo", "mi", "tu", "ra", "so") for second in ("ner", "tal", "vix")]


def prose(number: int) -> dict[str, str]:
    """A chat message of about 200 characters: words as common as in a language, some of them rare."""
    chance = random.Random(number)
    words = [WORDS[min(int(chance.expovariate(0.25)), len(WORDS) - 1)] for _ in range(24)]
    words += [f"name{chance.randrange(2_000)}", f"rare{number // 20}", "the", "and", "of", "quick brown fox"]
    words += ["over the lazy dog"] * (number % 10 == 0)
    chance.shuffle(words)
    return {"role": "assistant" if number % 2 else "user", "content": " ".join(words)}


ASKED = {
    "a common word": "baner",
    "a rare word": "rare77",
    "a phrase": '"the lazy dog"',
    "a phrase of every message": '"quick brown fox"',
}


@pytest.fixture(scope="module")
def spoken(folder: Path, summary: Summary) -> Iterator[SessionStore]:
    """A store with many messages in a hundred sessions, all indexed."""
    path = folder / "spoken"
    started = time.perf_counter()
    with SessionStore(path, synchronous="OFF", views=False) as store:
        sessions = [store.get_or_create_session(source(lane)).session_id for lane in range(100)]
        for first in range(0, MESSAGES, 500):
            numbers = range(first, min(first + 500, MESSAGES))
            store.append_messages(sessions[first // 500 % 100], [prose(number) for number in numbers])
    took = time.perf_counter() - started
    with SessionStore(path) as store:
        started = time.perf_counter()
        assert store.wait_for_views(timeout=3600)
        summary.notes.append(
            f"{MESSAGES:,} messages were written in {took:.0f} s and indexed in {time.perf_counter() - started:.0f} s"
        )
        yield store


@pytest.mark.parametrize("name", ASKED)
def test_3_search(benchmark: Any, spoken: SessionStore, summary: Summary, name: str) -> None:
    def ask() -> None:
        assert spoken.search(ASKED[name]).items

    seconds = benchmark.pedantic(lambda: timed(lambda _: ask(), [0] * 15), rounds=1, warmup_rounds=1)
    summary.tell(f"3. search {MESSAGES:,} messages for {name}: p50", f"{percentile(seconds, 50) * 1e3:.2f} ms")


def test_3_size_of_the_index(benchmark: Any, spoken: SessionStore, summary: Summary) -> None:
    views = apsw.Connection(str(Path(spoken.log.path).with_name(VIEWS_FILE)), flags=apsw.SQLITE_OPEN_READONLY)
    sizes = benchmark.pedantic(
        lambda: views.execute("SELECT sum(length(block)) FROM search_words_data").fetchall(), rounds=1
    )
    (whole,) = views.execute("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size").fetchall()[0]
    text = sum(len(prose(number)["content"].encode()) for number in range(MESSAGES))
    views.close()
    index = sizes[0][0]
    what = f"3. index of {MESSAGES:,} messages, against their text"
    summary.add(what, f"{text / 1e6:.1f} MB", f"{index / 1e6:.1f} MB", index / text, "", 0.6, "<=")
    summary.tell("3. views.db as a whole, against the text", f"{whole / 1e6:.1f} MB", "-", times(whole / text))


@pytest.mark.peers
@pytest.mark.filterwarnings("ignore")
@pytest.mark.skipif(not all(map(_installed, MODULES)), reason="the peers are installed by `make bench-peers`")
def test_3_search_against_hermes(benchmark: Any, spoken: SessionStore, folder: Path, summary: Summary) -> None:
    hermes = Hermes()
    hermes.open(folder / "search-hermes")
    sessions = hermes.sessions(100)
    for lane, session in enumerate(sessions):
        mine = [number for number in range(MESSAGES) if number // 500 % 100 == lane]
        hermes.fill(session, [prose(number) for number in mine])
    database = hermes.store._db
    found: dict[str, list[float]] = {name: [] for name in ASKED}

    def rounds() -> None:
        for _ in range(9):
            for name, words in ASKED.items():
                started = time.perf_counter()
                assert database.search_messages(words, limit=20)
                theirs = time.perf_counter() - started
                started = time.perf_counter()
                assert spoken.search(words).items
                found[name].append((time.perf_counter() - started) / theirs)

    benchmark.pedantic(rounds, rounds=1)
    hermes.close()
    for name, ratios in found.items():
        values = quartiles(ratios[1:])
        what = f"3. search {MESSAGES:,} messages for {name}, against hermes-agent's FTS"
        summary.add(what, "-", "-", values[1], spread(values), 1.0, "<=")


# 4. Append and route while views are rebuilt


def test_4_while_views_are_rebuilt(benchmark: Any, folder: Path, summary: Summary) -> None:
    lanes = 2_000
    path = folder / "rebuilt"
    build_gateway(path, lanes, REBUILT // lanes - 2)
    store = SessionStore(path)
    assert store.wait_for_views(timeout=3600)
    session = store.get_or_create_session(source(0)).session_id
    chance = random.Random(1)
    found: dict[str, tuple[list[float], list[float]]] = {"append": ([], []), "route": ([], [])}

    def measure(which: int) -> None:
        routes = timed(store.get_or_create_session, [source(chance.randrange(lanes)) for _ in range(2_000)])
        settled(store)
        appends = timed(lambda each: store.append_to_transcript(session, each), [prose(n) for n in range(300)])
        found["route"][which].extend(routes)
        found["append"][which].extend(appends)

    def rebuilding() -> bool:
        return any(view.building_position is not None for view in store.health().views)

    def rounds() -> None:
        measure(0)
        for half in found.values():
            half[0].clear()
        for _ in range(3):
            store.wait_for_views(timeout=600)
            time.sleep(0.5)
            for _ in range(5):
                measure(0)
            store.rebuild_views()
            time.sleep(0.3)
            while rebuilding():
                measure(1)
                if len(found["append"][1]) > 30_000:
                    break

    benchmark.pedantic(rounds, rounds=1)
    store.close()
    for name, bar in (("append", 2.0), ("route", 1.5)):
        without, beside = (percentile(each, 99) for each in found[name])
        shown = [f"{each * 1e6:.0f} µs" for each in (without, beside)]
        what = f"4. {name} while {REBUILT:,} events are rebuilt, against without: p99"
        summary.add(what, *shown, beside / without, "", bar, "<=")
    summary.notes.append(f"{len(found['append'][1]):,} appends and {len(found['route'][1]):,} routes during rebuilds")
