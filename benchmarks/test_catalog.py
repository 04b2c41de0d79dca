"""Speed of a web chat: its list against a JSON index, importing an agent's sessions, archiving and restoring."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from benchmarks.compare import Interleaved, Summary, times
from benchmarks.gateways import message, source
from benchmarks.imports import agent_db
from benchmarks.test_log import record
from engine import SessionCatalog, SessionStore
from engine.domain.chat_events import AttributesSet, SessionTouched
from engine.domain.events import MessageAppended, SessionCreated, SessionTitled
from engine.domain.streams import session_stream
from engine.log import EventLog
from engine.log.envelope import Envelope
from engine.store import FILE_NAME

FEW, SOME, MANY = 100, 10_000, int(os.environ.get("CHATS", "100000"))
LISTED = 50
IMPORTED = (10_000, 100_000)
ARCHIVED_SESSIONS, ARCHIVED_MESSAGES = 200, 100
_AT_ONCE = 500
_START = 1_780_000_000


def chat_id(number: int) -> str:
    return f"{number * 7919 % (1 << 48):012x}"


def events_of(number: int) -> list[Envelope]:
    """A web chat: settings, a title, a question and an answer."""
    stream, at = session_stream(chat_id(number)), (_START + number) * 1_000_000
    settings = {"workspace": f"/work/{number % 100}", "model": "large-2", "profile": "default"}
    events = (
        SessionCreated(conversation_id=chat_id(number), source={"platform": "webui"}),
        AttributesSet(attributes=settings),
        SessionTitled(title=f"Chat {number} about foxes"),
        MessageAppended(message={**message(number), "timestamp": _START + number}),
        SessionTouched(at=at),
    )
    return [Envelope(stream, version, event, at, "gateway", "import", None) for version, event in enumerate(events, 1)]


def build(path: Path, chats: int) -> tuple[float, float]:
    """Make a store with chats; return how long its log took, and its tables with the views."""
    path.mkdir(mode=0o700)
    started = time.perf_counter()
    with EventLog(path / FILE_NAME, synchronous="OFF") as log:
        for first in range(0, chats, _AT_ONCE):
            last = min(first + _AT_ONCE, chats)
            log.append([each for number in range(first, last) for each in events_of(number)])
    written = time.perf_counter()
    with SessionStore(path, synchronous="OFF", search=False) as store:
        assert store.wait_for_views(timeout=3600)
    return written - started, time.perf_counter() - written


@pytest.fixture(scope="module")
def catalogs(folder: Path, summary: Summary) -> Iterator[dict[int, SessionCatalog]]:
    """Catalogues on stores with few and with many chats, by their number."""
    found = {}
    for chats in (FEW, SOME, MANY):
        path = folder / f"chats-{chats}"
        written, followed = build(path, chats)
        summary.notes.append(
            f"{chats:,} chats were written in {written:.0f} s; their tables and views were made in {followed:.0f} s"
        )
        found[chats] = SessionCatalog(SessionStore(path, search=False))
        assert len(found[chats].all_sessions(limit=LISTED)) == LISTED
    yield found
    for catalog in found.values():
        catalog.store.close()


# 1. The list


def test_1_list_of_few_and_of_many(benchmark: Any, catalogs: dict[int, SessionCatalog], summary: Summary) -> None:
    def listing(chats: int) -> None:
        for _ in range(100):
            catalogs[chats].all_sessions(limit=LISTED)

    compared = Interleaved(lambda: listing(FEW), lambda: listing(MANY), (100, 100))
    compared.run(benchmark, 15)
    record(summary, f"1. list {LISTED} of {MANY:,} chats, against {LISTED} of {FEW}", compared, "<=", 1.3)


def test_1_page_in_the_middle(benchmark: Any, catalogs: dict[int, SessionCatalog], summary: Summary) -> None:
    catalog = catalogs[MANY]
    middle = catalog.all_sessions(limit=min(MANY // 2, 10_000))[-1]

    def listing(after: dict[str, Any] | None) -> None:
        for _ in range(100):
            catalog.all_sessions(limit=LISTED, after=after)

    compared = Interleaved(lambda: listing(None), lambda: listing(middle), (100, 100))
    compared.run(benchmark, 15)
    record(summary, f"1. a page far behind of {MANY:,} chats, against the first", compared, "<=", 1.3)


def index_of(folder: Path, catalog: SessionCatalog) -> Path:
    """Make the files that the reference keeps: one per session, and an index of all rows."""
    folder.mkdir()
    rows = catalog.all_sessions()
    for row in rows:
        session = {**row, "messages": catalog.get_session(row["session_id"]).messages}
        (folder / f"{row['session_id']}.json").write_text(json.dumps(session))
    (folder / "_index.json").write_text(json.dumps(rows, indent=2))
    return folder / "_index.json"


def order(row: dict[str, Any]) -> tuple[bool, float]:
    return row["pinned"], row["last_message_at"] or row["updated_at"]


@pytest.mark.parametrize("limit", [LISTED, None], ids=["a page", "all"])
def test_1_list_against_a_json_index(
    benchmark: Any, catalogs: dict[int, SessionCatalog], folder: Path, summary: Summary, limit: int | None
) -> None:
    catalog = catalogs[SOME]
    path = folder / "webui" / "_index.json"
    if not path.exists():
        index_of(path.parent, catalog)

    def baseline() -> None:
        rows = json.loads(path.read_text(encoding="utf-8"))
        shown = [row for row in rows if row["title"] != "Untitled" or row["message_count"]]
        assert len(sorted(shown, key=order, reverse=True)[:limit]) == (limit or SOME)

    repeated = 1 if limit is None else 50

    def ours() -> None:
        for _ in range(repeated):
            assert len(catalog.all_sessions(limit=limit)) == (limit or SOME)

    compared = Interleaved(baseline, ours, (1, repeated))
    compared.run(benchmark, 11)
    what = f"1. list {limit or 'all'} of {SOME:,} chats, against reading and sorting a JSON index"
    record(summary, what, compared, ">=", 100.0 if limit else 0)


def test_1_list_after_a_command(benchmark: Any, catalogs: dict[int, SessionCatalog], summary: Summary) -> None:
    catalog = catalogs[MANY]
    seconds = []

    def rounds() -> None:
        for number in range(50):
            catalog.rename_session(chat_id(number), f"Another title {number} {time.time_ns()}")
            started = time.perf_counter()
            catalog.all_sessions(limit=LISTED)
            seconds.append(time.perf_counter() - started)

    benchmark.pedantic(rounds, rounds=1)
    shown = sorted(seconds)
    summary.tell(
        f"1. list {LISTED} of {MANY:,} chats right after a command: p50, p90",
        f"{shown[25] * 1e3:.1f} ms, {shown[45] * 1e3:.1f} ms",
    )


# 2. Importing


def test_2_import_of_an_agents_sessions(benchmark: Any, folder: Path, summary: Summary) -> None:
    found = {}

    def rounds() -> None:
        for messages in IMPORTED:
            database = folder / f"state-{messages}.db"
            agent_db(database, messages)
            command = [sys.executable, "-m", "benchmarks.imports", str(database), str(folder / f"imported-{messages}")]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            found[messages] = [float(each) for each in done.stdout.split()]

    benchmark.pedantic(rounds, rounds=1)
    few, many = (found[messages] for messages in IMPORTED)
    shown = [f"{messages / found[messages][0]:,.0f}/s" for messages in IMPORTED]
    summary.tell(f"2. import of {IMPORTED[1]:,} messages, against {IMPORTED[0]:,}: messages/s", shown[1], shown[0])
    shown = [f"{found[messages][1] / 1e6:.0f} MB" for messages in IMPORTED]
    what = f"2. import of {IMPORTED[1]:,} messages, against {IMPORTED[0]:,}: peak memory of the process"
    summary.add(what, *shown, many[1] / few[1], "", 1.3, "<=")


# 3. Archiving


def test_3_archive_and_restore(benchmark: Any, folder: Path, summary: Summary) -> None:
    path = folder / "archived"
    count = ARCHIVED_SESSIONS * ARCHIVED_MESSAGES
    with SessionStore(path, synchronous="OFF", views=False) as store:
        for lane in range(ARCHIVED_SESSIONS):
            session = store.get_or_create_session(source(lane)).session_id
            store.append_messages(session, [message(number) for number in range(ARCHIVED_MESSAGES)])
            store.end_session(session, "user_exit")
    seconds: dict[str, list[float]] = {"archive": [], "restore": []}
    with SessionStore(path, views=False) as store:

        def rounds() -> None:
            for number in range(3):
                archive = folder / f"{number}.archive"
                started = time.perf_counter()
                report = store.archive(timedelta(0), archive)
                moved = time.perf_counter()
                assert report.messages == store.restore(archive).messages == count
                seconds["archive"].append(moved - started)
                seconds["restore"].append(time.perf_counter() - moved)
                sizes.append((report.archive_bytes, report.payload_bytes))

        sizes: list[tuple[int, int]] = []
        benchmark.pedantic(rounds, rounds=1)
    for name, each in seconds.items():
        summary.tell(f"3. {name} {count:,} messages, FULL: messages/s", f"{count / sorted(each)[1]:,.0f}/s")
    archived, payload = sizes[0]
    shown = [f"{payload / 1e6:.1f} MB", f"{archived / 1e6:.1f} MB"]
    summary.tell(
        "3. an archive, against the payloads that were moved into it", shown[1], shown[0], times(archived / payload)
    )
