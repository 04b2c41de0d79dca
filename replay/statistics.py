"""Figures of a log: events, messages and bytes, in all, by day, by type, and the largest sessions."""

from collections import Counter, defaultdict
from datetime import date, tzinfo

import msgspec

from engine.domain.events import MessageAppended, MessageRewritten, SessionCreated
from engine.domain.streams import SESSION
from engine.domain.times import moment
from engine.log.protocol import Log, Progress
from engine.log.rows import STORED

_BATCH = 5000
_STREAM, _TOPIC, _TIME, _POSITION, _STATE = (
    STORED.index(name) for name in ("stream", "topic", "time", "position", "state")
)
_MESSAGES = frozenset((MessageAppended.TOPIC, MessageRewritten.TOPIC))


class Figures(msgspec.Struct):
    """Counts of a part of a log. `bytes` are those of the payloads."""

    events: int = 0
    messages: int = 0
    sessions: int = 0
    bytes: int = 0

    def count(self, topic: str, size: int) -> None:
        """Count an event."""
        self.events += 1
        self.bytes += size
        self.messages += topic in _MESSAGES
        self.sessions += topic == SessionCreated.TOPIC


class Statistics(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a log between two positions."""

    total: Figures
    days: dict[date, Figures]
    """In their order; a day without events is not there."""
    types: dict[str, Figures]
    """The most frequent first."""
    largest: dict[str, Figures]
    """The sessions with the most bytes, by id."""


def statistics(
    log: Log,
    after: int = 0,
    upto: int | None = None,
    *,
    zone: tzinfo | None = None,
    largest: int = 10,
    progress: Progress | None = None,
) -> Statistics:
    """Return the figures of a part of a log, its days being those of a time zone; nothing is decoded."""
    last = log.last_position if upto is None else min(upto, log.last_position)
    total, days, types = Figures(), defaultdict[date, Figures](Figures), defaultdict[str, Figures](Figures)
    sessions = defaultdict[str, Figures](Figures)
    first, at = after, after
    while at < last and (rows := log.reader.stored(at, last, (), _BATCH)):
        for row in rows:
            topic, stream, size = row[_TOPIC], row[_STREAM], len(row[_STATE])
            parts = [total, days[moment(row[_TIME], zone).date()], types[topic]]
            if stream.startswith(SESSION):
                parts.append(sessions[stream])
            for part in parts:
                part.count(topic, size)
        at = rows[-1][_POSITION]
        if progress is not None:
            progress(at - first, last - first)
    ranked = Counter({stream: part.bytes for stream, part in sessions.items()}).most_common(largest)
    return Statistics(
        total=total,
        days=dict(sorted(days.items())),
        types=dict(sorted(types.items(), key=lambda each: (-each[1].events, each[0]))),
        largest={stream.removeprefix(SESSION): sessions[stream] for stream, _ in ranked},
    )
