"""Ids of people and chats in a prompt: hashed when that is asked for and the platform allows it (G56, G56a)."""

import hashlib
import hmac
import re
import unicodedata
from collections.abc import Iterable

from engine.domain.config import HomeChannel
from engine.domain.platforms import Platform
from engine.domain.sources import SessionSource
from engine.untrusted import quote, visible

_HASH_DIGITS = 12
_PREFIXES = frozenset({"channel", "chat", "dm", "group", "room", "thread", "topic", "user"})
_NOT_ALPHANUMERIC = re.compile(r"[\W_]+")
_TELLING_LENGTH = 6
# A number in national form has its last digits in common with the full one: a 0 takes the place of the country.
_TELLING_DIGITS = 7


class Redaction:
    """The rule for ids in a prompt: hashed or not, and with which key.

    It applies to the whole section or not at all: an id that is hashed in one line and shown in the next is not hidden.
    """

    def __init__(self, source: SessionSource, wanted: bool, key: str | bytes | None = None) -> None:
        if key is not None and (not isinstance(key, str | bytes) or not key):
            raise ValueError("pii_key must be a text or bytes that are not empty, or None for hashes without a key")
        self.applies = wanted and source.platform.pii_safe
        # In a group the sender changes from message to message, and the section must not.
        person = (source.user_id, source.user_id_alt) if source.chat_type == "dm" else ()
        self.own = tuple(each for each in (*person, source.chat_id, source.chat_id_alt) if each)
        """The ids that no name in the section may tell."""
        self._key = key.encode("utf-8", "surrogatepass") if isinstance(key, str) else key

    def hash_id(self, value: str) -> str:
        """Return 12 hex digits of the value's SHA-256, keyed if there is a key: the same person gets the same word."""
        data = value.encode("utf-8", "surrogatepass")
        if self._key is None:
            return hashlib.sha256(data).hexdigest()[:_HASH_DIGITS]
        return hmac.digest(self._key, data, "sha256").hex()[:_HASH_DIGITS]

    def hash_chat_id(self, value: str) -> str:
        """Return the hash of a chat id; a known prefix such as `group:` stays, another may be a name or a number."""
        prefix, colon, rest = value.partition(":")
        if colon and rest and _is_known(prefix):
            return f"{prefix}:{self.hash_id(rest)}"
        return self.hash_id(value)


class Wording:
    """A source's names and ids as a prompt may show them; the source itself is not changed."""

    def __init__(self, source: SessionSource, redaction: Redaction) -> None:
        self._source = source
        self._redaction = redaction
        self._redact = redaction.applies

    @classmethod
    def of_home(cls, home: HomeChannel, redaction: Redaction) -> "Wording":
        """Return the wording of a home channel, which is redacted when its section is."""
        source = SessionSource(
            platform=home.platform,
            chat_id=home.chat_id,
            chat_name=home.name,
            chat_type="channel",
            thread_id=home.thread_id,
        )
        return cls(source, redaction)

    @property
    def user_name(self) -> str:
        """Return the person's name, or "" when there is none to show."""
        return self._name(self._source.user_name, (self._source.user_id, self._source.user_id_alt, *self._chat))

    @property
    def chat_name(self) -> str:
        """Return the chat's name, else its id; the same whoever writes, so it is not compared with the sender."""
        return self._name(self._source.chat_name, self._chat) or self.chat_id()

    @property
    def chat_topic(self) -> str:
        """Return the chat's topic, or "" when there is none to show."""
        return self._name(self._source.chat_topic, self._chat)

    def user_id(self) -> str:
        """Return the person's id, or `user_<hash>`."""
        value = self._source.user_id or ""
        return f"user_{self._redaction.hash_id(value)}" if self._redact and value else value

    def chat_id(self) -> str:
        """Return the chat's id, or its hash."""
        value = self._source.chat_id
        return self._redaction.hash_chat_id(value) if self._redact and value else value

    def thread_id(self) -> str:
        """Return the thread's id, or its hash."""
        value = self._source.thread_id or ""
        return self._redaction.hash_chat_id(value) if self._redact and value else value

    def place(self) -> str:
        """Return what `SessionSource.description` says, with every untrusted part quoted."""
        source = self._source
        if source.platform is Platform.LOCAL:
            return "CLI terminal"
        if source.chat_type == "dm":
            text = f"DM with {quote(self.user_name or self.user_id() or 'user')}"
        elif source.chat_type in ("group", "channel"):
            text = f"{source.chat_type}: {quote(self.chat_name)}"
        else:
            text = quote(self.chat_name)
        return f"{text}, thread: {quote(self.thread_id())}" if source.thread_id else text

    @property
    def _chat(self) -> tuple[str | None, ...]:
        return self._source.chat_id, self._source.chat_id_alt

    def _name(self, name: str | None, hidden: Iterable[str | None]) -> str:
        """Return the name, unless it gives away an id that is to be hidden: many a name is a phone number."""
        if not name or not self._redact:
            return name or ""
        ids = [*self._redaction.own, *filter(None, hidden)]
        return "" if _is_number(name) or any(_tells(name, each) for each in ids) else name


def _is_known(prefix: str) -> bool:
    if prefix in _PREFIXES:
        return True
    try:
        return Platform(prefix).value == prefix
    except ValueError:
        return False


def _tells(name: str, hidden: str) -> bool:
    """Return True if a name has an id in it, however it is written: other digits, a national form, parts in between."""
    shown, digits = _compact(name), _digits(name)
    for part in (hidden, re.split("[:@]", hidden, maxsplit=1)[0]):
        whole, number = _compact(part), _digits(part)
        if whole and (whole == shown or (len(whole) >= _TELLING_LENGTH and whole in shown)):
            return True
        if len(number) >= _TELLING_DIGITS and number[-_TELLING_DIGITS:] in digits:
            return True
    return False


def _is_number(name: str) -> bool:
    """Return True if a name is nothing but a number long enough to call, whosever it is."""
    found = _digits(name)
    return len(found) >= _TELLING_DIGITS and _compact(name) == found


def _compact(text: str) -> str:
    """Return the letters and digits of a text, alike however they are written."""
    plain = unicodedata.normalize("NFKC", visible(text)).casefold()
    return "".join([_digit(each) or each for each in _NOT_ALPHANUMERIC.sub("", plain)])


def _digits(text: str) -> str:
    return "".join(each for each in _compact(text) if each.isascii() and each.isdigit())


def _digit(character: str) -> str | None:
    """Return a digit of any script as an ASCII digit."""
    found = unicodedata.digit(character, None)
    return None if found is None else str(found)
