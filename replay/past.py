"""The past: every question about lanes, sessions and transcripts, answered as of a position of the log (R9)."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from engine.clock import local_now
from engine.domain.config import StoreSettings
from engine.domain.entry import SessionEntry
from engine.domain.keys import check_session_id, check_session_key
from engine.domain.session import Session
from engine.domain.transcript import messages_of
from engine.log.sqlite.eventlog import EventLog
from engine.reader import SessionInfo, SessionReader, info_of
from engine.views import ViewAnswers
from projections.inline import single
from projections.inline.lanes import entry_of
from projections.inline.past import Past, Refolded, tables_at, usable_at
from projections.inline.sessions import find_session
from projections.inline.transcripts import report
from replay.errors import BadMomentError, UnknownSubjectError, UnsupportedStoreError
from replay.moments import time_at


class PastReader(SessionReader):
    """A SessionReader on the state as it was at a position. Close it; the log stays open."""

    def __init__(self, log: EventLog, tables: Past | Refolded, config: StoreSettings | None, at: datetime) -> None:
        super().__init__(log, config, clock=lambda: at, cached_transcript_bytes=0, reads=tables)
        self._tables = tables

    @property
    def reads(self) -> Past | Refolded:
        """Return reads of the state tables as they were."""
        return self._tables

    @property
    def position(self) -> int:
        """Return the position this is of."""
        return self._tables.position

    def _asked_views(self) -> ViewAnswers:
        raise UnsupportedStoreError(
            "search and usage know the present alone: their views are not kept for the past; ask the store itself, "
            "with `until` for what was recorded before a time"
        )

    def close(self) -> None:
        """Forget the past; the log stays open."""
        self._tables.close()


def as_of(
    log: EventLog,
    position: int,
    config: StoreSettings | None = None,
    *,
    clock: Callable[[], datetime] = local_now,
    from_start: bool | None = None,
) -> PastReader:
    """Return a reader of the state as it was when the event at a position was the newest; 0 is before the first.

    What was erased since is erased in it too, also while it is open. What is written meanwhile changes nothing in it.
    Its now is the moment of that event, in the zone of `clock`. It starts from the state tables of now and folds the
    streams that changed since again, or the whole log, whichever is cheaper; `from_start` asks for one of the two.
    """
    check_position(log, position)
    at = time_at(log, position, clock().tzinfo)
    return PastReader(log, tables_at(log, position, from_start=from_start), config, at)


def lane_at(
    log: EventLog, session_key: str, position: int, *, clock: Callable[[], datetime] = local_now
) -> SessionEntry | None:
    """Return a lane as it was at a position, None if it led nowhere; reads that lane alone."""
    check_position(log, position)
    if not usable_at(log, position):
        with as_of(log, position, clock=clock) as past:
            return next((each for each in past.list_sessions() if each.session_key == session_key), None)
    lane = single.lane_at(log.reader, check_session_key(session_key), position)
    return None if lane is None else entry_of(lane, clock().tzinfo)


def session_at(
    log: EventLog, session_id: str, position: int, *, clock: Callable[[], datetime] = local_now
) -> SessionInfo:
    """Return a session as it was at a position; reads that session alone. Raise UnknownSubjectError for none."""
    return info_of(_head_at(log, session_id, position), clock().tzinfo)


def transcript_at(log: EventLog, session_id: str, position: int) -> list[dict[str, Any]]:
    """Return the messages that were live in a session at a position, as `load_transcript` does; reads little else."""
    head = _head_at(log, session_id, position)
    if not usable_at(log, position):
        with as_of(log, position) as past:
            return past.load_transcript(session_id)
    return messages_of(single.transcript_at(log.reader, head, report), report)


def _head_at(log: EventLog, session_id: str, position: int) -> Session:
    check_position(log, position)
    if usable_at(log, position):
        head = single.session_at(log.reader, check_session_id(session_id), position)
    else:
        with as_of(log, position) as past:
            head = find_session(past.reads, check_session_id(session_id))
    if head is None:
        raise UnknownSubjectError(f"there was no session {session_id!r} at @{position}")
    return head


def check_position(log: EventLog, position: int) -> None:
    """Raise BadMomentError for what is no position of a log."""
    if type(position) is not int or position < 0:
        raise BadMomentError(f"a position is a whole number from 0 on, not {position!r}; 0 is before the first event")
    if position > (last := log.last_position):
        raise BadMomentError(f"there is no position {position}: the log ends at @{last}")
