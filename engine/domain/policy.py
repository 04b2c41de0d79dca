"""When a lane gets a new session by itself: the reset policy and its tests against the clock.

Nothing here reads a clock: `now` is handed in, so a decision can be replayed with the time it saw.
"""

import math
import os
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import msgspec

from engine.domain.platforms import Platform

ResetMode = Literal["none", "idle", "daily", "both"]
ResetReason = Literal["idle", "daily"]

_MODES = ("none", "idle", "daily", "both")
_LAST_HOUR = 23
_MICROSECOND = timedelta(microseconds=1)
_MICROSECONDS_PER_MINUTE = 60_000_000
_DAY = timedelta(days=1)

FRESHNESS_VARIABLE = "HERMES_AUTO_CONTINUE_FRESHNESS"
DEFAULT_FRESHNESS_SECONDS = 3600.0


class SessionResetPolicy(msgspec.Struct, frozen=True):
    """When a lane's session is replaced by a new one, and whether people are told.

    Checked when made: a wrong hour found at night in the middle of a conversation is found too late.
    `notify` and `notify_exclude_platforms` are the host's, which does the telling: `consume_notices` says what
    happened in any case.
    """

    mode: ResetMode = "none"
    at_hour: int = 4
    idle_minutes: int = 1440
    notify: bool = True
    notify_exclude_platforms: tuple[str, ...] = ("api_server", "webhook")

    def __post_init__(self) -> None:
        if self.mode not in _MODES:
            raise ValueError(f"mode must be one of {', '.join(_MODES)}, not {self.mode!r}")
        if not _is_int(self.at_hour) or not 0 <= self.at_hour <= _LAST_HOUR:
            raise ValueError(f"at_hour must be a whole number from 0 to {_LAST_HOUR}, not {self.at_hour!r}")
        if not _is_int(self.idle_minutes) or self.idle_minutes < 1:
            raise ValueError(f"idle_minutes must be a whole number of at least 1, not {self.idle_minutes!r}")
        if not isinstance(self.notify, bool):
            raise ValueError(f"notify must be True or False, not {self.notify!r}")
        names = _platform_names(self.notify_exclude_platforms)
        msgspec.structs.force_setattr(self, "notify_exclude_platforms", names)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "SessionResetPolicy":
        """Read a policy from a configuration file; a field left out or null keeps its default.

        An unknown field is refused, because a misspelt one would silently mean the default.
        """
        if not isinstance(data, Mapping):
            raise ValueError(f"a reset policy must be a mapping, not {data!r}")
        unknown = [str(name) for name in data if name not in cls.__struct_fields__]
        if unknown:
            known = ", ".join(cls.__struct_fields__)
            raise ValueError(f"unknown reset policy field {', '.join(sorted(unknown))}; known are {known}")
        return cls(**{name: value for name, value in data.items() if value is not None})

    def to_dict(self) -> dict[str, Any]:
        """Write every field, lists instead of tuples, as a configuration file holds them."""
        fields = msgspec.structs.asdict(self)
        return {**fields, "notify_exclude_platforms": list(self.notify_exclude_platforms)}


def idle_expired(updated_at: datetime, now: datetime, policy: SessionResetPolicy) -> bool:
    """Tell whether more than the policy's idle minutes have really passed; False when it has no idle rule.

    Counted in UTC: Python subtracts two times of one zone by the wall clock, an hour wrong across DST.
    """
    if policy.mode not in ("idle", "both"):
        return False
    elapsed = _utc(now, "now") - _utc(updated_at, "updated_at")
    return elapsed // _MICROSECOND > policy.idle_minutes * _MICROSECONDS_PER_MINUTE


def daily_boundary(now: datetime, at_hour: int) -> datetime:
    """Return the last moment, not after `now`, at which the wall clock of now's zone reached `at_hour`.

    An hour that DST skips counts as the moment the clocks jumped; of an hour that comes twice, the
    first counts, so that there is one boundary a day.
    """
    now_utc = _utc(now, "now")
    wall = now.replace(hour=at_hour, minute=0, second=0, microsecond=0, fold=0)
    # A loop and not one step back: a zone that crossed the date line has a day missing.
    while wall.astimezone(UTC) > now_utc:
        wall -= _DAY
    return wall.astimezone(UTC).astimezone(now.tzinfo)


def daily_expired(updated_at: datetime, now: datetime, policy: SessionResetPolicy) -> bool:
    """Tell whether the day's boundary lies between then and now; False when there is no daily rule."""
    if policy.mode not in ("daily", "both"):
        return False
    return _utc(updated_at, "updated_at") < daily_boundary(now, policy.at_hour).astimezone(UTC)


def reset_reason(policy: SessionResetPolicy, updated_at: datetime, now: datetime) -> ResetReason | None:
    """Return why the policy ends a session last used at `updated_at`, idle before daily, or None."""
    if idle_expired(updated_at, now, policy):
        return "idle"
    if daily_expired(updated_at, now, policy):
        return "daily"
    return None


def auto_continue_freshness_window(environ: Mapping[str, str] | None = None) -> float:
    """Return for how many seconds an interrupted turn may be resumed; 0 or less means no limit applies.

    A malformed setting gives the default: a typing error must neither resume for ever nor stop the host.
    """
    text = (os.environ if environ is None else environ).get(FRESHNESS_VARIABLE, "")
    try:
        seconds = float(text)
    except ValueError:
        return DEFAULT_FRESHNESS_SECONDS
    return seconds if math.isfinite(seconds) else DEFAULT_FRESHNESS_SECONDS


def _utc(value: datetime, field: str) -> datetime:
    if value.utcoffset() is None:
        raise ValueError(f"{field} must be a datetime with a time zone, not {value!r}")
    return value.astimezone(UTC)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _platform_names(value: object) -> tuple[str, ...]:
    """Accept any list of platforms or their names, but not one bare string, which is a list of letters."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        names = tuple(item.value if isinstance(item, Platform) else item for item in value)
        if all(isinstance(name, str) for name in names):
            return names
    raise ValueError(f"notify_exclude_platforms must be a list of platform names, not {value!r}")
