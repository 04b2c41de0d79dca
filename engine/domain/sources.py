"""Where a message came from.

A plain frozen class, on purpose neither a struct nor a dataclass: those can be encoded whole, and three
of these fields must never be written or read back. `to_dict` and `from_dict` are the only way out and in.
"""

from collections.abc import Mapping
from typing import Any, NoReturn

from engine.domain.platforms import Platform

ALWAYS_WRITTEN = (
    "platform",
    "chat_id",
    "chat_name",
    "chat_type",
    "user_id",
    "user_name",
    "thread_id",
    "chat_topic",
)
WRITTEN_WHEN_SET = (
    "user_id_alt",
    "chat_id_alt",
    "scope_id",
    "guild_id",
    "parent_chat_id",
    "message_id",
    "profile",
)
NEVER_WRITTEN = ("is_bot", "role_authorized", "delivered_via_upstream_relay")
_KNOWN = (*ALWAYS_WRITTEN[1:], *WRITTEN_WHEN_SET)
_OPTIONAL_TEXT = (*(name for name in ALWAYS_WRITTEN[2:] if name != "chat_type"), *WRITTEN_WHEN_SET)


class SessionSource:
    """The chat, person and thread a message came from, as the platform reported them.

    Immutable, so that one may be shared by entries, threads and events. `is_bot`, `role_authorized` and
    `delivered_via_upstream_relay` hold for the message at hand only: the adapter that received it says
    so, and neither a file, a peer nor a pickle can.
    """

    __slots__ = (*ALWAYS_WRITTEN, *WRITTEN_WHEN_SET, *NEVER_WRITTEN)

    platform: Platform
    chat_id: str
    chat_name: str | None
    chat_type: str
    user_id: str | None
    user_name: str | None
    thread_id: str | None
    chat_topic: str | None
    user_id_alt: str | None
    chat_id_alt: str | None
    is_bot: bool
    scope_id: str | None
    guild_id: str | None
    parent_chat_id: str | None
    message_id: str | None
    role_authorized: bool
    profile: str | None
    delivered_via_upstream_relay: bool

    def __init__(
        self,
        platform: Platform,
        chat_id: str,
        chat_name: str | None = None,
        chat_type: str = "dm",
        user_id: str | None = None,
        user_name: str | None = None,
        thread_id: str | None = None,
        chat_topic: str | None = None,
        user_id_alt: str | None = None,
        chat_id_alt: str | None = None,
        is_bot: bool = False,
        scope_id: str | None = None,
        guild_id: str | None = None,
        parent_chat_id: str | None = None,
        message_id: str | None = None,
        role_authorized: bool = False,
        profile: str | None = None,
        delivered_via_upstream_relay: bool = False,
    ) -> None:
        values = {
            "platform": Platform(platform),
            "chat_id": "" if chat_id is None else chat_id,
            "chat_name": chat_name,
            "chat_type": chat_type,
            "user_id": user_id,
            "user_name": user_name,
            "thread_id": thread_id,
            "chat_topic": chat_topic,
            "user_id_alt": user_id_alt,
            "chat_id_alt": chat_id_alt,
            "is_bot": is_bot,
            "scope_id": scope_id or guild_id,
            "guild_id": scope_id or guild_id,
            "parent_chat_id": parent_chat_id,
            "message_id": message_id,
            "role_authorized": role_authorized,
            "profile": profile,
            "delivered_via_upstream_relay": delivered_via_upstream_relay,
        }
        _check(values)
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @classmethod
    def local_cli(cls) -> "SessionSource":
        """Return the source of messages typed at the terminal."""
        return cls(platform=Platform.LOCAL, chat_id="cli", chat_name="CLI terminal", chat_type="dm")

    @property
    def description(self) -> str:
        """A short name of the place for people and logs. Not quoted: never put it into a prompt."""
        if self.platform is Platform.LOCAL:
            return "CLI terminal"
        place = self.chat_name or self.chat_id
        if self.chat_type == "dm":
            text = f"DM with {self.user_name or self.user_id or 'user'}"
        elif self.chat_type in ("group", "channel"):
            text = f"{self.chat_type}: {place}"
        else:
            text = place
        return f"{text}, thread: {self.thread_id}" if self.thread_id else text

    def to_dict(self) -> dict[str, Any]:
        """Write what may be stored; optional ids only when set, the trust signals never."""
        data: dict[str, Any] = {name: getattr(self, name) for name in ALWAYS_WRITTEN}
        data["platform"] = self.platform.value
        for name in WRITTEN_WHEN_SET:
            value = getattr(self, name)
            if value:
                data[name] = value
        return data

    def known(self) -> dict[str, Any]:
        """Write only what is known, as events keep it; `from_dict` reads it all the same."""
        data: dict[str, Any] = {"platform": self.platform.value}
        for name in _KNOWN:
            value = getattr(self, name)
            if value is not None:
                data[name] = value
        return data

    def without_trust(self) -> "SessionSource":
        """The source without what holds for the message at hand only: itself, if there is none of it."""
        if not (self.is_bot or self.role_authorized or self.delivered_via_upstream_relay):
            return self
        return self.replace(is_bot=False, role_authorized=False, delivered_via_upstream_relay=False)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "SessionSource":
        """Read what `to_dict` wrote; keys it does not know, the trust signals among them, are ignored.

        Numeric ids become text, for platforms whose ids are numbers in JSON. A missing platform raises
        KeyError, an unregistered one ValueError.
        """
        if not isinstance(data, Mapping):
            raise ValueError(f"a source must be a mapping, not {data!r}")
        fields = {name: _as_text(data.get(name)) for name in _OPTIONAL_TEXT}
        chat_id = _as_text(data.get("chat_id"))
        chat_type = data.get("chat_type")
        return cls(
            platform=Platform(data["platform"]),
            chat_id="" if chat_id is None else str(chat_id),
            chat_type="dm" if chat_type is None else chat_type,
            **fields,
        )

    def replace(self, **changes: Any) -> "SessionSource":
        """Return a source with some fields changed; changing one of scope_id and guild_id changes both."""
        values = {name: getattr(self, name) for name in self.__slots__}
        if "guild_id" in changes and "scope_id" not in changes:
            values["scope_id"] = None
        elif "scope_id" in changes and "guild_id" not in changes:
            values["guild_id"] = None
        return type(self)(**{**values, **changes})

    __replace__ = replace

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a SessionSource cannot be changed; use replace({name}=...)")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError("a SessionSource cannot be changed")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SessionSource):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    def __hash__(self) -> int:
        return hash(tuple(getattr(self, name) for name in self.__slots__))

    def __repr__(self) -> str:
        shown = (f"{name}={value!r}" for name in self.__slots__ if (value := getattr(self, name)))
        return f"SessionSource({', '.join(shown)})"

    def __copy__(self) -> "SessionSource":
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> "SessionSource":
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by way of a dict, so that a pickled source carries no trust signal."""
        return _unpickle, (self.to_dict(),)


def _unpickle(data: dict[str, Any]) -> SessionSource:
    return SessionSource.from_dict(data)


def _as_text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _check(values: Mapping[str, object]) -> None:
    """Refuse a value of the wrong type by name, before it reaches a session key or the log."""
    for name in _OPTIONAL_TEXT:
        if values[name] is not None and not isinstance(values[name], str):
            raise ValueError(f"{name} must be a str or None, not {values[name]!r}")
    if not isinstance(values["chat_id"], str):
        raise ValueError(f"chat_id must be a str, not {values['chat_id']!r}")
    for name in NEVER_WRITTEN:
        if not isinstance(values[name], bool):
            raise ValueError(f"{name} must be True or False, not {values[name]!r}")
    chat_type = values["chat_type"]
    if not isinstance(chat_type, str):
        raise ValueError(f"chat_type must be a str, not {chat_type!r}")
    if not chat_type or ":" in chat_type:
        raise ValueError(f"chat_type must be a word without ':', such as dm or group, not {chat_type!r}")
