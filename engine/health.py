"""Health of a store, and its counters."""

from collections.abc import Sequence

import msgspec

from engine.lane_cache import LaneCache
from engine.log.protocol import Health, Log
from engine.touches import Touches
from projections.inline import projection, quarantine
from projections.inline.transcripts import Transcripts
from projections.views.runner import ViewStatus


class StoreHealth(Health, frozen=True, kw_only=True):
    """Health of a store: the log's, and that of the tables beside it."""

    projection_position: int
    """The position up to which the tables are."""
    quarantined_events: int
    """How many events no state could be made of."""
    tables_of_version: str | None = None
    """The version of the build that made the tables if it is not this one: opening the store makes them again."""
    views: tuple[ViewStatus, ...] = ()
    """How far each view is, and what is wrong with it."""


def health_of(log: Log, views: Sequence[ViewStatus]) -> StoreHealth:
    """Return the state of the log and its writer, how far tables and views are, and how much is quarantined."""
    standing = projection.standing(log.reader)
    return StoreHealth(
        **msgspec.structs.asdict(log.health()),
        projection_position=standing.position,
        tables_of_version=standing.other_version,
        quarantined_events=len(quarantine.quarantined(log.reader)),
        views=tuple(views),
    )


def metrics_of(
    health: StoreHealth, touches: Touches, lanes: LaneCache, transcripts: Transcripts
) -> dict[str, int | float]:
    """Return counters for a host's dashboard."""
    lags = {f"view_{each.name}_lag_events": each.lag_events for each in health.views}
    return lags | {
        "position": health.position,
        "projection_position": health.projection_position,
        "quarantined_events": health.quarantined_events,
        "queue_depth": health.queue_depth,
        "commits": health.commits,
        "commands": health.commands,
        "largest_batch": health.largest_batch,
        "mean_commit_seconds": health.mean_commit_seconds,
        "slowest_commit_seconds": health.slowest_commit_seconds,
        "storage_errors": health.storage_errors,
        "checkpoints": health.checkpoints,
        "wal_bytes": health.wal_bytes,
        "clock_steps": health.clock_steps,
        "pending_touches": len(touches.pending),
        "cached_lanes": len(lanes),
        "lane_cache_hits": lanes.hits,
        "lane_cache_misses": lanes.misses,
        "cached_transcripts": len(transcripts),
        "cached_transcript_bytes": transcripts.size,
        "transcript_cache_hits": transcripts.hits,
        "transcript_cache_misses": transcripts.misses,
    }
