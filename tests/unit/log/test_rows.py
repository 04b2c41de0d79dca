"""Rows that envelopes become, and those that are refused."""

import pytest

from engine.domain.encoding import Unknown
from engine.log import EventLog
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.log.errors import (
    InvalidEventError,
    PayloadTooLargeError,
)
from engine.log.rows import check_text
from tests.unit.log.samples import said


def test_a_payload_over_the_limit_is_refused_and_nothing_stored(path):
    with EventLog(path, payload_limit=200) as log:
        with pytest.raises(PayloadTooLargeError):
            log.append([said("small"), said("x" * 200)])
        assert log.last_position == 0


@pytest.mark.parametrize(
    "envelope",
    [
        said(stream="a\ud800"),
        said(actor=7),
        said(actor="\ud800"),
        said(command=None),
        said(time=1 << 63),
        said(time="now"),
        said(event_id=b"short"),
        said(event_id="text-of-16-chars"),
        said(command=1.5),
        said(reason=2),
        said(metadata=3),
        said(time=True),
        said(time=5.0),
        said(time=None),
        said(version=1.0),
        said(stream="a\ud800", version=NEXT_VERSION),
        said(version=-7),
        said(version=1 << 64),
        said(stream=None),
        Envelope("s", 1, Unknown("x", {})),
        Envelope("s", 1, {"type": "message.appended"}),
    ],
    ids=[
        "surrogate in stream",
        "actor a number",
        "surrogate in actor",
        "no command",
        "time too large",
        "time a text",
        "event id too short",
        "event id a text",
        "command a number",
        "reason a number",
        "metadata a number",
        "time a flag",
        "time a fraction",
        "no time",
        "version a fraction",
        "surrogate in stream, any version",
        "negative version",
        "version too large",
        "no stream",
        "content not known",
        "content a dict",
    ],
)
def test_an_envelope_that_cannot_be_given_back_is_refused(log, envelope):
    with pytest.raises(InvalidEventError):
        log.append([envelope])
    assert log.append([said()]) == [1]
    assert log.verify().ok


@pytest.mark.parametrize(
    "envelopes",
    [None, said(), "text", [None], [said(), None], (said() for _ in range(1))],
    ids=lambda v: str(v)[:9],
)
def test_what_is_not_a_list_of_envelopes_is_refused(log, envelopes):
    with pytest.raises(InvalidEventError, match="envelopes"):
        log.append(envelopes)
    assert log.last_position == 0


def test_the_stream_and_the_metadata_count_too(path):
    with EventLog(path, payload_limit=200) as log:
        for envelope in (said(stream="x" * 200), said(metadata="x" * 200)):
            with pytest.raises(PayloadTooLargeError):
                log.append([envelope])


@pytest.mark.parametrize("value", ["a\0b", "a\ud800", 7, None])
def test_a_text_that_not_every_backend_can_store_is_refused_with_the_name_of_its_column(value):
    with pytest.raises(InvalidEventError, match="actor"):
        check_text("actor", value)
