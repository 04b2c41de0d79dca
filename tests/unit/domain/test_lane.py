"""A lane's fold: what each event makes of it (G21, G25, G27, G34 to G40, G45)."""

from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from engine.domain import events as e
from engine.domain.encoding import Content, Erased, Unknown
from engine.domain.lane import SPENT, Lane, evolve, idle_since, spend, touched
from engine.domain.registry import EVENTS

KEY = "agent:main:telegram:dm:4711"
ORIGIN = {"platform": "telegram", "chat_id": "4711", "chat_name": "Ada"}
ROUTED = e.LaneRouted(session_id="s1", how="created", key=KEY, identity="[0]", origin=ORIGIN, display_name="Ada")
FLAGS = {
    "input_tokens": 1,
    "output_tokens": 2,
    "cache_read_tokens": 3,
    "cache_write_tokens": 4,
    "last_prompt_tokens": 5,
    "cost_usd": 0.5,
    "cost_known": True,
    "was_auto_reset": True,
    "auto_reset_reason": "idle",
    "reset_had_activity": True,
    "is_fresh_reset": True,
    "expiry_finalized": True,
    "suspended": True,
    "resume_pending": True,
    "resume_reason": "restart_timeout",
    "last_resume_marked_at": 7,
    "model_override": {"model": "large"},
}


def folded(*events: Content, lane: Lane | None = None) -> Lane:
    """Return a lane after events, each one microsecond after the one before."""
    lane = Lane("id") if lane is None else lane
    for event in events:
        version = lane.version + 1
        lane = evolve(lane, event, 1000 + version, version)
    return lane


USED = msgspec.structs.replace(folded(ROUTED), **FLAGS)
FRESH = {name: getattr(Lane("id"), name) for name in FLAGS}


def flags(lane: Lane) -> dict[str, Any]:
    return {name: getattr(lane, name) for name in FLAGS}


def test_first_route_names_the_lane_and_says_when_it_began() -> None:
    lane = folded(ROUTED)
    assert (lane.key, lane.identity, lane.session_id, lane.chosen_at) == (KEY, "[0]", "s1", 1)
    assert (lane.created_at, lane.updated_at, lane.version) == (1001, 1001, 1)
    assert (lane.origin, lane.display_name) == (ORIGIN, "Ada")


def test_later_route_keeps_the_name_of_the_first() -> None:
    lane = folded(ROUTED, e.LaneRouted(session_id="s2", how="forced"))
    assert (lane.key, lane.identity, lane.session_id, lane.chosen_at) == (KEY, "[0]", "s2", 2)


def test_g27_recovered_session_keeps_its_own_beginning() -> None:
    lane = folded(e.LaneRouted(session_id="s1", how="recovered", key=KEY, began_at=5))
    assert (lane.created_at, lane.updated_at) == (5, 1001)


@pytest.mark.parametrize(
    "event",
    [
        e.LaneRouted(session_id="s2", how="recovered"),
        e.LaneReset(session_id="s2", previous_session_id="s1", cause="session_reset", automatic=False),
        e.LaneReset(session_id="s2", previous_session_id="s1", cause="idle", automatic=True),
        e.LaneSwitched(session_id="s2", previous_session_id="s1"),
    ],
    ids=["routed", "reset", "automatic reset", "switched"],
)
def test_g25_g27_g37_g38_flags_counts_and_override_stay_with_the_session_that_was_left(event: Content) -> None:
    lane = folded(event, lane=USED)
    noticed = {"was_auto_reset", "auto_reset_reason", "is_fresh_reset"} if isinstance(event, e.LaneReset) else set()
    assert {name for name in FLAGS if flags(lane)[name] != FRESH[name]} <= noticed
    assert (lane.session_id, lane.chosen_at, lane.key, lane.identity) == ("s2", 2, KEY, "[0]")
    assert lane.created_at == lane.updated_at == 1002


def test_g25_automatic_reset_says_why_and_whether_there_was_activity() -> None:
    event = e.LaneReset(
        session_id="s2",
        previous_session_id="s1",
        cause="idle",
        automatic=True,
        had_activity=True,
        origin={"platform": "sms"},
        display_name="New",
    )
    lane = folded(ROUTED, event)
    assert (lane.was_auto_reset, lane.auto_reset_reason, lane.reset_had_activity) == (True, "idle", True)
    assert (lane.is_fresh_reset, lane.origin, lane.display_name) == (False, {"platform": "sms"}, "New")


