"""G36: a turn's lease, as its events make it."""

import pytest
from hypothesis import given, strategies as st

from engine.domain import events as e
from engine.domain.encoding import Content, Erased
from engine.domain.turn import BootTime, TurnState, evolve, over

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


RUN = BootTime("run-1", 5 * SECOND)
TIMED = e.TurnBegun(token="t1", conversation_id="c1", lease_seconds=2, boot=RUN.boot, boot_at=RUN.at)


@pytest.mark.parametrize("wall", [-(10**18), 10**18])
def test_g36_on_its_machine_a_lease_follows_the_time_since_boot(wall: int) -> None:
    turn = evolve(None, TIMED, "s1", 100)
    assert turn is not None
    assert over(turn, wall, False, RUN._replace(at=7 * SECOND - 1)) is None
    assert over(turn, wall, False, RUN._replace(at=8 * SECOND)) == "its lease ran out 1.0 s ago"


@pytest.mark.parametrize("here", [None, BootTime("run-2", 0)])
def test_g36_elsewhere_a_lease_follows_the_wall(here: BootTime | None) -> None:
    turn = evolve(None, TIMED, "s1", 100)
    assert turn is not None
    assert over(turn, 100 + 2 * SECOND - 1, False, here) is None
    assert over(turn, 100 + 2 * SECOND, False, here) == "its lease ran out 0.0 s ago"


def test_g36_renewed_lease_follows_the_clocks_of_who_renewed_it() -> None:
    turn = evolve(None, TIMED, "s1", 100)
    later = evolve(turn, e.TurnRenewed(token="t1", lease_seconds=2, boot="run-1", boot_at=9 * SECOND), "s1", 0)
    assert later is not None
    assert (later.boot_ends_at, later.ends_at) == (11 * SECOND, 2 * SECOND)
    elsewhere = evolve(later, e.TurnRenewed(token="t1", lease_seconds=2), "s1", 500)
    assert elsewhere is not None
    assert (elsewhere.boot, elsewhere.boot_ends_at) == (None, None)
    endless = evolve(later, e.TurnRenewed(token="t1", boot="run-1", boot_at=9), "s1", 500)
    assert endless is not None
    assert over(endless, 10**18, False, BootTime("run-1", 10**18)) is None
