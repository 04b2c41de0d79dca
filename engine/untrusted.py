"""How names and ids chosen by other people are put into a prompt: quoted, and hashed when asked."""

import hashlib
import json
import re
from collections.abc import Iterable

from engine.domain.config import HomeChannel
from engine.domain.platforms import Platform
from engine.domain.sources import SessionSource

_MAX_CHARACTERS = 240
_ELLIPSIS = "..."
# Besides the C0 and C1 controls: line and paragraph separators, bidirectional overrides, which make text
# look like other text, lone surrogates, which cannot be sent, and tag characters, which cannot be seen.
_CONTROL = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)
_WORD_PREFIX = re.compile(r"([A-Za-z][A-Za-z_-]*):(.+)", re.ASCII | re.DOTALL)
_NOT_ALPHANUMERIC = re.compile(r"[\W_]+")
_HASH_DIGITS = 12
_TELLING_LENGTH = 6


def quote(value: str) -> str:
    """Return the value as one JSON string on one line, at most 240 characters of it.

    Inside the quotes a line break is written \\n, so that no name can start a line of the prompt.
    """
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    text = _CONTROL.sub(" ", text).strip()
    if len(text) > _MAX_CHARACTERS:
        text = text[: _MAX_CHARACTERS - len(_ELLIPSIS)] + _ELLIPSIS
    return json.dumps(text, ensure_ascii=False)


def hash_id(value: str) -> str:
    """Return the first 12 hex digits of the value's SHA-256: the same person gets the same word."""
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_DIGITS]


def hash_chat_id(value: str) -> str:
    """Hash a chat id but keep a prefix such as `group:`; one with digits is part of the id, and is hashed."""
    found = _WORD_PREFIX.fullmatch(value)
    return f"{found[1]}:{hash_id(found[2])}" if found else hash_id(value)


class Wording:
    """A source's names and ids as a prompt may show them; the source itself is not changed."""

    def __init__(self, source: SessionSource, redact_pii: bool) -> None:
        self._source = source
        self._redact = redact_pii and source.platform.pii_safe

    @classmethod
    def of_home(cls, home: HomeChannel, redact_pii: bool) -> "Wording":
        """Word a home channel by the rules of its own platform, which need not be the session's."""
        source = SessionSource(
            platform=home.platform,
            chat_id=home.chat_id,
            chat_name=home.name,
            chat_type="channel",
            thread_id=home.thread_id,
        )
        return cls(source, redact_pii)

    @property
    def user_name(self) -> str:
        """The person's name, or "" when there is none to show."""
        source = self._source
        hidden = (source.user_id, source.user_id_alt, source.chat_id, source.chat_id_alt)
        return self._name(source.user_name, hidden)

    @property
    def chat_name(self) -> str:
        """The chat's name, else its id; the same whoever writes, so it is not compared with the sender."""
        source = self._source
        return self._name(source.chat_name, (source.chat_id, source.chat_id_alt)) or self.chat_id()

    def user_id(self) -> str:
        """The person's id, or `user_<hash>`."""
        value = self._source.user_id or ""
        return f"user_{hash_id(value)}" if self._redact and value else value

    def chat_id(self) -> str:
        """The chat's id, or its hash."""
        value = self._source.chat_id
        return hash_chat_id(value) if self._redact and value else value

    def thread_id(self) -> str:
        """The thread's id, or its hash."""
        value = self._source.thread_id or ""
        return hash_chat_id(value) if self._redact and value else value

    def place(self) -> str:
        """Say what `SessionSource.description` says, with every untrusted part quoted."""
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

    def _name(self, name: str | None, hidden: Iterable[str | None]) -> str:
        """Return the name, unless it gives away an id that is to be hidden: many a name is a phone number."""
        if not name or not self._redact:
            return name or ""
        return "" if any(_tells(name, each) for each in hidden if each) else name


def _tells(name: str, hidden: str) -> bool:
    shown = _compact(name)
    return any(
        part == shown or (len(part) >= _TELLING_LENGTH and part in shown)
        for part in (_compact(hidden), _compact(re.split("[:@]", hidden, maxsplit=1)[0]))
        if part
    )


def _compact(text: str) -> str:
    return _NOT_ALPHANUMERIC.sub("", text).casefold()
