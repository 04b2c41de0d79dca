"""Events by filters: those of a lane are found by their streams, and are the same as by reading all (R3, R16)."""

import pytest

from engine.log.sqlite.eventlog import EventLog
from replay import selecting
from replay.selecting import Selection, select_events


def keys_of(log: EventLog) -> list[str]:
    return [key for (key,) in log.query("SELECT DISTINCT key FROM lane_sessions ORDER BY key")]


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize(
    "part",
    [
        {},
        {"after": 200, "upto": 700},
        {"types": ("lane.reset", "message.appended")},
        {"actors": ("nobody",)},
        {"upto": 10**9},
    ],
)
def test_events_of_lanes_are_the_same_however_they_are_found(
    part: dict[str, object], backwards: bool, incident: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R3, R16: of one lane, of several, and of one that is not there; erased ones too."""
    keys = keys_of(incident)
    read_all, found = [], []
    for lanes in [*((key,) for key in keys[:40]), tuple(keys[:3]), ("nowhere",)]:
        selection = Selection(lanes=lanes, **part)  # type: ignore[arg-type]
        read_all.append(list(select_events(incident, selection, None, backwards=backwards)))
        with monkeypatch.context() as patched:
            patched.setattr(selecting, "_MUCH", 0)
            found.append(list(select_events(incident, selection, None, backwards=backwards)))
    assert found == read_all
    assert any(found) or part.get("actors")


def test_events_of_a_lane_need_not_read_the_whole_log(incident: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """R16: of 1,000,000 events that would take many seconds."""
    monkeypatch.setattr(selecting, "_MUCH", 0)
    monkeypatch.setattr(EventLog, "events", None)
    assert list(select_events(incident, Selection(lanes=(keys_of(incident)[0],)), None, backwards=True))
