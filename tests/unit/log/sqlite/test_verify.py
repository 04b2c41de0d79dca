"""Verifying the hash chain."""

import apsw
import pytest

from engine.log import EventLog
from tests.unit.log.samples import said


def test_verifying_reports_progress_and_holds_the_log_to_a_published_head(log):
    log.append([said() for _ in range(2500)])
    seen = []
    found = log.verify(progress=lambda done, total: seen.append((done, total)))
    assert found.ok
    assert found.events == 2500
    assert seen[-1] == (2500, 2500)
    log.append([said()])
    assert log.verify(published=found.head).ok
    assert not log.verify(published=f"2500:{'0' * 64}").ok
    cut = log.verify(published=f"9999:{'0' * 64}")
    assert (cut.ok, cut.bad_position) == (False, 2502)
    for nonsense in ("nonsense", f"7:{'z' * 64}", f"7:{'0' * 63}"):
        with pytest.raises(ValueError, match="published"):
            log.verify(published=nonsense)


def test_the_head_of_an_empty_log_tells_it_from_another(log, tmp_path):
    head = log.verify().head
    assert head.startswith("0:")
    log.append([said()])
    assert log.verify(published=head).ok
    with EventLog(tmp_path / "other.db") as other:
        assert not other.verify(published=head).ok


def test_verifying_finds_a_changed_row(path):
    with EventLog(path) as log:
        log.append([said(), said(actor="ada"), said()])
    raw = apsw.Connection(str(path))
    raw.execute("DROP TRIGGER events_are_immutable; UPDATE events SET actor = 1 WHERE position = 2")
    raw.close()
    with EventLog(path) as log:
        found = log.verify()
    assert (found.ok, found.bad_position) == (False, 2)
