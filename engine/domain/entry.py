"""The lane's record as it is handed out: a snapshot, never the state itself."""

import re
from collections.abc import Mapping
from datetime import datetime, timezone, tzinfo
from typing import Any

import msgspec

from engine.domain.keys import check_session_id, check_session_key
from engine.domain.platforms import Platform
from engine.domain.sources import SessionSource

_OVERRIDE_FIELDS = ("model", "provider", "base_url")
_USER_INFO = re.compile(r"^((?:[A-Za-z][A-Za-z0-9+.-]*:)?//)?[^/?#]*@")
_CREDENTIAL_PARAMETER = re.compile(
    r"(?<=[?&])[^=&#]*(?:key|token|secret|passw|auth|signature)[^=&#]*=[^&#]*&?", re.IGNORECASE
)
_TIMES = ("created_at", "updated_at", "last_resume_marked_at")


def sanitize_model_override(override: object) -> dict[str, str] | None:
    """Keep the model, provider and base URL of an override, as text; None when nothing is left.

    Everything else may be a credential, so it is dropped: on set, on write and on load. A container is
    dropped too, as its text would show what is in it, and a URL loses the credentials inside it.
    """
    if not isinstance(override, Mapping):
        return None
    kept = {}
    for field in _OVERRIDE_FIELDS:
        value = override.get(field)
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            text = str(value).strip()
            text = _without_credentials(text) if field == "base_url" else text
            if text:
                kept[field] = text
    return kept or None


class SessionEntry(msgspec.Struct):
    """What a lane leads to and how it stands.

    Changing an entry changes nothing but the entry. Times are kept with a fixed offset: subtracting two
    of them gives the time that passed, which times of one DST zone would not.
    """

    session_key: str
    session_id: str
    created_at: datetime
    updated_at: datetime
    origin: SessionSource | None = None
    display_name: str | None = None
    platform: Platform | None = None
    chat_type: str = "dm"
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    total_tokens: int = 0
    last_prompt_tokens: int = 0
    estimated_cost_usd: float = 0.0
    cost_status: str = "unknown"
    was_auto_reset: bool = False
    auto_reset_reason: str | None = None
    reset_had_activity: bool = False
    is_fresh_reset: bool = False
    expiry_finalized: bool = False
    suspended: bool = False
    resume_pending: bool = False
    resume_reason: str | None = None
    last_resume_marked_at: datetime | None = None
    model_override: dict[str, str] | None = None

    def __post_init__(self) -> None:
        check_session_key(self.session_key)
        check_session_id(self.session_id)
        self.created_at = _fixed_offset(self.created_at, "created_at")
        self.updated_at = _fixed_offset(self.updated_at, "updated_at")
        if self.last_resume_marked_at is not None:
            self.last_resume_marked_at = _fixed_offset(self.last_resume_marked_at, "last_resume_marked_at")
        self.model_override = sanitize_model_override(self.model_override)

    def snapshot(self) -> "SessionEntry":
        """Return a copy that shares nothing changeable with this entry; what was checked is not checked again."""
        copied: SessionEntry = msgspec.Struct.__copy__(self)  # type: ignore[attr-defined] # not in its stubs
        copied.model_override = self.model_override and dict(self.model_override)
        return copied

    __copy__ = snapshot

    def to_dict(self) -> dict[str, Any]:
        """Write every field in JSON's types, times as ISO 8601 with their offset."""
        data = msgspec.structs.asdict(self)
        for name in _TIMES:
            data[name] = data[name] and data[name].isoformat()
        data["origin"] = self.origin and self.origin.to_dict()
        data["platform"] = self.platform and self.platform.value
        data["model_override"] = sanitize_model_override(self.model_override)
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any], local: tzinfo | None = None) -> "SessionEntry":
        """Read what `to_dict`, or an older gateway's index file, wrote.

        Missing ids and times raise KeyError, bad ones ValueError; a platform that is no longer
        registered becomes None. `local` is the zone of times written without one: the machine's, if None.
        """
        fields: dict[str, Any] = {}
        if data.get("memory_flushed") is not None:
            fields["expiry_finalized"] = _convert("memory_flushed", data["memory_flushed"], bool)
        for name, kind in _PLAIN_FIELDS.items():
            if data.get(name) is not None:
                fields[name] = _convert(name, data[name], kind)
        return cls(
            session_key=data["session_key"],
            session_id=data["session_id"],
            created_at=_read_time("created_at", data["created_at"], local),
            updated_at=_read_time("updated_at", data["updated_at"], local),
            origin=_read_origin(data.get("origin")),
            platform=_known_platform(data.get("platform")),
            last_resume_marked_at=_read_time_or_none(data.get("last_resume_marked_at"), local),
            model_override=sanitize_model_override(data.get("model_override")),
            **fields,
        )


_PLAIN_FIELDS = {
    field.name: field.type
    for field in msgspec.structs.fields(SessionEntry)
    if field.name not in (*_TIMES, "session_key", "session_id", "origin", "platform", "model_override")
}


def _without_credentials(url: str) -> str:
    """Drop a URL's user and password and its key-like parameters, until no more are found."""
    before = None
    while url != before:
        before = url
        url = _USER_INFO.sub(r"\1", url).strip()
        cleaned = _CREDENTIAL_PARAMETER.sub("", url)
        url = url if cleaned == url else cleaned.rstrip("?&")
    return url


def _convert(name: str, value: object, kind: Any) -> Any:
    """Accept SQLite's 0 and 1 for a flag and a whole float for a count, but not another type."""
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"{name}: {error}") from error


def _fixed_offset(value: object, name: str) -> datetime:
    offset = value.utcoffset() if isinstance(value, datetime) else None
    if not isinstance(value, datetime) or offset is None:
        raise ValueError(f"{name} must be a datetime with a time zone, not {value!r}")
    if isinstance(value.tzinfo, timezone):
        return value
    return value.replace(tzinfo=timezone(offset), fold=0)


def _read_time(name: str, value: object, local: tzinfo | None) -> datetime:
    try:
        time = datetime.fromisoformat(value)  # type: ignore[arg-type]
        if time.tzinfo is None:
            time = time.astimezone() if local is None else time.replace(tzinfo=local)
    except (TypeError, ValueError, OverflowError, OSError) as error:
        raise ValueError(f"{name} is not an ISO 8601 time: {value!r}") from error
    return time


def _read_time_or_none(value: object, local: tzinfo | None) -> datetime | None:
    try:
        return _read_time("last_resume_marked_at", value, local)
    except ValueError:
        return None


def _read_origin(value: Any) -> SessionSource | None:
    """Read the origin; one from a platform that is no longer registered is lost, not the whole entry."""
    if not value:
        return None
    if isinstance(value, Mapping) and _known_platform(value.get("platform")) is None:
        return None
    return SessionSource.from_dict(value)


def _known_platform(value: object) -> Platform | None:
    try:
        return Platform(value)
    except ValueError:
        return None
