"""`PERSISTENCE_MODULE=engine.log.library`: any eventsourcing application on an event log, by configuration alone."""

from typing import TypeVar, cast

from eventsourcing.persistence import (
    AggregateRecorder,
    ApplicationRecorder,
    InfrastructureFactory,
    ProcessRecorder,
)
from eventsourcing.utils import Environment, EnvType, resolve_topic

from engine.log.library.recorders import (
    ApswAggregateRecorder,
    ApswApplicationRecorder,
    ApswProcessRecorder,
    ApswRecorder,
    ApswSnapshotRecorder,
    ApswTrackingRecorder,
    IdType,
)
from engine.log.sqlite.eventlog import EventLog

R = TypeVar("R", bound=ApswRecorder)


class Factory(InfrastructureFactory[ApswTrackingRecorder]):
    """Reads the same environment variables as the library's SQLite module, so switching is one line.

    SQLITE_DBNAME is the path of the log, SQLITE_LOCK_TIMEOUT the seconds to wait for another process,
    ORIGINATOR_ID_TYPE "uuid" (the library's default) or "text"; LOG_SYNCHRONOUS lowers the durability.
    """

    SQLITE_DBNAME = "SQLITE_DBNAME"
    SQLITE_LOCK_TIMEOUT = "SQLITE_LOCK_TIMEOUT"
    ORIGINATOR_ID_TYPE = "ORIGINATOR_ID_TYPE"
    LOG_SYNCHRONOUS = "LOG_SYNCHRONOUS"

    def __init__(self, env: Environment | EnvType | None) -> None:
        super().__init__(env)
        path = self.env.get(self.SQLITE_DBNAME)
        if not path:
            keys = ", ".join(self.env.create_keys(self.SQLITE_DBNAME))
            raise OSError(f"the path of the log is not in the environment; set one of {keys}")
        timeout = (self.env.get(self.SQLITE_LOCK_TIMEOUT) or "5").strip()
        try:
            busy_timeout = float(timeout)
        except ValueError:
            raise OSError(f"{self.SQLITE_LOCK_TIMEOUT} must be a number of seconds, not {timeout!r}") from None
        id_type = (self.env.get(self.ORIGINATOR_ID_TYPE) or "uuid").lower()
        if id_type not in ("uuid", "text"):
            raise OSError(f"{self.ORIGINATOR_ID_TYPE} must be 'uuid' or 'text', not {id_type!r}")
        self._id_type: IdType = cast(IdType, id_type)
        self.log = EventLog(path, busy_timeout=busy_timeout, synchronous=self.env.get(self.LOG_SYNCHRONOUS) or "FULL")

    def aggregate_recorder(self, purpose: str = "events") -> AggregateRecorder:
        if purpose == "snapshots":
            return ApswSnapshotRecorder(self.log, self._id_type)
        return ApswAggregateRecorder(self.log, self._id_type)

    def application_recorder(self) -> ApplicationRecorder:
        return self._class(self.APPLICATION_RECORDER_TOPIC, ApswApplicationRecorder)(self.log, self._id_type)

    def tracking_recorder(
        self, tracking_recorder_class: type[ApswTrackingRecorder] | None = None
    ) -> ApswTrackingRecorder:
        chosen = tracking_recorder_class or self._class(self.TRACKING_RECORDER_TOPIC, ApswTrackingRecorder)
        return chosen(self.log, self._id_type)

    def process_recorder(self) -> ProcessRecorder:
        return self._class(self.PROCESS_RECORDER_TOPIC, ApswProcessRecorder)(self.log, self._id_type)

    def _class(self, topic_variable: str, default: type[R]) -> type[R]:
        topic = self.env.get(topic_variable)
        return cast(type[R], resolve_topic(topic)) if topic else default

    def close(self) -> None:
        self.log.close()
