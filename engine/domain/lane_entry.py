"""A lane as its caller sees it."""

from datetime import tzinfo
from typing import Any

from engine.domain.entry import SessionEntry
from engine.domain.lane import Lane
from engine.domain.platforms import Platform
from engine.domain.sources import SessionSource
from engine.domain.times import moment


def entry_of(lane: Lane, zone: tzinfo | None, source: SessionSource | None = None) -> SessionEntry:
    """Return a snapshot of the lane with times in the clock's zone.

    `source` is the lane's origin, if the caller happens to have it as an object.
    """
    origin = lane.origin
    if source is None and origin is not None:
        source = _source(origin)
    updated_at = moment(lane.updated_at, zone)
    marked = lane.last_resume_marked_at
    return SessionEntry(
        session_key=lane.key,
        session_id=lane.session_id or "",
        created_at=updated_at if lane.created_at == lane.updated_at else moment(lane.created_at, zone),
        updated_at=updated_at,
        origin=source,
        display_name=lane.display_name,
        platform=None if source is None else source.platform,
        chat_type="dm" if origin is None else origin.get("chat_type") or "dm",
        input_tokens=lane.input_tokens,
        output_tokens=lane.output_tokens,
        cache_read_tokens=lane.cache_read_tokens,
        cache_write_tokens=lane.cache_write_tokens,
        total_tokens=lane.input_tokens + lane.output_tokens,
        last_prompt_tokens=lane.last_prompt_tokens,
        estimated_cost_usd=lane.cost_usd,
        cost_status="estimated" if lane.cost_known else "unknown",
        was_auto_reset=lane.was_auto_reset,
        auto_reset_reason=lane.auto_reset_reason,
        reset_had_activity=lane.reset_had_activity,
        is_fresh_reset=lane.is_fresh_reset,
        expiry_finalized=lane.expiry_finalized,
        suspended=lane.suspended,
        resume_pending=lane.resume_pending,
        resume_reason=lane.resume_reason,
        last_resume_marked_at=None if marked is None else moment(marked, zone),
        model_override=lane.model_override,
    )


def _platform(origin: dict[str, Any]) -> Platform | None:
    """Return the origin's platform; None if this host has not registered it (G16)."""
    try:
        return Platform(origin.get("platform"))
    except ValueError:
        return None


def _source(origin: dict[str, Any]) -> SessionSource | None:
    return None if _platform(origin) is None else SessionSource.from_dict(origin)
