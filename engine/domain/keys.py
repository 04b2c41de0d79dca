"""Lanes: which messages belong together, and the ids that may name them and their sessions."""

import re
import secrets
from datetime import datetime

from engine.domain.encoding import encodable
from engine.domain.platforms import Platform
from engine.domain.sources import SessionSource
from engine.domain.whatsapp import canonical_whatsapp_identifier

_DRIVE = re.compile(r"[A-Za-z]:")
_ENTROPY_BYTES = 4


def build_session_key(
    source: SessionSource,
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
    profile: str | None = None,
) -> str:
    """Return the key of the lane that a message from `source` belongs to.

    Keys are stable names, stored and compared as text: a change in how they are made would orphan
    every conversation.
    """
    if source.chat_type == "dm":
        parts = _dm_parts(source)
    else:
        parts = _shared_chat_parts(source, group_sessions_per_user, thread_sessions_per_user)
    return ":".join(("agent", _namespace(profile), source.platform.value, *(part for part in parts if part)))


def is_shared_multi_user_session(
    source: SessionSource, group_sessions_per_user: bool = True, thread_sessions_per_user: bool = False
) -> bool:
    """Tell whether several people may write in the lane of this source."""
    if source.chat_type == "dm":
        return False
    if source.thread_id:
        return not thread_sessions_per_user
    return not group_sessions_per_user


def lane_profile(source: SessionSource, multiplex_profiles: bool, active_profile: str | None = None) -> str | None:
    """Return the profile whose lanes a message uses: none unless one gateway serves several profiles."""
    return (source.profile or active_profile) if multiplex_profiles else None


def check_session_id(session_id: str) -> str:
    """Return the id, or raise ValueError: ids become file names in exports, and must stay in their folder."""
    _check("session id", session_id)
    if "/" in session_id:
        raise ValueError(f"session id {session_id!r} is refused: it contains '/'")
    return session_id


def check_session_key(session_key: str) -> str:
    """Return the key, or raise ValueError: as for ids, but a "/" inside is a Google Chat space's name."""
    _check("session key", session_key)
    if session_key.startswith("/") or session_key.endswith("/"):
        raise ValueError(f"session key {session_key!r} is refused: it starts or ends with '/'")
    return session_key


def new_session_id(now: datetime, entropy: bytes | None = None) -> str:
    """Return an id such as 20260701_142530_1a2b3c4d: the local time to sort by, and chance to differ by."""
    if now.utcoffset() is None:
        raise ValueError(f"now must be a datetime with a time zone, not {now!r}")
    chance = secrets.token_bytes(_ENTROPY_BYTES) if entropy is None else entropy
    if len(chance) < _ENTROPY_BYTES:
        raise ValueError(f"entropy must be at least {_ENTROPY_BYTES} bytes, not {len(chance)}")
    return f"{now:%Y%m%d_%H%M%S}_{chance[:_ENTROPY_BYTES].hex()}"


def _namespace(profile: str | None) -> str:
    if profile is None or profile in ("", "default"):
        return "main"
    if ":" in profile:
        raise ValueError(f"profile {profile!r} cannot be used in a session key: it contains ':'")
    return profile


def _dm_parts(source: SessionSource) -> tuple[str, ...]:
    """Name a direct chat by its id, else by the person, so that two people do not fall into one lane."""
    who = _person(source, source.chat_id) or _person(source, _participant(source))
    return ("dm", who, source.thread_id or "")


def _shared_chat_parts(source: SessionSource, per_user: bool, per_user_in_threads: bool) -> tuple[str, ...]:
    isolate = per_user and (not source.thread_id or per_user_in_threads)
    participant = _person(source, _participant(source)) if isolate else ""
    return (source.chat_type, source.chat_id, source.thread_id or "", participant)


def _participant(source: SessionSource) -> str:
    return source.user_id_alt or source.user_id or ""


def _person(source: SessionSource, identifier: str) -> str:
    """Return a person's id as it goes into a key; an id that is all decoration still tells people apart."""
    if source.platform is not Platform.WHATSAPP:
        return identifier
    return canonical_whatsapp_identifier(identifier) or identifier.strip()


def _check(what: str, value: object) -> None:
    if not isinstance(value, str) or not value:
        raise ValueError(f"a {what} must be a non-empty str, not {value!r}")
    if not encodable(value):
        raise ValueError(f"{what} {value!r} is refused: it has a lone surrogate")
    for bad in ("..", "\\"):
        if bad in value:
            raise ValueError(f"{what} {value!r} is refused: it contains {bad!r}")
    if _DRIVE.match(value):
        raise ValueError(f"{what} {value!r} is refused: it starts with a drive letter")
