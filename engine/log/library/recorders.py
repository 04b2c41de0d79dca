"""The eventsourcing library's recorder interfaces over an event log."""

from collections.abc import Sequence
from typing import Any, Literal
from uuid import UUID

from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    Notification,
    ProcessRecorder,
    StoredEvent,
    Subscription,
    Tracking,
    TrackingRecorder,
)

from engine.log.errors import TrackingConflictError
from engine.log.library.mapper import Columns, EnvelopedEvent, EnvelopedNotification, stored_row
from engine.log.library.subscription import LogSubscription
from engine.log.library.tables import advance, keep_snapshots, snapshots_of, tracked_position
from engine.log.protocol import Log, Transaction

IdType = Literal["uuid", "text"]

_NO_LIMIT = 1 << 62


def track(transaction: Transaction, tracking: Tracking) -> None:
    """Record how far a projection of another application has come. Raise if it was already there."""
    if not advance(transaction, tracking.application_name, tracking.notification_id):
        raise TrackingConflictError(
            f"position {tracking.notification_id} of {tracking.application_name!r} is not after the recorded one; "
            "another runner was faster: go on from max_tracking_id"
        )


class ApswRecorder:
    """The common base of all recorders: the log, and how an originator id is written and read."""

    def __init__(self, log: Log, id_type: IdType = "uuid") -> None:
        self.log = log
        self._id_type = id_type

    def _to_id(self, stream: str) -> UUID | str:
        """Return the id as the application wrote it; the log's own stream and foreign ones stay text."""
        try:
            return UUID(stream) if self._id_type == "uuid" else stream
        except ValueError:
            return stream


class ApswAggregateRecorder(ApswRecorder, AggregateRecorder):
    """Stored events by originator and version."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        self._insert(stored_events, kwargs.get("tracking"))
        return None

    def _insert(self, stored_events: Sequence[StoredEvent], tracking: Tracking | None) -> list[int]:
        rows = [stored_row(stored, self.log.payload_limit) for stored in stored_events]

        def command(transaction: Transaction) -> list[int]:
            positions = transaction.append_rows(rows)
            if tracking is not None:
                track(transaction, tracking)
            return positions

        return self.log.transact(command) if rows or tracking is not None else []

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        rows = self.log.reader.stored_stream(str(originator_id), *_range(gt, lte, limit), backwards=desc)
        return [EnvelopedEvent(self._to_id(row[0]), row[1], row[2], _bytes(row[10]), _columns(row)) for row in rows]


class ApswSnapshotRecorder(ApswRecorder, AggregateRecorder):
    """Snapshots, which unlike events skip versions and are not part of the chain."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **_: Any) -> Sequence[int] | None:
        rows = [(str(s.originator_id), s.originator_version, s.topic, s.state) for s in stored_events]
        keep_snapshots(self.log, rows)
        return None

    def select_events(
        self,
        originator_id: UUID | str,
        *,
        gt: int | None = None,
        lte: int | None = None,
        desc: bool = False,
        limit: int | None = None,
    ) -> Sequence[StoredEvent]:
        rows = snapshots_of(self.log.reader, str(originator_id), *_range(gt, lte, limit), backwards=desc)
        return [StoredEvent(self._to_id(stream), version, topic, state) for stream, version, topic, state in rows]


class ApswApplicationRecorder(ApswAggregateRecorder, ApplicationRecorder):
    """Stored events also by their position in the whole log."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **kwargs: Any) -> Sequence[int] | None:
        return self._insert(stored_events, kwargs.get("tracking"))

    def select_notifications(
        self,
        start: int | None,
        limit: int,
        stop: int | None = None,
        topics: Sequence[str] = (),
        *,
        inclusive_of_start: bool = True,
    ) -> Sequence[Notification]:
        after = -1 if start is None else start - 1 if inclusive_of_start else start
        rows = self.log.reader.stored(after, _NO_LIMIT if stop is None else stop, topics, limit)
        return [
            EnvelopedNotification(self._to_id(row[0]), row[1], row[2], _bytes(row[10]), row[7], _columns(row))
            for row in rows
        ]

    def max_notification_id(self) -> int | None:
        return self.log.last_position or None

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        return LogSubscription(self, self.log, gt, topics)


class ApswTrackingRecorder(ApswRecorder, TrackingRecorder):
    """Positions that projections of other applications have reached."""

    def insert_tracking(self, tracking: Tracking) -> None:
        self.log.transact(lambda transaction: track(transaction, tracking))

    def max_tracking_id(self, application_name: str) -> int | None:
        return tracked_position(self.log.reader, application_name)


class ApswProcessRecorder(ApswTrackingRecorder, ApswApplicationRecorder, ProcessRecorder):
    """Events and the tracking of what caused them, in one transaction."""


def _range(gt: int | None, lte: int | None, limit: int | None) -> tuple[int, int, int]:
    return -1 if gt is None else gt, _NO_LIMIT if lte is None else lte, _NO_LIMIT if limit is None else limit


def _bytes(state: str | bytes) -> bytes:
    return state.encode() if isinstance(state, str) else state


def _columns(row: tuple[Any, ...]) -> Columns:
    _, _, _, time, actor, command, reason, _, event_id, metadata, _ = row
    return time, actor, command, reason, event_id, metadata
