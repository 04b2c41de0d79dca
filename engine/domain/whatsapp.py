"""One id for one WhatsApp person, who appears under a phone number and under hidden "lid" numbers.

The bridge leaves small files that map one to the other. How they are read is handed in: see `engine/whatsapp.py`.
"""

import re
from collections import deque
from collections.abc import Callable

import msgspec

ReadMapping = Callable[[str], bytes | None]
"""Returns the content of a mapping file by its name, or None if there is none to be had."""

_SAFE_IN_PATH = re.compile(r"[A-Za-z0-9@.+-]+", re.ASCII)
_MAX_ALIASES = 64


def normalize_whatsapp_identifier(value: object) -> str:
    """Reduce a WhatsApp id to its bare number: no "+", no device after ":", no server after "@"."""
    text = "" if value is None else str(value)
    return text.strip().replace("+", "", 1).split(":", 1)[0].split("@", 1)[0]


def canonical_identifier(value: object, read: ReadMapping) -> str:
    """Return the one id by which all aliases of a person are known: the shortest, then the first in order."""
    start = normalize_whatsapp_identifier(value)
    if not _SAFE_IN_PATH.fullmatch(start):
        return start
    return min(_aliases(start, read), key=lambda alias: (len(alias), alias))


def _aliases(start: str, read: ReadMapping) -> set[str]:
    """Follow the mappings breadth-first; a cycle ends by itself, a hostile chain at `_MAX_ALIASES`."""
    found = {start}
    queue = deque([start])
    while queue:
        current = queue.popleft()
        for name in (f"lid-mapping-{current}.json", f"lid-mapping-{current}_reverse.json"):
            alias = _parse(read(name))
            if len(found) < _MAX_ALIASES and alias not in found and _SAFE_IN_PATH.fullmatch(alias):
                found.add(alias)
                queue.append(alias)
    return found


def _parse(content: bytes | None) -> str:
    """Return the id in a mapping file, or "" when there is none to be had."""
    if content is None:
        return ""
    try:
        return normalize_whatsapp_identifier(msgspec.json.decode(content, type=str | int))
    except ValueError:
        return ""
