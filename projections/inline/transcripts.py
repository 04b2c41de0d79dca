"""Transcripts: folds of sessions' own streams, made when asked for. There is no second copy on disk.

In memory a message is JSON, not objects: small, and every reader gets objects of its own.
"""

import logging
from collections import OrderedDict, defaultdict

from engine.domain.encoding import decode
from engine.domain.events import MessageAppended, TranscriptRewound
from engine.domain.session import Session, evolve
from engine.domain.streams import session_stream
from engine.domain.transcript import MESSAGES, Row, Transcript, inheritance
from engine.log.mutex import Mutex
from engine.log.protocol import Queries
from projections.inline.backwards import TooFarError, inherited_from, newest_first
from projections.inline.quarantine import NAME, quarantined
from projections.inline.sessions import find_session

logger = logging.getLogger("engine.projections")

_BATCH = 1024
_MESSAGE = MessageAppended(message={})
"""Any message: a head only counts them."""


def report(position: int, error: str) -> None:
    """Log something of a transcript that cannot be read and is left out."""
    logger.warning("what is at position %d cannot be read and is left out: %s", position, error)


def erased_at(reads: Queries) -> int:
    """Return the position of the last erasure: what was read before it may have been erased."""
    ((position,),) = reads.query("SELECT erased_at FROM projections WHERE name = ?", (NAME,))
    return int(position)


def inherited_ids(reads: Queries, session: Session) -> dict[int, set[str]]:
    """Return the positions of the messages that a session's history takes from other sessions, with their ids."""
    if not session.history_from:
        return {}
    begins = reads.payloads(session_stream(session.session_id), session.history_from - 1, session.history_from)
    rows = _inherited(reads, _usable(reads, begins))
    found: defaultdict[int, set[str]] = defaultdict(set)
    for row in rows:
        content = decode(row[1], row[2])
        known = getattr(content, "message_id", None) or getattr(content, "message", {}).get("message_id")
        found[row[3]] |= set() if known is None else {known}
    return found


def undo_of(reads: Queries, session: Session) -> TranscriptRewound | None:
    """Return the last undo of a session that can be restored; None if there is none, or if it was erased."""
    at = session.undone_at
    for _, topic, state, _, _ in reads.payloads(session_stream(session.session_id), at - 1, at) if at else ():
        event = decode(topic, state)
        if isinstance(event, TranscriptRewound):
            return event
    return None


def history_at(reads: Queries, session_id: str, position: int, budget: int | None = None) -> Session:
    """Return the history of a session when the log was at a position: from where, up to which version, how many live.

    Raise TooFarError where more rows than the budget would have to be read.
    """
    stream, bad = session_stream(session_id), {at for at, _ in quarantined(reads)}
    head, after = Session(session_id), 0
    while rows := reads.payloads(stream, after, after + _BATCH, until_position=position):
        if budget is not None and after > budget:
            raise TooFarError
        for version, topic, state, at, time in rows:
            if at not in bad:
                content = _MESSAGE if topic in MESSAGES else decode(topic, state)
                head = evolve(head, content, time, version)
        after += _BATCH
    return head


def _bring_up(reads: Queries, session: Session, transcript: Transcript) -> None:
    """Fold the events between a transcript's version and the head's."""
    rows = reads.payloads(session_stream(session.session_id), transcript.version, session.version)
    rows = _usable(reads, rows)
    transcript.fold(rows, _inherited(reads, rows))
    transcript.version = session.version


def _inherited(reads: Queries, rows: list[Row]) -> list[Row]:
    """Return the messages that the first of these rows takes from other sessions, which may inherit themselves."""
    taken = inheritance(rows[0]) if rows else None
    return [] if taken is None else list(newest_first(reads, inherited_from(taken), report))[::-1]


def _usable(reads: Queries, rows: list[Row]) -> list[Row]:
    """Leave out what is quarantined."""
    bad = {position for position, _ in quarantined(reads)}
    return [row for row in rows if row[3] not in bad] if bad else rows


class Transcripts:
    """Folds of the sessions in use, bounded by the bytes they take; brought up to date by the events since."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._cached: OrderedDict[str, _Cached] = OrderedDict()
        self._mutex = Mutex()
        self._counting = False
        self.size = 0
        self.hits = 0
        self.misses = 0

    def live(self, reads: Queries, session_id: str) -> list[Row] | None:
        """Return the live messages of a session; None if there is no such session.

        Only those who load the same session wait for one another.
        """
        session = find_session(reads, session_id)
        if session is None or session.deleted:
            return None
        if self._mutex.is_mine():
            return self._aside(reads, session)
        cached = self._entry(session_id, erased_at(reads))
        if cached.loading.is_mine():
            return self._aside(reads, session)
        with cached.loading.once():
            transcript = cached.transcript
            if transcript is None or transcript.version > session.version or transcript.version < session.history_from:
                self.misses += 1
                cached.transcript = None  # an interrupted load leaves nothing half folded
                transcript = Transcript(max(session.history_from - 1, 0), report)
            else:
                self.hits += 1
            if transcript.version < session.version:
                cached.transcript = None
                _bring_up(reads, session, transcript)
            cached.transcript = transcript
            live = transcript.live()
            size = transcript.size
        self._account(session_id, cached, size)
        return live

    def _aside(self, reads: Queries, session: Session) -> list[Row]:
        """Return the live messages without the cache: a signal handler has interrupted this thread inside it."""
        self.misses += 1
        transcript = Transcript(max(session.history_from - 1, 0), report)
        _bring_up(reads, session, transcript)
        return transcript.live()

    def _entry(self, session_id: str, last_erasure: int) -> "_Cached":
        with self._mutex.once():
            self._count_again()
            cached = self._cached.get(session_id)
            if cached is None or cached.erased_at != last_erasure:
                if cached is not None:
                    self.size -= cached.size
                cached = self._cached[session_id] = _Cached(last_erasure)
            self._cached.move_to_end(session_id)
            self._counting = False
            return cached

    def _account(self, session_id: str, cached: "_Cached", size: int) -> None:
        with self._mutex.once():
            self._count_again()
            if self._cached.get(session_id) is cached:
                self.size += size - cached.size
                cached.size = size
            while self.size > self._limit and self._cached:
                _, oldest = self._cached.popitem(last=False)
                self.size -= oldest.size
            self._counting = False

    def _count_again(self) -> None:
        """Begin to change what is kept; if that was interrupted the last time, the bytes are counted again."""
        if self._counting:
            self.size = sum(each.size for each in self._cached.values())
        self._counting = True

    def abandon_after_fork(self) -> None:
        """Start anew in the child of a fork: a thread that is not there may hold a lock."""
        self._cached, self._mutex, self.size = OrderedDict(), Mutex(), 0

    def __len__(self) -> int:
        return len(self._cached)


class _Cached:
    """One transcript in memory, and the lock of those who load it."""

    __slots__ = ("erased_at", "loading", "size", "transcript")

    def __init__(self, erased_at: int) -> None:
        self.erased_at = erased_at
        self.loading = Mutex()
        self.size = 0
        self.transcript: Transcript | None = None
