"""The newest of a session's messages: when it was recorded, and the newest time a message gives itself (W6)."""

from typing import NamedTuple

from engine.domain.chat_messages import said
from engine.domain.chat_rows import last_message_time
from engine.domain.errors import ArchivedError
from engine.domain.session import Session
from engine.log.protocol import Queries
from projections.inline.backwards import live_now, newest_first
from projections.inline.transcripts import report


class LastSaid(NamedTuple):
    """The time the newest live message was recorded, and that of the newest which is not a tool's and has one."""

    recorded_at: int = 0
    time: float | None = None


def last_said(reads: Queries, head: Session, *, timed: bool = True) -> LastSaid:
    """Return what was said last in a session; nothing is known of what is before an archived message.

    Without `timed` it is known that no message gives itself a time, and only the newest is read.
    """
    recorded_at = 0
    rows = newest_first(reads, live_now(head), report) if head.live else iter(())
    try:
        for row in rows:
            recorded_at = recorded_at or row[4]
            if not timed:
                break
            time = last_message_time(said([row], report))
            if time is not None:
                return LastSaid(recorded_at, time)
    except ArchivedError:  # it is listed as before, with what is known of it
        pass
    return LastSaid(recorded_at)
