"""The reset policy, by which a lane gets a new session automatically, and its tests against the clock.

Nothing here reads a clock: `now` is handed in, so a decision can be replayed with the time it saw.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Literal, Protocol

import msgspec

from engine.domain.times import microseconds, shown

ResetMode = Literal["none", "idle", "daily", "both"]
ResetReason = Literal["idle", "daily"]

_MODES = ("none", "idle", "daily", "both")
_LAST_HOUR = 23
_MICROSECONDS_PER_MINUTE = 60_000_000
_DAY = timedelta(days=1)

FRESHNESS_VARIABLE = "HERMES_AUTO_CONTINUE_FRESHNESS"
DEFAULT_FRESHNESS_SECONDS = 3600.0


class ResetRules(Protocol):
    """The rules a decision needs of a policy: a SessionResetPolicy has them, and so may a class of the host's own."""

    @property
    def mode(self) -> str: ...

    @property
    def at_hour(self) -> int: ...

    @property
    def idle_minutes(self) -> int: ...


class SessionResetPolicy(msgspec.Struct, frozen=True):
    """The rules by which a lane's session is replaced by a new one, and people are told.

    Checked when made: a wrong hour found at night in the middle of a conversation is found too late.
    """

    mode: ResetMode = "none"
    """Which rules apply: "idle", "daily", "both" or "none"."""
    at_hour: int = 4
    """The hour, 0 to 23 of the store's clock, at which a daily reset is due."""
    idle_minutes: int = 1440
    """The minutes, at least 1, after which a lane nobody used is reset."""
    notify: bool = True
    """True if the host tells people of a reset; the engine does not read it, `consume_notices` says what happened."""
    notify_exclude_platforms: tuple[str, ...] = ("api_server", "webhook")
    """Platforms on which the host tells nobody; the engine does not read it."""

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

        Keys of others are ignored: hosts keep their own settings beside these (G3a).
        """
        if not isinstance(data, Mapping):
            raise ValueError(f"a reset policy must be a mapping, not {data!r}")
        given = {name: data.get(name) for name in cls.__struct_fields__}
        return cls(**{name: value for name, value in given.items() if value is not None})

    def to_dict(self) -> dict[str, Any]:
        """Write every field, lists instead of tuples, as a configuration file holds them."""
        fields = msgspec.structs.asdict(self)
        return {**fields, "notify_exclude_platforms": list(self.notify_exclude_platforms)}


def idle_expired(updated_at: datetime, now: datetime, policy: ResetRules) -> bool:
    """Return True if more than the policy's idle minutes have really passed; False when it has no idle rule.

    Counted in UTC: Python subtracts two times of one zone by the wall clock, an hour wrong across DST.
    """
    if policy.mode not in ("idle", "both"):
        return False
    return _time(now, "now") - _time(updated_at, "updated_at") > policy.idle_minutes * _MICROSECONDS_PER_MINUTE


def daily_boundary(now: datetime, at_hour: int) -> datetime:
    """Return the last moment, not after `now`, at which the wall clock of now's zone reached `at_hour`.

    An hour that DST skips counts as the moment the clocks jumped; of an hour that comes twice, the
    first counts, so that there is one boundary a day.
    """
    before = _time(now, "now")
    wall = now.replace(hour=at_hour, minute=0, second=0, microsecond=0, fold=0)
    try:
        # A loop and not one step back: a zone that crossed the date line has a day missing.
        while microseconds(wall) > before:
            wall -= _DAY
    except OverflowError:
        pass  # on the first day that there is, nothing lies before its boundary
    return shown(microseconds(wall), now.tzinfo)


def daily_expired(updated_at: datetime, now: datetime, policy: ResetRules) -> bool:
    """Return True if the day's boundary lies between then and now; False when there is no daily rule."""
    if policy.mode not in ("daily", "both"):
        return False
    return _time(updated_at, "updated_at") < microseconds(daily_boundary(now, policy.at_hour))


def reset_reason(policy: ResetRules, updated_at: datetime, now: datetime) -> ResetReason | None:
    """Return why the policy ends a session last used at `updated_at`, idle before daily, or None."""
    if idle_expired(updated_at, now, policy):
        return "idle"
    if daily_expired(updated_at, now, policy):
        return "daily"
    return None


def parse_freshness(text: str) -> float:
    """Return a freshness window in seconds; 0 or less means no limit applies, and `inf` that none is ever reached.

    A malformed setting gives the default: a typing error must neither resume for ever nor stop the host.
    """
    try:
        seconds = float(text)
    except ValueError:
        return DEFAULT_FRESHNESS_SECONDS
    return DEFAULT_FRESHNESS_SECONDS if math.isnan(seconds) else seconds


def _time(value: datetime, field: str) -> int:
    if value.utcoffset() is None:
        raise ValueError(f"{field} must be a datetime with a time zone, not {value!r}")
    return microseconds(value)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _platform_names(value: object) -> tuple[str, ...]:
    """Accept any list of platforms or their names, but not one bare string, which is a list of letters."""
    if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
        names = tuple(item.value if isinstance(item, Enum) else item for item in value)
        if all(isinstance(name, str) for name in names):
            return names
    raise ValueError(f"notify_exclude_platforms must be a list of platform names, not {value!r}")
