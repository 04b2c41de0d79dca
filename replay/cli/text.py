"""Text that is safe to send to a terminal, and values in words."""

import json
import math
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]")
"""Control characters, also those of the second block, marks that turn the direction of text, and half characters."""
_KEPT_IN_CELLS = {"\n": "⏎ ", "\t": " ", "\r": ""}


def safe(text: str, keep: str = "\n\t") -> str:
    """Return a text with everything that a terminal would act upon shown as an escape."""
    return _UNSAFE.sub(lambda found: found[0] if found[0] in keep else escaped(found[0]), text)


def in_one_line(text: str) -> str:
    """Return a text for one line of a table."""
    return _UNSAFE.sub(lambda found: _KEPT_IN_CELLS.get(found[0]) or escaped(found[0]), text.replace("\r\n", "\n"))


def escaped(character: str) -> str:
    """Return a character as Python would write it."""
    number = ord(character)
    return f"\\x{number:02x}" if number < 256 else f"\\u{number:04x}"


def as_json(value: Any) -> str:
    """Return a value as JSON in one line, with every character that a terminal acts upon in JSON's own escapes."""
    try:
        return safe_json(json.dumps(value, ensure_ascii=False, default=_plain, allow_nan=False))
    except ValueError:  # JSON has no infinity
        return safe_json(json.dumps(_finite(value), ensure_ascii=False, default=_plain))


def safe_json(text: str) -> str:
    """Return JSON that says the same, with every character that a terminal acts upon in JSON's own escapes."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _finite(value: Any) -> Any:
    """Return a value with numbers that JSON does not have as text."""
    match value:
        case float() if not math.isfinite(value):
            return str(value)
        case Mapping():
            return {name: _finite(each) for name, each in value.items()}
        case list() | tuple():
            return [_finite(each) for each in value]
        case _:
            return value


def _plain(value: object) -> Any:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def shown(value: Any) -> str:
    """Return a value as people read it, in one line; nothing for None."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case datetime():
            return f"{value:%Y-%m-%d %H:%M:%S}"
        case float():
            return f"{value:.6f}".rstrip("0").rstrip(".")
        case list() | tuple() | Mapping():
            return in_one_line(as_json(value)) if value else ""
        case _:
            return in_one_line(str(value))


def size(count: int) -> str:
    """Return a number of bytes as people read it."""
    amount = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TB"
