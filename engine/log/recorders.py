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

from engine.log.eventlog import EventLog
from engine.log.mapper import EnvelopedEvent, EnvelopedNotification, stored_row
from engine.log.schema import EVENT_ID
from engine.log.subscription import LogSubscription
from engine.log.transaction import Transaction

IdType = Literal["uuid", "text"]

_EVENT = f"stream, version, topic, state, time, actor, command, reason, {EVENT_ID}, metadata"


class ApswRecorder:
    """What all recorders share: the log, and how an originator id is written and read."""

    def __init__(self, log: EventLog, id_type: IdType = "uuid") -> None:
        self.log = log
        self._id_type = id_type

    def _to_id(self, stream: str) -> UUID | str:
        """The id as the application wrote it; the log's own stream and foreign ones stay text."""
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
                transaction.track(tracking)
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
        rows = self.log.query(
            f"SELECT {_EVENT} FROM events WHERE stream = ? AND version > ? AND version <= ? "
            f"ORDER BY version {'DESC' if desc else 'ASC'} LIMIT ?",
            (str(originator_id), *_range(gt, lte, limit)),
        )
        return [
            EnvelopedEvent(self._to_id(stream), version, topic, _bytes(state), tuple(columns))
            for stream, version, topic, state, *columns in rows
        ]


class ApswSnapshotRecorder(ApswRecorder, AggregateRecorder):
    """Snapshots, which unlike events skip versions and are not part of the chain."""

    def insert_events(self, stored_events: Sequence[StoredEvent], **_: Any) -> Sequence[int] | None:
        rows = [(str(s.originator_id), s.originator_version, s.topic, s.state) for s in stored_events]
        self.log.transact(lambda transaction: transaction.executemany("INSERT INTO snapshots VALUES (?,?,?,?)", rows))
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
        rows = self.log.query(
            "SELECT stream, version, topic, state FROM snapshots WHERE stream = ? AND version > ? AND version <= ? "
            f"ORDER BY version {'DESC' if desc else 'ASC'} LIMIT ?",
            (str(originator_id), *_range(gt, lte, limit)),
        )
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
        where = f" AND topic IN ({','.join('?' * len(topics))})" if topics else ""
        rows = self.log.query(
            f"SELECT position, {_EVENT} FROM events WHERE position > ? AND position <= ?{where} "
            "ORDER BY position LIMIT ?",
            (after, _NO_LIMIT if stop is None else stop, *topics, limit),
        )
        return [
            EnvelopedNotification(self._to_id(stream), version, topic, _bytes(state), position, tuple(columns))
            for position, stream, version, topic, state, *columns in rows
        ]

    def max_notification_id(self) -> int | None:
        return self.log.last_position or None

    def subscribe(self, gt: int | None = None, topics: Sequence[str] = ()) -> Subscription[ApplicationRecorder]:
        return LogSubscription(self, self.log, gt, topics)


class ApswTrackingRecorder(ApswRecorder, TrackingRecorder):
    """How far projections of other applications have come."""

    def insert_tracking(self, tracking: Tracking) -> None:
        self.log.transact(lambda transaction: transaction.track(tracking))

    def max_tracking_id(self, application_name: str) -> int | None:
        rows = self.log.query("SELECT notification_id FROM tracking WHERE application_name = ?", (application_name,))
        return rows[0][0] if rows else None


class ApswProcessRecorder(ApswTrackingRecorder, ApswApplicationRecorder, ProcessRecorder):
    """Events and the tracking of what caused them, in one transaction."""


_NO_LIMIT = 1 << 62


def _range(gt: int | None, lte: int | None, limit: int | None) -> tuple[int, int, int]:
    return -1 if gt is None else gt, _NO_LIMIT if lte is None else lte, -1 if limit is None else limit


def _bytes(state: str | bytes) -> bytes:
    return state.encode() if isinstance(state, str) else state
