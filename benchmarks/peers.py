"""Other session layers behind one small interface, each with the settings it comes with.

No pragma is changed and no pool resized; what that gives is read back by `settings` from a connection of
the peer's own. A peer is imported when it is opened, so that a missing one costs nothing.
"""

import asyncio
import contextlib
import json
import os
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from datetime import datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.gateways import Message, message

_SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")
_ATTEMPTS = 200


class Peer(ABC):
    """A session layer that keeps messages of sessions."""

    name: str
    packages: tuple[str, ...]

    def versions(self) -> dict[str, str]:
        return {package: version(package) for package in self.packages}

    @abstractmethod
    def open(self, folder: Path) -> None: ...

    @abstractmethod
    def sessions(self, count: int) -> list[Any]:
        """New sessions to append to."""

    @abstractmethod
    def append(self, session: Any, count: int) -> None:
        """Append messages one after another, each durable before the next."""

    @abstractmethod
    def converse(self, sessions: Sequence[Any], each: int) -> None:
        """One task per session, each appending one message after another, the way the peer does it in asyncio."""

    @abstractmethod
    def settings(self) -> str:
        """Return how durable a message is when `append` returns."""

    @abstractmethod
    def stored(self) -> int:
        """Return how many messages are on disk, counted by a connection that is not the peer's own."""

    @abstractmethod
    def close(self) -> None: ...


async def _converse(
    sessions: Sequence[Any], each: int, append: Callable[[Any, Message], Coroutine[Any, Any, object]]
) -> None:
    async def talk(session: Any) -> None:
        for number in range(each):
            await _insist(append, session, message(number))

    await asyncio.gather(*(talk(session) for session in sessions))


async def _insist(append: Callable[[Any, Message], Coroutine[Any, Any, object]], session: Any, sent: Message) -> None:
    """Append, again when the database was locked, as a host would have to."""
    for _ in range(_ATTEMPTS):
        try:
            await append(session, sent)
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
        await asyncio.sleep(0.005)
    raise RuntimeError(f"still locked after {_ATTEMPTS} attempts")


def _pragmas(value: Callable[[str], Any]) -> str:
    journal, synchronous = value("PRAGMA journal_mode"), value("PRAGMA synchronous")
    return f"journal_mode {str(journal).upper()}, synchronous {_SYNCHRONOUS[int(synchronous)]}"


def _count(path: Path, sql: str) -> int:
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return int(connection.execute(sql).fetchone()[0])


