"""One id for one WhatsApp person, who appears under a phone number and under hidden "lid" numbers.

The bridge leaves small files that map one to the other; this is the only part of the domain that reads files.
"""

import os
import re
from collections import deque
from collections.abc import Callable
from pathlib import Path

import msgspec

ReadMapping = Callable[[str], bytes | None]

_SAFE_IN_PATH = re.compile(r"[A-Za-z0-9@.+-]+", re.ASCII)
_MAX_ALIASES = 64
_MAX_FILE_BYTES = 4096


def normalize_whatsapp_identifier(value: object) -> str:
    """Reduce a WhatsApp id to its bare number: no "+", no device after ":", no server after "@"."""
    text = "" if value is None else str(value)
    return text.strip().replace("+", "", 1).split(":", 1)[0].split("@", 1)[0]


def canonical_whatsapp_identifier(
    value: object, session_dir: str | os.PathLike[str] | None = None, read: ReadMapping | None = None
) -> str:
    """Return the one id by which all aliases of a person are known: the shortest, then the first in order.

    `session_dir` is the bridge's folder; `read` replaces the reading of a mapping file by name.
    """
    start = normalize_whatsapp_identifier(value)
    if not _SAFE_IN_PATH.fullmatch(start):
        return start
    aliases = _aliases(start, read or _reader(session_dir))
    return min(aliases, key=lambda alias: (len(alias), alias))


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


def _reader(session_dir: str | os.PathLike[str] | None) -> ReadMapping:
    folders = _default_session_dirs() if session_dir is None else [Path(session_dir)]

    def read(name: str) -> bytes | None:
        for folder in folders:
            try:
                with (folder / name).open("rb") as file:
                    return file.read(_MAX_FILE_BYTES)
            except (OSError, ValueError):
                continue
        return None

    return read


def _default_session_dirs() -> list[Path]:
    """Where the host keeps them: in its first versions' folder, or in that of later ones."""
    home = Path(os.environ.get("HERMES_HOME") or "~/.hermes").expanduser()
    return [home / "whatsapp" / "session", home / "platforms" / "whatsapp" / "session"]
