"""The clock of a store that is given none: the machine's local time."""

import os
import time
from collections.abc import Callable
from datetime import datetime
from functools import cache
from pathlib import Path
from secrets import token_hex
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from engine.domain.times import microseconds, shown
from engine.domain.turn import BootTime

_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)
_PROCESS = token_hex(4)
_SAME = 60_000_000
"""So many microseconds a clock may differ from the machine's and be taken for it."""


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


def boot_time() -> BootTime:
    """Return the time since this machine was switched on, which no change of the time on the wall moves.

    Where the system does not say which run of the machine it is, the time of this process is named instead: leases then
    follow it within the process, and the clock on the wall among others.
    """
    boot = None if _CLOCK is None else _boot()
    if _CLOCK is None or boot is None:
        return BootTime(f"process {os.getpid()} {_PROCESS}", time.monotonic_ns() // 1000)
    return BootTime(boot, time.clock_gettime_ns(_CLOCK) // 1000)


@cache
def _boot() -> str | None:
    """Return the name of this run of the machine; processes whose time since then differs have another."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{Path('/proc/self/ns/time').readlink().name.strip('time:[]')}"
    except OSError:
        return None


def is_of_the_machine(clock: Callable[[], datetime], shows: datetime) -> bool:
    """Return True if a store's clock is the machine's: the default one, or one that shows the same at the opening."""
    return clock is local_now or abs(microseconds(shows) - time.time_ns() // 1000) < _SAME


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
