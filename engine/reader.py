"""SessionReader: every question about sessions, on a log that is being written or on one that nobody writes."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime, tzinfo
from functools import partial
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import msgspec

from engine.archived import saying_where
from engine.clock import local_now
from engine.domain.config import GatewayConfig, StoreSettings
from engine.domain.entry import SessionEntry
from engine.domain.keys import check_session_id, check_session_key
from engine.domain.lane import AHEAD, Lane, idle_since
from engine.domain.policy import ResetRules, reset_reason
from engine.domain.session import Session
from engine.domain.times import FIRST, LAST, microseconds, moment
from engine.domain.transcript import Row, objects_of
from engine.errors import UnknownSessionError
from engine.following import Changes, Follower
from engine.listing import all_lanes, lanes_from, newest_entries_first, place_of, touched
from engine.loading import TranscriptLoad
from engine.log.protocol import Progress, Snapshot, Verification
from engine.log.sqlite.eventlog import EventLog
from engine.model_override import sanitize_model_override
from engine.validation import check_folder, check_size, checked_entry, checked_limit, checked_number, checked_question
from engine.verification import StoreVerification, verify_store
from engine.views import ViewAnswers
from engine.work import Touch
from projections.inline import quarantine
from projections.inline.fragments import ids_like, keys_like
from projections.inline.lanes import Place, entries_of, entry_of, find_lane, lanes_on, sessions_of
from projections.inline.message_ids import has_message
from projections.inline.projection import check_current
from projections.inline.sessions import count_sessions, family_of, find_session, find_tip
from projections.inline.states import UNUSABLE, unusable
from projections.inline.transcripts import Transcripts, report
from projections.views.bill import UsageRow
from projections.views.find import Hits, Order

FILE_NAME = "sessions.db"
DEFAULT_TRANSCRIPT_BYTES = 64 * 1024 * 1024
WITHOUT_VIEWS = "this store was opened with views=False; open it with views=True to ask its views"
_EVER = -(1 << 63)
_NO_TOUCHES: Mapping[str, Touch] = {}


class SessionInfo(msgspec.Struct, frozen=True):
    """Everything known about a session, apart from its messages."""

    session_id: str
    """The session's id."""
    conversation_id: str
    """The id of the first session of its conversation; compression keeps it."""
    session_key: str | None
    """The lane it belongs to, if any."""
    created_at: datetime
    """When it began."""
    ended_at: datetime | None
    """When it ended; None while it is live."""
    end_reason: str | None
    """Why it ended."""
    parent_session_id: str | None
    """The session it was compressed or forked from."""
    relation: str
    """How it came to be: root, compression or fork."""
    compressed_into: str | None
    """The session that goes on for it."""
    title: str | None
    """Its title, unique in the store."""
    message_count: int
    """How many messages are live; erased ones keep their place."""


class RecordedMessage(msgspec.Struct, frozen=True):
    """A message with the position and the time at which it was recorded, or its history rewritten."""

    position: int
    time: datetime
    message: dict[str, Any]


