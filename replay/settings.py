"""The settings that stores worked by, as they recorded them: reset policies, time zone, restarts and crashes."""

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from engine.domain import events as e
from engine.domain.encoding import Content, decode
from engine.domain.lane import Lane
from engine.domain.streams import LOG
from engine.domain.times import shown
from engine.log.protocol import Queries
from replay.words import rules

_MODES = ("none", "idle", "daily", "both")
_OFFSET = re.compile(r"(?:UTC)?(-1 day, |[+-])?([0-9]{1,2}):([0-9]{2})(?::[0-9]{2})?")
_OTHERS = (e.EventQuarantined.TOPIC, e.ImportFinished.TOPIC, e.ContentErased.TOPIC)


class Rules(msgspec.Struct, frozen=True, gc=False):
    """A reset policy as it was recorded, or is tried out."""

    mode: str
    at_hour: int = 4
    idle_minutes: int = 1440


class Place(msgspec.Struct, frozen=True, gc=False):
    """The facts a policy is chosen by: the platform and the type of a chat. None where that was erased."""

    platform: str | None
    chat_type: str | None


def place_of(lane: Lane) -> Place:
    """Return where a lane's messages come from: as recorded with it, else as its key says."""
    if lane.origin is not None:
        platform = lane.origin.get("platform")
        return Place(None if platform is None else str(platform), str(lane.origin.get("chat_type") or "dm"))
    parts = lane.key.split(":")
    return Place(parts[2], parts[3]) if len(parts) > 3 else Place(None, None)


class Settings(msgspec.Struct, frozen=True):
    """The settings of a store, from the moment it began to write."""

    position: int
    time: int
    version: str
    holder: str
    zone: tzinfo | None
    default: Rules | None
    by_type: dict[str, Rules | None]
    by_platform: dict[str, Rules | None]
    after_crash: str | None = None
    """The store before it, if that was never closed and this one took its place."""

    def rules(self, place: Place) -> Rules | None:
        """Return the policy of a chat; None if it was not recorded."""
        if place.platform in self.by_platform:
            return self.by_platform[place.platform]
        if place.chat_type in self.by_type:
            return self.by_type[place.chat_type]
        return self.default


class History:
    """All settings of a log in their order."""

    def __init__(self, found: list[Settings]) -> None:
        self.all = found
        self._positions = [each.position for each in found]

    def at(self, position: int) -> Settings | None:
        """Return the settings in force when a position was recorded: those of the store that began last."""
        at = bisect_right(self._positions, position)
        return self.all[at - 1] if at else None

    def rules(self, lane: Lane, position: int) -> Rules | None:
        """Return the policy of a lane when a position was recorded; None if it was not recorded."""
        settings = self.at(position)
        return None if settings is None else settings.rules(place_of(lane))

    def zone(self, position: int) -> tzinfo:
        """Return the time zone that days began in then; UTC if it was not recorded by a name that is known here."""
        settings = self.at(position)
        return UTC if settings is None or settings.zone is None else settings.zone

    def changes(self, place: Place | None) -> list[tuple[int, str]]:
        """Return the positions at which something changed that a chat's resets hang on, each in a sentence."""
        found = []
        for before, after in zip([None, *self.all], self.all, strict=False):
            parts = [] if before is None else list(_differences(before, after, place))
            if after.after_crash is not None:
                parts.insert(0, f"started again; the store before it, {after.after_crash}, was never closed")
            if parts:
                found.append((after.position, "; ".join(parts)))
        return found


def _differences(before: Settings, after: Settings, place: Place | None) -> Iterable[str]:
    if before.version != after.version:
        yield f"another version: {before.version} → {after.version}"
    if place is not None:
        old, new = before.rules(place), after.rules(place)
        if old != new:
            yield f"another reset policy: {rules(old)} → {rules(new)}"
    elif (before.default, before.by_type, before.by_platform) != (after.default, after.by_type, after.by_platform):
        yield f"other reset policies: {rules(before.default)} → {rules(after.default)}"
    if before.zone != after.zone and None not in (before.zone, after.zone):
        yield f"another time zone: {before.zone} → {after.zone}"


def clock_time(time: int, zone: tzinfo) -> datetime:
    """Return a time of the log as the store's clock gave it: in a zone that knows when its clocks change."""
    return shown(time, zone)


class Collector:
    """Collects settings from the events of the log's own stream, in their order."""

    def __init__(self) -> None:
        self.found: list[Settings] = []
        self._open: dict[str, None] = {}

    def add(self, event: Content, position: int, time: int) -> None:
        """Take in an event; those that are no opening or closing say nothing here."""
        if isinstance(event, e.StoreClosed):
            self._open.pop(event.holder, None)
        elif isinstance(event, e.StoreOpened):
            last = self.found[-1].holder if self.found else None
            self.found.append(_settings(event, position, time, last if last in self._open else None))
            self._open[event.holder] = None


def settings_of(reads: Queries, until_position: int) -> History:
    """Return the settings of a log up to a position."""
    collector = Collector()
    for _, topic, state, position, time in reads.payloads(LOG, until_position=until_position, without=_OTHERS):
        collector.add(decode(topic, state), position, time)
    return History(collector.found)


def _settings(event: e.StoreOpened, position: int, time: int, after_crash: str | None) -> Settings:
    given = event.settings or {}
    return Settings(
        position,
        time,
        event.version,
        event.holder,
        zone_of(event.zone),
        _rules(given.get("default_reset_policy")),
        _each(given.get("reset_by_type")),
        _each(given.get("reset_by_platform")),
        after_crash,
    )


def _each(given: object) -> dict[str, Rules | None]:
    return {str(name): _rules(value) for name, value in given.items()} if isinstance(given, Mapping) else {}


def _rules(given: Any) -> Rules | None:
    """Return a recorded policy; None for one of a host's own kind that says too little."""
    try:
        found = msgspec.convert(given, Rules)
    except msgspec.ValidationError:
        return None
    return found if found.mode in _MODES and 0 <= found.at_hour <= 23 else None


def zone_of(name: str | None) -> tzinfo | None:
    """Return a recorded time zone: by its name, or by an offset; None if this machine does not know it."""
    if not name:
        return None
    if name == "UTC":
        return UTC
    if offset := _OFFSET.fullmatch(name):
        shift = timedelta(hours=int(offset[2]), minutes=int(offset[3]))
        return timezone({"-": -shift, "-1 day, ": shift - timedelta(days=1)}.get(offset[1] or "", shift))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return None
