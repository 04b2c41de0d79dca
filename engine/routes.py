"""Routing: the answer from memory when a lane's session simply goes on, a command when something is to be decided."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from engine.command import Command
from engine.commands.routing import Arrival, Seen, colliding_name, get_or_create_session
from engine.domain.config import StoreSettings
from engine.domain.entry import SessionEntry
from engine.domain.keys import LaneName, lane_profile, name_lane
from engine.domain.lane import moves
from engine.domain.sources import SessionSource
from engine.domain.times import fixed, microseconds, moment
from engine.domain.verdict import KEEP, judge
from engine.environment import auto_continue_freshness_window
from engine.lane_cache import Absent, Kept, LaneCache
from engine.log.protocol import Log
from engine.touches import Touches
from engine.validation import checked_source
from engine.whatsapp import canonical_whatsapp_identifier
from engine.work import Touch
from projections.inline.lanes import find_lane


class Routes:
    """Finds the lane of a message, and how it is led to its session. Reads files and tables: not for an event loop."""

    def __init__(
        self,
        log: Log,
        config: StoreSettings,
        active_profile: str | None,
        cache: LaneCache,
        touches: Touches,
        clock: Callable[[], datetime],
    ) -> None:
        self._log = log
        self._config = config
        self._active_profile = active_profile
        self._cache = cache
        self._touches = touches
        self._clock = clock

    def find(self, source: SessionSource, force_new: bool, touch: bool) -> "SessionEntry | Command[SessionEntry]":
        """Return the lane's entry if its session simply goes on, else the command that decides."""
        arrival = self._arrival(checked_source(source))
        if force_new:
            return get_or_create_session(arrival, touch, self._seen(arrival))
        looked = self._cache.find(arrival.name.key, fresh=not touch)
        if isinstance(looked, Absent) and not looked.used:
            return get_or_create_session(msgspec.structs.replace(arrival, absent_at=looked.at), touch)
        kept = self._own(arrival, looked, fresh=not touch)
        found = None if kept is None else self._keep(kept, source, touch)
        return get_or_create_session(arrival, touch) if found is None else found

    def _arrival(self, source: SessionSource) -> Arrival:
        config = self._config
        profile = lane_profile(source, config.multiplex_profiles, self._active_profile)
        name = self._name(source, profile)
        if config.multiplex_profiles or not self._active_profile:
            return Arrival(source, name)
        return Arrival(source, name, self._name(source, self._active_profile))

    def _name(self, source: SessionSource, profile: str | None) -> LaneName:
        return name_lane(
            source,
            group_sessions_per_user=self._config.group_sessions_per_user,
            thread_sessions_per_user=self._config.thread_sessions_per_user,
            profile=profile,
            canonical=canonical_whatsapp_identifier,
        )

    def _seen(self, arrival: Arrival) -> Seen:
        """Return how the lane stands now: a session made after this is new enough for the caller (G26a)."""
        for key in (arrival.name.key, colliding_name(arrival.name)):
            lane = find_lane(self._log.reader, key)
            if lane is not None and lane.identity in (None, arrival.name.identity):
                return Seen(lane.lane_id, lane.version)
        return Seen(None, 0)

    def _own(self, arrival: Arrival, looked: Kept | Absent | None, *, fresh: bool) -> Kept | None:
        """Return the lane of this very source: somebody else may have its text, or have had it (G17b)."""
        identity = arrival.name.identity
        if isinstance(looked, Absent) or (looked is not None and looked.lane.identity != identity):
            looked = self._cache.find(colliding_name(arrival.name), fresh=fresh)
        return looked if isinstance(looked, Kept) and looked.lane.identity == identity else None

    def _keep(self, kept: Kept, source: SessionSource, touch: bool) -> SessionEntry | None:
        lane, now = kept.lane, self._clock()
        policy = self._config.get_reset_policy(source.platform, source.chat_type)
        judged = lane.suspended or policy.mode != "none"
        if judged and judge(lane, policy, now, auto_continue_freshness_window(), bool) is not KEEP:
            return None
        at, moved_to = lane.updated_at, microseconds(now)
        if touch:
            at = moved_to if moves(at, moved_to) else at
            self._cache.touch(kept, at)
            self._touches.add(lane.key, Touch(at))
        entry = kept.entry.snapshot()
        entry.updated_at = fixed(now) if at == moved_to else moment(at, now.tzinfo)
        return entry
