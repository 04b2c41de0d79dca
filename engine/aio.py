"""AsyncSessionStore: the same store, awaitable. Commands of many tasks share a commit; the loop never blocks.

A cancelled await neither loses nor doubles its command: once given, it is written once or fails, as if waited for.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from engine.archiving import ArchiveReport, RestoreReport
from engine.arrivals import Arrivals, AsyncFollower
from engine.claims import TurnClaim
from engine.clock import local_now
from engine.command import Command, Sweep
from engine.commands import lanes, sessions, transcripts, turns
from engine.commands.lanes import RESTART_TIMEOUT, Notices
from engine.domain.config import StoreSettings
from engine.domain.entry import SessionEntry
from engine.domain.platforms import Platform
from engine.domain.sources import SessionSource
from engine.erasure.report import ErasureReport
from engine.following import Changes
from engine.heads import Heads
from engine.health import StoreHealth
from engine.importing import ImportProgress
from engine.imports.report import ImportReport
from engine.log.protocol import Progress, Verification
from engine.log.sqlite.eventlog import DEFAULT_PAYLOAD_LIMIT
from engine.reader import DEFAULT_TRANSCRIPT_BYTES, RecordedMessage, SessionInfo, SessionReader
from engine.route_queue import RouteQueue
from engine.runner import in_thread
from engine.store import DEFAULT_LANES, SessionStore
from engine.threads import DaemonThreads
from engine.turns import DEFAULT_LEASE_SECONDS, TURN_REFUSED, AsyncTurn
from engine.validation import checked_source
from engine.verification import StoreVerification
from projections.views.bill import UsageRow
from projections.views.find import Hits, Order
from projections.views.verify import ViewVerification

T = TypeVar("T")
_READERS = 4
_PAGE = 500


class AsyncSessionStore:
    """The methods of a SessionStore, to be awaited. Many may stand on one store."""

    def __init__(self, store: SessionStore) -> None:
        self.store = store
        self._runner = store.runner
        self.readers = DaemonThreads(_READERS, "session-reading")
        self._loaders = DaemonThreads(1, "session-loading")
        self._routing = DaemonThreads(1, "session-routing")
        self._routes = RouteQueue(store.routes.find, self._routing)
        self.arrivals = Arrivals(store.log)
        self._lines: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._tasks: set[asyncio.Future[Any]] = set()

    @classmethod
    async def open(
        cls,
        sessions_dir: str | os.PathLike[str],
        config: StoreSettings | None = None,
        has_active_processes_fn: Callable[[str], bool] | None = None,
        *,
        clock: Callable[[], datetime] = local_now,
        actor: str = "gateway",
        active_profile: str | None = None,
        create: bool = True,
        cached_lanes: int = DEFAULT_LANES,
        cached_transcript_bytes: int = DEFAULT_TRANSCRIPT_BYTES,
        views: bool = True,
        search: bool = True,
        heads: Heads | str | os.PathLike[str] | Callable[[str], object] | None = None,
        synchronous: str = "FULL",
        busy_timeout: float = 5.0,
        payload_limit: int = DEFAULT_PAYLOAD_LIMIT,
        queue_limit: int = 10_000,
        checkpoint_pages: int = 1000,
        vfs: str | None = None,
    ) -> "AsyncSessionStore":
        """Open a SessionStore in a thread, and return its awaitable form."""
        opening = partial(
            SessionStore,
            sessions_dir,
            config,
            has_active_processes_fn,
            clock=clock,
            actor=actor,
            active_profile=active_profile,
            create=create,
            cached_lanes=cached_lanes,
            cached_transcript_bytes=cached_transcript_bytes,
            views=views,
            search=search,
            heads=heads,
            synchronous=synchronous,
            busy_timeout=busy_timeout,
            payload_limit=payload_limit,
            queue_limit=queue_limit,
            checkpoint_pages=checkpoint_pages,
            vfs=vfs,
        )
        return cls(await in_thread(DaemonThreads(1, "session-opening"), opening))

    @property
    def config(self) -> StoreSettings:
        """The settings the store was opened with (G3a)."""
        return self.store.config

    @property
    def sessions_dir(self) -> Path:
        """The folder of the store (G3a)."""
        return self.store.sessions_dir

    async def run(self, command: Command[T]) -> T:
        """Run a command of the store."""
        return await self._runner.run_async(command)

    async def _sweep(self, sweep: Sweep) -> int:
        """Run a command of the store that has many parts; a cancelled await does not stop it between two of them."""
        return await asyncio.shield(self.keep(asyncio.ensure_future(self._runner.sweep_async(sweep))))

    async def read(self, function: Callable[..., T], *arguments: Any) -> T:
        """Ask the store in a thread: it may wait for the disk."""
        return await in_thread(self.readers, function, *arguments)

    def line(self, session_key: str) -> asyncio.Lock:
        """Return the lock that the tasks of this store which wait for the same lane take in turn."""
        lock = self._lines.get(session_key)
        if lock is None:
            lock = self._lines[session_key] = asyncio.Lock()
        return lock

    def keep(self, task: "asyncio.Future[T]") -> "asyncio.Future[T]":
        """Keep a task that must go on though its caller was cancelled."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def get_or_create_session(
        self, source: SessionSource, force_new: bool = False, *, touch: bool = True
    ) -> SessionEntry:
        """Return the lane of a source, on the session its next message belongs to (G20 to G33)."""
        checked_source(source)
        # Looking, asking the host and deciding are several steps: a cancelled await must not stop between them.
        return await asyncio.shield(self.keep(asyncio.ensure_future(self._route(source, force_new, touch))))

    async def _route(self, source: SessionSource, force_new: bool, touch: bool) -> SessionEntry:
        found = await self._routes.ask(source, force_new, touch)
        return await self.run(found) if isinstance(found, Command) else found

    def turn(
        self, source: SessionSource, *, wait: float | None = None, lease_seconds: float = DEFAULT_LEASE_SECONDS
    ) -> AsyncTurn:
        """Return a context manager that takes the turn of a source's conversation for its block.

        It routes, waits until no other turn of the conversation runs, routes again, renews its lease while the block
        runs, and ends with it. `wait=0` raises TurnInProgressError at once, a number after so many seconds.
        """
        return AsyncTurn(self, source, wait, lease_seconds)

    # Commands

    async def update_session(
        self,
        session_key: str,
        last_prompt_tokens: int | None = None,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        cost_usd: float | None = None,
        model: str | None = None,
        provider: str | None = None,
    ) -> None:
        """Touch a lane and count its tokens and cost, for a model if it is named; ignore an unknown lane (G34, V11)."""
        usage = {
            "last_prompt_tokens": last_prompt_tokens,
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "cache_read_tokens": cache_read_tokens,
            "cache_write_tokens": cache_write_tokens,
            "cost_usd": cost_usd,
            "model": model,
            "provider": provider,
        }
        await self.run(lanes.update_session(session_key, usage))

    async def suspend_session(self, session_key: str) -> bool:
        """Let the lane's next message start a new session; return False if it leads nowhere (G35)."""
        return bool(session_key) and await self.run(lanes.suspend_session(session_key))

    async def mark_resume_pending(self, session_key: str, reason: str | None = RESTART_TIMEOUT) -> bool:
        """Mark a lane's session as cut off, to be resumed; return False if the lane is unknown or suspended (G35)."""
        return bool(session_key) and await self.run(lanes.mark_resume_pending(session_key, reason))

    async def clear_resume_pending(self, session_key: str) -> bool:
        """Take the mark away; return True only if it was there (G35)."""
        return bool(session_key) and await self.run(lanes.clear_resume_pending(session_key))

    async def suspend_recently_active(self, max_age_seconds: float = 120) -> int:
        """Mark lanes active within the window as cut off by a restart; return how many (G36)."""
        return await self._sweep(lanes.suspend_recently_active(max_age_seconds))

    async def reset_session(self, session_key: str, display_name: str | None = None) -> SessionEntry | None:
        """Start over because somebody asked; return None if the lane leads nowhere (G37)."""
        return await self.run(lanes.reset_session(session_key, display_name))

    async def switch_session(self, session_key: str, target_session_id: str) -> SessionEntry | None:
        """Point a lane at another session; return None if the lane leads nowhere (G38)."""
        return await self.run(lanes.switch_session(session_key, target_session_id))

    async def set_model_override(self, session_key: str, override: Mapping[str, Any] | None) -> None:
        """Choose the lane's model until its next reset; None gives the choice back (G39)."""
        await self.run(lanes.set_model_override(session_key, override))

    async def set_expiry_finalized(
        self,
        session_key: str | SessionEntry | None = None,
        clear_model_override: bool = True,
        *,
        entry: SessionEntry | None = None,
    ) -> bool:
        """End the lane's expired session for good, because the host has done its work for it (G40)."""
        lane = session_key if entry is None else entry
        return await self.run(lanes.set_expiry_finalized(lane, clear_model_override))

    async def prune_old_entries(self, max_age_days: float | None = None) -> int:
        """Forget lanes untouched for so many days; return how many. None, 0 and less forget none (G41)."""
        return await self._sweep(lanes.prune_old_entries(max_age_days))

    async def consume_notices(self, session_key: str) -> Notices:
        """Return what is to be told to the lane's user, once (G45)."""
        return await self.run(lanes.consume_notices(session_key))

    async def begin_turn(self, session_key: str, *, lease_seconds: float | None = DEFAULT_LEASE_SECONDS) -> str:
        """Take the turn of the lane's conversation; return the token to end it with (G36)."""
        claim = TurnClaim()
        try:
            return await self.run(turns.begin_turn(session_key, lease_seconds, claim))
        except TURN_REFUSED:
            raise
        except BaseException:  # also a cancellation: the turn may have begun, and nobody has its token
            self._runner.renewals.give_up(claim)
            raise

    async def renew_turn(self, token: str, *, lease_seconds: float | None = DEFAULT_LEASE_SECONDS) -> bool:
        """Let a long turn's lease run from now; return False if the turn is over."""
        return await self.run(turns.renew_turn(token, lease_seconds))

    async def end_turn(self, token: str, *, error: str | None = None) -> bool:
        """End a turn; return False if it is over already."""
        return await self.run(turns.end_turn(token, error))

    async def recover_interrupted_turns(self) -> int:
        """Mark the lanes whose turns lost their worker for resuming, after a crash; return how many turns (G36)."""
        return await self.run(turns.recover_interrupted_turns())

    async def compress_session(
        self,
        session_id: str,
        child_id: str | None = None,
        summary_messages: Sequence[Mapping[str, Any]] = (),
        *,
        covers: int | None = None,
        turn: str | None = None,
    ) -> str:
        """Close a session into a child that goes on with a summary; return the child's id (G42)."""
        return await self.run(sessions.compress_session(session_id, child_id, summary_messages, covers, turn))

    async def fork_session(self, session_id: str, at: object = None) -> str:
        """Create a session with the history up to a message, its platform id, or a position; return its id (G43)."""
        return await self.run(sessions.fork_session(session_id, at))

    async def end_session(self, session_id: str, reason: str) -> bool:
        """End a session; return False if an earlier reason stands (G44)."""
        return await self.run(sessions.end_session(session_id, reason))

    async def reopen_session(self, session_id: str) -> bool:
        """Make an ended session live again; return False if it is (G44)."""
        return await self.run(sessions.reopen_session(session_id))

    async def set_session_title(self, session_id: str, title: str | None) -> str | None:
        """Name a session; return the name it got, with a number if another has it. None or "" clears it (G44)."""
        return await self.run(sessions.set_session_title(session_id, title, auto=False))

    async def set_auto_title(self, session_id: str, title: str | None) -> str | None:
        """Name a session unless somebody chose its name; return the name it has then (G44)."""
        return await self.run(sessions.set_session_title(session_id, title, auto=True))

    async def append_to_transcript(
        self, session_id: str, message: Mapping[str, Any], skip_db: bool = False, *, turn: str | None = None
    ) -> int | None:
        """Append one message; return its position in the log, None if its platform id is known already (G46, G47)."""
        command = transcripts.append_to_transcript(session_id, message, turn)
        return None if skip_db else await self.run(command)

    async def append_messages(
        self, session_id: str, messages: Sequence[Mapping[str, Any]], *, turn: str | None = None
    ) -> list[int]:
        """Append messages, all or none; return the positions of those that were new (G46, G47)."""
        return await self.run(transcripts.append_messages(session_id, messages, turn))

    async def rewrite_transcript(
        self, session_id: str, messages: Sequence[Mapping[str, Any]], *, turn: str | None = None
    ) -> bool:
        """Make another history live; the former one stays in the log (G50)."""
        return await self.run(transcripts.rewrite_transcript(session_id, messages, turn))

    async def rewind_session(self, session_id: str, n: int = 1) -> dict[str, Any] | None:
        """Undo the last n turns; return what was undone, None when there is no user message (G51)."""
        return await self.run(transcripts.rewind_session(session_id, n))

    async def restore_rewound(self, session_id: str) -> int:
        """Undo the last undo; return how many messages are live again (G51)."""
        return await self.run(transcripts.restore_rewound(session_id))

    # Questions

    async def get_model_override(self, session_key: str) -> dict[str, str] | None:
        """Return the model chosen for a lane, as a copy."""
        return await self.read(self.store.get_model_override, session_key)

    async def is_session_expired(self, entry: SessionEntry) -> bool:
        """Return True if the policy would reset the lane now (G40)."""
        expired = await self.read(SessionReader.is_session_expired, self.store, entry)
        return expired and not (await self._runner.ask_async([entry.session_key]))[entry.session_key]

    async def is_session_finalizable(self, entry: SessionEntry) -> bool:
        """Return True if the lane's sessions ever expire (G40)."""
        return self.store.is_session_finalizable(entry)

    async def list_sessions(
        self, active_minutes: float | None = None, *, limit: int | None = None, after: SessionEntry | None = None
    ) -> list[SessionEntry]:
        """Return the lanes that lead somewhere, newest first; with `limit` and `after` a page of them (G41)."""
        return await self.read(partial(self.store.list_sessions, active_minutes, limit=limit, after=after))

    async def iter_sessions(self, active_minutes: float | None = None) -> AsyncIterator[SessionEntry]:
        """Yield the lanes that lead somewhere, newest first, each once, and few of them in memory at a time."""
        entries = self.store.iter_sessions(active_minutes)

        def page() -> list[SessionEntry]:
            return list(islice(entries, _PAGE))

        while found := await self.read(page):
            for entry in found:
                yield entry

    async def lookup_by_session_id(self, session_id: str) -> SessionEntry | None:
        """Return the lane that leads to a session, or None."""
        return await self.read(self.store.lookup_by_session_id, session_id)

    async def peek_session_id(self, session_key: str) -> str | None:
        """Return where a lane leads, without touching it."""
        return await self.read(self.store.peek_session_id, session_key)

    async def peek_entry(self, session_key: str) -> SessionEntry | None:
        """Return a lane as it stands, without touching it; None if it leads nowhere."""
        return await self.read(self.store.peek_entry, session_key)

    async def sessions_of(self, session_key: str) -> list[SessionInfo]:
        """Return every session a lane ever led to, the latest first."""
        return await self.read(self.store.sessions_of, session_key)

    async def has_any_sessions(self) -> bool:
        """Return True if more than one session was ever created (G41)."""
        return await self.read(self.store.has_any_sessions)

    async def get_session(self, session_id: str) -> SessionInfo:
        """Return what is known about a session; raise UnknownSessionError if there is none."""
        return await self.read(self.store.get_session, session_id)

    async def conversation(self, session_id: str) -> list[SessionInfo]:
        """Return all segments and forks of the conversation a session belongs to, oldest first."""
        return await self.read(self.store.conversation, session_id)

    async def names_like(self, fragment: str, limit: int = 20) -> tuple[list[str], list[str]]:
        """Return session keys and session ids that contain a text, whatever its case; those it begins come first."""
        return await self.read(self.store.names_like, fragment, limit)

    async def has_platform_message_id(self, session_id: str, platform_message_id: str) -> bool:
        """Return True if a platform's message was ever appended to a session's conversation, undone or not (G47)."""
        return await self.read(self.store.has_platform_message_id, session_id, platform_message_id)

    async def load_transcript(self, session_id: str) -> list[dict[str, Any]]:
        """Return the live messages in the order they were appended, as objects of the caller's own (G49)."""
        load = self.store._loading(session_id, interleaved=True)
        try:
            done = await self.read(load.step)
            while not done:  # a long one goes on in turn with the others, where no other question waits
                done = await in_thread(self._loaders, load.step)
        except BaseException:
            load.give_up()
            raise
        return load.messages

    async def recorded_messages(self, session_id: str) -> list[RecordedMessage]:
        """Return the live messages with the positions and times they were recorded at."""
        return await self.read(self.store.recorded_messages, session_id)

    async def quarantined(self) -> list[tuple[int, str]]:
        """Return the events that could not be used: their positions, and why."""
        return await self.read(self.store.quarantined)

    # Importing

    async def import_from(
        self, path: str | os.PathLike[str], *, dry_run: bool = False, progress: ImportProgress | None = None
    ) -> ImportReport:
        """Import an agent's `state.db`, a folder with `sessions.json`, or a web chat's with `_index.json` (V18)."""
        return await self.read(partial(self.store.import_from, path, dry_run=dry_run, progress=progress))

    # Views

    async def search(
        self,
        text: str,
        *,
        platform: str | None = None,
        lane: str | None = None,
        session_id: str | None = None,
        user_id: str | None = None,
        role: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        order: Order = "relevance",
        limit: int = 20,
        cursor: str | None = None,
    ) -> Hits:
        """Return live messages with words, "phrases" or prefix*, joined by AND, OR, NOT (V8)."""
        asking = partial(
            self.store.search,
            text,
            platform=platform,
            lane=lane,
            session_id=session_id,
            user_id=user_id,
            role=role,
            since=since,
            until=until,
            order=order,
            limit=limit,
            cursor=cursor,
        )
        return await self.read(asking)

    async def usage(
        self, by: Sequence[str] = (), *, since: datetime | None = None, until: datetime | None = None
    ) -> list[UsageRow]:
        """Return messages, turns, tokens and cost by day, platform, user, model, provider, lane or session (V11)."""
        return await self.read(partial(self.store.usage, by, since=since, until=until))

    async def wait_for_views(self, position: int | None = None, timeout: float | None = 10.0) -> bool:
        """Wait until the views have seen a position, by default the newest; return False if that took too long (V4)."""
        return await self.read(self.store.wait_for_views, position, timeout)

    async def rebuild_views(self, *names: str) -> None:
        """Begin to make views anew behind those that serve, by default all; `health()` tells how far they are (V6)."""
        await self.read(self.store.rebuild_views, *names)

    async def verify_views(self) -> ViewVerification:
        """Compare every view with a fresh fold of the log; name the first difference (V7)."""
        return await self.read(self.store.verify_views)

    # Following

    def follow(
        self,
        after: int = 0,
        topics: Sequence[str] | None = None,
        lanes: Sequence[str] | None = None,
        sessions: Sequence[str] | None = None,
        *,
        timeout: float | None = None,
    ) -> AsyncFollower:
        """Return an asynchronous iterator over the changes after a position, of any process, that waits for more (V14).

        Args:
            after: The position of the last change that was handled; 0 begins with the first.
            topics: Only events of these kinds, such as "message.appended".
            lanes: Only what happens to these lanes, by session key, and to every session they ever led to.
            sessions: Only what happens to these sessions, by id. With `lanes`: to either.
            timeout: Seconds without a change after which the iteration ends; begun again it goes on. None waits.
        """
        changes = Changes(self.store.log, topics, lanes, sessions)
        return AsyncFollower(self.arrivals, changes, self.readers, after, timeout)

    # Archives

    async def archive(
        self,
        older_than: datetime | timedelta,
        to: str | os.PathLike[str],
        *,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> ArchiveReport:
        """Move the messages of conversations that ended before a time into a new compressed file (V16)."""
        return await self.read(partial(self.store.archive, older_than, to, reason=reason, dry_run=dry_run))

    async def restore(
        self, archive: str | os.PathLike[str], *, reason: str | None = None, dry_run: bool = False
    ) -> RestoreReport:
        """Put the messages of an archive back, exactly as they were; what was erased meanwhile stays erased (V16)."""
        return await self.read(partial(self.store.restore, archive, reason=reason, dry_run=dry_run))

    # Erasure

    async def erase(
        self,
        *,
        session_id: str | None = None,
        lane: str | None = None,
        user_id: str | int | None = None,
        platform: str | Platform | None = None,
        positions: Sequence[int] | None = None,
        reason: str,
        request: str | None = None,
        archives: Sequence[str | os.PathLike[str]] = (),
        dry_run: bool = False,
        purge: bool = False,
    ) -> ErasureReport:
        """Erase a session, a lane, a person or some messages; return what was erased, and what stays and why (V15)."""
        erasing = partial(
            self.store.erase,
            session_id=session_id,
            lane=lane,
            user_id=user_id,
            platform=platform,
            positions=positions,
            reason=reason,
            request=request,
            archives=archives,
            dry_run=dry_run,
            purge=purge,
        )
        return await self.read(erasing)

    async def purge(self) -> bool:
        """Leave no byte of what was erased in any file of the store; return False while a reader keeps it from that."""
        return await self.read(self.store.purge)

    # The store as a whole

    async def health(self) -> StoreHealth:
        """Return the state of the log and its writer, how far the tables are, and how much is quarantined."""
        return await self.read(self.store.health)

    async def metrics(self) -> dict[str, int | float]:
        """Return counters for a host's dashboard."""
        return await self.read(self.store.metrics)

    async def verify(
        self, progress: Progress | None = None, published: str | Iterable[str] | None = None
    ) -> StoreVerification:
        """Check everything: the hash chain, the file's rules and pages, and the state tables against the log."""
        return await self.read(self.store.verify, progress, published)

    async def rebuild(self) -> int:
        """Rebuild the state tables from the log alone; return how many events that took."""
        return await self.read(self.store.rebuild)

    async def backup(self, to: str | os.PathLike[str]) -> Verification:
        """Copy `sessions.db` to a new file while it is written; return what verifying the copy found (V17)."""
        return await self.read(self.store.backup, to)

    async def close(self) -> None:
        """Close the store that all its faces share."""
        if self._tasks:
            await asyncio.wait(self._tasks)
        self.arrivals.close()
        await self.read(self.store.close)
        for threads in (self.readers, self._loaders, self._routing):
            threads.shutdown()

    async def __aenter__(self) -> "AsyncSessionStore":
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()
