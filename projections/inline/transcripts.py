"""Transcripts: folds of sessions' own streams, made when asked for. There is no second copy on disk.

In memory a message is JSON, not objects: small, and every reader gets objects of its own.
"""

import logging
import threading
import time
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Iterator
from itertools import islice

from engine.domain.encoding import decode
from engine.domain.events import MessageAppended, TranscriptRewound
from engine.domain.session import Session, evolve
from engine.domain.streams import session_stream
from engine.domain.transcript import MESSAGES, Row, Transcript, inheritance
from engine.log.mutex import Flag, Mutex
from engine.log.protocol import Queries
from projections.inline.backwards import TooFarError, inherited_from, newest_first
from projections.inline.quarantine import NAME, quarantined
from projections.inline.sessions import find_session

logger = logging.getLogger("engine.projections")

_BATCH = 1024
PART = 2000
"""So many messages are read, or decoded, at a time: 10 ms."""
_MOMENT_SECONDS = 0.05
_LONGEST_WAIT = 5.0
"""So long a load waits for another one of the same session, before it reads all of it too."""
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
        for version, topic, state, at, recorded in rows:
            if at not in bad:
                content = _MESSAGE if topic in MESSAGES else decode(topic, state)
                head = evolve(head, content, recorded, version)
        after += _BATCH
    return head


def _inherited(reads: Queries, rows: list[Row]) -> list[Row]:
    """Return the messages that the first of these rows takes from other sessions, which may inherit themselves."""
    taken = inheritance(rows[0]) if rows else None
    return [] if taken is None else list(newest_first(reads, inherited_from(taken), report))[::-1]


def _usable(reads: Queries, rows: list[Row]) -> list[Row]:
    """Leave out what is quarantined."""
    bad = {position for position, _ in quarantined(reads)}
    return [row for row in rows if row[3] not in bad] if bad else rows


