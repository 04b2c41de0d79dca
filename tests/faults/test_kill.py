"""SIGKILL at any moment: what was acknowledged is there, whole and unchanged, and nothing is half there."""

import random
import signal
from pathlib import Path

import pytest

from engine.log import EventLog
from examples.demo.writer import Findings, Killed, gaps
from tests.chance import SEED, SOAK

CHUNKS = 4
KILLS = 50 * SOAK


def kill_writers(path: Path, chance: random.Random, kills: int) -> int:
    """Kill writers of one log, one after the other, and look each time; return how many events survived."""
    before = 0
    published = None
    for number in range(kills):
        seconds = chance.uniform(0.02, 0.15)
        killed = Killed(path, f"r{number}", seconds, threads=chance.randint(1, 4), tasks=chance.randint(1, 16))
        assert killed.status == -signal.SIGKILL
        assert killed.acknowledged
        with EventLog(path) as log:
            findings = Findings(log, killed.acknowledged, after=before)
            assert not findings.missing, f"lost: {findings.missing[:5]}"
            assert not findings.partial, f"partly stored: {findings.partial[:5]}"
            assert not findings.changed, f"stored differently: {findings.changed[:5]}"
            assert findings.events == log.last_position - before
            if number % 5 == 4:
                assert gaps(log) == []
                verification = log.verify(published=published)
                assert verification.ok, verification
                published = verification.head
            before = log.last_position
    with EventLog(path) as log:
        assert gaps(log) == []
        verification = log.verify(published=published)
        assert verification.ok, verification
        assert verification.events == before
    return before


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_nothing_acknowledged_is_lost_and_nothing_is_partial(chunk: int, tmp_path: Path) -> None:
    kills = len(range(chunk, KILLS, CHUNKS))
    assert kill_writers(tmp_path / "log.db", random.Random(f"{SEED}:{chunk}"), kills) > kills
