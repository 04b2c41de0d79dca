"""Other policies: recorded history judged by another reset policy, with the rules that routing judges by (R12)."""

from collections.abc import Collection, Mapping
from datetime import datetime, tzinfo
from typing import Any

import msgspec

from engine.clock import local_now
from engine.domain.config import GatewayConfig
from engine.domain.policy import DEFAULT_FRESHNESS_SECONDS, SessionResetPolicy
from engine.domain.streams import LANE
from engine.domain.times import moment
from engine.log.protocol import Log, Progress
from replay.judging import TOPICS, Change, Judge, Pair
from replay.settings import Place, Rules
from replay.words import counted, seen, span

_WINDOW = 4_000
"""So many positions are read at a time."""


class PolicyChange(msgspec.Struct, frozen=True, kw_only=True):
    """Another reset policy: a configuration in place of the recorded one, and fields that take the place of its own."""

    mode: str | None = None
    at_hour: int | None = None
    idle_minutes: int | None = None
    config: GatewayConfig | None = None

    def __post_init__(self) -> None:
        fields = {name: getattr(self, name) for name in ("mode", "at_hour", "idle_minutes")}
        SessionResetPolicy(**{name: value for name, value in fields.items() if value is not None})

    def rules(self, recorded: Rules | None, place: Place) -> Rules:
        """Return the policy to judge by, where another one was recorded; the default one where none was."""
        base = recorded or Rules("none")
        if self.config is not None:
            base = _of_config(self.config, place)
        return Rules(
            base.mode if self.mode is None else self.mode,
            base.at_hour if self.at_hour is None else self.at_hour,
            base.idle_minutes if self.idle_minutes is None else self.idle_minutes,
        )


class OtherReset(msgspec.Struct, frozen=True, gc=False):
    """An automatic reset that one policy makes and the other does not, or for another cause."""

    lane: str
    platform: str | None
    position: int
    time: datetime
    recorded: str | None
    """The cause it was recorded with; None if it did not happen."""
    would_be: str | None
    """The cause it would have had; None if it would not have happened."""
    sentence: str


class LaneOutcome(msgspec.Struct, frozen=True):
    """The changes that another policy makes for one lane."""

    lane: str
    platform: str | None
    recorded: int
    """Automatic resets that happened."""
    would_be: int
    """Automatic resets that would have happened."""
    gone: int
    added: int


class WhatIf(msgspec.Struct, frozen=True):
    """The answer: which automatic resets another policy would have made, and what the log cannot know."""

    messages: int
    """Messages that were judged again."""
    recorded: int
    would_be: int
    gone: tuple[OtherReset, ...]
    """Resets that would not have happened, by position."""
    added: tuple[OtherReset, ...]
    """Resets that would have happened, by position."""
    otherwise: tuple[OtherReset, ...]
    """Resets that would have happened too, for another cause."""
    lanes: tuple[LaneOutcome, ...]
    """Lanes for which something changes, those with the most changes first."""
    unknown: tuple[str, ...]
    """What the log cannot know, in sentences."""


def policy_change(
    mode: str | None = None,
    idle_minutes: int | None = None,
    at_hour: int | None = None,
    config: GatewayConfig | Mapping[str, Any] | None = None,
) -> PolicyChange:
    """Return another policy; raise ValueError that names the field for a bad value.

    `config` has the reset fields of a GatewayConfig: default_reset_policy, reset_by_type and reset_by_platform.
    """
    if config is not None and not isinstance(config, GatewayConfig):
        given = {name: value for name, value in dict(config).items() if "reset" in name}
        if not given:
            raise ValueError("a policy needs default_reset_policy, reset_by_type or reset_by_platform")
        config = GatewayConfig.from_dict(given)
    return PolicyChange(mode=mode, at_hour=at_hour, idle_minutes=idle_minutes, config=config)


