"""Twelve questions about the incident, each with the command that asks it and the answer a library call gives."""

from collections.abc import Callable
from typing import Any, NamedTuple

from engine.log.sqlite.eventlog import EventLog
from replay import Moment, as_of, moment_of, policy_change, what_if, why
from tests.replay.incident import ADA, GRACE, LINUS, MARGARET, TEAM, ZONE, at


class Question(NamedTuple):
    """A question, what asks it, and what is to be heard."""

    words: str
    command: str
    ask: Callable[[EventLog], Any]
    answer: Any


def moment(log: EventLog, day: int, clock: str) -> Moment:
    """Return a moment of the incident by day and time."""
    return moment_of(log, f"2026-07-{day:02} {clock}", at(day, clock))


def _of(log: EventLog, subject: str, event: str, which: int = 0) -> str:
    found = [each for each in why(log, subject, zone=ZONE).decisions if each.event == event]
    return found[which].sentence.partition(";")[0]


def _who(log: EventLog, subject: str, command: str) -> tuple[str, str | None]:
    found = next(each for each in why(log, subject).decisions if each.command == command)
    return found.actor, found.reason


def _erasure(log: EventLog) -> tuple[str, str | None, str]:
    [erased] = log.events(topics=["log.erased"])
    told = why(log, f"@{erased.position}").decisions[0]
    return told.actor, told.reason, told.sentence


def _lead(log: EventLog, day: int, clock: str) -> str | None:
    with as_of(log, moment(log, day, clock).position) as past:
        return past.peek_session_id(TEAM)


def _policy_changed(log: EventLog) -> list[str]:
    return [each.sentence for each in why(log, ADA).decisions if "policy" in each.sentence]


QUESTIONS = (
    Question(
        "Why did Grace lose her conversation on Thursday evening?",
        f"sessions why {GRACE} --at '2026-07-02 22:30'",
        lambda log: _of(log, GRACE, "lane.reset", 1),
        "reset: waited 7 h 1 min to be resumed, limit 1 h",
    ),
    Question(
        "Why did Ada, cut off by the same crash, not lose hers?",
        f"sessions why {ADA}",
        lambda log: _of(log, ADA, "lane.touched"),
        "not reset: idle 26 min, limit 24 h, last used after the day's boundary of 2026-07-02 04:00, "
        "waiting 22 min to be resumed (restart_interrupted), limit 1 h, mode both",
    ),
    Question(
        "How do we know that the turn was cut off, and did not just take long?",
        f"sessions why {ADA}",
        lambda log: _of(log, ADA, "turn.interrupted"),
        "a turn was cut off: its worker gateway-1:4002:77:00000002 is gone",
    ),
    Question(
        "Why was Linus not reset at four in the morning?",
        f"sessions why {LINUS}",
        lambda log: _of(log, LINUS, "lane.touched", 1),
        "not reset, although daily was due (last used before the day's boundary at 04:00, idle 5 h 54 min, mode both): "
        "the host was working on the lane",
    ),
    Question(
        "When did the reset policy change, and from what to what?",
        f"sessions why {ADA}",
        _policy_changed,
        ["another reset policy: idle 24 h → both: idle 24 h, daily at 04:00"],
    ),
    Question(
        "Which resets would not have happened without that change?",
        "sessions what-if --mode idle",
        lambda log: (what_if(log).recorded, len(what_if(log, policy_change(mode="idle")).gone)),
        (314, 206),
    ),
    Question(
        "Who reset the team's lane on Friday morning, and why?",
        f"sessions why {TEAM}",
        lambda log: _who(log, TEAM, "reset_session"),
        ("release-0.1.1", "startup migration: stale sessions are cleared"),
    ),
    Question(
        "Who led it back?",
        f"sessions why {TEAM}",
        lambda log: _who(log, TEAM, "switch_session"),
        ("ops:femke", "0.1.1 had reset it by mistake"),
    ),
    Question(
        "Where did the team's lane lead before the bad release, during it, and afterwards?",
        f"sessions at '2026-07-03 09:59' --lane {TEAM}",
        lambda log: [_lead(log, 3, clock) for clock in ("09:59", "11:00", "12:00")],
        ["20260703_095500_41d2f90e", "20260703_100000_38219c39", "20260703_095500_41d2f90e"],
    ),
    Question(
        "Why is Margaret's conversation in another session than on Thursday noon?",
        f"sessions why {MARGARET} --at '2026-07-02 23:00'",
        lambda log: _of(log, MARGARET, "lane.advanced"),
        "followed the compression of 20260702_113910_684dd1d2 to 20260702_221011_4a3a5a50",
    ),
    Question(
        "Was the person who asked for it erased, by whom, and what is left?",
        "sessions events --type log.erased",
        _erasure,
        ("privacy-desk", "asked for by the person", "the content of 16 events was erased, request R-2026-044"),
    ),
    Question(
        "Is this the log that was written then, unchanged?",
        "sessions verify",
        lambda log: (log.verify().ok, log.verify().head.partition(":")[0], log.verify().erased),
        (True, "5558", 16),
    ),
)