def test_g37_reset_that_was_asked_for_is_fresh_and_keeps_the_origin() -> None:
    event = e.LaneReset(session_id="s2", previous_session_id="s1", cause="x", automatic=False, display_name="")
    lane = folded(ROUTED, event)
    assert (lane.is_fresh_reset, lane.was_auto_reset, lane.auto_reset_reason) == (True, False, None)
    assert (lane.origin, lane.display_name) == (ORIGIN, "")


def test_g20_lane_that_follows_a_compression_keeps_everything_else() -> None:
    lane = folded(e.LaneAdvanced(session_id="s2", previous_session_id="s1"), lane=USED)
    assert lane == msgspec.structs.replace(USED, session_id="s2", version=2)


@pytest.mark.parametrize(
    "event",
    [e.LaneReleased(session_id="s1", cause="agent_close"), e.LanePruned(session_id="s1", untouched_days=91)],
    ids=["released", "pruned"],
)
def test_g21_g41_lane_that_leads_nowhere_keeps_only_its_name(event: Content) -> None:
    assert folded(event, lane=USED) == Lane("id", KEY, 2, "[0]")


def test_g34_counts_add_up_and_the_last_prompt_replaces() -> None:
    usage = {"input_tokens": 10, "output_tokens": 3, "cache_read_tokens": 2, "cache_write_tokens": 1}
    lane = folded(ROUTED, *[e.UsageRecorded(session_id="s1", last_prompt_tokens=9, cost_usd=0.25, **usage)] * 2)
    assert {name: getattr(lane, name) for name in usage} == {name: 2 * value for name, value in usage.items()}
    assert (lane.last_prompt_tokens, lane.cost_usd, lane.cost_known, lane.updated_at) == (9, 0.5, True, 1003)


@pytest.mark.parametrize(("given", "after"), [(None, 9), (0, 0), (-1, -1)])
def test_g34a_no_last_prompt_keeps_it_and_any_number_replaces_it(given: int | None, after: int) -> None:
    lane = folded(ROUTED, e.UsageRecorded(session_id="s1", last_prompt_tokens=9))
    lane = folded(e.UsageRecorded(session_id="s1", last_prompt_tokens=given), lane=lane)
    assert (lane.last_prompt_tokens, lane.cost_known) == (after, False)


def test_g34_a_cost_of_nothing_is_known() -> None:
    assert folded(ROUTED, e.UsageRecorded(session_id="s1", cost_usd=0.0)).cost_known


def test_g35_mark_and_its_clearing() -> None:
    lane = folded(ROUTED, e.ResumeMarked(session_id="s1", resume_reason="restart_timeout"))
    assert (lane.resume_pending, lane.resume_reason, lane.last_resume_marked_at) == (True, "restart_timeout", 1002)
    assert lane.updated_at == 1001
    lane = folded(e.ResumeCleared(session_id="s1"), lane=lane)
    assert (lane.resume_pending, lane.resume_reason, lane.last_resume_marked_at) == (False, None, None)


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=6))
def test_g24_idle_clock_never_goes_back(times: list[int]) -> None:
    lane = folded(ROUTED, *[e.LaneTouched(at=at) for at in times])
    assert lane.updated_at == max(1001, *times)


@pytest.mark.parametrize("told", [(True, False), (False, True), (True, True), (False, False)])
def test_g45_each_notice_is_taken_away_once_it_was_told(told: tuple[bool, bool]) -> None:
    auto, fresh = told
    lane = folded(e.NoticesConsumed(auto_reset=auto, fresh_reset=fresh), lane=USED)
    assert lane.was_auto_reset is not auto
    assert (lane.auto_reset_reason is None, lane.reset_had_activity) == (auto, not auto)
    assert lane.is_fresh_reset is not fresh


def test_g18_credential_in_an_event_never_gets_into_the_lane() -> None:
    lane = folded(ROUTED, e.ModelOverrideSet(override={"model": "m", "api_key": "sk-secret"}))
    assert lane.model_override == {"model": "m"}
    assert folded(e.ModelOverrideSet(override=None), lane=lane).model_override is None


