"""The public way to name a lane: with the WhatsApp aliases that are on this machine."""

from engine.domain.keys import name_lane
from engine.domain.sources import SessionSource
from engine.whatsapp import canonical_whatsapp_identifier


def build_session_key(
    source: SessionSource,
    group_sessions_per_user: bool = True,
    thread_sessions_per_user: bool = False,
    profile: str | None = None,
) -> str:
    """Return the key of the lane that a message from `source` belongs to (G9 to G13).

    Two sources may get the same text (G17b); a store tells them apart by their identity.
    """
    if not isinstance(source, SessionSource):
        raise ValueError(f"source must be a SessionSource, not {source!r}")
    return name_lane(
        source,
        group_sessions_per_user=group_sessions_per_user,
        thread_sessions_per_user=thread_sessions_per_user,
        profile=profile,
        canonical=canonical_whatsapp_identifier,
    ).key
