"""Opening a store: what it says of itself in the log, and whether it may take over the tables of another build."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from engine import holders
from engine.domain.config import StoreSettings
from engine.domain.encoding import decode
from engine.domain.events import StoreClosed, StoreOpened
from engine.domain.streams import LOG
from engine.log.errors import ReplacedTablesError
from engine.log.protocol import Queries
from engine.version import package_version

_LIVES = (StoreOpened.TOPIC, StoreClosed.TOPIC)

_POLICY = ("mode", "at_hour", "idle_minutes")
_FLAGS = ("group_sessions_per_user", "thread_sessions_per_user", "multiplex_profiles")


def opened(config: StoreSettings, holder: str, now: datetime) -> StoreOpened:
    """Return the event of a store that begins to write: it shows a restart, an upgrade and a changed policy."""
    settings: dict[str, Any] = {name: bool(getattr(config, name)) for name in _FLAGS}
    settings["default_reset_policy"] = _policy(getattr(config, "default_reset_policy", None))
    for name in ("reset_by_type", "reset_by_platform"):
        found = getattr(config, name, None)
        if isinstance(found, Mapping) and found:
            settings[name] = {str(getattr(key, "value", key)): _policy(each) for key, each in found.items()}
    return StoreOpened(version=package_version(), holder=holder, zone=_zone(now), settings=settings)


def check_may_take_over(reads: Queries, version: str) -> None:
    """Raise ReplacedTablesError if a store of another build that is not older runs on the log.

    The newer one takes over, and the older is told so. Without that rule two builds that are started again and again
    would rebuild the tables for themselves in turn.
    """
    for holder, other in _running(reads).items():
        if _ordered(other) >= _ordered(version):
            raise ReplacedTablesError(
                f"{holder} runs version {other} of this package on this store, in a build whose state tables this one, "
                f"version {version}, cannot use; end that process first, or open the store with its build"
            )


def _running(reads: Queries) -> dict[str, str]:
    """Return the stores that have written, were not closed, and are not known to be gone: holders and versions."""
    found: dict[str, str] = {}
    for _, topic, state, _, _ in reads.payloads(LOG):
        event = decode(topic, state) if topic in _LIVES else None
        if isinstance(event, StoreOpened):
            found[event.holder] = event.version
        elif isinstance(event, StoreClosed):
            found.pop(event.holder, None)
    return {holder: version for holder, version in found.items() if not holders.is_gone(holder)}


def _ordered(version: str) -> list[int]:
    return [int(number) for number in re.findall(r"[0-9]+", version.partition("+")[0])]


def _policy(policy: object) -> dict[str, Any] | None:
    """Return what a reset policy decides by; a host may have brought a class of its own."""
    return None if policy is None else {name: getattr(policy, name, None) for name in _POLICY}


def _zone(now: datetime) -> str:
    """Return the clock's zone by name if it has one, else by its offset."""
    return str(getattr(now.tzinfo, "key", None) or now.tzname() or now.utcoffset())
