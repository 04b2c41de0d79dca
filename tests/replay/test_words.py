"""Numbers and events in words (R11, R14)."""

import pytest

from engine.domain.encoding import Erased, Unknown, Unreadable
from engine.domain.registry import EVENTS
from replay.words import counted, sentence, span


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (59.4, "59 s"),
        (60, "1 min"),
        (61, "1 min 1 s"),
        (3600, "1 h"),
        (94320, "26 h 12 min"),
        (172800, "2 d"),
        (266400, "3 d 2 h"),
        (-90, "-1 min 30 s"),
    ],
)
def test_a_length_of_time_is_told_in_its_two_largest_units(seconds: float, words: str) -> None:
    assert span(seconds) == words


def test_a_number_agrees_with_its_noun() -> None:
    assert [counted(1, "lane"), counted(2000, "lane"), counted(2, "entry", "entries")] == [
        "1 lane",
        "2,000 lanes",
        "2 entries",
    ]


@pytest.mark.parametrize("topic", EVENTS)
def test_every_event_has_a_sentence_of_its_own(topic: str) -> None:
    """R11: a new event needs one."""
    words = sentence(EVENTS[topic].EXAMPLE)
    assert words
    assert not words.startswith(f"a {topic} event")


def test_what_is_no_event_of_this_version_is_told_too() -> None:
    assert sentence(Erased("lane.reset", "00", 0)) == "a lane.reset event, whose content was erased"
    assert sentence(Unknown("lane.flown", {})) == "a lane.flown event of a version that is newer than this one"
    assert sentence(Unreadable("lane.reset", b"", "no JSON")) == "a lane.reset event that cannot be read: no JSON"
