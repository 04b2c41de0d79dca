"""Questions about decisions over random histories of all commands, policies and clocks (R11, R12)."""

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from engine.domain.events import LaneReset
from replay import judging, policy_change, what_if, why
from tests.chance import SOAK
from tests.replay.decisions import HOURS, MINUTES, histories, told

FEW = settings(max_examples=30 * SOAK, deadline=None, suppress_health_check=list(HealthCheck), print_blob=True)


def automatic_resets(log):
    return [each for each in log.events() if isinstance(each.event, LaneReset) and each.event.automatic]


@FEW
@given(history=histories)
def test_why_answers_for_every_lane_session_and_position_of_any_history(history):
    """R11: no history makes it fail; what it tells is in order, up to the moment, and has every automatic reset."""
    with told(history) as story:
        log = story.store.log
        resets = {each.position for each in automatic_resets(log)}
        explained = set()
        streams = sorted({each.stream for each in log.events() if each.stream != "log"})
        for subject in [*streams, *(entry.session_key for entry in story.store.list_sessions())]:
            answer = why(log, subject)
            positions = [each.position for each in answer.decisions]
            assert positions == sorted(set(positions), reverse=True)
            explained |= {each.position for each in answer.decisions if each.event == "lane.reset"}
            assert all(each.sentence and each.actor for each in answer.decisions)
        assert resets <= explained
        for position in range(1, log.last_position + 1, 3):
            assert {each.position <= position for each in why(log, f"@{position}").decisions} <= {True}


@FEW
@given(history=histories)
def test_with_the_recorded_policy_nothing_changes(history):
    """R12."""
    with told(history) as story:
        log = story.store.log
        found = what_if(log)
        assert (found.gone, found.added, found.otherwise, found.lanes) == ((), (), (), ())
        assert found.would_be == found.recorded <= len(automatic_resets(log))


@pytest.fixture
def judged_again(monkeypatch):
    """Even the question that was asked then is judged by the rules, not answered from the record."""
    monkeypatch.setattr(judging, "_same_question", lambda *_: False)


@FEW
@given(history=histories)
def test_the_rules_decide_again_as_they_decided_then(judged_again, history):
    """R12, G22 to G30: from touches, inputs and the recorded time zone alone, over changes of clocks and policies."""
    with told(history) as story:
        found = what_if(story.store.log)
        assert (found.gone, found.added, found.otherwise) == ((), (), ())


@FEW
@given(
    history=histories,
    mode=st.sampled_from([None, "none", "idle", "daily", "both"]),
    idle=st.sampled_from([None, *MINUTES]),
    hour=st.sampled_from([None, *HOURS]),
)
def test_another_policy_adds_up_for_any_history(history, mode, idle, hour):
    """R12: per lane and in total; without a policy only suspended lanes are reset."""
    with told(history) as story:
        found = what_if(story.store.log, policy_change(mode, idle, hour))
        assert found.would_be == found.recorded - len(found.gone) + len(found.added)
        assert len(found.gone) == sum(lane.gone for lane in found.lanes)
        assert len(found.added) == sum(lane.added for lane in found.lanes)
        if mode == "none":
            assert not found.added
            assert {each.recorded for each in found.gone} <= {"idle", "daily", "resume_pending_expired"}
