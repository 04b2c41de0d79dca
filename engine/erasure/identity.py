"""The ids that a person is known by: the one that was given, and those that the person's sources name beside it."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from engine.domain.platforms import Platform
from engine.whatsapp import canonical_whatsapp_identifier

_SENDERS = ("user_id", "sender_id", "author_id", "from_id", "user_id_alt")
_SHORTEST_NAME = 3
"""Shorter names are part of too many words to be looked for in others' texts."""


class Identity:
    """A person on one platform, or with `platform=None` on every platform that has somebody with the id.

    A source with the id given tells that person's other id there (`user_id` and `user_id_alt`). It goes no further than
    that: what another source says of the other id may be of somebody else. WhatsApp's ids are compared without device
    and server, and by the aliases that are on this machine.
    """

    def __init__(self, user_id: str, platform: str | None) -> None:
        self._given, self._platform = user_id, platform
        self._others: defaultdict[str, set[str]] = defaultdict(set)
        self._canonical: dict[str, str] = {}
        self.names = {user_id}
        """All that tells the person in a text: ids, and names that are theirs alone."""

    def learn(self, source: Mapping[str, Any]) -> None:
        """Take in what a source says of the person, if it is one of theirs."""
        platform = str(source.get("platform"))
        known = _ids(source)
        if not self._is_given(known, platform):
            return
        people = {str(source[name]) for name in ("user_id", "user_id_alt") if source.get(name)}
        self._others[platform] |= {self._plain(platform, each) for each in people}
        said = [source.get("user_name"), source.get("chat_name") if is_private(source) else None]
        self.names |= people | {name for name in said if isinstance(name, str) and len(name) >= _SHORTEST_NAME}

    def has(self, source: Mapping[str, Any]) -> bool:
        """Return True if a source is the person's: one of a private chat may have the id as its chat's alone."""
        platform = str(source.get("platform"))
        return self._is_one_of(_ids(source), platform)

    def among(self, senders: Iterable[str], platform: str) -> bool:
        """Return True if the person is one of the senders that a message of a platform names."""
        return self._is_one_of(senders, platform)

    def anywhere_among(self, senders: Iterable[str]) -> bool:
        """Return True if the person may be one of the senders, on whatever platform that was."""
        platforms = {self._platform or "", Platform.WHATSAPP.value, *self._others}
        return any(self.among(senders, each) for each in platforms)

    def _is_one_of(self, ids: Iterable[str], platform: str) -> bool:
        others = self._others.get(platform, ())
        return self._is_given(ids, platform) or any(self._plain(platform, each) in others for each in ids)

    def _is_given(self, ids: Iterable[str], platform: str) -> bool:
        given = self._plain(platform, self._given)
        return self._platform in (None, platform) and any(self._plain(platform, each) == given for each in ids)

    def _plain(self, platform: str, person: str) -> str:
        if platform != Platform.WHATSAPP.value:
            return person
        if person not in self._canonical:
            self._canonical[person] = canonical_whatsapp_identifier(person) or person
        return self._canonical[person]


def senders_of(message: Mapping[str, Any]) -> set[str]:
    """Return the ids of people that a message names as its sender; numbers as the texts they are elsewhere (G4a)."""
    named = (message.get(name) for name in _SENDERS)
    return {str(each) for each in named if isinstance(each, str | int) and not isinstance(each, bool) and each != ""}


def _ids(source: Mapping[str, Any]) -> list[str]:
    names = ("user_id", "user_id_alt", "chat_id") if is_private(source) else ("user_id", "user_id_alt")
    return [str(source[name]) for name in names if source.get(name)]


def is_private(source: Mapping[str, Any]) -> bool:
    """Return True for a source of a private chat."""
    return bool(source.get("chat_type", "dm") == "dm")
