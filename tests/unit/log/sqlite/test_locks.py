"""Waiting for the write lock is bounded, and says who holds it."""

import time

import apsw
import pytest

from engine.log import EventLog, LockedLogError
from engine.log.sqlite.locks import Patience, holder
from tests.unit.log.samples import said


def test_patience_ends_at_its_deadline():
    patience, tries, started = Patience(0.05), 0, time.monotonic()
    while patience(tries):
        tries += 1
    assert tries > 1
    assert 0.05 <= time.monotonic() - started < 5


def test_a_lock_that_is_kept_is_reported_with_its_holder(path):
    with EventLog(path, busy_timeout=0.05) as log:
        log.append([said()])
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE")
        assert holder(str(path)) in ("another connection of this process", "another process")
        with pytest.raises(LockedLogError, match="held the write lock"):
            log.append([said()])
        other.close()
        assert log.append([said()]) == [2]


def test_nobody_is_named_when_the_lock_is_free(path):
    with EventLog(path):
        assert holder(str(path)) == "another process"
