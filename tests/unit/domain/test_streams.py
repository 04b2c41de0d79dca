"""Names of streams: stable, told apart by their first word, and without a person in them."""

from hypothesis import given, strategies as st

from engine.domain.streams import LANE, LOG, PROJECT, SESSION, lane_stream, project_stream, session_stream

IDS = st.text(st.sampled_from("0123456789abcdef_"), min_size=1)


def test_names_of_streams_are_those_that_stand_in_logs() -> None:
    assert lane_stream("9f86d081884c7d65") == "lane:9f86d081884c7d65"
    assert session_stream("20260701_142530_1a2b3c4d") == "session:20260701_142530_1a2b3c4d"
    assert project_stream("4f1d6a0b9c2e") == "project:4f1d6a0b9c2e"
    assert LOG == "log"


@given(IDS, IDS)
def test_two_streams_never_have_one_name(one: str, other: str) -> None:
    assert len({lane_stream(one), session_stream(other), project_stream(other)}) == 3
    assert project_stream(one).removeprefix(PROJECT) == one
    assert (lane_stream(one) == lane_stream(other)) == (one == other)
    assert lane_stream(one).removeprefix(LANE) == session_stream(one).removeprefix(SESSION) == one
    assert LOG not in (lane_stream(one), session_stream(one))
