"""Times of other programs: epoch seconds."""

import math
from typing import Any

_FIRST, _LAST = -62_135_510_400, 1e11
"""From the second day of the year 1, in any zone, until about the year 5138."""


def micros(seconds: Any) -> int:
    """Return epoch seconds as UTC microseconds; raise ValueError for a time that is none."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not math.isfinite(seconds):
        raise ValueError(f"a time must be epoch seconds, not {seconds!r:.100}")
    if not _FIRST <= seconds <= _LAST:
        raise ValueError(f"the time {seconds!r} is none that a calendar has")
    return round(seconds * 1e6)
