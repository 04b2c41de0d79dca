"""The eventsourcing library's own test cases, run on this package's recorders and factory."""

import os
import tempfile
from pathlib import Path
from typing import Any
from unittest import TestCase, mock
from uuid import uuid4

import pytest
from eventsourcing.persistence import Tracking
from eventsourcing.tests import (
    application as application_cases,
    persistence as persistence_cases,
    projection as projection_cases,
)
from eventsourcing.utils import Environment

from engine.log import EventLog, Transaction
from engine.log.library import Factory, factory as factory_module
from engine.log.library.recorders import (
    ApswAggregateRecorder,
    ApswApplicationRecorder,
    ApswProcessRecorder,
    ApswTrackingRecorder,
    track,
)


class OnTemporaryLog(TestCase):
    """A folder for the log, and every log that was opened closed again: the cases leave theirs open."""

    id_type = "uuid"

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = str(Path(folder.name) / "log.db")
        self.logs: list[EventLog] = []

        def opened(*args: Any, **options: Any) -> EventLog:
            self.logs.append(EventLog(*args, **options))
            return self.logs[-1]

        patch = mock.patch.object(factory_module, "EventLog", opened)
        patch.start()
        self.addCleanup(patch.stop)
        self.addCleanup(lambda: [log.close() for log in self.logs])
        super().setUp()

    def open_log(self) -> EventLog:
        self.logs.append(EventLog(self.path))
        return self.logs[-1]

    def new_originator_id(self) -> Any:
        return uuid4() if self.id_type == "uuid" else f"stream:{uuid4()}"

    def variables(self) -> dict[str, str]:
        return {
            "PERSISTENCE_MODULE": "engine.log.library",
            "SQLITE_DBNAME": self.path,
            "ORIGINATOR_ID_TYPE": self.id_type,
        }


class TestAggregateRecorder(OnTemporaryLog, persistence_cases.AggregateRecorderTestCase):
    def create_recorder(self) -> ApswAggregateRecorder:
        return ApswAggregateRecorder(self.open_log(), self.id_type)


class TestAggregateRecorderWithTextIds(TestAggregateRecorder):
    id_type = "text"


class TestApplicationRecorder(OnTemporaryLog, persistence_cases.ApplicationRecorderTestCase):
    def create_recorder(self) -> ApswApplicationRecorder:
        return ApswApplicationRecorder(self.open_log(), self.id_type)

    def test_insert_subscribe(self) -> None:
        self.optional_test_insert_subscribe()


class TestApplicationRecorderWithTextIds(TestApplicationRecorder):
    id_type = "text"


class TestTrackingRecorder(OnTemporaryLog, persistence_cases.TrackingRecorderTestCase):
    # Tracking has no originator ids, so there is nothing to run again with text.
    def create_recorder(self) -> ApswTrackingRecorder:
        return ApswTrackingRecorder(self.open_log())


class TestProcessRecorder(OnTemporaryLog, persistence_cases.ProcessRecorderTestCase):
    def create_recorder(self) -> ApswProcessRecorder:
        return ApswProcessRecorder(self.open_log(), self.id_type)


class TestProcessRecorderWithTextIds(TestProcessRecorder):
    id_type = "text"


class TestNonInterleavingNotificationIds(OnTemporaryLog, persistence_cases.NonInterleavingNotificationIDsBaseCase):
    def create_recorder(self) -> ApswApplicationRecorder:
        return ApswApplicationRecorder(self.open_log(), self.id_type)


class TestNonInterleavingNotificationIdsWithTextIds(TestNonInterleavingNotificationIds):
    id_type = "text"


class CustomTrackingRecorder(ApswTrackingRecorder):
    """Chosen by class or by topic."""


