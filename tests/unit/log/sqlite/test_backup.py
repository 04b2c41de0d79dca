"""A copy of a log; what can go wrong with it is in tests/faults/test_backup.py."""

from engine.log import EventLog
from engine.log.sqlite.eventlog import _verified
from tests.unit.log.samples import said


def test_a_copy_has_the_same_head(tmp_path):
    """V17."""
    with EventLog(tmp_path / "log.db") as log:
        log.append([said("hello")])
        assert log.backup(tmp_path / "copy.db") == log.verify()
        assert _verified(str(tmp_path / "copy.db")) == log.verify()
