"""Lanes and sessions by what people type of their names, and the filters (R3, R4)."""

from pathlib import Path

import pytest

from replay import AmbiguousSubjectError, UnknownSubjectError, open_reader, subject_of
from tests.replay.cli.support import ADA, BOB, Done, run


def lanes(done: Done) -> list[str]:
    return [item["lane"] for item in done.items]


@pytest.mark.parametrize("text", [ADA, "agent:main:telegram", "TELEGRAM", "4711"])
def test_a_lane_is_named_by_its_key_its_beginning_or_a_part(text: str, lived: Path) -> None:
    """R4."""
    assert run("show", text, "-o", "json", store=lived).items[0]["lane"] == ADA


def test_a_session_is_named_by_its_id_its_beginning_or_a_part(lived: Path) -> None:
    """R4."""
    with open_reader(lived) as reader:
        for session in reader.sessions_of(ADA):
            whole = session.session_id
            for text in (whole, whole[:-3], whole[-8:]):
                assert subject_of(reader, text).name == whole


def test_a_beginning_is_preferred_to_a_part(lived: Path) -> None:
    """R4."""
    with open_reader(lived) as reader:
        ended = reader.sessions_of(ADA)[1].session_id
        assert subject_of(reader, ended).name == ended


def test_an_ambiguous_name_lists_what_it_may_be(lived: Path) -> None:
    """R4, R5: the candidates, and 2."""
    done = run("show", "agent", store=lived)
    assert (done.code, done.out) == (2, "")
    assert done.err.splitlines() == ["sessions: 'agent' may be one of 2:", f"  {BOB}", f"  {ADA}"]
    with open_reader(lived) as reader, pytest.raises(AmbiguousSubjectError) as caught:
        subject_of(reader, "agent")
    assert caught.value.candidates == (BOB, ADA)


@pytest.mark.parametrize(("text", "near"), [("telegramm", ADA), ("4712", ADA), ("agent:main:slack:grup:C01:bob", BOB)])
def test_an_unknown_name_suggests_near_ones(text: str, near: str, lived: Path) -> None:
    """R4, R5: and 3."""
    done = run("show", text, store=lived)
    assert (done.code, done.out) == (3, "")
    assert near in done.err.splitlines()[1]


def test_nothing_near_leads_to_the_list(lived: Path) -> None:
    """R4."""
    done = run("show", "qqqqqqqqqq", store=lived)
    assert (done.code, "`sessions list` gives names" in done.err) == (3, True)
    with open_reader(lived) as reader, pytest.raises(UnknownSubjectError, match="names nothing"):
        subject_of(reader, "")


@pytest.mark.parametrize("text", ["%", "_", "!", "4711%", "\x00"])
def test_what_is_a_pattern_in_sql_is_plain_text_here(text: str, lived: Path) -> None:
    """R4."""
    expected = 3 if text != "_" else 2  # session ids have underscores
    assert run("show", text, store=lived).code in (expected, 2 if text == "\x00" else expected)


def test_without_a_name_and_a_terminal_it_says_what_is_missing(lived: Path) -> None:
    """R4."""
    done = run("show", store=lived)
    assert (done.code, done.out) == (2, "")
    assert "say which" in done.err


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        (["--platform", "slack"], [BOB]),
        (["--platform", "slack", "--platform", "telegram"], [ADA, BOB]),
        (["--chat", "4711"], [ADA]),
        (["--user", "bob"], [BOB]),
        (["--lane", "slack"], [BOB]),
        (["--since", "2026-07-01 17:00Z"], [ADA, BOB]),
        (["--until", "2026-07-01 14:00Z"], []),
        (["--thread", "none"], []),
        (["--since", "@999999"], None),
    ],
)
def test_lanes_are_filtered(filters: list[str], found: list[str] | None, lived: Path) -> None:
    """R3: repeatable; all of them hold."""
    done = run("list", *filters, "-o", "json", store=lived)
    if found is None:
        assert (done.code, "the log ends at" in done.err) == (2, True)
    else:
        assert sorted(lanes(done)) == sorted(found)


@pytest.mark.parametrize(
    ("filters", "types"),
    [
        (["--type", "lane.reset"], {"lane.reset"}),
        (["--actor", "ada"], {"log.erased"}),
        (["--actor", "nobody"], set()),
        (["--lane", "slack", "--type", "turn.begun", "--type", "turn.ended"], {"turn.begun", "turn.ended"}),
        (["--user", "42", "--type", "message.appended"], {"message.appended"}),
        (["--chat", "C01", "--platform", "telegram"], set()),
    ],
)
def test_events_are_filtered(filters: list[str], types: set[str], lived: Path) -> None:
    """R3, R16: also events of a lane's sessions, by the lane's chat, person and platform."""
    assert {item["type"] for item in run("events", "--all", *filters, "-o", "json", store=lived).items} == types


def test_events_of_a_session_are_its_own_and_those_that_lead_a_lane_to_it_or_away(lived: Path) -> None:
    """R3."""
    with open_reader(lived) as reader:
        second, first = (each.session_id for each in reader.sessions_of(ADA))
    types = [item["type"] for item in run("events", "--session", first, "--all", "-o", "json", store=lived).items]
    assert types[0] == "session.created"
    assert {"lane.routed", "lane.reset", "message.appended"} <= set(types)
    assert "lane.routed" not in {
        item["type"] for item in run("events", "--session", second, "--all", "-o", "json", store=lived).items
    }


def test_events_are_taken_from_a_moment_to_another(lived: Path) -> None:
    """R3: a moment is a time or a position, and the one that is named belongs to the answer."""
    whole = [item["position"] for item in run("events", "--all", "-o", "json", store=lived).items]
    part = run("events", "--since", "@3", "--until", "@5", "-o", "json", store=lived).items
    assert [item["position"] for item in part] == [3, 4, 5]
    later = run("events", "--since", "2026-07-01 15:00Z", "--all", "-o", "json", store=lived).items
    first = later[0]["position"]
    assert [item["position"] for item in later] == [each for each in whole if each >= first]
    assert all(item["time"] >= "2026-07-01T15:00" for item in later)
    bad = run("events", "--since", "soon", store=lived)
    assert (bad.code, "write a time like" in bad.err) == (2, True)
