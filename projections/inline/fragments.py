"""Session keys and session ids by a part of their text, for people who type."""

import re

from engine.log.protocol import Queries
from projections.inline.states import ask, text
from projections.inline.texts import original

_KEYS = (
    "SELECT key FROM lane_sessions WHERE key LIKE ? ESCAPE '!' GROUP BY key "
    "ORDER BY CASE WHEN key LIKE ? ESCAPE '!' THEN 0 ELSE 1 END, key LIMIT ?"
)
_IDS = (
    "SELECT session_id FROM sessions WHERE session_id LIKE ? ESCAPE '!' "
    "ORDER BY CASE WHEN session_id LIKE ? ESCAPE '!' THEN 0 ELSE 1 END, created_at DESC, session_id LIMIT ?"
)


def keys_like(reads: Queries, fragment: str, limit: int) -> list[str]:
    """Return the keys of lanes, also of forgotten ones, that contain a text: those it begins first."""
    rows = ask(reads, "lane_sessions", _KEYS, (*_patterns(fragment), limit))
    return [original(text("lane_sessions", key, key)) for (key,) in rows]


def ids_like(reads: Queries, fragment: str, limit: int) -> list[str]:
    """Return the ids of sessions that contain a text: those it begins first, then the newest."""
    rows = ask(reads, "sessions", _IDS, (*_patterns(fragment), limit))
    return [text("sessions", session_id, session_id) for (session_id,) in rows]


def _patterns(fragment: str) -> tuple[str, str]:
    """Return the patterns of what contains a text, and of what begins with it; `!` is their escape."""
    literal = re.sub("[!%_]", r"!\g<0>", fragment.replace("\0", ""))
    return f"%{literal}%", f"{literal}%"
