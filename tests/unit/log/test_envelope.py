"""An envelope is a domain event of the eventsourcing library."""

from tests.unit.log.samples import said


def test_the_library_finds_stream_and_version_under_its_own_names():
    envelope = said(stream="s", version=3)
    assert (envelope.originator_id, envelope.originator_version) == ("s", 3)