def test_g17b_lane_of_unknown_origin_takes_an_identity() -> None:
    assert folded(ROUTED, e.LaneIdentified(identity='["x"]')).identity == '["x"]'


def test_suspension_and_finished_expiry_are_flags_of_the_lane() -> None:
    lane = folded(ROUTED, e.LaneSuspended(session_id="s1"), e.ExpiryFinalized(session_id="s1"))
    assert (lane.suspended, lane.expiry_finalized, lane.session_id) == (True, True, "s1")


@pytest.mark.parametrize("content", [Erased("lane.reset", "0" * 64, 5), Unknown("lane.later", {})], ids=type)
def test_event_that_says_nothing_moves_only_the_version(content: Content) -> None:
    assert folded(content, lane=USED) == msgspec.structs.replace(USED, version=2)


def test_lane_whose_release_was_erased_leads_nowhere() -> None:
    assert folded(Erased("lane.released", "0" * 64, 5), lane=USED).session_id is None


def test_every_event_of_a_lane_changes_it() -> None:
    """An event that nothing folds does not exist."""
    empty = folded(e.LaneRouted(session_id="s0", how="created"))
    for tag, cls in EVENTS.items():
        if tag.startswith(("lane.", "usage.")):
            changed = [folded(cls.EXAMPLE, lane=each) for each in (empty, USED)]
            assert changed != [msgspec.structs.replace(each, version=2) for each in (empty, USED)], tag


_counting = st.builds(e.LaneTouched, at=st.integers(0, 99)) | st.builds(
    e.UsageRecorded,
    session_id=st.just("s"),
    last_prompt_tokens=st.none() | st.integers(0, 9),
    input_tokens=st.integers(0, 9),
    cost_usd=st.none() | st.floats(0, 1),
)


@given(st.lists(st.tuples(_counting, st.integers(0, 99)), min_size=1))
def test_a_run_of_touches_and_usage_is_what_they_are_one_by_one(run: list[tuple[Any, int]]) -> None:
    lane = Lane("1", "key", 3, session_id="s", updated_at=50, cost_usd=0.1)
    one_by_one = lane
    for version, (event, time) in enumerate(run, 4):
        one_by_one = evolve(one_by_one, event, time, version)
    assert all(type(event) in SPENT for event, _ in run)
    assert spend(lane, [event for event, _ in run], [time for _, time in run], 3 + len(run)) == one_by_one


HOUR = 3_600_000_000
YEAR = 366 * 24 * HOUR


def test_g29_an_idle_clock_goes_back_only_from_a_time_far_ahead() -> None:
    lane = Lane("id", "key", session_id="s", updated_at=YEAR)
    assert touched(lane, YEAR - HOUR) == lane
    back = touched(lane, YEAR - HOUR - 1)
    assert (back.updated_at, back.ahead_at) == (YEAR - HOUR - 1, YEAR)
    assert touched(back, YEAR) == lane
    assert touched(touched(back, YEAR - 1), YEAR + 1).ahead_at == 0


def test_g29_of_the_times_a_lane_was_used_at_the_one_counts_that_can_be_true() -> None:
    lane = touched(Lane("id", "key", session_id="s", updated_at=100), YEAR)
    assert lane.before_leap == 100
    assert idle_since(lane, 200) == 100
    assert idle_since(lane, YEAR - HOUR) == YEAR
    again = touched(lane, 300)
    assert [idle_since(again, now) for now in (400, YEAR)] == [300, YEAR]
    unknown = Lane("id", "key", session_id="s", updated_at=YEAR)
    assert idle_since(unknown, 200) == 200


@given(st.lists(st.integers(1, 3 * YEAR), max_size=12))
def test_g29_a_run_of_touches_taken_together_is_the_same_as_one_by_one(times: list[int]) -> None:
    one = Lane("id", "key", session_id="s", updated_at=YEAR)
    together = one
    run = [e.LaneTouched(at=at) if at % 2 else e.UsageRecorded(session_id="s") for at in times]
    for version, (event, at) in enumerate(zip(run, times, strict=True), 1):
        one = evolve(one, event, at, version)
    if run:
        together = spend(together, run, times, len(run))
    assert one == together
