"""Logs of earlier versions are read as they were: a change that breaks one fails here."""

import json
from pathlib import Path

import pytest

from engine import GatewayConfig, SessionStore
from engine.domain.registry import EVENTS
from tests.histories.histories import FOLDER, Clock, restore, view

NAMES = sorted(path.stem for path in FOLDER.glob("*.jsonl"))


@pytest.mark.parametrize("name", NAMES)
def test_a_recorded_history_gives_what_it_gave(name: str, tmp_path: Path) -> None:
    """R22."""
    restore(name, tmp_path)
    with SessionStore(tmp_path, GatewayConfig(), clock=Clock()) as store:
        found = view(store)
    expected = json.loads((FOLDER / f"{name}.expected.json").read_text())
    for part in expected:
        assert found[part] == expected[part], part


def test_every_event_of_the_vocabulary_is_in_a_history() -> None:
    """R22: a new event needs a history that has it."""
    lines = [line for name in NAMES for line in (FOLDER / f"{name}.jsonl").read_text().splitlines()]
    recorded = {json.loads(line)[3] for line in lines if line.startswith("[")}
    assert set(EVENTS) - recorded == set()