class Hermes(Peer):
    """hermes-agent's gateway.session.SessionStore; the JSON mirror of its index is on, as it comes."""

    name = "hermes-agent"
    packages = ("hermes-agent",)

    def open(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        os.environ["HERMES_HOME"] = str(folder)
        import gateway.config
        import gateway.session
        import hermes_state

        self._folder, self._config, self._session = folder, gateway.config, gateway.session
        hermes_state.DEFAULT_DB_PATH = folder / "state.db"  # fixed when imported, and read when a store is made
        self.store = gateway.session.SessionStore(folder / "sessions", gateway.config.GatewayConfig())
        if self.store._db is None:
            raise RuntimeError("hermes-agent opened without its database")

    def source(self, lane: int) -> Any:
        return self._session.SessionSource(
            platform=self._config.Platform.TELEGRAM,
            chat_id=str(100_000 + lane),
            chat_name=f"Chat {lane}",
            user_id=str(500_000 + lane),
            user_name=f"User {lane}",
        )

    def build(self, lanes: int) -> None:
        """Lanes as get_or_create_session leaves them; made in bulk, because each call rewrites the whole index."""
        store, now, rows = self.store, datetime.now(), []
        store._ensure_loaded()
        for lane in range(lanes):
            source = self.source(lane)
            key, session = store._generate_session_key(source), f"{now:%Y%m%d_%H%M%S}_{lane:08x}"
            store._entries[key] = self._session.SessionEntry(
                session_key=key,
                session_id=session,
                created_at=now,
                updated_at=now,
                origin=source,
                display_name=source.chat_name,
                platform=source.platform,
                chat_type=source.chat_type,
            )
            origin = json.dumps(source.to_dict())
            place = (key, source.chat_id, source.chat_type, source.chat_name, origin)
            rows.append((session, source.platform.value, source.user_id, *place, time.time()))
        sql = (
            "INSERT INTO sessions (id, source, user_id, session_key, chat_id, chat_type, display_name, origin_json,"
            " started_at) VALUES (?,?,?,?,?,?,?,?,?)"
        )
        store._db._execute_write(lambda connection: connection.executemany(sql, rows))
        store._save_entries()

    def route(self, source: Any) -> str:
        return str(self.store.get_or_create_session(source).session_id)

    def sessions(self, count: int) -> list[Any]:
        return [self.route(self.source(lane)) for lane in range(count)]

    def append(self, session: Any, count: int) -> None:
        for number in range(count):
            self.store.append_to_transcript(session, message(number))

    def fill(self, session: str, messages: list[Message]) -> None:
        if not self.store.rewrite_transcript(session, messages):
            raise RuntimeError("hermes-agent did not take the messages")

    def load(self, session: str) -> list[Message]:
        return list(self.store.load_transcript(session))

    def converse(self, sessions: Sequence[Any], each: int) -> None:
        store = self._session.AsyncSessionStore(self.store)
        asyncio.run(_converse(sessions, each, store.append_to_transcript))
        if self.store._dirty_transcripts:  # what it could not store it keeps in memory, and says nothing
            raise RuntimeError("hermes-agent did not store every message")

    def settings(self) -> str:
        execute = self.store._db._conn.execute
        pragmas = _pragmas(lambda sql: execute(sql).fetchone()[0])
        return f"{pragmas}; one commit per message; a route writes the whole index, to the database and as JSON"

    def stored(self) -> int:
        return _count(self._folder / "state.db", "SELECT count(*) FROM messages")

    def close(self) -> None:
        self.store._db.close()


class _Awaited(Peer):
    """A peer that speaks asyncio: one loop of its own, not started and stopped per message."""

    _loop: asyncio.AbstractEventLoop

    def _run(self, awaitable: Awaitable[Any]) -> Any:
        return self._loop.run_until_complete(awaitable)

    @abstractmethod
    async def _append(self, session: Any, message: Message) -> None: ...

    def append(self, session: Any, count: int) -> None:
        self._run(_converse([session], count, self._append))

    def converse(self, sessions: Sequence[Any], each: int) -> None:
        self._run(_converse(sessions, each, self._append))

    def close(self) -> None:
        self._run(self._loop.shutdown_default_executor())
        self._loop.close()


class OpenAI(_Awaited):
    """agents.SQLiteSession of the OpenAI Agents SDK, one object per session on one file."""

    name = "OpenAI SQLiteSession"
    packages = ("openai-agents",)

    def open(self, folder: Path) -> None:
        from agents import SQLiteSession

        folder.mkdir(parents=True, exist_ok=True)
        self._loop = asyncio.new_event_loop()
        self._path, self._class, self._made = folder / "agents.db", SQLiteSession, []

    def sessions(self, count: int) -> list[Any]:
        first = len(self._made)
        self._made += [self._class(f"session-{first + number}", self._path) for number in range(count)]
        return self._made[first:]

    async def _append(self, session: Any, message: Message) -> None:
        await session.add_items([message])

    def settings(self) -> str:
        execute = self.sessions(1)[0]._get_connection().execute
        return f"{_pragmas(lambda sql: execute(sql).fetchone()[0])}; one commit per message, in a thread"

    def stored(self) -> int:
        return _count(self._path, "SELECT count(*) FROM agent_messages")

    def close(self) -> None:
        for session in self._made:
            session.close()
        super().close()


class Adk(_Awaited):
    """Google ADK's SqliteSessionService, the faster of its two for SQLite."""

    name = "Google ADK SqliteSessionService"
    packages = ("google-adk", "aiosqlite")

    def open(self, folder: Path) -> None:
        from google.adk.events import Event
        from google.adk.sessions.sqlite_session_service import SqliteSessionService
        from google.genai import types

        folder.mkdir(parents=True, exist_ok=True)
        self._loop = asyncio.new_event_loop()
        self._path, self._event, self._types = folder / "adk.db", Event, types
        self._service = SqliteSessionService(str(self._path))

    def sessions(self, count: int) -> list[Any]:
        async def create() -> list[Any]:
            return [await self._service.create_session(app_name="bench", user_id="user") for _ in range(count)]

        return list(self._run(create()))

    async def _append(self, session: Any, message: Message) -> None:
        role = "user" if message["role"] == "user" else "model"
        content = self._types.Content(role=role, parts=[self._types.Part(text=message["content"])])
        await self._service.append_event(session, self._event(author=message["role"], content=content))

    def settings(self) -> str:
        async def read() -> str:
            found = {}
            async with self._service._get_db_connection() as connection:
                for sql in ("PRAGMA journal_mode", "PRAGMA synchronous"):
                    async with connection.execute(sql) as cursor:
                        found[sql] = (await cursor.fetchone())[0]
            return _pragmas(found.__getitem__)

        return f"{self._run(read())}; one commit and one new connection per message"

    def stored(self) -> int:
        return _count(self._path, "SELECT count(*) FROM events")

    def close(self) -> None:
        self._run(self._service.close())
        super().close()


class LangGraph(Peer):
    """LangGraph with its SqliteSaver. A checkpoint holds the whole history, so an append costs more as it grows.

    With `graph`, a message is one update_state of a compiled graph; without, it is SqliteSaver.put alone,
    with the list kept in memory: less than any application pays.
    """

    packages = ("langgraph", "langgraph-checkpoint-sqlite", "aiosqlite")

    def __init__(self, *, graph: bool) -> None:
        self._with_graph = graph
        self.name = f"LangGraph SqliteSaver, {'update_state' if graph else 'put alone'}"

    def open(self, folder: Path) -> None:
        from langgraph.checkpoint.base import empty_checkpoint
        from langgraph.checkpoint.sqlite import SqliteSaver

        folder.mkdir(parents=True, exist_ok=True)
        self._path, self._empty = folder / "langgraph.db", empty_checkpoint
        self._connection = sqlite3.connect(self._path, check_same_thread=False)
        self._saver = SqliteSaver(self._connection)
        self._saver.setup()
        self._graph = self._compiled(self._saver)
        self._kept: dict[str, list[Message]] = {}

    @staticmethod
    def _compiled(saver: Any) -> Any:
        from langgraph.graph import END, START, MessagesState, StateGraph

        builder = StateGraph(MessagesState)
        builder.add_node("agent", lambda _state: {})
        builder.add_edge(START, "agent")
        builder.add_edge("agent", END)
        return builder.compile(checkpointer=saver)

    def sessions(self, count: int) -> list[Any]:
        first = len(self._kept)
        made = [f"thread-{first + number}" for number in range(count)]
        self._kept.update({name: [] for name in made})
        return made

    @staticmethod
    def _thread(session: str) -> Any:
        return {"configurable": {"thread_id": session, "checkpoint_ns": ""}}

    def _checkpoint(self, session: str, message: Message) -> tuple[Any, Any, Any]:
        kept = self._kept[session]
        kept.append(message)
        checkpoint = self._empty() | {"channel_values": {"messages": kept}}
        return checkpoint, {"source": "update", "step": len(kept)}, {}

    def append(self, session: Any, count: int) -> None:
        for number in range(count):
            if self._with_graph:
                self._graph.update_state(self._thread(session), {"messages": [message(number)]}, "agent")
            else:
                self._saver.put(self._thread(session), *self._checkpoint(session, message(number)))

    def converse(self, sessions: Sequence[Any], each: int) -> None:
        """On AsyncSqliteSaver, which its documentation recommends for this."""
        from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

        async def main() -> None:
            async with AsyncSqliteSaver.from_conn_string(str(self._path)) as saver:
                await saver.setup()
                graph = self._compiled(saver)

                async def append(session: str, message: Message) -> None:
                    if self._with_graph:
                        await graph.aupdate_state(self._thread(session), {"messages": [message]}, "agent")
                    else:
                        await saver.aput(self._thread(session), *self._checkpoint(session, message))

                await _converse(sessions, each, append)

        asyncio.run(main())

    def settings(self) -> str:
        execute = self._connection.execute
        return f"{_pragmas(lambda sql: execute(sql).fetchone()[0])}; one checkpoint per message, with all before it"

    def stored(self) -> int:
        return _count(self._path, "SELECT count(*) FROM checkpoints")

    def close(self) -> None:
        self._connection.close()


PEERS: dict[str, Callable[[], Peer]] = {
    "hermes": Hermes,
    "openai": OpenAI,
    "adk": Adk,
    "langgraph": lambda: LangGraph(graph=True),
    "langgraph-put": lambda: LangGraph(graph=False),
}
