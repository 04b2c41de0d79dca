"""Texts as every backend can hold them."""

from json import dumps, loads

from engine.domain.encoding import encodable

_ESCAPED = "$"


def original(stored: str) -> str:
    """Return the text that `storable` made this of."""
    return str(loads(stored[len(_ESCAPED) :])) if stored.startswith(_ESCAPED) else stored


def storable(text: str) -> str:
    """Return a text that any backend can hold in a column: without NUL and lone surrogates, and unambiguous."""
    if text[:1] != _ESCAPED and "\0" not in text and (text.isascii() or encodable(text)):
        return text
    return _ESCAPED + dumps(text)
