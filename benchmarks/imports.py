"""Seconds and peak memory of an import: `python -m benchmarks.imports <state.db> <folder>`, a process of its own."""

import resource
import sqlite3
import sys
import time
from pathlib import Path

from benchmarks.gateways import message
from engine import SessionStore
from tests.imports.sources import SCHEMA, START

_MESSAGES = 100


def agent_db(path: Path, messages: int) -> None:
    """Make an agent's database, with sessions of a hundred messages each."""
    connection = sqlite3.connect(path)
    connection.executescript(SCHEMA)
    for first in range(0, messages, _MESSAGES):
        session = f"20260601_{first:06d}_ab12cd34"
        connection.execute(
            "INSERT INTO sessions (id, source, started_at, title) VALUES (?,?,?,?)",
            (session, "cli", START, f"S{first}"),
        )
        rows = [
            (session, told["role"], told["content"], START + number)
            for number in range(first, min(first + _MESSAGES, messages))
            for told in (message(number),)
        ]
        connection.executemany("INSERT INTO messages (session_id, role, content, timestamp) VALUES (?,?,?,?)", rows)
    connection.commit()
    connection.close()


def main(database: str, folder: str) -> None:
    started = time.perf_counter()
    with SessionStore(folder, views=False) as store:
        store.import_from(database)
    print(time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


if __name__ == "__main__":
    main(*sys.argv[1:])
