"""The library's Application over the log, so that its notification log and projections work on it."""

from typing import ClassVar

from eventsourcing.application import Application
from eventsourcing.persistence import Mapper

from engine.log.library.factory import Factory
from engine.log.library.mapper import EventMapper


class LogApplication(Application[str]):
    """Thin on purpose: sessions are not library aggregates and `save` is not the hot path.

    Open it on a log's path with `LogApplication(env={"SQLITE_DBNAME": path})`; its events are envelopes.
    """

    name = "session-log"
    env: ClassVar[dict[str, str]] = {
        "PERSISTENCE_MODULE": "engine.log.library",
        Factory.ORIGINATOR_ID_TYPE: "text",
    }

    def construct_mapper(self) -> Mapper[str]:
        return self.factory.mapper(self.construct_transcoder(), EventMapper)