def what_if(
    log: Log,
    change: PolicyChange | None = None,
    *,
    platforms: Collection[str] | None = None,
    upto: int | None = None,
    zone: tzinfo | None = None,
    progress: Progress | None = None,
) -> WhatIf:
    """Return which recorded resets another policy would not have made, and which others it would have.

    Every recorded message is judged again by the rules that routing uses. `platforms` leaves out all others. Times are
    in the zone given, by default the machine's. With the recorded policy nothing changes.
    """
    if isinstance(platforms, str):
        raise ValueError(f"platforms is a list of names, not the text {platforms!r}")
    judged = Judge((change or PolicyChange()).rules, None if platforms is None else frozenset(platforms))
    after, end = 0, log.last_position if upto is None else min(upto, log.last_position)
    while after < end:
        for row in log.reader.stored(after, min(after + _WINDOW, end), TOPICS, _WINDOW):
            judged.add(row)
        after += _WINDOW
        if progress is not None:
            progress(min(after, end), end)
    return _result(judged, local_now().tzinfo if zone is None else zone)


def _result(judged: Judge, zone: tzinfo | None) -> WhatIf:
    found = [_told(each, zone) for each in judged.changes]
    added = tuple(each for each in found if each.recorded is None)
    changed = [pair for pair in judged.pairs.values() if pair.gone or pair.added]
    changed.sort(key=lambda pair: (-pair.gone - pair.added, pair.key))
    return WhatIf(
        messages=judged.messages,
        recorded=sum(pair.resets for pair in judged.pairs.values()),
        would_be=sum(map(_would_be, judged.pairs.values())),
        gone=tuple(each for each in found if each.would_be is None),
        added=added,
        otherwise=tuple(each for each in found if None not in (each.recorded, each.would_be)),
        lanes=tuple(
            LaneOutcome(_name_of(pair), pair.place.platform, pair.resets, _would_be(pair), pair.gone, pair.added)
            for pair in changed
        ),
        unknown=tuple(_unknown(judged, len(added))),
    )


def _unknown(judged: Judge, added: int) -> list[str]:
    notes = {
        f"the host was never asked whether it was working when {counted(added, 'reset')} would have been due; "
        "it may have held some of them back": added,
        f"{counted(judged.assumed, 'message')} came while a lane waited to be resumed, and the freshness window was "
        f"not recorded before: {span(DEFAULT_FRESHNESS_SECONDS)} is assumed": judged.assumed,
        f"{counted(judged.unrecorded, 'message')} came when the policy was not recorded: a policy of none is "
        "assumed": judged.unrecorded,
        f"{counted(judged.elsewhere, 'message')} came when the time zone was not recorded by a name known here: "
        "days of UTC are assumed": judged.elsewhere,
        f"{counted(judged.finalized, 'session')} had their expiry finished by the host: it is not known what the "
        "host would have done under another policy": judged.finalized,
        f"{counted(judged.erased, 'event')} of lanes were erased: what they decided is left as it was": judged.erased,
    }
    always = (
        "touches are written behind: messages of a lane within 50 ms count as one, and one routed with touch=False "
        "left nothing unless it reset its lane"
    )
    return [*(text for text, count in notes.items() if count), always]


def _would_be(pair: Pair) -> int:
    return pair.resets - pair.gone + pair.added


def _name_of(pair: Pair) -> str:
    return pair.key or f"{LANE}{pair.recorded.lane_id}"


def _told(change: Change, zone: tzinfo | None) -> OtherReset:
    recorded, other = change.recorded, change.other
    if other.reason is None and other.held is not None:
        words = f"would not have happened: {other.held} would have been due, but the host was working on the lane"
    elif other.reason is None:
        words = f"would not have happened; recorded: {seen(recorded.reason or '', recorded.saw)}"
    elif recorded.reason is None:
        words = f"would have happened: {seen(other.reason, other.saw)}"
    else:
        words = f"would have been for {other.reason}, not for {recorded.reason}: {seen(other.reason, other.saw)}"
    return OtherReset(
        lane=_name_of(change.pair),
        platform=change.pair.place.platform,
        position=change.position,
        time=moment(change.time, zone),
        recorded=recorded.reason,
        would_be=other.reason,
        sentence=words,
    )


def _of_config(config: GatewayConfig, place: Place) -> Rules:
    """Return a configuration's policy of a place, whose platform need not be registered here."""
    by_platform = {platform.value: policy for platform, policy in config.reset_by_platform.items()}
    found = by_platform.get(place.platform or "") or config.reset_by_type.get(place.chat_type or "")
    policy = found or config.default_reset_policy
    return Rules(policy.mode, policy.at_hour, policy.idle_minutes)
