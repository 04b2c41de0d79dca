"""An event with everything around it: where it stands, when it happened, who did it and why."""

import msgspec

from engine.domain.encoding import Content

NEXT_VERSION = -1
"""As a version: the next one of the stream, whatever it is. For facts that depend on no earlier state."""

LOG_STREAM = "log"
"""The stream of what happens to the log itself: erasure, quarantine."""


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """One event on its stream. A position of 0 means that it is not recorded yet.

    `originator_id` and `originator_version` are the eventsourcing library's names for stream and version;
    they make an envelope a domain event for that library's EventStore, notification log and projections.
    A time of 0 means that the log's clock stamps it when it is written.
    """

    stream: str
    version: int
    event: Content
    time: int = 0
    actor: str = ""
    command: str = ""
    reason: str | None = None
    position: int = 0
    event_id: bytes | None = None
    metadata: str | None = None

    @property
    def originator_id(self) -> str:
        """Return the stream."""
        return self.stream

    @property
    def originator_version(self) -> int:
        """Return the version."""
        return self.version
