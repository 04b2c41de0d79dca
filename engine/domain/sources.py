"""The source of a message: the chat, person and thread it came from.

A plain frozen class, on purpose neither a struct nor a dataclass: those can be encoded whole, and three
of these fields must never be written or read back. `to_dict` and `from_dict` are the only way out and in.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from operator import attrgetter, call
from typing import Any, NoReturn, TypedDict, Unpack

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
_known = attrgetter(*_KNOWN)
_call: Callable[..., Any] = call
_OPTIONAL_TEXT = (*(name for name in ALWAYS_WRITTEN[2:] if name != "chat_type"), *WRITTEN_WHEN_SET)


_IDS = {name for name in _KNOWN if "_id" in name}
_PLAIN = frozenset((str, type(None)))


class SourceFields(TypedDict, total=False):
    """The fields of a source, as `replace` takes them."""

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
        scope = guild_id if scope_id is None or scope_id == "" else scope_id
        texts: Sequence[Any] = (
            "" if chat_id is None else chat_id,
            chat_name,
            chat_type,
            user_id,
            user_name,
            thread_id,
            chat_topic,
            user_id_alt,
            chat_id_alt,
            scope,
            scope,
            parent_chat_id,
            message_id,
            profile,
        )
        # One look at all types; a source is made for every message, and one with an odd type is rare.
        if not _PLAIN.issuperset(map(type, texts)):
            texts = [_text(name, value) for name, value in zip(_KNOWN, texts, strict=True)]
        if not chat_type or ":" in chat_type:
            raise ValueError(f"chat_type must be a word without ':', such as dm or group, not {chat_type!r}")
        flags = (is_bot, role_authorized, delivered_via_upstream_relay)
        for name, flag in zip(NEVER_WRITTEN, flags, strict=True):
            if type(flag) is not bool:
                raise ValueError(f"{name} must be True or False, not {flag!r}")
        deque(map(_call, _SETTERS, repeat(self), (Platform(platform), *texts, *flags)), maxlen=0)

    @classmethod
    def local_cli(cls) -> "SessionSource":
        """Return the source of messages typed at the terminal."""
        return cls(platform=Platform.LOCAL, chat_id="cli", chat_name="CLI terminal", chat_type="dm")

    @property
    def description(self) -> str:
        """Return a short name of the place for people and logs. Not quoted: never put it into a prompt."""
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
        data |= {name: value for name, value in zip(_KNOWN, _known(self), strict=True) if value is not None}
        return data

    def without_trust(self) -> "SessionSource":
        """Return the source without what holds for the message at hand only: itself, if there is none of it."""
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
        fields: dict[str, Any] = dict(zip(_OPTIONAL_TEXT, map(data.get, _OPTIONAL_TEXT), strict=True))
        if not _PLAIN.issuperset(map(type, fields.values())):
            fields = {name: _as_text(value) for name, value in fields.items()}
        chat_id = _as_text(data.get("chat_id"))
        chat_type = data.get("chat_type")
        return cls(
            platform=Platform(data["platform"]),
            chat_id="" if chat_id is None else str(chat_id),
            chat_type="dm" if chat_type is None else chat_type,
            **fields,
        )

    def replace(self, **changes: Unpack[SourceFields]) -> "SessionSource":
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


def _text(name: str, value: Any) -> str | None:
    """Return the text of a field, a number's for an id (G4a); refuse another type by the field's name."""
    if name in _IDS:
        value = _as_text(value)
    if isinstance(value, str) or (value is None and name in _OPTIONAL_TEXT):
        return value
    raise ValueError(f"{name} must be a str{' or None' if name in _OPTIONAL_TEXT else ''}, not {value!r}")


_SETTERS = tuple(SessionSource.__dict__[name].__set__ for name in SessionSource.__slots__)
