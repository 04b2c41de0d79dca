"""G36: what a restart cut off, by the clock and by the lease."""

import asyncio

import pytest

from engine import AsyncSessionStore, TurnInProgressError, UnknownLaneError
from engine.domain import events as e
from tests.gateway.support import lane

KEY = "agent:main:telegram:dm:4711"


def test_lanes_active_within_the_window_are_marked(store, clock, source):
    """G36: suspended and already pending ones are skipped."""
    for name in ("suspended", "pending", "recent"):
        store.get_or_create_session(source(name))
    store.suspend_session("agent:main:telegram:dm:suspended")
    store.mark_resume_pending("agent:main:telegram:dm:pending", "mine")
    clock.advance(seconds=120)
    assert store.suspend_recently_active() == 1
    marks = {entry.session_key.rpartition(":")[2]: entry.resume_reason for entry in store.list_sessions()}
    assert marks == {"suspended": None, "pending": "mine", "recent": "restart_interrupted"}
    assert store.suspend_recently_active() == 0, "they are pending now"


def test_lanes_outside_the_window_are_not(store, clock, source):
    """G36."""
    store.get_or_create_session(source())
    clock.advance(seconds=120.5)
    assert store.suspend_recently_active() == 0
    assert store.suspend_recently_active(121) == 1


def test_a_message_whose_touch_is_not_written_yet_counts(store, clock, source):
    """G36: an old lane that was used a moment ago."""
    store.get_or_create_session(source())
    clock.advance(hours=1)
    store.get_or_create_session(source())
    assert store.suspend_recently_active() == 1


def test_one_turn_at_a_time(store, source):
    """G36."""
    store.get_or_create_session(source())
    token = store.begin_turn(KEY)
    with pytest.raises(TurnInProgressError, match="has had a turn"):
        store.begin_turn(KEY)
    assert store.end_turn(token) is True
    assert store.end_turn(token) is False
    assert store.end_turn(store.begin_turn(KEY)) is True


def test_the_lease_is_the_conversations(open_store, source):
    """G36: across lanes, stores and compressions."""
    store, other = open_store(), open_store()
    first = store.get_or_create_session(source())
    second = store.get_or_create_session(source("second"))
    token = store.begin_turn(KEY)
    store.switch_session(second.session_key, first.session_id)
    with pytest.raises(TurnInProgressError):
        other.begin_turn(second.session_key)
    store.compress_session(first.session_id)
    with pytest.raises(TurnInProgressError):
        other.begin_turn(KEY)
    assert other.end_turn(token)
    other.begin_turn(KEY)


def test_a_lane_that_leads_nowhere_has_no_turns(store):
    """G36."""
    with pytest.raises(UnknownLaneError, match="nobody"):
        store.begin_turn("agent:main:telegram:dm:nobody")


def test_a_closed_stores_turns_are_recovered_exactly(open_store, source):
    """G36: the turn that was open, not the one that ended, nor one of a store that runs."""
    crashed, store = open_store(), open_store()
    for name in ("open", "done", "mine"):
        crashed.get_or_create_session(source(name))
    crashed.begin_turn("agent:main:telegram:dm:open")
    crashed.end_turn(crashed.begin_turn("agent:main:telegram:dm:done"))
    mine = store.begin_turn("agent:main:telegram:dm:mine")
    crashed.close()
    assert store.recover_interrupted_turns() == 1
    marks = {entry.session_key.rpartition(":")[2]: entry.resume_reason for entry in store.list_sessions()}
    assert marks == {"open": "restart_interrupted", "done": None, "mine": None}
    assert store.recover_interrupted_turns() == 0
    assert store.end_turn(mine)
    store.begin_turn("agent:main:telegram:dm:open")


def test_a_lease_runs_out_and_can_be_renewed(store, clock, source):
    """G36."""
    store.get_or_create_session(source())
    token = store.begin_turn(KEY, lease_seconds=10)
    clock.advance(seconds=9)
    assert store.renew_turn(token, lease_seconds=10)
    clock.advance(seconds=9)
    assert store.recover_interrupted_turns() == 0
    clock.advance(seconds=1)
    assert store.recover_interrupted_turns() == 1
    assert lane(store, KEY).resume_reason == "restart_interrupted"
    assert not store.renew_turn(token)
    assert not store.end_turn(token)


def test_a_lease_runs_out_by_itself_after_ten_minutes(store, clock, source):
    """G36: also one whose worker lives and never says a word again."""
    store.get_or_create_session(source())
    store.begin_turn(KEY)
    clock.advance(seconds=599)
    assert store.recover_interrupted_turns() == 0
    clock.advance(seconds=1)
    assert store.recover_interrupted_turns() == 1
    assert store.renew_turn(store.begin_turn(KEY, lease_seconds=None))
    clock.advance(seconds=600)
    assert store.recover_interrupted_turns() == 1


def test_a_new_turn_takes_over_from_a_dead_one(open_store, source):
    """G36: the log says why."""
    crashed, store = open_store(), open_store()
    crashed.get_or_create_session(source())
    crashed.begin_turn(KEY)
    crashed.close()
    store.begin_turn(KEY)
    (interrupted,) = (each for each in store.log.events() if isinstance(each.event, e.TurnInterrupted))
    assert "is gone" in interrupted.event.evidence
    assert lane(store, KEY).resume_pending


@pytest.mark.parametrize("before", ["suspend", "reset"])
def test_a_lane_that_went_elsewhere_is_not_marked(open_store, source, before):
    """G36, G35: suspended lanes are not marked, nor lanes on another conversation."""
    crashed, store = open_store(), open_store()
    crashed.get_or_create_session(source())
    crashed.begin_turn(KEY)
    crashed.close()
    store.suspend_session(KEY) if before == "suspend" else store.reset_session(KEY)
    assert store.recover_interrupted_turns() == 1
    assert not lane(store, KEY).resume_pending


def test_a_failed_turn_keeps_its_error(store, source):
    """G36."""
    store.get_or_create_session(source())
    store.end_turn(store.begin_turn(KEY), error="the model said no")
    ended = list(store.log.events())[-1].event
    assert (ended.outcome, ended.error) == ("failed", "the model said no")


PHOTO = {"role": "user", "content": [{"type": "text", "text": "what is this?"}, {"type": "image", "url": "cat.png"}]}


def test_a_retried_message_can_be_appended_again(store, source):
    """G51a: it comes back whole, and its platform id does not keep it from being stored a second time."""
    with store.turn(source()) as turn:
        turn.append({**PHOTO, "message_id": "tg-1"})
        turn.append({"role": "assistant", "content": "a dog"})
        again = turn.retry()
        assert again is not None
        assert turn.append(again) is not None
        (message,) = turn.load_transcript()
        assert message["content"] == PHOTO["content"]
        assert turn.append({**PHOTO, "message_id": "tg-1"}) is None, "delivered before"


def test_a_retried_message_can_be_appended_again_by_tasks(store, source):
    """G51a, for AsyncTurn."""

    async def retry() -> list[dict[str, object]]:
        async with AsyncSessionStore(store) as awaitable, awaitable.turn(source()) as turn:
            assert await turn.retry() is None, "there is nothing to retry"
            await turn.append({**PHOTO, "message_id": "tg-1"})
            again = await turn.retry()
            assert again is not None
            await turn.append(again)
            return await turn.load_transcript()

    (message,) = asyncio.run(retry())
    assert message["content"] == PHOTO["content"]
