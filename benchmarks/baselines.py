"""Baselines of the log: plain apsw, a lock with one commit each, and the stock library."""

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
from eventsourcing.application import Application
from eventsourcing.domain import Aggregate, event
from eventsourcing.persistence import StoredEvent
from eventsourcing.sqlite import SQLiteApplicationRecorder, SQLiteDatastore

TABLE = """CREATE TABLE events (
    position INTEGER PRIMARY KEY, stream TEXT NOT NULL, version INTEGER NOT NULL, topic TEXT NOT NULL,
    time INTEGER NOT NULL, actor TEXT NOT NULL, command TEXT NOT NULL, reason TEXT, event_id BLOB NOT NULL,
    metadata TEXT, state ANY NOT NULL, hash BLOB NOT NULL, UNIQUE (stream, version)) STRICT"""
INSERT = "INSERT INTO events VALUES (?,?,?,?,?,?,?,?,?,?,?,?)"


class Raw:
    """BEGIN IMMEDIATE, INSERT of the same content, COMMIT: nothing checked, hashed, encoded, named or counted."""

    def __init__(self, path: Path, synchronous: str, payload: str) -> None:
        self._connection = apsw.Connection(str(path))
        self._connection.pragma("journal_mode", "wal")
        self._connection.pragma("synchronous", synchronous)
        self._connection.execute(TABLE)
        self._payload, self._hash, self._id = payload, os.urandom(32), os.urandom(16)

    def commit_one(self, stream: str, version: int) -> None:
        execute = self._connection.execute
        execute("BEGIN IMMEDIATE")
        execute(
            INSERT,
            (
                None,
                stream,
                version,
                "message.appended",
                1782915930000000 + version,
                "gateway",
                "append_message",
                None,
                self._id,
                None,
                self._payload,
                self._hash,
            ),
        )
        execute("COMMIT")

    def close(self) -> None:
        self._connection.close()


def in_threads(worker: Callable[[int], None], count: int) -> None:
    threads = [threading.Thread(target=worker, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def locked_threads(raw: Raw, tag: str, producers: int, each: int) -> None:
    """Threads that take a lock and commit one row each time."""
    lock = threading.Lock()

    def produce(number: int) -> None:
        for version in range(1, each + 1):
            with lock:
                raw.commit_one(f"session:{tag}:{number}", version)

    in_threads(produce, producers)


def locked_tasks(raw: Raw, tag: str, producers: int, each: int) -> None:
    """Tasks that take an asyncio.Lock and commit inline: no thread switch, at the price of a blocked loop."""

    async def main() -> None:
        lock = asyncio.Lock()

        async def produce(number: int) -> None:
            for version in range(1, each + 1):
                async with lock:
                    raw.commit_one(f"session:{tag}:{number}", version)

        await asyncio.gather(*[produce(number) for number in range(producers)])

    asyncio.run(main())


def locked_hops(raw: Raw, tag: str, producers: int, each: int) -> None:
    """Tasks that take an asyncio.Lock and commit in a thread: one commit each, and the loop never blocks."""

    async def main() -> None:
        lock = asyncio.Lock()

        async def produce(number: int) -> None:
            for version in range(1, each + 1):
                async with lock:
                    await asyncio.to_thread(raw.commit_one, f"session:{tag}:{number}", version)

        await asyncio.gather(*[produce(number) for number in range(producers)])

    asyncio.run(main())


class Stock:
    """The library's own SQLite recorder, with text originator ids and its default settings."""

    def __init__(self, path: Path) -> None:
        self._datastore = SQLiteDatastore(str(path), originator_id_type="text")
        self._recorder = SQLiteApplicationRecorder(self._datastore)
        self._recorder.create_table()

    def insert(self, events: list[tuple[str, int, str, bytes]]) -> None:
        self._recorder.insert_events([StoredEvent(*each) for each in events])

    def synchronous(self) -> str:
        with self._datastore.transaction(commit=False) as cursor:
            cursor.execute("PRAGMA synchronous")
            return ("OFF", "NORMAL", "FULL", "EXTRA")[cursor.fetchone()[0]]

    def close(self) -> None:
        self._datastore.close()


class Chat(Aggregate):
    """The same content as a message.appended event, the way the library's tutorial would write it."""

    @event("Started")
    def __init__(self) -> None:
        self.messages = 0

    @event("MessageAppended")
    def append_message(self, message: dict[str, str], actor: str, command: str) -> None:  # noqa: ARG002
        self.messages += 1


def stock_application(path: Path, message: dict[str, str], streams: int, each: int) -> int:
    """Write the messages through the stock Application; how many events that made."""
    application: Application[Any] = Application(
        env={"PERSISTENCE_MODULE": "eventsourcing.sqlite", "SQLITE_DBNAME": str(path)}
    )
    chats = [Chat() for _ in range(streams)]
    for _ in range(each):
        for chat in chats:
            chat.append_message(message, "gateway", "append_message")
        application.save(*chats)
    application.close()
    return streams * (each + 1)


def size_on_disk(path: Path) -> int:
    """Bytes of a file with nothing left in its WAL."""
    connection = apsw.Connection(str(path))
    connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    connection.close()
    return path.stat().st_size
