"""SessionStore: the sessions of a gateway, on one log."""

import atexit
import logging
import os
import weakref
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from engine import holders
from engine.cache import LaneCache
from engine.clock import local_now
from engine.commander import Commander, number
from engine.commands import routing
from engine.domain.config import GatewayConfig
from engine.domain.encoding import encodable
from engine.domain.entry import SessionEntry, sanitize_model_override
from engine.domain.keys import build_session_key, check_session_id, check_session_key, lane_profile
from engine.domain.lane import KEEP, Lane, entry_of, judge, microseconds, moment
from engine.domain.policy import SessionResetPolicy, auto_continue_freshness_window, reset_reason
from engine.domain.session import Session, live_tip
from engine.domain.sources import SessionSource
from engine.errors import UnknownSessionError
from engine.log.eventlog import EventLog, Health
from engine.log.transaction import Transaction
from engine.touches import Touches
from engine.work import AskFirstError, Given, Surroundings, Touch, Work
from projections import inline
from projections.routing import find_lane, lanes_on, lanes_since
from projections.sessions import count_sessions, find_session, has_message
from projections.transcripts import Transcripts, messages_of

logger = logging.getLogger("engine.store")

T = TypeVar("T")
FILE_NAME = "sessions.db"


_open_stores: "weakref.WeakSet[SessionStore]" = weakref.WeakSet()


@atexit.register
def _flush_all() -> None:
    """Write the touches of stores that nobody closed, before the logs close themselves."""
    for store in list(_open_stores):
        try:
            store._touches.flush()
        except Exception as error:  # noqa: BLE001 - also a host's clock: the other stores have theirs to write
            logger.warning("the last touches of %s were not written: %s", store._log.path, error)


def _abandon_all() -> None:
    """In the child of a fork: the stores are the parent's, and so are the threads that held their locks."""
    for store in list(_open_stores):
        store._touches.abandon_after_fork()
        store._cache.abandon_after_fork()
    _open_stores.clear()


os.register_at_fork(after_in_child=_abandon_all)


class SessionInfo(msgspec.Struct, frozen=True):
    """What is known about a session, apart from its messages."""

    session_id: str
    conversation_id: str
    session_key: str | None
    created_at: datetime
    ended_at: datetime | None
    end_reason: str | None
    parent_session_id: str | None
    relation: str
    compressed_into: str | None
    title: str | None
    message_count: int


class StoreHealth(Health, frozen=True, kw_only=True):
    """How the store is doing: the log's health, and that of the tables beside it."""

    projection_position: int
    quarantined_events: int


