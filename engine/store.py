"""SessionStore: the sessions of a gateway, on one log."""

import atexit
import logging
import os
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from datetime import datetime, timedelta
from pathlib import Path
from time import time_ns
from typing import Any, TypeVar

from msgspec.structs import replace

from engine import holders
from engine.archiving import Archiver, ArchiveReport, RestoreReport
from engine.chat_list import ChatList
from engine.claims import TurnClaim
from engine.clock import Instant, boot_time, is_of_the_machine, local_now
from engine.command import Command
from engine.commands import lanes, sessions, transcripts, turns
from engine.commands.lanes import RESTART_TIMEOUT, Notices
from engine.domain.config import GatewayConfig, StoreSettings
from engine.domain.entry import SessionEntry
from engine.domain.errors import EngineError
from engine.domain.events import StoreClosed
from engine.domain.platforms import Platform
from engine.domain.sources import SessionSource
from engine.domain.times import microseconds
from engine.erasure.archives import Archives
from engine.erasure.eraser import Eraser, Wanted
from engine.erasure.report import ErasureReport
from engine.heads import HeadPublisher, Heads, checked_heads
from engine.health import StoreHealth, health_of, metrics_of
from engine.importing import Importer, ImportProgress, open_source
from engine.imports.index_file import INDEX
from engine.imports.report import ImportReport
from engine.lane_cache import LaneCache
from engine.log.errors import CorruptStateError, ForeignFileError, NotALogError
from engine.log.mutex import Mutex
from engine.log.sqlite.eventlog import DEFAULT_PAYLOAD_LIMIT, EventLog
from engine.opening import check_may_take_over, opened
from engine.reader import DEFAULT_TRANSCRIPT_BYTES, FILE_NAME, WITHOUT_VIEWS, SessionReader
from engine.routes import Routes
from engine.runner import Runner
from engine.turns import DEFAULT_LEASE_SECONDS, TURN_REFUSED, Turn
from engine.validation import (
    check_callable,
    check_config,
    check_file,
    check_folder,
    check_size,
    checked_files,
    checked_moment,
    checked_name,
)
from engine.version import package_version
from engine.views import StoreViews
from engine.work import StoreContext, Work
from projections.audit import create_audit_views, replacing_tables
from projections.inline.projection import InlineTables, catch_up, made_elsewhere
from projections.inline.rebuilding import discard, rebuild
from projections.views.verify import ViewVerification

logger = logging.getLogger("engine.store")

T = TypeVar("T")
DEFAULT_LANES = 100_000
_PURGE_SECONDS = 60.0

_open_stores: "weakref.WeakSet[SessionStore]" = weakref.WeakSet()


@atexit.register
def _flush_all() -> None:
    """Write what waits in stores that nobody closed, before the logs close themselves."""
    for store in list(_open_stores):
        try:
            store.runner.renewals.close()
            store.runner.touches.flush()
            store._publish_last_head()
        except Exception as error:  # noqa: BLE001 - also a host's clock: the other stores have theirs to write
            logger.warning("the last touches of %s were not written: %s", store.log.path, error)


def _abandon_all() -> None:
    """Give up the stores in the child of a fork: they and the threads that held their locks are the parent's."""
    for store in list(_open_stores):
        store.abandon_after_fork()
    _open_stores.clear()


os.register_at_fork(after_in_child=_abandon_all)


