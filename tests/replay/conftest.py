from collections.abc import Iterator
from pathlib import Path

import pytest

from engine.log.sqlite.eventlog import EventLog
from replay import open_log
from tests.gateway.conftest import clock as clock, open_store as open_store, store as store
from tests.replay.incident import record


@pytest.fixture(scope="session")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The incident of three days, recorded once: its `sessions.db`, to be read and never written."""
    return record(tmp_path_factory.mktemp("incident"))


@pytest.fixture
def incident(recorded: Path) -> Iterator[EventLog]:
    with open_log(recorded) as log:
        yield log
