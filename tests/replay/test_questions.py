"""The scripted incident answers twelve questions (R9, R11, R12, R18)."""

from pathlib import Path

import pytest

from engine.log.sqlite.eventlog import EventLog
from tests.replay.incident import A_FEW, LANES, record
from tests.replay.questions import QUESTIONS, Question

ROOT = Path(__file__).parent.parent.parent


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
    assert lanes == len(LANES)


def test_the_history_that_ships_with_the_documentation_is_that_of_the_script(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Pages and script tell the same: `python -m tests.replay.incident docs/incident` records it again."""
    shipped = tmp_path_factory.mktemp("shipped") / "sessions.db"
    shipped.write_bytes((ROOT / "docs/incident/sessions.db").read_bytes())
    made = record(tmp_path_factory.mktemp("made"), lanes=A_FEW)
    with EventLog(shipped, read_only=True) as one, EventLog(made, read_only=True) as other:
        assert one.head() == other.head()
        assert one.verify().ok
