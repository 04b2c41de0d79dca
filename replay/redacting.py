"""Redaction of exports: ids and names of people and chats become hashes, addresses and numbers are hidden (R17)."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from engine.domain import events as e
from engine.domain.encoding import Content
from engine.domain.sources import SessionSource
from engine.redaction import Redaction

_SHORTEST = 3
_PEOPLE = ("user_id", "user_id_alt", "user_name")
_PLACES = ("chat_id", "chat_id_alt", "chat_name", "chat_topic", "thread_id", "parent_chat_id", "scope_id", "guild_id")
_MAIL = re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63})+")
_NUMBER = re.compile(r"(?<![\w@/.-])\+?\d(?:[ ()./-]{0,2}\d){6,18}(?![\w-])")


class Redactor:
    """Replaces what tells who somebody is, the same word for the same person everywhere.

    Known are the ids and names that events recorded as such, wherever else they stand; mail addresses and long numbers
    are found by their form. A name that nobody recorded as one stays: look before you publish.
    """

    def __init__(self, key: str | bytes | None = None) -> None:
        self._redaction = Redaction(SessionSource.local_cli(), wanted=True, key=key)
        self._words: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def learn(self, event: Content) -> None:
        """Take in the ids and names that an event has."""
        source = getattr(event, "origin", None) or getattr(event, "source", None)
        if isinstance(source, Mapping):
            self._learn("user", (source.get(name) for name in _PEOPLE))
            self._learn("chat", (source.get(name) for name in _PLACES))
        self._learn("chat", [getattr(event, "display_name", None)])
        if isinstance(event, (e.MessageAppended, e.MessageRewritten)):
            self._learn("message", [event.message_id])

    def _learn(self, kind: str, values: Iterable[object]) -> None:
        for value in values:
            if isinstance(value, str) and len(value) >= _SHORTEST and value not in self._words:
                self._words[value] = f"{kind}_{self._redaction.hash_id(value)}"
                self._pattern = None

    def text(self, text: str) -> str:
        """Return a text without what is known, or looks like an address or a number to call."""
        if self._words:
            if self._pattern is None:
                longest = sorted(self._words, key=lambda each: (-len(each), each))
                self._pattern = re.compile("|".join(f"(?<!\\w){re.escape(each)}(?!\\w)" for each in longest))
            text = self._pattern.sub(lambda found: self._words[found[0]], text)
        return _NUMBER.sub("[number]", _MAIL.sub("[address]", text))

    def value(self, value: Any) -> Any:
        """Return JSON with every text in it redacted, names of fields too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self.value(each) for each in value]
        if isinstance(value, dict):
            return {self.text(name): self.value(each) for name, each in value.items()}
        return value
