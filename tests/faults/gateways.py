"""Gateways that are killed: `python -m tests.faults.gateways <function> <arguments…>`.

A gateway writes to a file of its own before and after each append, so that whoever killed it knows what was
acknowledged and what may have been in flight. The file needs no fsync: a kill does not take the page cache.
"""

import asyncio
import contextlib
import itertools
import json
import os
import random
import sys
import threading
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from engine import AsyncSessionStore, Platform, SessionEntry, SessionSource, SessionStore, TurnInProgressError
from engine.errors import SessionStateError
from tests.faults.children import PATIENCE, ready, say

T = TypeVar("T")
SUMMARY = "summary of "


def source(number: int) -> SessionSource:
    """The chat behind one of the lanes."""
    return SessionSource(Platform.TELEGRAM, f"chat-{number}", user_id=f"user-{number}")


class Notebook:
    """A gateway's notes of what it did, one JSON list per line."""

    def __init__(self, folder: str, me: str) -> None:
        path = Path(folder) / f"{me}-{os.getpid()}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._slowest = 0.0

    def note(self, *what: object) -> None:
        os.write(self._file, json.dumps(what).encode() + b"\n")

    def took(self, call: str, seconds: float) -> None:
        """Keep the longest wait of all calls."""
        if seconds > self._slowest:
            self._slowest = seconds
            self.note("slowest", call, seconds)


class Gateway:
    """One process of a busy gateway: tasks that answer messages on lanes they share with other processes."""

    def __init__(self, store: SessionStore, notebook: Notebook, me: str, lanes: int) -> None:
        self.store = AsyncSessionStore(store)
        self.notebook = notebook
        self._me = f"{me}-{os.getpid()}"
        self._lanes = lanes
        self._numbers = itertools.count()

    async def run(self, tasks: int, seed: str) -> None:
        await self.timed("recover", self.store.recover_interrupted_turns())
        await asyncio.gather(*(self._answer(random.Random(f"{seed}:{task}")) for task in range(tasks)))

    async def timed(self, call: str, awaitable: Awaitable[T]) -> T:
        started = time.monotonic()
        try:
            return await awaitable
        finally:
            self.notebook.took(call, time.monotonic() - started)

    async def _answer(self, chance: random.Random) -> None:
        """Answer messages for ever."""
        try:
            while True:
                where = source(chance.randrange(self._lanes))
                entry = await self.timed("route", self.store.get_or_create_session(where))
                if chance.random() < 0.2:
                    await self._append(entry.session_id, "overheard", None, chance)
                with contextlib.suppress(TurnInProgressError):
                    await self._turn(where, entry, chance)
                await asyncio.sleep(chance.uniform(0, 0.15))
        except Exception as error:  # noqa: BLE001 - the parent reads it and fails
            self.notebook.note("error", repr(error))

    async def _turn(self, where: SessionSource, entry: SessionEntry, chance: random.Random) -> None:
        token = await self.timed("begin_turn", self.store.begin_turn(entry.session_key))
        entry = await self.timed("route", self.store.get_or_create_session(where, touch=False))
        session_id = entry.session_id
        await self._append(session_id, "user", token, chance)
        if chance.random() < 0.15:
            session_id = await self._compress(session_id)
        await asyncio.sleep(chance.uniform(0, 0.02))
        await self._append(session_id, "assistant", token, chance)
        fate = chance.random()
        if fate < 0.05:
            await self.timed("reset", self.store.reset_session(entry.session_key))
        elif fate < 0.10:
            await self.timed("end", self.store.end_session(session_id, "agent_close"))
        if not await self.timed("end_turn", self.store.end_turn(token)):
            self.notebook.note("error", f"turn {token} was over before it ended")

    async def _append(self, session_id: str, role: str, token: str | None, chance: random.Random) -> None:
        """Append a message, which the platform sometimes delivers again, at once or after the answer."""
        message_id = f"{self._me}-{next(self._numbers)}"
        message = {"role": role, "content": "x" * chance.randrange(200), "turn": token, "message_id": message_id}
        self.notebook.note("begin", session_id, message_id)
        deliveries = [self.store.append_to_transcript(session_id, message)]
        if chance.random() < 0.2:
            deliveries.append(self.store.append_to_transcript(session_id, message))
        positions = await asyncio.gather(*(self.timed("append", delivery) for delivery in deliveries))
        if chance.random() < 0.1:
            positions.append(await self.timed("append", self.store.append_to_transcript(session_id, message)))
        new = [position for position in positions if position is not None]
        if len(new) != 1:
            self.notebook.note("error", f"{message_id} was new {len(new)} times")
        self.notebook.note("done", session_id, message_id, *new)

    async def _compress(self, session_id: str) -> str:
        live = await self.timed("load", self.store.load_transcript(session_id))
        summary = [{"role": "system", "content": f"{SUMMARY}{len(live)}"}]
        command = self.store.compress_session(session_id, None, summary, covers=len(live))
        return await self.timed("compress", command)


def serve(folder: str, notes: str, me: str, tasks: str, lanes: str, seed: str) -> None:
    """Be a gateway until killed."""
    with SessionStore(folder, actor=me, busy_timeout=PATIENCE) as store:
        asyncio.run(Gateway(store, Notebook(notes, me), me, int(lanes)).run(int(tasks), f"{seed}:{os.getpid()}"))


def hold_turns(folder: str, *keep: str) -> None:
    """Begin turns on some lanes, and one elsewhere that ends; then wait to be killed, or told to end them all."""
    store = SessionStore(folder, busy_timeout=PATIENCE)
    tokens = {}
    for number in map(int, keep):
        key = store.get_or_create_session(source(number)).session_key
        tokens[key] = store.begin_turn(key)
    ended = store.get_or_create_session(source(100 + int(keep[0]))).session_key
    store.end_turn(store.begin_turn(ended))
    say(tokens)
    ready()
    for token in tokens.values():
        store.end_turn(token)
    store.close()


def change_lanes(folder: str, me: str, seed: str, workers: str) -> None:
    """Create, reset, compress and switch from threads until killed; say each answer."""
    store = SessionStore(folder, actor=me, busy_timeout=PATIENCE)
    for worker in range(int(workers)):
        chance = random.Random(f"{seed}:{worker}")
        threading.Thread(target=_change, args=(store, f"{me}-{worker}", chance), daemon=True).start()
    threading.Event().wait()


def _change(store: SessionStore, me: str, chance: random.Random) -> None:
    for name, session_id in _changes(store, me, chance):
        say([name, session_id])


def _changes(store: SessionStore, me: str, chance: random.Random) -> Iterator[tuple[str, Any]]:
    """Random commands that touch a lane and its sessions together."""
    numbers = itertools.count()
    while True:
        own = SessionSource(Platform.SLACK, f"{me}-{next(numbers)}", user_id=me)
        where = chance.choice([own, source(0), source(1), source(2)])
        entry = store.get_or_create_session(where)
        yield "create", entry.session_id
        store.append_to_transcript(
            entry.session_id, {"role": "user", "content": "hello", "message_id": f"{own.chat_id}"}
        )
        yield "append", [entry.session_id, own.chat_id]
        with contextlib.suppress(SessionStateError):  # another thread was faster
            if chance.random() < 0.5:
                yield "compress", [entry.session_id, store.compress_session(entry.session_id)]
        if chance.random() < 0.5:
            reset = store.reset_session(entry.session_key)
            yield "reset", reset.session_id if reset else None


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
