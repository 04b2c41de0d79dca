"""G36: a turn's lease, as its events make it."""

import pytest
from hypothesis import given, strategies as st

from engine.domain import events as e
from engine.domain.encoding import Content, Erased
from engine.domain.turn import TurnState, evolve, over

BEGUN = e.TurnBegun(token="t1", conversation_id="c1", lane_id="l1", lease_seconds=2.5, holder="host:1")
SECOND = 1_000_000
OPEN = TurnState("c1", "t1", "s1", "l1", "host:1", 100, 100 + 2_500_000)


def test_g36_begun_turn_is_open_until_its_lease_runs_out() -> None:
    assert evolve(None, BEGUN, "s1", 100) == OPEN


def test_g36_turn_without_a_lease_never_runs_out() -> None:
    turn = evolve(None, e.TurnBegun(token="t1", conversation_id="c1"), "s1", 100)
    assert turn is not None
    assert turn.ends_at is None
    assert over(turn, 10**18, holder_is_gone=False) is None


def test_g36_turn_that_begins_over_another_is_refused() -> None:
    """Regression 12: two turns would interleave."""
    with pytest.raises(ValueError, match=r"'t2' begins while 't1'"):
        evolve(OPEN, e.TurnBegun(token="t2", conversation_id="c1"), "s1", 200)


def test_g36_renewed_lease_runs_from_then_on() -> None:
    renewed = evolve(OPEN, e.TurnRenewed(token="t1", lease_seconds=5), "s1", 900)
    assert renewed is not None
    assert (renewed.begun_at, renewed.ends_at) == (100, 900 + 5 * SECOND)
    endless = evolve(OPEN, e.TurnRenewed(token="t1"), "s1", 900)
    assert endless is not None
    assert endless.ends_at is None


@pytest.mark.parametrize(
    "event",
    [e.TurnEnded(token="t1"), e.TurnInterrupted(token="t1", evidence="gone"), Erased("turn.ended", "0" * 64, 5)],
    ids=["ended", "interrupted", "erased"],
)
def test_g36_ended_or_interrupted_turn_is_none(event: Content) -> None:
    assert evolve(OPEN, event, "s1", 200) is None


@pytest.mark.parametrize(
    "event",
    [
        e.TurnEnded(token="other"),
        e.TurnInterrupted(token="other", evidence="gone"),
        e.TurnRenewed(token="other", lease_seconds=9),
        e.MessageAppended(message={"role": "user"}),
        Erased("turn.begun", "0" * 64, 5),
    ],
    ids=lambda event: type(event).__name__,
)
def test_g36_event_of_another_turn_or_of_none_changes_nothing(event: Content) -> None:
    assert evolve(OPEN, event, "s1", 200) is OPEN
    assert evolve(None, event, "s1", 200) is None


@given(st.integers(0, 10**15), st.floats(0.001, 10**6))
def test_g36_lease_is_over_from_its_end_on_and_not_before(begun: int, lease: float) -> None:
    turn = evolve(None, e.TurnBegun(token="t", conversation_id="c", lease_seconds=lease), "s", begun)
    assert turn is not None
    assert turn.ends_at is not None
    assert over(turn, turn.ends_at - 1, holder_is_gone=False) is None
    assert over(turn, turn.ends_at, holder_is_gone=False) == "its lease ran out 0.0 s ago"


def test_g36_turn_whose_worker_is_gone_is_over_whatever_its_lease() -> None:
    assert over(OPEN, 100, holder_is_gone=True) == "its worker host:1 is gone"
    assert over(OPEN, 100, holder_is_gone=False) is None
