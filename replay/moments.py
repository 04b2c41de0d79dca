"""Moments in the words of people: `2h`, `3d ago`, `yesterday 04:00`, ISO 8601, `now` and `@123`, as positions (R3)."""

import re
from datetime import UTC, datetime, time, timedelta, tzinfo

import msgspec

from engine.clock import local_now
from engine.domain.times import microseconds, moment
from engine.log.protocol import Log
from replay.errors import BadMomentError

FORMS = "a time like 2026-07-01 04:00, 2h, 3d ago, yesterday 04:00 or now, or a position like @123"
"""The ways to name a moment, for help and errors."""

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_LENGTH = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*([smhdw])")
_AGO = re.compile(rf"(?:{_LENGTH.pattern}\s*)+(?:ago)?")
_DAY = re.compile(r"(today|yesterday)(?:\s+([0-9]{1,2}:[0-9]{2}(?::[0-9]{2})?))?")
_POSITION = re.compile(r"@([0-9]{1,18})")


class Moment(msgspec.Struct, frozen=True):
    """A moment of a log."""

    position: int
    """The last position recorded at or before it; 0 before the first event."""
    time: datetime
    """Its time, in the zone it was named in: of a position, when that was recorded."""

    def __str__(self) -> str:
        return f"@{self.position} ({shown(self.time)})"


def moment_of(log: Log, text: str, now: datetime | None = None) -> Moment:
    """Return the moment that a text names; raise BadMomentError for one that cannot be understood.

    A time without a zone is in the zone of `now`, by default the machine's.
    """
    here = local_now() if now is None else now
    named = _POSITION.fullmatch(text.strip())
    if named is None:
        at = time_of(text, here)
        return Moment(position_at(log, at), at)
    position, last = int(named[1]), log.last_position
    if position > last:
        raise BadMomentError(f"there is no position {position}: the log ends at @{last}")
    return Moment(position, time_at(log, position, here.tzinfo))


def time_of(text: str, now: datetime) -> datetime:
    """Return the time that a text names; raise BadMomentError for one that names none."""
    words = " ".join(text.split()).lower()
    try:
        if words == "now":
            return now
        if _AGO.fullmatch(words):
            return _moved(now, -_length(words))
        if day := _DAY.fullmatch(words):
            return _on_day(now, day[1] == "yesterday", day[2] or "00:00")
        found = datetime.fromisoformat(text.strip().upper())
        return found.replace(tzinfo=now.tzinfo) if found.tzinfo is None else found
    except (ValueError, OverflowError) as error:
        raise BadMomentError(f"{text!r} names no moment; write {FORMS}") from error


def position_at(log: Log, at: datetime) -> int:
    """Return the last position recorded at or before a time; 0 before the first event."""
    return log.position_at(microseconds(at))


def time_at(log: Log, position: int, zone: tzinfo | None) -> datetime:
    """Return when a position was recorded; of position 0, when the first event was, and of an empty log, the epoch."""
    first = next(iter(log.events(max(position, 1) - 1, max(position, 1))), None)
    return moment(0 if first is None else first.time, zone)


def shown(at: datetime) -> str:
    """Return a time as people read it, with its zone and offset."""
    offset = f"{at:%z}"
    name = at.tzname() or ""
    zone = name if name.startswith("UTC") else f"{name} (UTC{offset[:3]}:{offset[3:5]})"
    return f"{at:%Y-%m-%d %H:%M:%S} {zone}"


def _length(words: str) -> timedelta:
    parts = [timedelta(**{_UNITS[unit]: float(number)}) for number, unit in _LENGTH.findall(words)]
    return sum(parts, timedelta())


def _moved(now: datetime, by: timedelta) -> datetime:
    """Return a time so much later in real time, however the clocks were set meanwhile."""
    return (now.astimezone(UTC) + by).astimezone(now.tzinfo)


def _on_day(now: datetime, yesterday: bool, at: str) -> datetime:
    hour = f"0{at}" if at[1] == ":" else at
    return datetime.combine(now.date() - timedelta(days=yesterday), time.fromisoformat(hour), now.tzinfo)
