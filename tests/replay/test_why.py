"""Explanations: a lane or a session is where it is for a reason, and so is a reset that did not come (R11)."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from engine import SessionStore, acting
from engine.domain.encoding import Erased
from engine.log.sqlite.eventlog import EventLog
from replay import Moment, UnknownSubjectError, Why, why
from tests.gateway.support import FakeClock, policy, say, source
from tests.replay.incident import ADA, ERASED, GRACE, LINUS, MARGARET, TEAM, ZONE, at

KEY = "agent:main:telegram:dm:4711"


def sentences(answer: Why) -> list[str]:
    return [each.sentence for each in answer.decisions]


def of(answer: Why, event: str) -> list[str]:
    return [each.sentence for each in answer.decisions if each.event == event]


def test_a_reset_names_the_numbers_it_saw(open_store: Callable[..., SessionStore], clock: FakeClock) -> None:
    """R11: position, time, event, actor, command, reason, and one sentence."""
    store = open_store(policy("both", idle_minutes=1440))
    first = store.get_or_create_session(source())
    clock.advance(hours=26, minutes=12)
    second = store.get_or_create_session(source())
    answer = why(store.log, KEY, zone=UTC)
    newest = answer.decisions[0]
    assert (newest.position, newest.time, newest.event) == (store.log.last_position, clock(), "lane.reset")
    assert (newest.actor, newest.command, newest.reason) == ("gateway", "get_or_create_session", "idle")
    assert newest.sentence == (
        f"reset: idle 26 h 12 min, limit 24 h, mode both; {first.session_id} → {second.session_id}"
    )
    assert answer.answer == f"it leads to {second.session_id} since 2026-07-02 16:37:30: {newest.sentence}"
    assert sentences(answer)[1:] == [f"created {first.session_id}: there was no session to go on with"]


def test_every_cause_of_a_reset_is_a_sentence_of_its_own(
    open_store: Callable[..., SessionStore], clock: FakeClock
) -> None:
    """R11."""
    store = open_store(policy("both", idle_minutes=1440))
    store.get_or_create_session(source())
    clock.advance(hours=14)
    store.get_or_create_session(source())
    store.suspend_session(KEY)
    store.get_or_create_session(source())
    store.mark_resume_pending(KEY)
    clock.advance(hours=2)
    store.get_or_create_session(source())
    with acting("ada", reason="/new"):
        store.reset_session(KEY)
    newest = why(store.log, KEY).decisions
    assert [each.sentence.partition(";")[0] for each in newest if each.event == "lane.reset"] == [
        "reset by hand: somebody asked for it, no policy did",
        "reset: waited 2 h to be resumed, limit 1 h",
        "reset: somebody had suspended the lane",
        "reset: last used before the day's boundary at 04:00, idle 14 h, mode both",
    ]
    assert (newest[0].actor, newest[0].reason) == ("ada", "/new")


@pytest.mark.parametrize(
    ("mode", "hours", "said"),
    [
        ("none", 30, "not reset: the policy is none, so nothing but a suspension resets it"),
        ("idle", 23, "not reset: idle 23 h, limit 24 h, mode idle"),
        ("daily", 12, "not reset: idle 12 h, last used after the day's boundary of 2026-07-01 04:00, mode daily"),
    ],
)
def test_a_message_that_did_not_reset_says_why_not(
    open_store: Callable[..., SessionStore], clock: FakeClock, mode: str, hours: int, said: str
) -> None:
    """R11: after a silence that makes one ask."""
    store = open_store(policy(mode))
    store.get_or_create_session(source())
    clock.advance(hours=hours)
    store.get_or_create_session(source())
    store.runner.touches.flush()
    answer = why(store.log, KEY)
    assert sentences(answer)[0] == said
    assert answer.decisions[0].time == clock()


def test_a_message_after_a_short_silence_is_no_decision(
    open_store: Callable[..., SessionStore], clock: FakeClock
) -> None:
    store = open_store(policy("both"))
    store.get_or_create_session(source())
    clock.advance(minutes=5)
    store.get_or_create_session(source())
    store.runner.touches.flush()
    assert len(why(store.log, KEY).decisions) == 1


def test_a_busy_host_held_the_reset_back(incident: EventLog) -> None:
    """R11, G30."""
    assert of(why(incident, LINUS, zone=ZONE), "lane.touched")[-1] == (
        "not reset, although daily was due (last used before the day's boundary at 04:00, idle 5 h 54 min, mode both): "
        "the host was working on the lane"
    )


def test_a_lane_that_waits_to_be_resumed_is_kept_while_it_is_fresh_and_then_reset(incident: EventLog) -> None:
    """R11, G23: cut off by the same crash, one came back in time."""
    kept, late = why(incident, ADA, zone=ZONE), why(incident, GRACE, zone=ZONE)
    assert "waiting 22 min to be resumed (restart_interrupted), limit 1 h" in of(kept, "lane.touched")[0]
    assert "reset: waited 7 h 1 min to be resumed, limit 1 h" in of(late, "lane.reset")[1]


def test_no_reset_without_a_message_and_the_next_one_is_told(incident: EventLog) -> None:
    """R11: resets come with messages; until one comes the lane only looks overdue."""
    friday = Moment(incident.last_position, at(3, "18:00"))
    assert why(incident, ADA, friday, zone=ZONE).reset == (
        "not reset yet, as no message has come since: idle 26 h 28 min, limit 24 h, "
        "last used before the day's boundary of 2026-07-03 04:00; the next one resets it"
    )
    assert why(incident, LINUS, friday).reset is not None
    assert "mode both" in str(why(incident, LINUS, friday).reset)


def test_a_crash_its_evidence_an_upgrade_and_a_changed_policy_are_among_the_decisions(incident: EventLog) -> None:
    """R11."""
    found = sentences(why(incident, ADA))
    assert "a turn was cut off: its worker gateway-1:4002:77:00000002 is gone" in found
    assert "started again; the store before it, gateway-1:4002:77:00000002, was never closed" in found
    assert "another reset policy: idle 24 h → both: idle 24 h, daily at 04:00" in found
    assert [each for each in found if "version" in each] == [
        "another version: 0.1.1 → 0.1.0",
        "another version: 0.1.0 → 0.1.1",
    ]


def test_who_reset_by_mistake_and_who_led_it_back(incident: EventLog) -> None:
    """R11, regression 8."""
    told = {each.event: each for each in reversed(why(incident, TEAM).decisions)}
    reset = next(each for each in why(incident, TEAM).decisions if each.command == "reset_session")
    assert (reset.actor, reset.reason) == ("release-0.1.1", "startup migration: stale sessions are cleared")
    assert (told["lane.switched"].actor, told["lane.switched"].reason) == ("ops:femke", "0.1.1 had reset it by mistake")


def test_why_this_session_recovered_switched_compressed_forked_imported(
    open_store: Callable[..., SessionStore], clock: FakeClock
) -> None:
    """R11."""
    store = open_store()
    first = store.get_or_create_session(source()).session_id
    say(store, first, "one", "two")
    store.end_session(first, "agent_close")
    assert store.get_or_create_session(source()).session_id == first
    assert of(why(store.log, KEY), "lane.routed")[0] == (
        f"recovered {first}: it is the newest one here, and nobody had ended it on purpose"
    )
    assert of(why(store.log, KEY), "lane.released") == [f"left {first}, which had ended: agent_close"]
    child = store.compress_session(first, None, [{"role": "system", "content": "so far"}], covers=1)
    assert of(why(store.log, child), "session.compressed") == [f"compressed into {child}, 1 message carried over"]
    assert sentences(why(store.log, child))[-1] in (
        f"compressed into {child}, 1 message carried over",
        f"goes on for {first}, which was compressed",
    )
    fork = store.fork_session(child)
    assert f"forked from {child}" in sentences(why(store.log, fork))
    assert why(store.log, fork).answer.endswith("no lane leads to it now")
    store.switch_session(KEY, fork)
    assert of(why(store.log, KEY), "lane.switched") == [f"switched by hand: {child} → {fork}"]


def test_a_compressed_conversation_says_what_it_goes_on_for(incident: EventLog) -> None:
    """R11."""
    found = sentences(why(incident, MARGARET))
    assert any(each.startswith("followed the compression of 20260702_113910") for each in found)


def test_a_position_is_explained_by_its_stream_up_to_it(incident: EventLog) -> None:
    """R11: `@123`."""
    [reset] = [each for each in why(incident, TEAM).decisions if each.command == "reset_session"]
    answer = why(incident, f"@{reset.position}")
    assert (answer.kind, answer.position, answer.decisions[0]) == ("lane", reset.position, reset)
    assert all(each.position <= reset.position for each in answer.decisions)
    message = next(each for each in incident.events(1000) if each.event.topic == "message.appended")
    assert why(incident, f"@{message.position}").decisions[0].sentence.startswith("a message of role")
    opened = why(incident, "@1", zone=ZONE)
    assert (opened.kind, opened.decisions[0].sentence) == (
        "log",
        "a store of version 0.1.0 began to write: gateway-1:4001:77:00000001",
    )


def test_an_earlier_moment_knows_nothing_of_what_came_later(incident: EventLog) -> None:
    """R11: --at."""
    thursday = incident.position_at(int(datetime(2026, 7, 2, 13, 0, tzinfo=UTC).timestamp() * 1e6))
    answer = why(incident, ADA, thursday)
    assert [each.event for each in answer.decisions if each.position > thursday] == []
    assert not any("cut off" in each for each in sentences(answer))


def test_an_erasure_is_told_without_what_it_erased(incident: EventLog) -> None:
    """R11, R9."""
    [erasure] = incident.events(topics=["log.erased"])
    lane = next(each.stream for each in incident.events() if isinstance(each.event, Erased) and "lane:" in each.stream)
    answer = why(incident, lane)
    told = [each for each in answer.decisions if each.position == erasure.position]
    assert [(each.actor, each.reason) for each in told] == [("privacy-desk", "asked for by the person")]
    assert "request R-2026-044" in told[0].sentence
    assert "a lane.routed event, whose content was erased" in sentences(answer)
    with pytest.raises(UnknownSubjectError):
        why(incident, ERASED)


def test_the_decisions_are_bounded_and_say_how_many_are_left_out(incident: EventLog) -> None:
    whole = why(incident, ADA)
    short = why(incident, ADA, limit=2)
    assert (short.decisions, short.left_out) == (whole.decisions[:2], len(whole.decisions) - 2)


@pytest.mark.parametrize(
    "subject", ["nobody", "agent:main:telegram:dm:1", "@99999999", "@x", "@", "lane:ff", "session:x", ""]
)
def test_an_unknown_subject_is_refused(incident: EventLog, subject: str) -> None:
    """R11, R4."""
    with pytest.raises(UnknownSubjectError):
        why(incident, subject)


def test_a_lane_that_was_not_there_yet_is_unknown_then(incident: EventLog) -> None:
    with pytest.raises(UnknownSubjectError, match="at position 1"):
        why(incident, ADA, 1)
