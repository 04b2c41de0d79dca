"""The library's recorders, beyond its own cases in tests/conformance."""

import pytest
from eventsourcing.persistence import StoredEvent, Tracking

from engine.log import TrackingConflictError
from engine.log.library.recorders import ApswApplicationRecorder, ApswProcessRecorder, ApswTrackingRecorder
from tests.unit.log.samples import said


def test_a_row_keeps_its_envelope_for_the_library(log):
    log.append([said(version=1, time=5, actor="ada", command="say", reason="why", event_id=b"i" * 16)])
    recorder = ApswApplicationRecorder(log, "text")
    columns = (5, "ada", "say", "why", b"i" * 16, None)
    [event], [notification] = recorder.select_events("s"), recorder.select_notifications(1, 10)
    assert (event.originator_id, event.originator_version, event.topic, event.columns) == (
        "s",
        1,
        "message.appended",
        columns,
    )
    assert (notification.id, notification.originator_id, notification.columns) == (1, "s", columns)


def test_a_position_that_was_tracked_is_not_tracked_again(log):
    recorder = ApswTrackingRecorder(log)
    recorder.insert_tracking(Tracking("upstream", 5))
    with pytest.raises(TrackingConflictError, match="max_tracking_id"):
        recorder.insert_tracking(Tracking("upstream", 5))
    assert recorder.max_tracking_id("upstream") == 5


def test_events_and_tracking_are_stored_together_or_not_at_all(log):
    recorder = ApswProcessRecorder(log, "text")
    recorder.insert_events([StoredEvent("s", 1, "t", b"{}")], tracking=Tracking("upstream", 5))
    with pytest.raises(TrackingConflictError):
        recorder.insert_events([StoredEvent("s", 2, "t", b"{}")], tracking=Tracking("upstream", 5))
    assert log.last_position == 1
