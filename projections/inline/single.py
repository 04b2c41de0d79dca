"""One lane, one session or one transcript as it was at a position: nothing but its own events is read."""

from engine.domain.lane import Lane
from engine.domain.session import Session
from engine.domain.streams import LANE, lane_stream, session_stream
from engine.domain.transcript import Report, Row
from engine.log.protocol import Reader
from projections.inline.backwards import live_now, newest_first
from projections.inline.fold import Fold
from projections.inline.lanes import lanes_of
from projections.inline.quarantine import quarantined
from projections.inline.streams_at import fold_streams


def session_at(reads: Reader, session_id: str, position: int) -> Session | None:
    """Return the head that a session had at a position; None if it was not there yet."""
    return _folded(reads, [session_stream(session_id)], position).session(session_id)


def transcript_at(reads: Reader, session: Session, report: Report) -> list[Row]:
    """Return the live messages that a session had at the version of its head."""
    return list(newest_first(reads, live_now(session), report))[::-1]


def lane_at(reads: Reader, key: str, position: int) -> Lane | None:
    """Return the lane that a key had at a position; None if it led nowhere."""
    known = [lane_stream(each) for each in lanes_of(reads, key)]
    found = _folded(reads, known, position).lane(key)
    if found is not None:
        return found
    # It may have been pruned since, and another lane have taken its place in the tables.
    others = [each for each in reads.streams_begun_with(LANE, "key", [key]) if each not in known]
    return _folded(reads, others, position).lane(key)


def _folded(reads: Reader, streams: list[str], position: int) -> Fold:
    versions = {each: reads.version_at(each, position) for each in streams}
    there = {stream: version for stream, version in versions.items() if version is not None}
    return fold_streams(reads, there, position, dict(quarantined(reads)))