class TestFactory(OnTemporaryLog, persistence_cases.InfrastructureFactoryTestCase[Factory]):
    @property
    def env(self) -> Environment:
        if "variables_of_factory" not in self.__dict__:
            self.variables_of_factory = Environment("TestCase", self.variables())
        return self.variables_of_factory

    def expected_factory_class(self) -> type[Factory]:
        return Factory

    def expected_aggregate_recorder_class(self) -> type[ApswAggregateRecorder]:
        return ApswAggregateRecorder

    def expected_application_recorder_class(self) -> type[ApswApplicationRecorder]:
        return ApswApplicationRecorder

    def expected_tracking_recorder_class(self) -> type[ApswTrackingRecorder]:
        return ApswTrackingRecorder

    def tracking_recorder_subclass(self) -> type[ApswTrackingRecorder]:
        return CustomTrackingRecorder

    def expected_process_recorder_class(self) -> type[ApswProcessRecorder]:
        return ApswProcessRecorder


class TestFactoryWithTextIds(TestFactory):
    id_type = "text"


class ApswEventCountersView(ApswTrackingRecorder, projection_cases.EventCountersView):
    """Counters and tracking in one transaction of the log."""

    def __init__(self, log: EventLog, id_type: Any = "uuid") -> None:
        super().__init__(log, id_type)
        log.transact(
            lambda transaction: transaction.execute(
                "CREATE TABLE IF NOT EXISTS event_counters (name TEXT PRIMARY KEY, count INTEGER NOT NULL) STRICT"
            )
        )

    def get_created_event_counter(self) -> int:
        return self._count("created")

    def get_subsequent_event_counter(self) -> int:
        return self._count("subsequent")

    def incr_created_event_counter(self, tracking: Tracking) -> None:
        self._increment("created", tracking)

    def incr_subsequent_event_counter(self, tracking: Tracking) -> None:
        self._increment("subsequent", tracking)

    def _count(self, name: str) -> int:
        rows = self.log.query("SELECT count FROM event_counters WHERE name = ?", (name,))
        return rows[0][0] if rows else 0

    def _increment(self, name: str, tracking: Tracking) -> None:
        def command(transaction: Transaction) -> None:
            transaction.execute(
                "INSERT INTO event_counters VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET count = count + 1", (name,)
            )
            track(transaction, tracking)

        self.log.transact(command)


class TestEventCountersView(OnTemporaryLog, projection_cases.EventCountersViewTestCase):
    def construct_event_counters_view(self) -> ApswEventCountersView:
        return ApswEventCountersView(self.open_log())


class TestEventCountersProjection(OnTemporaryLog, projection_cases.AggregateEventCountersProjectionTestCase):
    view_class = ApswEventCountersView

    def setUp(self) -> None:
        super().setUp()
        self.env = self.variables()


class TestEventSourcedProjection(OnTemporaryLog, projection_cases.EventSourcedProjectionTestCase):
    # The upstream and the projection are two applications; each has a log of its own.
    def setUp(self) -> None:
        super().setUp()
        self.env = {
            "PERSISTENCE_MODULE": "engine.log.library",
            "APPLICATION_SQLITE_DBNAME": self.path,
            "COUNTERS_SQLITE_DBNAME": f"{self.path}-counters",
        }


class OnConfiguredLog(OnTemporaryLog):
    """Applications find the log in the process's environment."""

    def setUp(self) -> None:
        super().setUp()
        patch = mock.patch.dict(os.environ, self.variables())
        patch.start()
        self.addCleanup(patch.stop)


class TestExampleApplication(OnConfiguredLog, application_cases.ExampleApplicationTestCase):
    expected_factory_topic = "engine.log.library.factory:Factory"


class TestApplication(OnConfiguredLog, application_cases.ApplicationTestCase):
    @pytest.mark.filterwarnings("always::DeprecationWarning")  # the case itself catches and checks it
    def test_application_log(self) -> None:
        super().test_application_log()


# Left out: TaggedDecisionCountersProjectionTestCase needs a DCB recorder, which is another kind of store, and
# TranscoderTestCase tests the library's JSON transcoder, which this package does not replace.
