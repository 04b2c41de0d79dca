"""W12: which sessions are one row."""

import pytest

from engine.domain.lineage import Segment, chain_of, continues


def chain(start, *segments):
    known = {each.session_id: each for each in segments}
    found = chain_of(known[start], known.get, lambda parent: [each for each in segments if each.parent_id == parent])
    return found.head.session_id, found.tip.session_id, [each.session_id for each in found.segments]


def ended(session_id, parent=None, start=0.0, end=10.0, reason="compression", **fields):
    return Segment(session_id, parent, start, end, reason, **fields)


@pytest.mark.parametrize(
    ("reason", "ended_at", "started_at", "relation", "expected"),
    [
        ("compression", 10.0, 10.0, None, True),
        ("cli_close", 10.0, 11.0, "child", True),
        ("compression", 10.0, 9.9, None, False),
        ("compression", None, 9.9, None, True),
        ("compression", 10.0, None, None, True),
        ("session_reset", 10.0, 11.0, None, False),
        (None, None, 11.0, None, False),
        ("compression", 10.0, 11.0, "fork", False),
    ],
)
def test_a_child_goes_on_for_a_parent_that_ended_before_it_began(reason, ended_at, started_at, relation, expected):
    """W12: by compression or by closing; a branch that says that it is one does not."""
    parent = Segment("p", None, 0.0, ended_at, reason)
    assert continues(parent, Segment("c", "p", started_at, relation=relation)) is expected


def test_every_segment_finds_the_same_chain():
    """W12."""
    segments = (
        ended("a", messages=3, active_at=9.0),
        ended("b", "a", 10.0, 20.0, messages=2, active_at=19.0),
        Segment("c", "b", 20.0, messages=1, active_at=25.0),
    )
    for each in segments:
        assert chain(each.session_id, *segments) == ("a", "c", ["a", "b", "c"])


def test_the_tip_is_the_latest_that_has_messages():
    """W12."""
    segments = ended("a", messages=3, active_at=9.0), Segment("b", "a", 10.0, active_at=10.0)
    assert chain("b", *segments) == ("a", "a", ["a", "b"])
    empty = ended("a", active_at=1.0), Segment("b", "a", 10.0, active_at=10.0)
    assert chain("a", *empty) == ("a", "b", ["a", "b"])


def test_of_two_that_go_on_the_one_last_active_is_the_tip():
    """W12."""
    segments = (
        ended("a", messages=1),
        Segment("b", "a", 10.0, messages=1, active_at=50.0),
        Segment("c", "a", 11.0, messages=1, active_at=40.0),
    )
    assert chain("c", *segments) == ("a", "b", ["a", "b", "c"])


def test_a_missing_parent_and_a_circle_are_harmless():
    """W12."""
    assert chain("b", Segment("b", "gone")) == ("b", "b", ["b"])
    assert chain("a", ended("a", "a", 10.0)) == ("a", "a", ["a"])
    circle = ended("a", "b", 10.0, messages=1), ended("b", "a", 11.0), ended("c", "b", 12.0)
    assert {chain(each.session_id, *circle)[:2] for each in circle} == {("a", "a")}
