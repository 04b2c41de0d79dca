"""A watch sees every commit, and nothing else."""

import pytest

from engine.log import ClosedLogError, EventLog
from tests.unit.log.samples import said


def test_a_commit_of_this_or_another_process_is_seen_once(log, path):
    watch = log.watch()
    assert watch.changed()
    assert not watch.changed()
    log.append([said()])
    assert watch.changed()
    with EventLog(path) as other:
        other.append([said()])
        assert watch.changed()
        assert not watch.changed()


def test_a_watch_ends_with_its_log(path):
    with EventLog(path) as log:
        watch = log.watch()
    with pytest.raises(ClosedLogError):
        watch.changed()
    with pytest.raises(ClosedLogError):
        watch.recorded(0, 1)
