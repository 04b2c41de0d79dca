"""Times as the log keeps them, UTC microseconds, and as a host sees them, aware datetimes."""

from datetime import UTC, datetime, timedelta, timezone, tzinfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NOTHING = timedelta(0)
_DAY = timedelta(days=1)
FIRST = (datetime.min.replace(tzinfo=UTC) - _EPOCH + _DAY) // _MICROSECOND
LAST = (datetime.max.replace(tzinfo=UTC) - _EPOCH - _DAY) // _MICROSECOND


def microseconds(moment: datetime) -> int:
    """Return a moment as the log keeps it."""
    return (moment - _EPOCH) // _MICROSECOND


def moment(time: int, zone: tzinfo | None) -> datetime:
    """Return a time of the log in a zone, with a fixed offset: two of them can be subtracted across DST."""
    return fixed(shown(time, zone))


def shown(time: int, zone: tzinfo | None) -> datetime:
    """Return a time of the log in a zone; for one that no zone can show, the first or the last that all can."""
    return (_EPOCH + timedelta(microseconds=min(max(time, FIRST), LAST))).astimezone(zone)


def fixed(moment: datetime) -> datetime:
    """Return an aware datetime with its offset, in place of the zone that gave it."""
    return moment.replace(tzinfo=timezone(moment.utcoffset() or _NOTHING), fold=0)


def names_of(zone: tzinfo | None) -> tuple[str, ...]:
    """Return the key of a zone; of one that has none, its names in winter and in summer."""
    key = getattr(zone, "key", None)
    if isinstance(key, str):
        return (key,)
    return tuple(dict.fromkeys(str(datetime(2026, month, 1, tzinfo=zone).tzname()) for month in (1, 7)))
