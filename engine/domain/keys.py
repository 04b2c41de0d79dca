"""Lanes: which messages belong together, and the ids that may name them and their sessions."""

import hashlib
import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import NamedTuple

import msgspec

from engine.domain.encoding import encodable
from engine.domain.platforms import Platform
from engine.domain.sources import SessionSource
from engine.domain.whatsapp import normalize_whatsapp_identifier

_DRIVE = re.compile(r"[A-Za-z]:")
_NEW_ID = re.compile(r"\d{8}_\d{6}_[0-9a-f]{8}", re.ASCII)
_ENTROPY_BYTES = 4
_ORDINARY_ID = re.compile(r"[A-Za-z0-9_-]+")
_KEY_PREFIX = "agent:"
_encode = msgspec.json.Encoder().encode


class LaneName(NamedTuple):
    """A lane's key, and the identity that tells it from another lane whose key has the same text."""

    key: str
    identity: str


def name_lane(
    source: SessionSource,
    *,
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
    profile: str | None = None,
    canonical: Callable[[str], str] = normalize_whatsapp_identifier,
) -> LaneName:
    """Return the name of the lane that a message from `source` belongs to.

    Keys are stable names, stored and compared as text: a change in how they are made would orphan
    every conversation. Their text is not unique, so the identity says the same as a JSON list of profile,
    platform, chat type, chat, thread and participant, with 0 for what there is none of or does not
    count (G17b). `canonical` turns a WhatsApp person's id into the one that stands for all aliases.
    """
    platform = source.platform
    chat, thread = source.chat_id, source.thread_id
    kind = source.chat_type
    participant = None
    if kind == "dm":
        if platform is Platform.WHATSAPP and chat:
            chat = canonical(chat)
        if not chat:
            participant = _person(source, canonical)
            # An id that is all decoration still tells people apart (G10).
            chat = "" if participant else source.chat_id.strip()
    elif group_sessions_per_user and (not thread or thread_sessions_per_user):
        participant = _person(source, canonical)
    if profile in (None, "", "default"):
        profile = None
    elif ":" in profile:
        raise ValueError(f"profile {profile!r} cannot be used in a session key: it contains ':'")
    value = platform.value
    parts = ("agent", profile or "main", value, kind, chat, participant, thread)
    if kind != "dm":
        parts = ("agent", profile or "main", value, kind, chat, thread, participant)
    key = ":".join(filter(None, parts))
    identity = (profile or 0, value, kind, chat or 0, thread or 0, participant or 0)
    try:
        return LaneName(key, _encode(identity).decode())
    except UnicodeEncodeError:
        return LaneName(key.encode("utf-8", "xmlcharrefreplace").decode(), _escaped(identity))


def colliding_key(key: str, identity: str, digits: int = 8) -> str:
    """Return the key of a lane whose plain key another identity took first: with hex digits of its own (G17b)."""
    return f"{key}~{hashlib.blake2b(identity.encode()).hexdigest()[:digits]}"


def is_shared_multi_user_session(
    source: SessionSource, group_sessions_per_user: bool = True, thread_sessions_per_user: bool = False
) -> bool:
    """Return True if several people may write in the lane of this source."""
    if source.chat_type == "dm":
        return False
    if source.thread_id:
        return not thread_sessions_per_user
    return not group_sessions_per_user


def lane_profile(source: SessionSource, multiplex_profiles: bool, active_profile: str | None = None) -> str | None:
    """Return the profile whose lanes a message uses: none unless one gateway serves several profiles."""
    return (source.profile or active_profile) if multiplex_profiles else None


def check_session_id(session_id: str, argument: str = "session_id") -> str:
    """Return the id, or raise ValueError: ids become file names in exports, and must stay in their folder."""
    if type(session_id) is str and _ORDINARY_ID.fullmatch(session_id):
        return session_id
    _check_text(session_id, argument)
    if looks_like_session_key(session_id):
        raise ValueError(
            f"{argument} {session_id!r} is refused: this looks like a lane's key; pass the lane's session_id"
        )
    for bad in ("..", "/", "\\"):
        if bad in session_id:
            raise ValueError(f"{argument} {session_id!r} is refused: it contains {bad!r}, and ids become file names")
    if _DRIVE.match(session_id):
        raise ValueError(f"{argument} {session_id!r} is refused: it starts with a drive letter")
    return session_id


def check_session_key(session_key: object, argument: str = "session_key") -> str:
    """Return the key, or raise ValueError. A key never becomes a path, so it may hold any chat's id (G17a)."""
    key = _check_text(session_key, argument)
    if looks_like_session_id(key):
        raise ValueError(f"{argument} {key!r} is refused: this looks like a session's id; pass the lane's session_key")
    return key


def looks_like_session_id(value: object) -> bool:
    """Return True if the value has the form of a new session's id, so that an error can say what was mixed up."""
    return isinstance(value, str) and _NEW_ID.fullmatch(value) is not None


def looks_like_session_key(value: object) -> bool:
    """Return True if the value has the form of a lane's key."""
    return isinstance(value, str) and value.startswith(_KEY_PREFIX)


def new_session_id(now: datetime, entropy: bytes) -> str:
    """Return an id such as 20260701_142530_1a2b3c4d: the local time to sort by, and random digits to differ by."""
    if now.utcoffset() is None:
        raise ValueError(f"now must be a datetime with a time zone, not {now!r}")
    if len(entropy) < _ENTROPY_BYTES:
        raise ValueError(f"entropy must be at least {_ENTROPY_BYTES} bytes, not {len(entropy)}")
    date, time = now.isoformat(timespec="seconds")[:19].split("T")
    return f"{date.replace('-', '')}_{time.replace(':', '')}_{entropy[:_ENTROPY_BYTES].hex()}"


def _person(source: SessionSource, canonical: Callable[[str], str]) -> str:
    participant = source.user_id_alt or source.user_id or ""
    if source.platform is not Platform.WHATSAPP or not participant:
        return participant
    return canonical(participant) or participant.strip()


def _escaped(identity: tuple[str | int, ...]) -> str:
    """Encode an identity with lone surrogates as JSON escapes; all other text stays as it is, so none meet."""
    text = json.dumps(identity, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "backslashreplace").decode()


def _check_text(value: object, argument: str) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(f"{argument} must be a non-empty str, not {value!r}")
    if not encodable(value):
        raise ValueError(f"{argument} {value!r} is refused: it has a lone surrogate, which no file can hold")
    return value
