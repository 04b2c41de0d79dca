"""The lane's record as it is handed out: a snapshot, never the state itself."""

from collections.abc import Mapping
from datetime import datetime, timezone, tzinfo
from typing import Any

import msgspec

from engine.domain.keys import check_session_id, check_session_key
from engine.domain.model_override import clean_model_override
from engine.domain.platforms import Platform
from engine.domain.sources import SessionSource

_TIMES = ("created_at", "updated_at", "last_resume_marked_at")


class SessionEntry(msgspec.Struct):
    """The session a lane leads to, and the lane's state.

    Changing an entry changes nothing but the entry. Times are kept with a fixed offset: subtracting two
    of them gives the time that passed, which times of one DST zone would not.
    """

    session_key: str
    """The lane's key."""
    session_id: str
    """The session the lane leads to."""
    created_at: datetime
    """When the session began."""
    updated_at: datetime
    """The lane's idle clock: when somebody last wrote."""
    origin: SessionSource | None = None
    """The source whose message led the lane to its session; trust signals only in the answer to that very call."""
    display_name: str | None = None
    """The chat's name, or what a reset gave instead."""
    platform: Platform | None = None
    """The platform of the origin; None if this host has not registered it."""
    chat_type: str = "dm"
    """The origin's chat type."""
    input_tokens: int = 0
    """Tokens given to the model, since the session began."""
    output_tokens: int = 0
    """Tokens the model gave."""
    cache_read_tokens: int = 0
    """Tokens read from the provider's cache."""
    cache_write_tokens: int = 0
    """Tokens written to the provider's cache."""
    total_tokens: int = 0
    """Input and output together."""
    last_prompt_tokens: int = 0
    """The size of the last prompt, as the host reported it; -1 after some compressions."""
    estimated_cost_usd: float = 0.0
    """The cost the host reported, added up."""
    cost_status: str = "unknown"
    """`estimated` once the host reported a cost, else `unknown`."""
    was_auto_reset: bool = False
    """True until `consume_notices`, if the session was begun by an automatic reset."""
    auto_reset_reason: str | None = None
    """Why: suspended, idle, daily or resume_pending_expired."""
    reset_had_activity: bool = False
    """True if the session before it had been used."""
    is_fresh_reset: bool = False
    """True until `consume_notices`, if somebody asked for the reset."""
    expiry_finalized: bool = False
    """True once the host has done its work for the expired session."""
    suspended: bool = False
    """True if the next message starts a new session."""
    resume_pending: bool = False
    """True if the session was cut off and is to be resumed."""
    resume_reason: str | None = None
    """Why it was cut off."""
    last_resume_marked_at: datetime | None = None
    """When that was marked."""
    model_override: dict[str, str] | None = None
    """The model chosen for the lane; never a credential."""

    def __post_init__(self) -> None:
        check_session_key(self.session_key)
        check_session_id(self.session_id)
        self.created_at = _fixed_offset(self.created_at, "created_at")
        self.updated_at = _fixed_offset(self.updated_at, "updated_at")
        if self.last_resume_marked_at is not None:
            self.last_resume_marked_at = _fixed_offset(self.last_resume_marked_at, "last_resume_marked_at")
        if self.model_override is not None:
            self.model_override = clean_model_override(self.model_override).kept

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
        data["model_override"] = clean_model_override(self.model_override).kept
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
            model_override=data.get("model_override"),
            **fields,
        )


_PLAIN_FIELDS = {
    field.name: field.type
    for field in msgspec.structs.fields(SessionEntry)
    if field.name not in (*_TIMES, "session_key", "session_id", "origin", "platform", "model_override")
}


def _convert(name: str, value: object, kind: Any) -> Any:
    """Accept SQLite's 0 and 1 for a flag and a whole float for a count, but not another type."""
    try:
        return msgspec.convert(value, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ValueError(f"{name}: {error}") from error


def _fixed_offset(value: object, name: str) -> datetime:
    if isinstance(value, datetime) and type(value.tzinfo) is timezone:
        return value
    offset = value.utcoffset() if isinstance(value, datetime) else None
    if not isinstance(value, datetime) or offset is None:
        raise ValueError(f"{name} must be a datetime with a time zone, not {value!r}")
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
    """Read the origin; one that is no dict (G16a), or of a platform no longer registered, is lost, not the entry."""
    if not isinstance(value, Mapping) or _known_platform(value.get("platform")) is None:
        return None
    return SessionSource.from_dict(value)


def _known_platform(value: object) -> Platform | None:
    try:
        return Platform(value)
    except ValueError:
        return None
