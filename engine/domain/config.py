"""The host's settings: its platforms and the rules a store works by.

Tokens and keys are the host's business: there is no field for one, so none can be written anywhere.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import msgspec

from engine.domain.platforms import Platform
from engine.domain.policy import ResetRules, SessionResetPolicy

T = TypeVar("T")


class HomeChannel(msgspec.Struct, frozen=True):
    """The chat of a platform that gets messages addressed to the platform alone."""

    platform: Platform
    """The platform; a name is taken for the platform of that name."""
    chat_id: str
    """The chat's id on its platform."""
    name: str
    """The name that prompts show; `from_dict` takes "Home" if there is none."""
    thread_id: str | None = None
    """The thread of the chat, if it is one."""

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "platform", _platform(self.platform, "platform"))
        for field in ("chat_id", "name"):
            _expect(field, getattr(self, field), str)
        _expect("thread_id", self.thread_id, str, type(None))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "HomeChannel":
        """Read a home channel; numbers, which YAML makes of bare ids, become text."""
        _expect("home_channel", data, Mapping)
        for field in ("platform", "chat_id"):
            if data.get(field) in (None, ""):
                raise ValueError(f"home_channel needs {field}")
        thread_id = data.get("thread_id")
        return cls(
            platform=data["platform"],
            chat_id=_text(data["chat_id"]),
            name=_text(data.get("name") or "Home"),
            thread_id=None if thread_id in (None, "") else _text(thread_id),
        )

    def to_dict(self) -> dict[str, Any]:
        """Write the channel as a configuration file holds it."""
        return {**msgspec.structs.asdict(self), "platform": self.platform.value}


class PlatformConfig(msgspec.Struct, frozen=True):
    """One platform's settings: on or off, its home channel, and what else the host keeps here."""

    enabled: bool = True
    """False leaves the platform out of the connected platforms that prompts name."""
    home_channel: HomeChannel | None = None
    """Where a message to the platform alone goes."""
    extra: dict[str, Any] = {}
    """The host's own settings; the engine does not read them."""

    def __post_init__(self) -> None:
        _expect("enabled", self.enabled, bool)
        _expect("home_channel", self.home_channel, HomeChannel, type(None))
        _expect("extra", self.extra, Mapping)
        msgspec.structs.force_setattr(self, "extra", dict(self.extra))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], platform: Platform | None = None) -> "PlatformConfig":
        """Read one platform's section; `platform` is the section's own, for a home channel that names none.

        Other keys are dropped: that is where hosts keep their tokens.
        """
        _expect("platform settings", data, Mapping)
        home = data.get("home_channel")
        if isinstance(home, Mapping) and platform is not None:
            home = {"platform": platform, **home}
        return cls(
            enabled=_or_default(data.get("enabled"), True),
            home_channel=None if home is None else HomeChannel.from_dict(home),
            extra=_or_default(data.get("extra"), {}),
        )

    def to_dict(self) -> dict[str, Any]:
        """Write the section; the home channel only when there is one."""
        data: dict[str, Any] = {"enabled": self.enabled, "extra": dict(self.extra)}
        if self.home_channel is not None:
            data["home_channel"] = self.home_channel.to_dict()
        return data


class StoreSettings(Protocol):
    """The settings a store asks for: a GatewayConfig has them, and so may a class of the host's own (G3a)."""

    @property
    def group_sessions_per_user(self) -> bool: ...

    @property
    def thread_sessions_per_user(self) -> bool: ...

    @property
    def multiplex_profiles(self) -> bool: ...

    def get_reset_policy(self, platform: Platform | None, session_type: str | None, /) -> ResetRules: ...


