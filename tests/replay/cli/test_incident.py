"""The scripted incident from the shell: twelve questions, each answered by one command (R9, R11, R12, R16, R18)."""

import shlex
from collections.abc import Iterator

import pytest

from engine.log.sqlite.eventlog import EventLog
from tests.replay.cli.support import run
from tests.replay.incident import ZONE, at
from tests.replay.questions import QUESTIONS, Question

SAID_OTHERWISE = {True: "yes", "the content of 16 events was erased, request R-2026-044": "R-2026-044"}
"""Where the command has other words than the library call."""


def parts(answer: object) -> Iterator[str]:
    """Yield what is to be read of an answer."""
    if isinstance(answer, tuple):
        for each in answer:
            yield from parts(each)
    elif isinstance(answer, list):
        yield str(answer[0])
    elif answer is not None:
        yield SAID_OTHERWISE.get(answer, str(answer))  # type: ignore[call-overload] # anything hashable


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: each.words)
def test_one_command_answers(question: Question, incident: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """R9, R11, R12, R16, R18."""
    monkeypatch.setattr("replay.cli.run.local_now", lambda: at(3, "18:00"))
    command, *words = shlex.split(question.command)
    done = run(*words, store=incident.path)
    assert (command, done.code) == ("sessions", 0), done.err
    assert [part for part in parts(question.answer) if part not in done.out] == []


def test_the_zone_of_the_incident_is_that_of_the_questions() -> None:
    """R3: a time without a zone is local."""
    assert at(3, "18:00").tzinfo is ZONE
