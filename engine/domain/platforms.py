"""Messaging platforms: the built-in ones, and those a host registers while it runs.

A platform's value is one part of every session key, so its spelling is checked here, once.
"""

import re
import threading
from enum import Enum

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,63}", re.ASCII)
_lock = threading.RLock()
_pii_safe_values = {"whatsapp", "signal", "telegram", "bluebubbles"}


class Platform(Enum):
    """A place messages come from and go to.

    An enum that grows: one name is one member for the life of the process, so `is` works for plugins too.
    """

    LOCAL = "local"
    TELEGRAM = "telegram"
    DISCORD = "discord"
    WHATSAPP = "whatsapp"
    WHATSAPP_CLOUD = "whatsapp_cloud"
    SLACK = "slack"
    SIGNAL = "signal"
    MATTERMOST = "mattermost"
    MATRIX = "matrix"
    HOMEASSISTANT = "homeassistant"
    EMAIL = "email"
    SMS = "sms"
    DINGTALK = "dingtalk"
    API_SERVER = "api_server"
    WEBHOOK = "webhook"
    MSGRAPH_WEBHOOK = "msgraph_webhook"
    FEISHU = "feishu"
    WECOM = "wecom"
    WECOM_CALLBACK = "wecom_callback"
    WEIXIN = "weixin"
    BLUEBUBBLES = "bluebubbles"
    QQBOT = "qqbot"
    YUANBAO = "yuanbao"
    RELAY = "relay"

    @property
    def pii_safe(self) -> bool:
        """Return True if ids of this platform may be replaced by hashes in a prompt.

        False where the model needs the real id to address somebody, as in a Discord mention.
        """
        return self.value in _pii_safe_values

    @classmethod
    def register(cls, name: str, pii_safe: bool | None = None) -> "Platform":
        """Return the member for a plugin platform, making it the first time.

        Registering again returns the same member; `pii_safe=None` leaves the flag as it is (False at
        first), so that a plain look-up by `register` cannot weaken what the plugin declared.
        """
        _check_name(name)
        if pii_safe is not None and not isinstance(pii_safe, bool):
            raise ValueError(f"pii_safe must be True, False or None, not {pii_safe!r}")
        with _lock:
            member = cls._value2member_map_.get(name)
            if not isinstance(member, cls):
                member = cls._add(name)
            if pii_safe is not None and pii_safe != member.pii_safe:
                _change_pii_safe(member, pii_safe)
            return member

    @classmethod
    def _add(cls, value: str) -> "Platform":
        """Make a member as the enum machinery does; the value map comes last, as it publishes the member."""
        member = object.__new__(cls)
        name = value.upper()
        member._name_ = name
        member._value_ = value
        member.__objclass__ = cls  # type: ignore[attr-defined]
        member._sort_order_ = len(cls._member_names_)  # type: ignore[attr-defined]
        setattr(cls, name, member)
        cls._member_map_[name] = member
        cls._member_names_.append(name)
        cls._value2member_map_[value] = member
        return member

    @classmethod
    def _missing_(cls, value: object) -> "Platform":
        """Find a member by another enum's member of the same value, or for decoders that keep their own table.

        Raise ValueError for a value that is no platform's: a host's own enum and msgspec's decoders, made
        before a plugin was registered, both end up here.
        """
        plain = value.value if isinstance(value, Enum) else value
        found = cls._value2member_map_.get(plain) if isinstance(plain, str) else None
        if isinstance(found, cls):
            return found
        shown = plain if isinstance(plain, str) and plain else "name"
        raise ValueError(
            f'{value!r} is not a valid Platform; a plugin\'s must be registered first: Platform.register("{shown}")'
        )


_BUILT_IN = frozenset(Platform)


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name) or ".." in name:
        raise ValueError(
            f"platform name {name!r} cannot be used in a session key: "
            "use 1 to 64 of a-z, 0-9, '_', '-' and single '.', starting with a letter or digit"
        )


def _change_pii_safe(member: Platform, pii_safe: bool) -> None:
    if member in _BUILT_IN:
        raise ValueError(f"pii_safe of the built-in platform {member.value!r} is fixed at {member.pii_safe}")
    if pii_safe:
        _pii_safe_values.add(member.value)
    else:
        _pii_safe_values.discard(member.value)