class GatewayConfig(msgspec.Struct, frozen=True):
    """The rules a store works by. Platforms may be given by name."""

    platforms: dict[Platform, PlatformConfig] = {}
    """The platforms the host serves."""
    default_reset_policy: SessionResetPolicy = msgspec.field(default_factory=SessionResetPolicy)
    """The policy of lanes for which there is no other."""
    reset_by_type: dict[str, SessionResetPolicy] = {}
    """Policies by chat type: dm, group, channel or thread."""
    reset_by_platform: dict[Platform, SessionResetPolicy] = {}
    """Policies by platform; they win over those by chat type."""
    group_sessions_per_user: bool = True
    """True gives each person of a group or channel a lane of their own. A change leads to other lanes."""
    thread_sessions_per_user: bool = False
    """True gives each person of a thread a lane of their own. A change leads to other lanes."""
    multiplex_profiles: bool = False
    """True if one gateway serves several profiles: keys and recovery keep them apart."""
    session_store_max_age_days: int | None = 90
    """Days for the host to pass to `prune_old_entries` when it cleans up; the engine does not read it."""

    def __post_init__(self) -> None:
        for field, kind in (("platforms", PlatformConfig), ("reset_by_platform", SessionResetPolicy)):
            by_platform = _checked_map(field, getattr(self, field), _platform, kind)
            msgspec.structs.force_setattr(self, field, by_platform)
        by_type = _checked_map("reset_by_type", self.reset_by_type, _type_name, SessionResetPolicy)
        msgspec.structs.force_setattr(self, "reset_by_type", by_type)
        _expect("default_reset_policy", self.default_reset_policy, SessionResetPolicy)
        for field in ("group_sessions_per_user", "thread_sessions_per_user", "multiplex_profiles"):
            _expect(field, getattr(self, field), bool)
        _expect("session_store_max_age_days", self.session_store_max_age_days, int, type(None))

    def get_reset_policy(
        self, platform: Platform | str | None = None, session_type: str | None = None
    ) -> SessionResetPolicy:
        """Return the platform's own policy, else the chat type's, else the default."""
        known = None if platform is None else Platform(platform)
        if known is not None and known in self.reset_by_platform:
            return self.reset_by_platform[known]
        if session_type is not None and session_type in self.reset_by_type:
            return self.reset_by_type[session_type]
        return self.default_reset_policy

    def get_connected_platforms(self) -> list[Platform]:
        """Return the platforms that are on, sorted by value so that prompts do not change by themselves."""
        enabled = (platform for platform, settings in self.platforms.items() if settings.enabled)
        return sorted(enabled, key=lambda platform: platform.value)

    def get_home_channel(self, platform: Platform | str) -> HomeChannel | None:
        """Return where a message to the platform alone goes, if the host has set it."""
        settings = self.platforms.get(Platform(platform))
        return None if settings is None else settings.home_channel

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "GatewayConfig":
        """Read the engine's part of a gateway's configuration; the host's own keys are left alone."""
        _expect("gateway configuration", data, Mapping)
        given = {name: data[name] for name in cls.__struct_fields__ if name in data}
        values = {name: value for name, value in given.items() if value is not None}
        if "session_store_max_age_days" in given:
            values["session_store_max_age_days"] = given["session_store_max_age_days"]
        if "default_reset_policy" in values:
            policy = _named("default_reset_policy", _policy_section, "", values["default_reset_policy"])
            values["default_reset_policy"] = policy
        for field in ("reset_by_type", "reset_by_platform"):
            if field in values:
                values[field] = _read_map(field, values[field], _policy_section)
        if "platforms" in values:
            values["platforms"] = _read_map("platforms", values["platforms"], _platform_section)
        return cls(**values)

    def to_dict(self) -> dict[str, Any]:
        """Write every setting as plain dicts, lists and strings."""
        return {
            **msgspec.structs.asdict(self),
            "platforms": {key.value: part.to_dict() for key, part in self.platforms.items()},
            "default_reset_policy": self.default_reset_policy.to_dict(),
            "reset_by_type": {key: part.to_dict() for key, part in self.reset_by_type.items()},
            "reset_by_platform": {key.value: part.to_dict() for key, part in self.reset_by_platform.items()},
        }


def _policy_section(_: str, part: Mapping[str, Any]) -> SessionResetPolicy:
    return SessionResetPolicy.from_dict(part)


def _platform_section(name: str, part: Mapping[str, Any]) -> PlatformConfig:
    return PlatformConfig.from_dict({} if part is None else part, platform=Platform(name))


def _read_map(field: str, value: object, read: Callable[[str, Any], T]) -> dict[str, T]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{field} must be a mapping, not {value!r}")
    return {name: _named(f"{field}.{name}", read, name, part) for name, part in value.items()}


def _named(field: str, read: Callable[..., T], *values: Any) -> T:
    """Read a part and put its place in front of the error, so that it can be found in a long file."""
    try:
        return read(*values)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from error


def _checked_map(field: str, value: object, key: Callable[[Any, str], Any], kind: type) -> dict[Any, Any]:
    """Copy a mapping with its keys and values checked; the caller keeps its own."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{field} must be a mapping, not {value!r}")
    checked = {}
    for name, part in value.items():
        _expect(f"{field}[{name}]", part, kind)
        checked[key(name, field)] = part
    return checked


def _platform(value: object, field: str) -> Platform:
    try:
        return Platform(value)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from None


def _type_name(value: object, field: str) -> str:
    _expect(f"{field} key", value, str)
    return str(value)


def _expect(field: str, value: object, *kinds: type) -> None:
    """Refuse a value of another type; True is not a number here."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        names = " or ".join("null" if kind is type(None) else kind.__name__ for kind in kinds)
        raise ValueError(f"{field} must be {names}, not {value!r}")


def _or_default(value: Any, default: Any) -> Any:
    return default if value is None else value


def _text(value: object) -> Any:
    """Turn a number into text; anything else is left for the constructor to judge."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value
