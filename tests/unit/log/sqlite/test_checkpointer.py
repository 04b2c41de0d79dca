"""The WAL moves into the file and stays small."""

from pathlib import Path

from engine.log import EventLog
from tests.unit.log.samples import said


def test_the_wal_is_moved_into_the_file_once_it_has_enough_pages(path):
    with EventLog(path, synchronous="OFF", checkpoint_pages=5) as log:
        for _ in range(50):
            log.append([said("x" * 5000)])
        log.append([said()])
        assert log.health().checkpoints > 1
        assert Path(f"{path}-wal").stat().st_size < 50 * 5000


def test_emptying_fails_while_a_reader_needs_the_wal_and_is_remembered(log):
    log.append([said()])
    checkpointer = log._backend.checkpointer
    reading = log._database.reader()
    reading.execute("BEGIN; SELECT * FROM events").fetchall()
    log.append([said()])
    assert not checkpointer.empty(wait=0.0)
    assert checkpointer.emptying
    reading.close()
    assert checkpointer.empty()
    assert not checkpointer.emptying
