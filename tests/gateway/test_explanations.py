"""Every event says who, by which command, and where something was decided, why (regression 8)."""

import pytest

from engine.domain import events as e
from engine.domain.registry import EVENTS
from engine.log.envelope import Envelope
from tests.gateway.support import policy, say, since

KEY = "agent:main:telegram:dm:4711"
NEED_NO_REASON = (e.MessageAppended, e.UsageRecorded, e.ModelOverrideSet, e.SessionTitled, e.TurnBegun, e.TurnEnded)
NEED_NO_REASON += (e.NoticesConsumed, e.ExpiryFinalized, e.LaneTouched)


def everything(store, clock, source):
    """All commands, each in the way that writes something."""
    sid = store.get_or_create_session(source()).session_id
    say(store, sid, "one", "two")
    store.append_to_transcript(sid, {"role": "user", "content": "three", "message_id": "m"})
    clock.advance(seconds=1)
    store.get_or_create_session(source())
    store.update_session(KEY, 5)
    store.set_model_override(KEY, {"model": "large"})
    store.mark_resume_pending(KEY)
    store.clear_resume_pending(KEY)
    store.suspend_recently_active()
    token = store.begin_turn(KEY)
    store.renew_turn(token)
    store.end_turn(token)
    store.begin_turn(KEY, lease_seconds=1)
    clock.advance(seconds=2)
    store.recover_interrupted_turns()
    store.rewind_session(sid)
    store.restore_rewound(sid)
    store.rewrite_transcript(sid, [{"content": "x"}])
    store.set_session_title(sid, "Trip")
    store.set_auto_title(store.get_or_create_session(source("other")).session_id, "Trip")
    fork = store.fork_session(sid)
    child = store.compress_session(sid)
    store.switch_session(KEY, fork)
    store.end_session(child, "user_exit")
    store.reopen_session(child)
    store.reset_session(KEY)
    store.consume_notices(KEY)
    store.suspend_session(KEY)
    store.get_or_create_session(source())
    store.set_expiry_finalized(KEY)
    store.get_or_create_session(source(), force_new=True)
    store.end_session(store.peek_session_id(KEY), "agent_close")
    store.get_or_create_session(source())
    clock.advance(days=2)
    store.get_or_create_session(source())
    routed = e.LaneRouted(key=f"{KEY}0", session_id=fork, how="recovered")  # as an import leaves it
    store.log.append([Envelope("lane:imported", 1, routed, 0, "gateway-7", "import", "taken over")])
    store.get_or_create_session(source("47110"))
    clock.advance(days=200)
    store.prune_old_entries(90)


def test_every_event_names_actor_command_and_reason(open_store, clock, source):
    store = open_store(policy("both"), actor="gateway-7")
    everything(store, clock, source)
    store.close()
    store = open_store()
    seen = set()
    for envelope in store.log.events():
        seen.add(type(envelope.event))
        assert envelope.actor == "gateway-7", envelope
        assert envelope.command, envelope
        assert envelope.time, envelope
        if not isinstance(envelope.event, NEED_NO_REASON):
            assert envelope.reason, envelope
    lanes = {cls for tag, cls in EVENTS.items() if tag.startswith(("lane.", "turn.", "transcript."))}
    assert lanes <= seen, "the test runs every lane command"


@pytest.mark.parametrize("why", ["idle", "daily", "suspended", "resume_pending_expired"])
def test_a_reset_records_what_it_saw(open_store, clock, source, why):
    """G25, G29: enough to decide again with nothing but the log."""
    mode = {"idle": "idle", "daily": "daily"}.get(why, "both")
    store = open_store(policy(mode, at_hour=4, idle_minutes=1440))
    first = store.get_or_create_session(source())
    if why == "suspended":
        store.suspend_session(KEY)
    if why == "resume_pending_expired":
        store.mark_resume_pending(KEY)
    before = store.log.last_position
    clock.advance(hours={"idle": 25, "daily": 14}.get(why, 2))
    entry = store.get_or_create_session(source())
    ended, created, reset = since(store, before)
    assert (ended.event.end_reason, reset.event.cause, reset.reason) == (why, why, why)
    assert created.reason == f"automatic reset: {why}"
    assert (reset.event.previous_session_id, reset.event.session_id) == (first.session_id, entry.session_id)
    saw = reset.event.saw
    assert (saw.mode, saw.at_hour, saw.idle_minutes, saw.zone_offset_minutes) == (mode, 4, 1440, 0)
    assert saw.idle_seconds == (clock() - first.updated_at).total_seconds()
    if why == "resume_pending_expired":
        assert (saw.freshness_seconds, saw.pending_seconds) == (3600, 7200)


def test_a_released_and_a_recovered_lane_say_why(store, source):
    """G21, G27."""
    sid = store.get_or_create_session(source()).session_id
    say(store, sid, "x")
    store.end_session(sid, "agent_close")
    before = store.log.last_position
    store.get_or_create_session(source())
    released, reopened, routed = since(store, before)
    assert (released.event.cause, released.reason) == ("agent_close", "its session has ended")
    assert reopened.event.previous_end_reason == "agent_close"
    assert routed.event.how == "recovered"


def test_touches_name_their_actor_too(open_store, clock, source):
    """Written behind, they still say who and by what."""
    store = open_store(actor="gateway-7")
    store.get_or_create_session(source())
    before = store.log.last_position
    clock.advance(seconds=1)
    store.get_or_create_session(source())
    store.runner.touches.flush()
    (touched,) = since(store, before)
    assert isinstance(touched.event, e.LaneTouched)
    assert (touched.actor, touched.command) == ("gateway-7", "touch")
