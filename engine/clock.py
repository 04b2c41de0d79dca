"""The clock of a store that is given none: the machine's local time."""

import os
from datetime import datetime
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from engine.domain.times import shown


class Instant:
    """A moment as the log keeps it, in UTC microseconds, and as a clock shows it.

    Most commands need the number alone, and local time with its rules takes longer than all else they begin with.
    """

    __slots__ = ("_shown", "time")

    def __init__(self, time: int, shown: datetime | None = None) -> None:
        self.time = time
        self._shown = shown

    @property
    def shown(self) -> datetime:
        """Return the moment as its clock shows it: the machine's clock, if no other has shown it."""
        if self._shown is None:
            self._shown = shown(self.time, local_zone())
        return self._shown


def local_now() -> datetime:
    """Return local time, in a zone that knows when its clocks change: a daily boundary may lie before one (G29)."""
    zone = local_zone()
    return datetime.now().astimezone() if zone is None else datetime.now(zone)


@cache
def local_zone() -> ZoneInfo | None:
    """Return the machine's time zone with its rules, as found at first use; None if it offers only an offset."""
    name = os.environ.get("TZ", "").removeprefix(":")
    try:
        if name and not name.startswith("/"):
            return ZoneInfo(name)
        with Path(name or "/etc/localtime").open("rb") as file:
            return ZoneInfo.from_file(file)
    except (OSError, ValueError, ZoneInfoNotFoundError):
        return None