class SessionStore(SessionReader):
    """Routes messages to sessions and keeps their transcripts; for many threads, tasks and processes at once.

    Every command is durable when it returns, except that routing an existing lane writes the moved idle
    clock up to 50 ms later. What a command refuses it raises, and then nothing of it has happened.
    """

    def __init__(
        self,
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
    ) -> None:
        """Open the store of a folder, making both if need be.

        Args:
            sessions_dir: The folder; the log in it is `sessions.db`.
            config: A GatewayConfig, or anything with its attributes and its `get_reset_policy`.
            has_active_processes_fn: Asked with a lane's key if the host works on it; such a lane is never reset,
                expired or pruned. An exception counts as yes.
            clock: Returns the time as an aware datetime; its zone is the one of daily resets. Leases of turns do not
                follow it where it shows the machine's time, but the time since the machine was switched on.
            actor: Who acts in the log, unless `acting` says so.
            active_profile: The profile of sources that name none, with `multiplex_profiles`; without it, recovery finds
                its lanes too.
            create: False refuses a folder without a store.
            cached_lanes: How many lanes on live sessions stay in memory.
            cached_transcript_bytes: How much memory the messages of loaded transcripts may take.
            views: False keeps no search, no usage and no list of chats; `views.db` is left alone.
            search: False keeps no index of words.
            heads: A file or a function that gets the head of the log again and again, or `Heads` to say how often.
            synchronous: FULL and EXTRA survive a power cut; NORMAL and OFF may lose acknowledged events.
            busy_timeout: Seconds to wait for another process's write lock before LockedLogError.
            payload_limit: Bytes an event may have before PayloadTooLargeError.
            queue_limit: Commands that may wait for the writer; then threads wait and awaits are held back.
            checkpoint_pages: Pages the write-ahead log may have before it is moved into the file.
            vfs: The name of an SQLite VFS, for tests of faults.
        """
        settings: StoreSettings = GatewayConfig() if config is None else config
        check_config(settings)
        check_folder(sessions_dir)
        checked_name("actor", actor)
        check_size("cached_lanes", cached_lanes)
        check_size("cached_transcript_bytes", cached_transcript_bytes)
        check_callable("clock", clock)
        check_callable("has_active_processes_fn", has_active_processes_fn or bool)
        if active_profile is not None and not isinstance(active_profile, str):
            raise ValueError(f"active_profile must be a name or None, not {active_profile!r}")
        publishing = checked_heads(heads)
        path = Path(sessions_dir) / FILE_NAME
        if not create and not path.exists():
            raise NotALogError(f"there is no store in {sessions_dir}: {path} does not exist; open it with create=True")
        self._closed = self._closed_is_said = False
        self._closing: dict[int, Mutex] = {}
        self._clock = clock
        now = self._now()
        self._tables = InlineTables()
        log = EventLog(
            path,
            synchronous=synchronous,
            busy_timeout=busy_timeout,
            payload_limit=payload_limit,
            queue_limit=queue_limit,
            checkpoint_pages=checkpoint_pages,
            clock=lambda: microseconds(self._now()),
            inline=[self._tables],
            vfs=vfs,
        )
        self._heads = HeadPublisher(log, publishing) if publishing is not None else None
        self._holder = holders.take()
        asks_host = has_active_processes_fn is not None
        since_boot = boot_time if is_of_the_machine(clock, now) else None
        context = StoreContext(settings, actor, self._holder, asks_host, active_profile, self._tables, {}, since_boot)
        self._views = StoreViews(log, sessions_dir, self._now, search=search) if views else None
        self.chat_list = ChatList(log, self._views)
        self.runner = Runner(log, context, self._instant, has_active_processes_fn, opened(settings, self._holder, now))
        super().__init__(
            log,
            settings,
            clock=clock,
            touches=self.runner.touches.pending,
            cached_transcript_bytes=cached_transcript_bytes,
            answers=self._views,
        )
        try:
            watch = log.watch()
            self._cache = LaneCache(watch, cached_lanes, self._pending, lambda: self._now().tzinfo)
            self.runner.lanes = self._cache
            self.routes = Routes(log, settings, active_profile, self._cache, self.runner.touches, self._now)
            replayed = self._bring_up()
            create_audit_views(log)
            if log.last_position == 0 and (Path(sessions_dir) / INDEX).is_file():
                self._import_what_was_there(sessions_dir)
        except BaseException:
            self.close()
            raise
        if replayed:
            logger.info("brought the tables of %s up to date from %d events", log.path, replayed)
        _open_stores.add(self)
        if self._views is not None:
            self._views.start()
        if self._heads is not None:
            self._heads.start()

    def _instant(self) -> Instant:
        """Return this moment by the store's clock."""
        if self._clock is local_now:
            return Instant(time_ns() // 1000)
        now = self._now()
        return Instant(microseconds(now), now)

    def _bring_up(self) -> int:
        """Bring the state tables to the end of the log; rebuild them if a row of theirs is in the way."""
        try:
            return self._take_over() + catch_up(self._log)
        except CorruptStateError as error:
            logger.error("the state tables of %s are made again from the log: %s", self._log.path, error)  # noqa: TRY400
            return rebuild(self._log, around=replacing_tables(self._log))

    def _take_over(self) -> int:
        """Rebuild the tables if another build of this package made them; return how many events that took."""
        if not made_elsewhere(self._log):
            return 0
        check_may_take_over(self._log.reader, package_version())
        return rebuild(self._log, self.runner.announce, replacing_tables(self._log))

    # Routing

    def get_or_create_session(
        self, source: SessionSource, force_new: bool = False, *, touch: bool = True
    ) -> SessionEntry:
        """Return the lane of a source, on the session its next message belongs to (G20 to G33).

        `touch=False` leaves the lane's idle clock alone, for turns nobody asked for.
        """
        found = self.routes.find(source, force_new, touch)
        return self.runner.run(found) if isinstance(found, Command) else found

    def is_session_expired(self, entry: SessionEntry) -> bool:
        """Return True if the policy would reset the lane now; never while the host works on it (G40, G30)."""
        return super().is_session_expired(entry) and not self.runner.busy(entry.session_key)

    # Lanes

    def update_session(
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
        self.runner.run(lanes.update_session(session_key, usage))

    def suspend_session(self, session_key: str) -> bool:
        """Let the lane's next message start a new session; return False if it leads nowhere (G35)."""
        return bool(session_key) and self.runner.run(lanes.suspend_session(session_key))

    def mark_resume_pending(self, session_key: str, reason: str | None = RESTART_TIMEOUT) -> bool:
        """Mark a lane's session as cut off, to be resumed; return False if the lane is unknown or suspended (G35)."""
        return bool(session_key) and self.runner.run(lanes.mark_resume_pending(session_key, reason))

    def clear_resume_pending(self, session_key: str) -> bool:
        """Take the mark away; return True only if it was there (G35)."""
        return bool(session_key) and self.runner.run(lanes.clear_resume_pending(session_key))

    def suspend_recently_active(self, max_age_seconds: float = 120) -> int:
        """Mark lanes active within the window as cut off by a restart; return how many (G36)."""
        return self.runner.sweep(lanes.suspend_recently_active(max_age_seconds))

    def reset_session(self, session_key: str, display_name: str | None = None) -> SessionEntry | None:
        """Start over because somebody asked; return None if the lane leads nowhere (G37)."""
        return self.runner.run(lanes.reset_session(session_key, display_name))

    def switch_session(self, session_key: str, target_session_id: str) -> SessionEntry | None:
        """Point a lane at another session; return None if the lane leads nowhere (G38)."""
        return self.runner.run(lanes.switch_session(session_key, target_session_id))

    def set_model_override(self, session_key: str, override: Mapping[str, Any] | None) -> None:
        """Choose the lane's model until its next reset; None gives the choice back (G39)."""
        self.runner.run(lanes.set_model_override(session_key, override))

    def set_expiry_finalized(
        self,
        session_key: str | SessionEntry | None = None,
        clear_model_override: bool = True,
        *,
        entry: SessionEntry | None = None,
    ) -> bool:
        """End the lane's expired session for good, because the host has done its work for it (G40).

        The lane is given by its key or its entry. Return False if it leads nowhere.
        """
        lane = session_key if entry is None else entry
        return self.runner.run(lanes.set_expiry_finalized(lane, clear_model_override))

    def prune_old_entries(self, max_age_days: float | None = None) -> int:
        """Forget lanes untouched for so many days; return how many. None, 0 and less forget none (G41)."""
        return self.runner.sweep(lanes.prune_old_entries(max_age_days))

    def consume_notices(self, session_key: str) -> Notices:
        """Return what is to be told to the lane's user, once (G45)."""
        return self.runner.run(lanes.consume_notices(session_key))

    # Turns

    def turn(
        self, source: SessionSource, *, wait: float | None = None, lease_seconds: float = DEFAULT_LEASE_SECONDS
    ) -> Turn:
        """Return a context manager that takes the turn of a source's conversation for its block.

        It routes, waits until no other turn of the conversation runs, routes again, renews its lease while the block
        runs, and ends with it. `wait=0` raises TurnInProgressError at once, a number after so many seconds.
        """
        return Turn(self, source, wait, lease_seconds)

    def begin_turn(self, session_key: str, *, lease_seconds: float | None = DEFAULT_LEASE_SECONDS) -> str:
        """Take the turn of the lane's conversation; return the token to end it with (G36).

        Raise TurnInProgressError while another turn of the conversation runs. The lease ends with
        `end_turn`, with the death of this process, or after `lease_seconds`; None never runs out.
        """
        claim = TurnClaim()
        try:
            return self.runner.run(turns.begin_turn(session_key, lease_seconds, claim))
        except TURN_REFUSED:
            raise
        except BaseException:  # also a signal's: the turn may have begun, and nobody has its token
            self.runner.renewals.give_up(claim)
            raise

    def renew_turn(self, token: str, *, lease_seconds: float | None = DEFAULT_LEASE_SECONDS) -> bool:
        """Let a long turn's lease run from now; return False if the turn is over."""
        return self.runner.run(turns.renew_turn(token, lease_seconds))

    def end_turn(self, token: str, *, error: str | None = None) -> bool:
        """End a turn; return False if it is over already."""
        return self.runner.run(turns.end_turn(token, error))

    def recover_interrupted_turns(self) -> int:
        """Mark the lanes whose turns lost their worker for resuming, after a crash; return how many turns (G36)."""
        return self.runner.run(turns.recover_interrupted_turns())

    # Sessions

    def compress_session(
        self,
        session_id: str,
        child_id: str | None = None,
        summary_messages: Sequence[Mapping[str, Any]] = (),
        *,
        covers: int | None = None,
        turn: str | None = None,
    ) -> str:
        """Close a session into a child that goes on with a summary; return the child's id (G42).

        The summary stands for the first `covers` live messages: the number of those it was made from.
        Messages appended since then are carried over. Without `covers` it stands for all of them.
        """
        return self.runner.run(sessions.compress_session(session_id, child_id, summary_messages, covers, turn))

    def fork_session(self, session_id: str, at: object = None) -> str:
        """Create a session with the history up to a message, its platform id, or a position; return its id (G43)."""
        return self.runner.run(sessions.fork_session(session_id, at))

    def end_session(self, session_id: str, reason: str) -> bool:
        """End a session; return False if an earlier reason stands (G44)."""
        return self.runner.run(sessions.end_session(session_id, reason))

    def reopen_session(self, session_id: str) -> bool:
        """Make an ended session live again; return False if it is (G44)."""
        return self.runner.run(sessions.reopen_session(session_id))

    def set_session_title(self, session_id: str, title: str | None) -> str | None:
        """Name a session; return the name it got, with a number if another has it. None or "" clears it (G44)."""
        return self.runner.run(sessions.set_session_title(session_id, title, auto=False))

    def set_auto_title(self, session_id: str, title: str | None) -> str | None:
        """Name a session unless somebody chose its name; return the name it has then (G44)."""
        return self.runner.run(sessions.set_session_title(session_id, title, auto=True))

    # Transcripts

    def append_to_transcript(
        self, session_id: str, message: Mapping[str, Any], skip_db: bool = False, *, turn: str | None = None
    ) -> int | None:
        """Append one message; return its position in the log, None if its platform id is known already (G46, G47).

        A message without a role gets the role "unknown". `skip_db` says that the caller has stored the message here
        before: nothing is appended. `turn` is the token of a turn: once that is over, TurnLostError is raised.
        """
        command = transcripts.append_to_transcript(session_id, message, turn)
        return None if skip_db else self.runner.run(command)

    def append_messages(
        self, session_id: str, messages: Sequence[Mapping[str, Any]], *, turn: str | None = None
    ) -> list[int]:
        """Append messages, all or none; return the positions of those that were new (G46, G47)."""
        return self.runner.run(transcripts.append_messages(session_id, messages, turn))

    def rewrite_transcript(
        self, session_id: str, messages: Sequence[Mapping[str, Any]], *, turn: str | None = None
    ) -> bool:
        """Make another history live; the former one stays in the log (G50).

        It frees the platform ids of the messages it leaves out: they may be delivered again.
        """
        return self.runner.run(transcripts.rewrite_transcript(session_id, messages, turn))

    def rewind_session(self, session_id: str, n: int = 1) -> dict[str, Any] | None:
        """Undo the last n turns; return what was undone, None when there is no user message (G51)."""
        return self.runner.run(transcripts.rewind_session(session_id, n))

    def restore_rewound(self, session_id: str) -> int:
        """Undo the last undo; return how many messages are live again (G51)."""
        return self.runner.run(transcripts.restore_rewound(session_id))

    # Importing

    def _import_what_was_there(self, sessions_dir: str | os.PathLike[str]) -> None:
        """Import an older gateway's files before the first message, and leave them as they were (V19)."""
        try:
            self.import_from(sessions_dir)
        except ForeignFileError as error:
            logger.warning("the sessions that were in %s before could not be imported: %s", sessions_dir, error)

    def import_from(
        self, path: str | os.PathLike[str], *, dry_run: bool = False, progress: ImportProgress | None = None
    ) -> ImportReport:
        """Import an agent's `state.db`, a folder with `sessions.json`, or a web chat's with `_index.json` (V18).

        The source is only read. Running it again adds what is new there; `dry_run` says what would be imported.
        """
        return Importer(self.runner, self._log.reader, open_source(path), progress).run(dry_run=dry_run)

    # Views

    def wait_for_views(self, position: int | None = None, timeout: float | None = 10.0) -> bool:
        """Wait until the views have seen a position, by default the newest; return False if that took too long (V4)."""
        return self._following().wait(position, timeout)

    def rebuild_views(self, *names: str) -> None:
        """Begin to make views anew behind those that serve, by default all; `health()` tells how far they are (V6)."""
        self._following().rebuild(names)

    def verify_views(self) -> ViewVerification:
        """Compare every view with a fresh fold of the log; name the first difference (V7)."""
        return self._following().verify()

    def _following(self) -> StoreViews:
        if self._views is None:
            raise ValueError(WITHOUT_VIEWS)
        return self._views

    # Archives

    def archive(
        self,
        older_than: datetime | timedelta,
        to: str | os.PathLike[str],
        *,
        reason: str | None = None,
        dry_run: bool = False,
    ) -> ArchiveReport:
        """Move the messages of conversations that ended before a time into a new compressed file (V16).

        A conversation goes as a whole: all its segments and forks have ended, cannot be recovered and have no turn.
        Titles, counts, ids and summaries stay; the messages are not searched, and reading them raises ArchivedError,
        which names the file. Nothing is moved before the file was read back and compared. `purge()` afterwards makes
        `sessions.db` smaller.

        Args:
            older_than: A moment, with a time zone; or how long ago they must have ended.
            to: The file, which must not exist. Keep it: there is no other copy.
            reason: Recorded with it.
            dry_run: Only count what would be moved.
        """
        moment = checked_moment("older_than", older_than, self._now())
        check_file("to", to)
        self.runner.touches.flush()
        return Archiver(self._log, self.runner.actor, reason, self._now()).archive(moment, to, dry_run=dry_run)

    def restore(
        self, archive: str | os.PathLike[str], *, reason: str | None = None, dry_run: bool = False
    ) -> RestoreReport:
        """Put the messages of an archive back, exactly as they were; what was erased meanwhile stays erased (V16).

        Cut off in the middle, the same call puts the rest back. The file stays as it is. Raise ArchiveError for one
        that is cut, changed, of another log or of a newer version; nothing of it is taken then. `dry_run` only counts.
        """
        check_file("archive", archive)
        return Archiver(self._log, self.runner.actor, reason, self._now()).restore(archive, dry_run=dry_run)

    # Erasure

    def erase(
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
        """Erase a session, a lane, a person or some messages; return what was erased, and what stays and why (V15).

        Copies of messages in rewritten histories go along, and summaries that were made of an erased session. Of a
        session that several people share, only what says that it is the person's is erased. Everybody's caches and
        tables follow.

        Args:
            session_id: A session, with its title and its source.
            lane: A session key: the lane, and the sessions that no other lane led to.
            user_id: A person: their own lanes whole, and of shared ones what is theirs; also what is under another id
                that the person's sources name beside this one.
            platform: The one where the `user_id` is that person's; without it, on every platform.
            positions: Messages, as `recorded_messages` gives them.
            reason: Recorded with the erasure. Put nothing of the person into it.
            request: Recorded with it, say the number of the request.
            archives: Archives to look into, and to write anew without what was erased. Without them the report names
                those that still hold something of it.
            dry_run: Only look, and report what would be erased.
            purge: `purge()` afterwards; the report says if that was possible.
        """
        wanted = Wanted(session_id, lane, user_id, platform, positions)
        self.runner.touches.flush()
        files = Archives(self._log, checked_files("archives", archives))
        eraser = Eraser(self.runner, self, files, self.runner.actor, reason, request)
        report = eraser.run(wanted, self._now(), dry_run=dry_run)
        self.chat_list.let_go()
        return replace(report, purged=self.purge()) if purge and not dry_run else report

    def purge(self) -> bool:
        """Leave no byte of what was erased in any file of the store; return False while a reader keeps it from that.

        What was erased is overwritten at once, but copies of rows may be left in unused parts of the files. This drops
        what is left of a rebuild, lets the views see the erasure, and writes both files anew: commands wait for about
        as long as copying them takes. Do it at a quiet time.
        """
        discard(self._log, building=True)
        done = True
        if self._views is not None:
            done = self._views.wait(None, _PURGE_SECONDS)
            self._views.purge()
        return self._log.purge() and done

    # The store as a whole

    def health(self) -> StoreHealth:
        """Return the state of the log and its writer, how far the tables are, and how much is quarantined."""
        return health_of(self._log, [] if self._views is None else self._views.status())

    def metrics(self) -> dict[str, int | float]:
        """Return counters for a host's dashboard."""
        return metrics_of(self.health(), self.runner.touches, self._cache, self._transcripts)

    def rebuild(self) -> int:
        """Rebuild the state tables from the log alone; return how many events that took.

        They are built behind those in use, which serve everybody until the new ones take their place in one step.
        Killed in the middle, it leaves the old ones in use, and goes on where it was when it is called again.
        """
        done = rebuild(self._log, around=replacing_tables(self._log))
        self._log.transact(lambda _: self._tables.forget())
        self._cache.forget()
        return done

    def close(self) -> None:
        """Flush pending touches and close the log. Turns that nobody ended are interrupted ones.

        A signal handler that has interrupted the store gets a NestedCommandError where closing would wait for what
        it interrupted, and nothing has changed: it sets a flag, or asks the event loop. A `close` that an error cuts
        off leaves nothing open, and goes on when it is called again.
        """
        inside = self._closing.setdefault(threading.get_ident(), Mutex())
        if self._closed or inside.is_mine():
            return
        self._check_may_close()
        with inside.once(), ExitStack() as ending:  # a step that fails, on a full disk say, keeps none from being done
            ending.callback(self._note_closed)
            ending.callback(self._log.close)
            ending.callback(self.chat_list.close)
            if self._views is not None:
                ending.callback(self._views.close)
            ending.callback(self.runner.close)
            ending.callback(holders.give_up, self._holder)
            ending.callback(self._publish_last_head)
            ending.callback(self._say_closed)
            ending.callback(self.runner.renewals.close)
            self.runner.touches.close()

    def _check_may_close(self) -> None:
        """Raise NestedCommandError where `close` would: this thread is inside what it has to wait for."""
        super()._check_may_close()
        self.runner.check_may_close()
        self.chat_list.check_may_close()

    def _note_closed(self) -> None:
        self._closed = True
        _open_stores.discard(self)

    def _publish_last_head(self) -> None:
        """Publish the head as it is now, and no more: the program ends."""
        if self._heads is not None:
            self._heads.close()

    def _say_closed(self) -> None:
        """Record that a store that wrote was closed in good order; failing that is no reason not to close."""
        if self.runner.opening.happened and not self._closed_is_said:
            try:
                self.runner.run(Command("close", _closed, (self._holder,)))
                self._closed_is_said = True
            except EngineError as error:
                logger.warning("that %s was closed could not be recorded: %s", self._log.path, error)

    def abandon_after_fork(self) -> None:
        """Give the store up in the child of a fork."""
        self.runner.abandon_after_fork()
        self._cache.abandon_after_fork()
        self._transcripts.abandon_after_fork()
        self.chat_list.abandon_after_fork()
        if self._views is not None:
            self._views.abandon_after_fork()


def _closed(work: Work, holder: str) -> None:
    work.on_log(StoreClosed(holder=holder), "closed in good order")
