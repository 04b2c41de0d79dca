"""The clock of a store that is given none: the machine's local time."""

import os
from datetime import datetime
from functools import cache
from pathlib import Path
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError


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