class SessionReader:
    """Answers questions about lanes, sessions and transcripts, and from the views. It writes nothing.

    A SessionStore is one, with commands added. `SessionReader.open` reads a store of another process, or a copy.
    """

    def __init__(
        self,
        log: EventLog,
        config: StoreSettings | None = None,
        *,
        clock: Callable[[], datetime] = local_now,
        touches: Mapping[str, Touch] = _NO_TOUCHES,
        cached_transcript_bytes: int = DEFAULT_TRANSCRIPT_BYTES,
        answers: ViewAnswers | None = None,
        reads: Snapshot | None = None,
    ) -> None:
        self._log = log
        self._answers = answers
        self._reads: Snapshot = log.reader if reads is None else reads
        self._config: StoreSettings = GatewayConfig() if config is None else config
        self._clock = clock
        self._pending = touches
        self._transcripts = Transcripts(cached_transcript_bytes)

    @classmethod
    def open(
        cls,
        sessions_dir: str | os.PathLike[str],
        config: StoreSettings | None = None,
        *,
        clock: Callable[[], datetime] = local_now,
        cached_transcript_bytes: int = DEFAULT_TRANSCRIPT_BYTES,
    ) -> "SessionReader":
        """Open a store read-only, while it is written or when it is not; close it with `close` or `with`.

        Raise NotALogError if there is no store, and ReadOnlyLogError if its tables were made by another version.
        """
        check_folder(sessions_dir)
        log = EventLog(Path(sessions_dir) / FILE_NAME, read_only=True)
        try:
            check_current(log)
        except BaseException:
            log.close()
            raise
        answers = ViewAnswers.read_only(log, sessions_dir, clock)
        return cls(log, config, clock=clock, cached_transcript_bytes=cached_transcript_bytes, answers=answers)

    # Lanes

    def get_model_override(self, session_key: str) -> dict[str, str] | None:
        """Return the model chosen for a lane, as a copy."""
        lane = self._lane(session_key)
        return None if lane is None else sanitize_model_override(lane.model_override)

    def is_session_expired(self, entry: SessionEntry) -> bool:
        """Return True if the policy would reset the lane now (G40)."""
        policy = self._policy(entry)
        now = self._now()
        time, used = microseconds(now), microseconds(entry.updated_at)
        expired = reset_reason(policy, entry.updated_at, now) is not None
        if expired or used > time + AHEAD:
            lane = self._lane(entry.session_key)
            if lane is not None and (lane.ahead_at or used > time + AHEAD):  # a clock was wrong: the lane knows more
                return reset_reason(policy, moment(idle_since(lane, time), now.tzinfo), now) is not None
        return expired

    def is_session_finalizable(self, entry: SessionEntry) -> bool:
        """Return True if the lane's sessions ever expire (G40)."""
        return self._policy(entry).mode != "none"

    def list_sessions(
        self, active_minutes: float | None = None, *, limit: int | None = None, after: SessionEntry | None = None
    ) -> list[SessionEntry]:
        """Return the lanes that lead somewhere, newest first (G41).

        With a `limit` at most so many; the last of them, given as `after`, begins the next page.
        """
        now = self._now()
        pending = dict(self._pending)  # before the tables: what is written in between is seen there
        since = _since(now, active_minutes)
        if limit is None and after is None:
            return newest_entries_first(list(entries_of(all_lanes(self._reads, pending, since), now.tzinfo)))
        if limit is not None:
            check_size("limit", limit)
        place = None if after is None else self._place(checked_entry("after", after))
        lanes = lanes_from(self._reads, pending, since, place, limit)
        return list(islice(entries_of(lanes, now.tzinfo), limit))

    def iter_sessions(self, active_minutes: float | None = None) -> Iterator[SessionEntry]:
        """Yield the lanes that lead somewhere, newest first, each once, and few of them in memory at a time.

        Lanes that are touched while this goes on may come at the end.
        """
        now = self._now()
        yield from entries_of(all_lanes(self._reads, dict(self._pending), _since(now, active_minutes)), now.tzinfo)

    def lookup_by_session_id(self, session_id: str) -> SessionEntry | None:
        """Return the lane that leads to a session, or None."""
        if not session_id:
            return None
        pending = dict(self._pending)  # before the tables: what is written in between is seen there
        found = lanes_on(self._reads, check_session_id(session_id))
        return entry_of(touched(found[0], pending), self._now().tzinfo) if found else None

    def peek_session_id(self, session_key: str) -> str | None:
        """Return where a lane leads, without touching it."""
        lane = self._lane(session_key)
        return None if lane is None else lane.session_id

    def peek_entry(self, session_key: str) -> SessionEntry | None:
        """Return a lane as it stands, without touching it; None if it leads nowhere."""
        lane = self._lane(session_key)
        return None if lane is None else entry_of(touched(lane, self._pending), self._now().tzinfo)

    def sessions_of(self, session_key: str) -> list[SessionInfo]:
        """Return every session a lane ever led to, the latest first."""
        ids = sessions_of(self._reads, check_session_key(session_key))
        heads = [find_session(self._reads, session_id) for session_id in ids]
        return [self._info(head) for head in heads if head is not None]

    # Sessions

    def has_any_sessions(self) -> bool:
        """Return True if more than one session was ever created (G41)."""
        return count_sessions(self._reads, 2) > 1

    def get_session(self, session_id: str) -> SessionInfo:
        """Return what is known about a session; raise UnknownSessionError if there is none."""
        return self._info(self._head(session_id))

    def conversation(self, session_id: str) -> list[SessionInfo]:
        """Return all segments and forks of the conversation a session belongs to, oldest first."""
        return [self._info(each) for each in family_of(self._reads, self._head(session_id))]

    def names_like(self, fragment: str, limit: int = 20) -> tuple[list[str], list[str]]:
        """Return session keys and session ids that contain a text, whatever its case; those it begins come first.

        Keys of lanes that were forgotten are among them.
        """
        check_size("limit", limit)
        if not isinstance(fragment, str):
            raise ValueError(f"fragment must be a text, not {fragment!r}")
        return keys_like(self._reads, fragment, limit), ids_like(self._reads, fragment, limit)

    # Transcripts

    def has_platform_message_id(self, session_id: str, platform_message_id: str) -> bool:
        """Return True if a platform's message was ever appended to a session's conversation, undone or not (G47)."""
        session = find_session(self._reads, check_session_id(session_id))
        if session is None:
            return False
        tip = find_tip(self._reads, session, partial(find_session, self._reads))
        return has_message(self._reads, tip, str(platform_message_id))

    def load_transcript(self, session_id: str) -> list[dict[str, Any]]:
        """Return the live messages in the order they were appended, as objects of the caller's own (G49).

        Each has a `timestamp` in epoch seconds: its own, else the recorded time. Of an unknown session: []. Raise
        ArchivedError for one that was archived: it names the file (V16).
        """
        return self._loading(session_id).whole()

    def _loading(self, session_id: str, *, interleaved: bool = False) -> TranscriptLoad:
        """Return a load of a session's live messages, to be done in parts; `interleaved` with others in one thread."""
        return TranscriptLoad(self._transcripts, self._reads, check_session_id(session_id), interleaved=interleaved)

    def live_rows(self, session_id: str) -> list[Row]:
        """Return the live messages of a session undecoded, as they are in memory; [] of an unknown session."""
        return self._transcripts.live(self._reads, session_id) or []

    def recorded_messages(self, session_id: str) -> list[RecordedMessage]:
        """Return the live messages with the positions and times they were recorded at."""
        rows = self._transcripts.live(self._reads, check_session_id(session_id)) or []
        zone = self._now().tzinfo
        with saying_where(self._reads):
            messages = objects_of(rows, report)
        return [
            RecordedMessage(row[3], _recorded_at(row, zone), message)
            for row, message in zip(rows, messages, strict=True)
            if message is not None
        ]

    # Views

    def search(
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
        """Return live messages with words, "phrases" or prefix*, joined by AND, OR, NOT (V8).

        Anything that is no valid question is searched as plain words. Tool output is searched with `role="tool"`
        alone. `lane` is a session key. The index follows the log; `wait_for_views` waits for one's own writes.
        """
        question = checked_question(text, platform, lane, session_id, user_id, role, since, until, order)
        return self._asked_views().search(question, checked_limit(limit), cursor)

    def usage(
        self, by: Sequence[str] = (), *, since: datetime | None = None, until: datetime | None = None
    ) -> list[UsageRow]:
        """Return messages, turns, tokens and cost by any of day, platform, user, model, provider, lane, session (V11).

        Days are of the store's time zone, from that of `since` up to that of `until`, which is left out.
        """
        return self._asked_views().usage(by, since, until)

    def _asked_views(self) -> ViewAnswers:
        if self._answers is None:
            raise ValueError(WITHOUT_VIEWS)
        return self._answers

    # Following

    def follow(
        self,
        after: int = 0,
        topics: Sequence[str] | None = None,
        lanes: Sequence[str] | None = None,
        sessions: Sequence[str] | None = None,
        *,
        timeout: float | None = None,
    ) -> Follower:
        """Return an iterator over the changes after a position, of any process, that waits for more (V14).

        Args:
            after: The position of the last change that was handled; 0 begins with the first.
            topics: Only events of these kinds, such as "message.appended".
            lanes: Only what happens to these lanes, by session key, and to every session they ever led to.
            sessions: Only what happens to these sessions, by id. With `lanes`: to either.
            timeout: Seconds without a change after which the iteration ends; begun again it goes on. None waits.
        """
        return Follower(self._log, Changes(self._log, topics, lanes, sessions), after, timeout)

    # The store as a whole

    @property
    def log(self) -> EventLog:
        """Return the log everything is in: read it, follow it, verify it."""
        return self._log

    @property
    def config(self) -> StoreSettings:
        """Return the settings this was opened with."""
        return self._config

    @property
    def sessions_dir(self) -> Path:
        """Return the folder of the store."""
        return Path(self._log.path).parent

    def quarantined(self) -> list[tuple[int, str]]:
        """Return the events that could not be used: their positions, and why."""
        return quarantine.quarantined(self._reads)

    def verify(
        self, progress: Progress | None = None, published: str | Iterable[str] | None = None
    ) -> StoreVerification:
        """Check everything: the hash chain, the file's rules and pages, and the state tables against the log.

        `published` is a head of an earlier time, `<position>:<hash>`, or many: the log must still have them. Without
        one a cut tail cannot be seen.
        """
        return verify_store(self._log, progress, published)

    def backup(self, to: str | os.PathLike[str]) -> Verification:
        """Copy `sessions.db` to a new file while it is written; return what verifying the copy found (V17).

        It is all that a backup needs: put it back as `sessions.db` in a folder of its own.
        """
        return self._log.backup(to)

    def close(self) -> None:
        """Close the log and the views; raise NestedCommandError, and do nothing, where that would wait for itself."""
        self._check_may_close()
        if self._answers is not None:
            self._answers.close()
        self._log.close()

    def _check_may_close(self) -> None:
        """Raise NestedCommandError where `close` would: this thread is inside what it has to wait for."""
        self._log.check_may_close()
        if self._answers is not None:
            self._answers.check_may_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _now(self) -> datetime:
        now = self._clock()
        if not isinstance(now, datetime) or now.utcoffset() is None:
            raise ValueError(f"the clock must return a datetime with a time zone, not {now!r}")
        return now

    def _policy(self, entry: SessionEntry) -> ResetRules:
        checked_entry("entry", entry)
        return self._config.get_reset_policy(entry.platform, entry.chat_type)

    def _place(self, entry: SessionEntry) -> Place:
        """Return where a lane stands in the list; one with a time that cannot be shown stands at that."""
        place = place_of(entry)
        lane = None if FIRST < place.updated_at < LAST else self._lane(entry.session_key)
        return place if lane is None else Place(touched(lane, self._pending).updated_at, lane.key)

    def _lane(self, session_key: str) -> Lane | None:
        return find_lane(self._reads, check_session_key(session_key)) if session_key else None

    def _head(self, session_id: str) -> Session:
        session = find_session(self._reads, check_session_id(session_id))
        if session is None or session.deleted:
            raise UnknownSessionError(session_id)
        return session

    def _info(self, session: Session) -> SessionInfo:
        return info_of(session, self._now().tzinfo)


def info_of(session: Session, zone: tzinfo | None) -> SessionInfo:
    """Return a session as its caller sees it; raise CorruptStateError if its state makes no sense."""
    try:
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
    except UNUSABLE as error:
        raise unusable("sessions", session.session_id, error) from error


def _since(now: datetime, active_minutes: float | None) -> int:
    """Return the time from which on a lane counts as active."""
    if active_minutes is None:
        return _EVER
    return microseconds(now) - int(checked_number("active_minutes", active_minutes, 1e9) * 60e6)


def _recorded_at(row: Row, zone: tzinfo | None) -> datetime:
    return moment(row[4], zone)
