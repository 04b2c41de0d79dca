"""A log on a real file."""

import pytest

from engine.log import EventLog


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log.db"


@pytest.fixture
def log(path):
    with EventLog(path, synchronous="OFF") as opened:
        yield opened
