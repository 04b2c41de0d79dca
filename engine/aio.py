"""AsyncSessionStore: the same store, awaitable. Commands of many tasks share a commit; the loop never blocks.

A cancelled await neither loses nor doubles its command: once given, it is written once or fails, as if waited for.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from inspect import isawaitable
from typing import Any, TypeVar, cast

from engine.commander import DEFAULT_LEASE_SECONDS, Commander
from engine.commands import routing
from engine.commands.lanes import Notices
from engine.domain.entry import SessionEntry
from engine.domain.sources import SessionSource
from engine.store import SessionInfo, SessionStore, StoreHealth
from engine.work import AskFirstError

T = TypeVar("T")
_READERS = 4
_ASKERS = 64


async def _in_thread(threads: Executor, function: Callable[..., T], *arguments: Any) -> T:
    """Call in a thread of a pool of our own: the loop's default one may be full of the host's slow work."""
    call = partial(copy_context().run, function, *arguments)
    return await asyncio.get_running_loop().run_in_executor(threads, call)


class _Deferred(Commander):
    """Commands that are given now and answered to an await."""

    def __init__(self, store: SessionStore) -> None:
        self._store = store
        self.askers = ThreadPoolExecutor(_ASKERS, "session-asking-host")

    def _run(self, name: str, command: Callable[..., T], *arguments: Any) -> T:
        return cast(T, self._carried_out(name, command, arguments))

    def _ask(self, keys: Sequence[str]) -> dict[str, bool]:
        return {key: self._store._busy(key) for key in keys}

    async def _carried_out(self, name: str, command: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        store = self._store
        answers: dict[str, bool] = {}
        while True:
            try:
                work = store._work(name, command, arguments, answers)
                result, touched = await store.log.transact_async(work)
            except AskFirstError as ask:
                shares = [ask.keys[first::_ASKERS] for first in range(min(_ASKERS, len(ask.keys)))]
                for asked in await asyncio.gather(*(_in_thread(self.askers, self._ask, share) for share in shares)):
                    answers.update(asked)
            else:
                store._touches.settle(touched)
                return result


async def _done(value: T) -> T:
    """Wait for a command; some need none and have their answer already."""
    return await cast(Awaitable[T], value) if isawaitable(value) else value


class AsyncSessionStore:
    """The methods of a SessionStore, to be awaited. Many may stand on one store."""

    def __init__(self, store: SessionStore) -> None:
        self.store = store
        self._commands = _Deferred(store)
        self._readers = ThreadPoolExecutor(_READERS, "session-reading")

    async def _read(self, function: Callable[..., T], *arguments: Any) -> T:
        """In a thread: it may wait for the disk."""
        return await _in_thread(self._readers, function, *arguments)

    async def get_or_create_session(
        self, source: SessionSource, force_new: bool = False, *, touch: bool = True
    ) -> SessionEntry:
        """The lane of a source, on the session its next message belongs to (G20 to G33)."""
        store = self.store
        key = store._key(source)
        found = None if force_new else store._keep(key, source, touch, load=False)
        if found is not None:
            return found
        # Reading, asking the host and deciding are several steps: a cancelled await must not stop between them.
        return await asyncio.shield(asyncio.ensure_future(self._route(key, source, force_new, touch)))

    async def _route(self, key: str, source: SessionSource, force_new: bool, touch: bool) -> SessionEntry:
        store = self.store
        found = None if force_new else await self._read(store._keep, key, source, touch)
        if found is not None:
            return found
        command = routing.route
        entry = await _done(self._commands._run("get_or_create_session", command, key, source, force_new, touch))
        store._cache.forget(key)
        return entry

    # Commands

    async def update_session(
        self,
        key: str,
        last_prompt_tokens: int | None = None,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        cost_usd: float | None = None,
    ) -> None:
        await _done(
            self._commands.update_session(  # type: ignore[func-returns-value] # an await's None
                key,
                last_prompt_tokens,
                input_tokens=input_tokens,
                output_tokens=output_tokens,
                cache_read_tokens=cache_read_tokens,
                cache_write_tokens=cache_write_tokens,
                cost_usd=cost_usd,
            )
        )

    async def suspend_session(self, key: str) -> bool:
        return await _done(self._commands.suspend_session(key))

    async def mark_resume_pending(self, key: str, reason: str = "restart_timeout") -> bool:
        return await _done(self._commands.mark_resume_pending(key, reason))

    async def clear_resume_pending(self, key: str) -> bool:
        return await _done(self._commands.clear_resume_pending(key))

    async def suspend_recently_active(self, max_age_seconds: float = 120) -> int:
        return await _done(self._commands.suspend_recently_active(max_age_seconds))

    async def reset_session(self, key: str, display_name: str | None = None) -> SessionEntry | None:
        return await _done(self._commands.reset_session(key, display_name))

    async def switch_session(self, key: str, target: str) -> SessionEntry | None:
        return await _done(self._commands.switch_session(key, target))

    async def set_model_override(self, key: str, override: Mapping[str, Any] | None) -> None:
        await _done(self._commands.set_model_override(key, override))  # type: ignore[func-returns-value]

    async def set_expiry_finalized(self, key: str) -> bool:
        return await _done(self._commands.set_expiry_finalized(key))

    async def prune_old_entries(self, days: float | None = None) -> int:
        # Asking the host comes between two transactions: a cancelled await must not stop there.
        return await asyncio.shield(asyncio.ensure_future(_done(self._commands.prune_old_entries(days))))

    async def consume_notices(self, key: str) -> Notices:
        return await _done(self._commands.consume_notices(key))

    async def begin_turn(self, key: str, *, lease_seconds: float | None = DEFAULT_LEASE_SECONDS) -> str:
        return await _done(self._commands.begin_turn(key, lease_seconds=lease_seconds))

    async def renew_turn(self, token: str, *, lease_seconds: float | None = DEFAULT_LEASE_SECONDS) -> bool:
        return await _done(self._commands.renew_turn(token, lease_seconds=lease_seconds))

    async def end_turn(self, token: str, *, error: str | None = None) -> bool:
        return await _done(self._commands.end_turn(token, error=error))

    async def recover_interrupted_turns(self) -> int:
        return await _done(self._commands.recover_interrupted_turns())

    async def compress_session(
        self,
        session_id: str,
        child_id: str | None = None,
        summary_messages: Sequence[Mapping[str, Any]] = (),
        *,
        covers: int | None = None,
    ) -> str:
        return await _done(self._commands.compress_session(session_id, child_id, summary_messages, covers=covers))

    async def fork_session(self, session_id: str, at: object = None) -> str:
        return await _done(self._commands.fork_session(session_id, at))

    async def end_session(self, session_id: str, reason: str) -> bool:
        return await _done(self._commands.end_session(session_id, reason))

    async def reopen_session(self, session_id: str) -> bool:
        return await _done(self._commands.reopen_session(session_id))

    async def set_session_title(self, session_id: str, title: str) -> str:
        return await _done(self._commands.set_session_title(session_id, title))

    async def set_auto_title(self, session_id: str, title: str) -> str:
        return await _done(self._commands.set_auto_title(session_id, title))

    async def append_to_transcript(
        self, session_id: str, message: Mapping[str, Any], skip_db: bool = False
    ) -> int | None:
        return await _done(self._commands.append_to_transcript(session_id, message, skip_db))

    async def append_messages(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        return await _done(self._commands.append_messages(session_id, messages))

    async def rewrite_transcript(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> bool:
        return await _done(self._commands.rewrite_transcript(session_id, messages))

    async def rewind_session(self, session_id: str, n: int = 1) -> dict[str, Any] | None:
        return await _done(self._commands.rewind_session(session_id, n))

    async def restore_rewound(self, session_id: str) -> int:
        return await _done(self._commands.restore_rewound(session_id))

    # Reading

    async def get_model_override(self, key: str) -> dict[str, str] | None:
        return await self._read(self.store.get_model_override, key)

    async def is_session_expired(self, entry: SessionEntry) -> bool:
        return await self._read(self.store.is_session_expired, entry)

    async def is_session_finalizable(self, entry: SessionEntry) -> bool:
        return self.store.is_session_finalizable(entry)

    async def list_sessions(self, active_minutes: float | None = None) -> list[SessionEntry]:
        return await self._read(self.store.list_sessions, active_minutes)

    async def lookup_by_session_id(self, session_id: str) -> SessionEntry | None:
        return await self._read(self.store.lookup_by_session_id, session_id)

    async def peek_session_id(self, key: str) -> str | None:
        return await self._read(self.store.peek_session_id, key)

    async def has_any_sessions(self) -> bool:
        return await self._read(self.store.has_any_sessions)

    async def get_session(self, session_id: str) -> SessionInfo:
        return await self._read(self.store.get_session, session_id)

    async def has_platform_message_id(self, session_id: str, message_id: str) -> bool:
        return await self._read(self.store.has_platform_message_id, session_id, message_id)

    async def load_transcript(self, session_id: str) -> list[dict[str, Any]]:
        return await self._read(self.store.load_transcript, session_id)

    async def health(self) -> StoreHealth:
        return await self._read(self.store.health)

    async def quarantined(self) -> list[tuple[int, str]]:
        return await self._read(self.store.quarantined)

    async def rebuild(self) -> int:
        return await self._read(self.store.rebuild)

    async def metrics(self) -> dict[str, int | float]:
        return await self._read(self.store.metrics)

    async def close(self) -> None:
        """Close the store that all its faces share."""
        await self._read(self.store.close)

    async def __aenter__(self) -> "AsyncSessionStore":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