class Load:
    """One load of a transcript, in parts that each read little: others go on in between.

    Everything up to the version of the head that it begins with is read, and that never changes but by an erasure,
    after which it begins again: what it gives is of one moment. What is kept is only ever replaced as a whole.
    """

    def __init__(
        self, transcripts: "Transcripts", reads: Queries, session_id: str, *, interleaved: bool = False
    ) -> None:
        """Begin a load; one that is `interleaved` with others in a thread never blocks it."""
        self._transcripts = transcripts
        self._reads = reads
        self._session_id = session_id
        self._thread = 0 if interleaved else threading.get_ident()
        self._cached: _Cached | None = None
        self._session: Session | None = None
        self._transcript: Transcript | None = None
        self._erased_at = 0
        self._first: list[Row] = []
        self._inherited: Iterator[Row] | None = None
        self._taken: list[Row] = []
        self._finished = Flag()
        self._waits_until = time.monotonic() + _LONGEST_WAIT
        self.over = False
        self.rows: list[Row] | None = None
        """The live messages, when it is done; None if there is no such session."""

    def step(self) -> bool:
        """Read a part; return True when it is done."""
        session, transcript = self._session, self._transcript
        if session is None or transcript is None:
            return self._begin()
        if self._inherited is not None:
            self._inherit(session, transcript, self._inherited)
        elif transcript.version < session.version:
            self._read(session, transcript)
        return transcript.version >= session.version and self._end(transcript)

    def give_up(self) -> None:
        """Let nobody wait for this load any more."""
        self.over = True
        self._finished.set()

    def _begin(self) -> bool:
        session = find_session(self._reads, self._session_id)
        if session is None or session.deleted:
            return True
        transcripts = self._transcripts
        self._erased_at = erased_at(self._reads)
        cached, known, other = transcripts.claimed(self._session_id, self._erased_at, self, session)
        if known is not None and known.version == session.version:
            self.rows = known.live()
            self.give_up()
            return True
        if other is not None and not self._may_go_on_beside(other):
            return False
        self._cached, self._session = cached, session
        self._transcript = Transcript(max(session.history_from - 1, 0), report) if known is None else known.copy()
        return self.step()

    def _may_go_on_beside(self, other: "Load") -> bool:
        """Return True if this is not to wait for another load of the same session.

        What is interleaved goes on only with the loop of its task, which this thread may be; and what a signal handler
        has interrupted, with the handler.
        """
        if bool(self._thread) != bool(other._thread) or (self._thread and self._thread == other._thread):
            return True
        if time.monotonic() > self._waits_until:
            return True
        if self._thread:
            other._finished.wait(_MOMENT_SECONDS)
        return False

    def _read(self, session: Session, transcript: Transcript) -> None:
        """Fold the next events up to the head's."""
        after = transcript.version
        upto = min(after + PART, session.version)
        rows = _usable(self._reads, self._reads.payloads(session_stream(session.session_id), after, upto))
        taken = inheritance(rows[0]) if rows else None
        if taken is None:
            transcript.fold(rows)
            transcript.version = upto
        else:
            self._first, self._taken = rows, []
            self._inherited = newest_first(self._reads, inherited_from(taken), report)
            self._inherit(session, transcript, self._inherited)

    def _inherit(self, session: Session, transcript: Transcript, inherited: Iterator[Row]) -> None:
        """Take the next of the messages that the first event inherits from other sessions, newest first."""
        more = list(islice(inherited, PART))
        self._taken += more
        if len(more) < PART:
            upto = min(transcript.version + PART, session.version)
            transcript.fold(self._first, self._taken[::-1])
            transcript.version = upto
            self._inherited, self._first, self._taken = None, [], []

    def _end(self, transcript: Transcript) -> bool:
        if erased_at(self._reads) != self._erased_at:  # meanwhile: a part of it may have been read before
            self._session = self._transcript = None
            return False
        self.rows = transcript.live()
        if self._cached is not None:
            self._transcripts.keep(self._session_id, self._cached, transcript)
        self._transcript = None
        self.give_up()
        return True


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
        """Return the live messages of a session; None if there is no such session."""
        load = Load(self, reads, session_id)
        try:
            while not load.step():
                pass
        finally:
            load.give_up()
        return load.rows

    def claimed(
        self, session_id: str, last_erasure: int, load: Load, session: Session
    ) -> tuple["_Cached | None", Transcript | None, Load | None]:
        """Return where a transcript is kept, one to go on from, and who loads it already, unless that is this load now.

        Nothing is kept where a signal handler has interrupted this very function.
        """
        if self._mutex.is_mine():
            return None, None, None
        with self._mutex.once():
            self._count_again()
            cached = self._cached.get(session_id)
            if cached is None or cached.erased_at != last_erasure:
                if cached is not None:
                    self.size -= cached.size
                cached = self._cached[session_id] = _Cached(last_erasure)
            self._cached.move_to_end(session_id)
            self._counting = False
            known = cached.transcript
            if known is not None and not max(session.history_from, 0) <= known.version <= session.version:
                known = None
            self.hits += known is not None
            self.misses += known is None
            other = None if cached.load is None else cached.load()
            if other is load or other is None or other.over:
                cached.load, other = weakref.ref(load), None
            return cached, known, other

    def keep(self, session_id: str, cached: "_Cached", transcript: Transcript) -> None:
        """Keep a transcript that was loaded, and drop those that were not asked for for the longest time.

        One that is larger than all that may be kept is not, and drops no other.
        """
        if self._mutex.is_mine():
            return
        with self._mutex.once():
            self._count_again()
            if self._cached.get(session_id) is cached:
                if transcript.size > self._limit:
                    self.size -= cached.size
                    del self._cached[session_id]
                elif cached.transcript is None or cached.transcript.version <= transcript.version:
                    self.size += transcript.size - cached.size
                    cached.size, cached.transcript = transcript.size, transcript
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
    """One transcript in memory, and who loads it."""

    __slots__ = ("erased_at", "load", "size", "transcript")

    def __init__(self, erased_at: int) -> None:
        self.erased_at = erased_at
        self.load: weakref.ref[Load] | None = None
        """Gone with the load, also where that was interrupted or nobody waits for it any more."""
        self.size = 0
        self.transcript: Transcript | None = None