class SessionStore(Commander):
    """Routes messages to sessions and keeps their transcripts; for many threads, tasks and processes at once.

    Every command is durable when it returns, except that routing an existing lane writes the moved idle
    clock up to 50 ms later. What a command refuses it raises, and then nothing of it has happened.
    """

    def __init__(
        self,
        sessions_dir: str | os.PathLike[str],
        config: GatewayConfig | None = None,
        has_active_processes_fn: Callable[[str], bool] | None = None,
        *,
        clock: Callable[[], datetime] = local_now,
        actor: str = "gateway",
        active_profile: str | None = None,
        cached_lanes: int = 100_000,
        cached_transcript_bytes: int = 64 * 1024 * 1024,
        **log_options: Any,
    ) -> None:
        self._config = GatewayConfig() if config is None else config
        if not isinstance(self._config, GatewayConfig):
            raise ValueError(f"config must be a GatewayConfig, not {config!r}")
        if not isinstance(sessions_dir, (str, os.PathLike)) or not str(sessions_dir):
            raise ValueError(f"sessions_dir must name a folder, '.' for the current one, not {sessions_dir!r}")
        if not isinstance(actor, str) or not actor or not encodable(actor):
            raise ValueError(f"actor must be a name, which every event will carry, not {actor!r}")
        if active_profile is not None and not isinstance(active_profile, str):
            raise ValueError(f"active_profile must be a name or None, not {active_profile!r}")
        for name, size in (("cached_lanes", cached_lanes), ("cached_transcript_bytes", cached_transcript_bytes)):
            if not isinstance(size, int) or isinstance(size, bool) or size < 0:
                raise ValueError(f"{name} must be a whole number of at least 0, not {size!r}")
        for name, function in (("clock", clock), ("has_active_processes_fn", has_active_processes_fn or bool)):
            if not callable(function):
                raise ValueError(f"{name} must be callable, not {function!r}")
        if log_options.get("read_only"):
            raise ValueError("read_only is for EventLog: a store writes; read a log of sessions with EventLog(path, …)")
        self._is_active = has_active_processes_fn
        self._clock = clock
        self._active_profile = active_profile
        self._transcripts = Transcripts(cached_transcript_bytes)
        self._inline = inline.Inline()
        self._now()
        self._log = EventLog(
            Path(sessions_dir) / FILE_NAME,
            clock=lambda: microseconds(self._now()),
            inline=[self._inline],
            **log_options,
        )
        self._holder = holders.take()
        self._surroundings = Surroundings(
            self._config, actor, self._holder, has_active_processes_fn is not None, self._inline
        )
        self._touches = Touches(self._write_touches)
        try:
            watch = self._log.watch()
            self._cache = LaneCache(watch, cached_lanes, self._touches.pending, lambda: self._now().tzinfo)
            replayed = inline.catch_up(self._log)
        except BaseException:
            self.close()
            raise
        if replayed:
            logger.info("brought the tables of %s up to date from %d events", self._log.path, replayed)
        _open_stores.add(self)

    # Running commands

    def _now(self) -> datetime:
        now = self._clock()
        if not isinstance(now, datetime) or now.utcoffset() is None:
            raise ValueError(f"the clock must return a datetime with a time zone, not {now!r}")
        return now

    def _run(self, name: str, command: Callable[..., T], *arguments: Any) -> T:
        answers: dict[str, bool] = {}
        while True:
            try:
                result, touched = self._log.transact(self._work(name, command, arguments, answers))
            except AskFirstError as ask:
                answers.update({key: self._busy(key) for key in ask.keys})
            else:
                self._touches.settle(touched)
                return result

    def _work(
        self, name: str, command: Callable[..., T], arguments: tuple[Any, ...], answers: Mapping[str, bool]
    ) -> Callable[[Transaction], tuple[T, Mapping[str, Touch]]]:
        """The command as the log runs it."""
        return Given(self._start, name, command, arguments, answers)

    def _start(self, transaction: Transaction, name: str, answers: Mapping[str, bool]) -> Work:
        self._inline.ensure_current(transaction)
        return Work(transaction, self._now(), name, self._surroundings, self._touches.pending, answers)

    def _busy(self, key: str) -> bool:
        """Ask the host whether it works on a lane; no answer means that it does (G30)."""
        if self._is_active is None:
            return False
        try:
            return bool(self._is_active(key))
        except Exception:
            logger.exception("has_active_processes_fn raised for lane %r; the lane counts as busy", key)
            return True

    def _write_touches(self, keys: list[str]) -> None:
        self._run("touch", Work.write_touches, keys)

    # Routing

    def get_or_create_session(
        self, source: SessionSource, force_new: bool = False, *, touch: bool = True
    ) -> SessionEntry:
        """The lane of a source, on the session its next message belongs to (G20 to G33)."""
        key = self._key(source)
        found = None if force_new else self._keep(key, source, touch)
        if found is not None:
            return found
        entry = self._run("get_or_create_session", routing.route, key, source, force_new, touch)
        self._cache.forget(key)
        return entry

    def _keep(self, key: str, source: SessionSource, touch: bool, *, load: bool = True) -> SessionEntry | None:
        """The answer from memory, if the lane's session simply goes on; None if something is to be decided."""
        found = self._cache.find(key, load=load, fresh=not touch)
        if found is None:
            return None
        lane, now = found.lane, self._now()
        policy = self._config.get_reset_policy(source.platform, source.chat_type)
        if lane.suspended or policy.mode != "none":
            verdict = judge(lane, policy, now, auto_continue_freshness_window(), bool)
            if verdict is not KEEP:
                return None
        at = lane.updated_at
        if touch:
            at = max(microseconds(now), at)
            self._cache.touch(found, at)
            self._touches.add(key, Touch(at))
        entry = found.entry.snapshot()
        entry.updated_at = moment(at, now.tzinfo)
        return entry

    def _key(self, source: SessionSource) -> str:
        if not isinstance(source, SessionSource):
            raise ValueError(f"source must be a SessionSource, not {source!r}")
        config = self._config
        profile = lane_profile(source, config.multiplex_profiles, self._active_profile)
        key = build_session_key(source, config.group_sessions_per_user, config.thread_sessions_per_user, profile)
        return check_session_key(key.encode("utf-8", "xmlcharrefreplace").decode())

    def _entry(self, lane: Lane) -> SessionEntry:
        return entry_of(lane, self._now().tzinfo)

    def _entry_or_none(self, lane: Lane | None) -> SessionEntry | None:
        return None if lane is None or lane.session_id is None else self._entry(self._with_touch(lane))

    def _with_touch(self, lane: Lane) -> Lane:
        touch = self._touches.pending.get(lane.key)
        if touch is None or touch.at <= lane.updated_at:
            return lane
        return msgspec.structs.replace(lane, updated_at=touch.at)

    # Reading

    def get_model_override(self, key: str) -> dict[str, str] | None:
        """The model chosen for a lane, as a copy."""
        lane = find_lane(self._log.query, check_session_key(key))
        return None if lane is None else sanitize_model_override(lane.model_override)

    def is_session_expired(self, entry: SessionEntry) -> bool:
        """Whether the policy would reset the lane now; never while the host works on it (G40, G30)."""
        policy = self._policy(entry)
        due = reset_reason(policy, entry.updated_at, self._now()) is not None
        return due and not self._busy(entry.session_key)

    def is_session_finalizable(self, entry: SessionEntry) -> bool:
        """Whether the lane's sessions ever expire (G40)."""
        return self._policy(entry).mode != "none"

    def _policy(self, entry: SessionEntry) -> SessionResetPolicy:
        if not isinstance(entry, SessionEntry):
            raise ValueError(f"entry must be a SessionEntry, not {entry!r}")
        return self._config.get_reset_policy(entry.platform, entry.chat_type)

    def list_sessions(self, active_minutes: float | None = None) -> list[SessionEntry]:
        """The lanes that lead somewhere, newest first (G41)."""
        since = 0
        if active_minutes is not None:
            since = microseconds(self._now()) - int(number("active_minutes", active_minutes, 1e9) * 60e6)
        self._touches.flush()
        return [self._entry(lane) for lane in lanes_since(self._log.query, since)]

    def lookup_by_session_id(self, session_id: str) -> SessionEntry | None:
        """The lane that leads to a session, or None."""
        found = lanes_on(self._log.query, check_session_id(session_id))
        return self._entry_or_none(found[0]) if found else None

    def peek_session_id(self, key: str) -> str | None:
        """Where a lane leads, without touching it."""
        lane = find_lane(self._log.query, check_session_key(key))
        return None if lane is None else lane.session_id

    def has_any_sessions(self) -> bool:
        """Whether more than one session was ever created (G41)."""
        return count_sessions(self._log.query, 2) > 1

    def get_session(self, session_id: str) -> SessionInfo:
        """What is known about a session; raises UnknownSessionError."""
        session, zone = self._head(session_id), self._now().tzinfo
        return SessionInfo(
            session_id=session.session_id,
            conversation_id=session.conversation_id,
            session_key=session.lane,
            created_at=moment(session.created_at, zone),
            ended_at=None if session.ended_at is None else moment(session.ended_at, zone),
            end_reason=session.end_reason,
            parent_session_id=session.parent_session_id,
            relation=session.relation,
            compressed_into=session.compressed_into,
            title=session.title,
            message_count=session.live,
        )

    def has_platform_message_id(self, session_id: str, message_id: str) -> bool:
        """Whether a platform's message was ever appended to a session, undone or not (G47).

        What came late for a compressed session was appended to the one that goes on for it, and counts here too.
        """
        query, wanted = self._log.query, str(message_id)
        if has_message(query, check_session_id(session_id), wanted):
            return True
        session = find_session(query, session_id)
        if session is None or session.compressed_into is None:
            return False
        return has_message(query, live_tip(session, partial(find_session, query)).session_id, wanted)

    def load_transcript(self, session_id: str) -> list[dict[str, Any]]:
        """The live messages in the order they were appended, as objects of the caller's own (G49)."""
        return messages_of(self._transcripts.live(self._log.query, self._head(session_id)))

    def _head(self, session_id: str) -> Session:
        session = find_session(self._log.query, check_session_id(session_id))
        if session is None or session.deleted:
            raise UnknownSessionError(session_id)
        return session

    # Being well, and ending

    @property
    def log(self) -> EventLog:
        """The log everything is in: read it, follow it, verify it."""
        return self._log

    def health(self) -> StoreHealth:
        """The state of the log and its writer, how far the tables are, and what had to be put aside."""
        health, query = msgspec.structs.asdict(self._log.health()), self._log.query
        quarantined = len(inline.quarantined(query))
        return StoreHealth(**health, projection_position=inline.position(query), quarantined_events=quarantined)

    def metrics(self) -> dict[str, int | float]:
        """Counters for a host's dashboard."""
        health = self.health()
        return {
            "position": health.position,
            "projection_position": health.projection_position,
            "quarantined_events": health.quarantined_events,
            "queue_depth": health.queue_depth,
            "commits": health.commits,
            "commands": health.commands,
            "largest_batch": health.largest_batch,
            "mean_commit_seconds": health.mean_commit_seconds,
            "slowest_commit_seconds": health.slowest_commit_seconds,
            "storage_errors": health.storage_errors,
            "checkpoints": health.checkpoints,
            "wal_bytes": health.wal_bytes,
            "clock_steps": health.clock_steps,
            "pending_touches": len(self._touches.pending),
            "cached_lanes": len(self._cache),
            "lane_cache_hits": self._cache.hits,
            "lane_cache_misses": self._cache.misses,
            "cached_transcripts": len(self._transcripts),
            "cached_transcript_bytes": self._transcripts.size,
            "transcript_cache_hits": self._transcripts.hits,
            "transcript_cache_misses": self._transcripts.misses,
        }

    def quarantined(self) -> list[tuple[int, str]]:
        """Events that could not be used: their positions, and why."""
        return inline.quarantined(self._log.query)

    def rebuild(self) -> int:
        """Make routing index, heads and open turns again from the log alone; how many events that took."""
        return inline.rebuild(self._log)

    def close(self) -> None:
        """Write the touches that wait and close the log. Turns that nobody ended are interrupted ones."""
        _open_stores.discard(self)
        try:
            self._touches.close()
        finally:
            holders.give_up(self._holder)
            self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
