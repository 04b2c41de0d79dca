"""Between the library's stored events and rows, without losing an envelope."""

import pytest
from eventsourcing.persistence import JSONTranscoder, StoredEvent

from engine.domain.encoding import tombstone
from engine.log import InvalidEventError, PayloadTooLargeError
from engine.log.library import EventMapper
from engine.log.library.mapper import stored_row
from tests.unit.log.samples import said


def test_an_envelope_survives_the_mapper():
    mapper = EventMapper(JSONTranscoder())
    envelope = said(version=1, time=5, actor="ada", command="say", reason="why", event_id=b"i" * 16, metadata="{}")
    assert mapper.to_domain_event(mapper.to_stored_event(envelope)) == envelope


def test_a_plain_stored_event_has_an_empty_envelope():
    read = EventMapper(JSONTranscoder()).to_domain_event(StoredEvent("s", 1, "lane.touched", b'{"at":5}'))
    assert (read.stream, read.version, read.time, read.actor) == ("s", 1, 0, "")


@pytest.mark.parametrize(
    ("state", "stored"),
    [(b'{"a":1}', '{"a":1}'), (b'{"a":\0}', b'{"a":\0}'), (b"\x89PNG", b"\x89PNG"), (b'{"\xff', b'{"\xff')],
    ids=["JSON", "NUL", "not JSON", "not UTF-8"],
)
def test_json_is_stored_as_text_and_anything_else_as_a_blob(state, stored):
    assert stored_row(StoredEvent("s", 1, "t", state), 100).state == stored


@pytest.mark.parametrize(
    ("event", "error"),
    [
        (StoredEvent("s", 1, "t", b"x" * 200), PayloadTooLargeError),
        (StoredEvent("s", 1, "t", tombstone("0" * 64, 1).encode()), InvalidEventError),
        (StoredEvent("s", -1, "t", b"{}"), InvalidEventError),
        (StoredEvent("s", 1, "t\0", b"{}"), InvalidEventError),
    ],
    ids=["too large", "a tombstone", "no version", "NUL in the topic"],
)
def test_what_the_log_could_not_give_back_is_refused(event, error):
    with pytest.raises(error):
        stored_row(event, 100)
