"""The scripted incident answers twelve questions (R9, R11, R12, R18)."""

import pytest

from engine.log.sqlite.eventlog import EventLog
from tests.replay.incident import LANES, record
from tests.replay.questions import QUESTIONS, Question


def test_there_are_twelve_of_them() -> None:
    assert len(QUESTIONS) == len({each.words for each in QUESTIONS}) == 12


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda each: each.words)
def test_the_incident_answers(incident: EventLog, question: Question) -> None:
    """R9, R11, R12, R18: one call each."""
    assert question.ask(incident) == question.answer


def test_it_is_the_same_history_each_time(incident: EventLog, tmp_path_factory: pytest.TempPathFactory) -> None:
    """The documentation shows positions and ids of it."""
    with EventLog(record(tmp_path_factory.mktemp("again")), read_only=True) as again:
        assert again.head() == incident.head()
    ((lanes,),) = incident.query("SELECT count(DISTINCT stream) FROM log WHERE stream LIKE 'lane:%'")
    assert lanes == LANES
