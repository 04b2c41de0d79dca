"""Names and texts chosen by other people, as they may be put into a prompt: cleaned, and quoted or kept to one line."""

import json
import re
import unicodedata

_MAX_CHARACTERS = 240
_ELLIPSIS = "..."
# The C0 and C1 controls, line and paragraph separators, and lone surrogates, which cannot be sent.
_CONTROL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
# What is not shown though it is no format character (Cf): joiners, fillers, variation selectors, unassigned tags.
_NOT_SHOWN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u2800\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
_BRACKETS = str.maketrans("[]\uff3b\uff3d\u2045\u2046\u3010\u3011\u301a\u301b\u27e6\u27e7", "()" * 6)


def quote(value: str) -> str:
    """Return the value as one JSON string on one line, at most 240 characters of it (G55).

    Inside the quotes a line break is written \\n, so that no name can start a line of the prompt.
    """
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    return json.dumps(_shortened(_CONTROL.sub(" ", visible(text)).strip(), _MAX_CHARACTERS), ensure_ascii=False)


def neutralize_untrusted_inline_text(value: object, *, max_chars: int = _MAX_CHARACTERS) -> str:
    """Return a sender's name that is safe in front of a message, as in `[name] text` (G55a).

    It is one line without invisible characters, and its brackets are round: it can neither end its own prefix nor
    begin another one. A usual name is returned as it is. `max_chars` is its length at most, 0 for any.
    """
    text = _CONTROL.sub(" ", visible(str(value))).translate(_BRACKETS)
    return _shortened(" ".join(text.split()), max_chars)


def visible(text: str) -> str:
    """Return a text without its invisible characters: they hide words from people, and split those looked for."""
    if text.isascii():
        return text
    return "".join([each for each in _NOT_SHOWN.sub("", text) if unicodedata.category(each) != "Cf"])


def _shortened(text: str, limit: int) -> str:
    if not limit or len(text) <= limit:
        return text
    return text[: max(limit - len(_ELLIPSIS), 0)] + _ELLIPSIS[:limit]
