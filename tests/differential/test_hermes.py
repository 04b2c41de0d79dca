"""The same random commands on hermes-agent 0.19.0 and on the engine, with one fake clock.

    make peers-test                              seeds 0 to 199
    make peers-test FIRST_SEED=200 SEEDS=200     the next 200

The two are compared with each other for as long as no difference of differences.py can have shown, and with
the model from there on: hermes-agent with the model that departs as listed, the engine with the one that does not.
"""

import importlib.metadata
import logging
import os
from pathlib import Path

import pytest

from tests.differential.differences import DIFFERENCES
from tests.differential.ours import EngineDriver, ModelDriver
from tests.differential.script import NEVER_DIFFERENT, WEIGHTS, FakeClock, commands, differing, run

VERSION = "0.19.0"
FIRST, SEEDS = int(os.environ.get("FIRST_SEED", "0")), int(os.environ.get("SEEDS", "200"))
PER_TEST = 10
MODEL_SEEDS = 400
COMMANDS = 250
MODES = ("none", "idle", "daily", "both")


def _installed():
    try:
        return importlib.metadata.version("hermes-agent")
    except importlib.metadata.PackageNotFoundError:
        return None


pytestmark = [
    pytest.mark.peers,
    pytest.mark.skipif(_installed() != VERSION, reason=f"needs hermes-agent {VERSION}, found {_installed()}"),
]


@pytest.fixture(autouse=True)
def _quiet(monkeypatch, tmp_path):
    """hermes-agent logs every lane it heals, and has a home folder."""
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.delenv("HERMES_AUTO_CONTINUE_FRESHNESS", raising=False)
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def _policy(seed):
    return {"mode": MODES[seed % len(MODES)], "idle_minutes": 30}


def _check(seed, number, name, ours, theirs):
    found = list(differing("", ours, theirs))
    assert not found, f"seed {seed}, command {number} ({ours['command']}), {name}:\n" + "\n".join(found[:20])


def _both(folder: Path, seed: int, kinds):
    """Yield what hermes-agent and the engine answer, command by command."""
    from tests.differential.hermes import HermesDriver

    drivers = []
    try:
        runs = []
        for number, kind in enumerate((HermesDriver, EngineDriver)):
            home, clock = folder / f"{seed}-{number}", FakeClock()
            home.mkdir()
            drivers.append(kind(home, clock, _policy(seed)))
            runs.append(run(drivers[-1], clock, commands(seed, COMMANDS, kinds)))
        yield from zip(*runs, strict=True)
    finally:
        for driver in drivers:
            driver.close()


def _model(seed, departures=()):
    clock = FakeClock()
    driver = ModelDriver(clock, _policy(seed), departures)
    return driver, run(driver, clock, commands(seed, COMMANDS))


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, PER_TEST))
def test_commands_that_reach_no_difference_are_answered_the_same(tmp_path, first):
    for seed in range(first, first + PER_TEST):
        for number, (theirs, ours) in enumerate(_both(tmp_path, seed, NEVER_DIFFERENT)):
            _check(seed, number, "the engine against hermes-agent", ours, theirs)


@pytest.mark.parametrize("first", range(FIRST, FIRST + SEEDS, PER_TEST))
def test_all_commands_are_answered_the_same_but_for_the_listed_differences(tmp_path, first):
    for seed in range(first, first + PER_TEST):
        clocks = FakeClock(), FakeClock()
        spec = ModelDriver(clocks[0], _policy(seed))
        peer = ModelDriver(clocks[1], _policy(seed), DIFFERENCES)
        models = [
            run(model, clock, commands(seed, COMMANDS)) for model, clock in zip((spec, peer), clocks, strict=True)
        ]
        answers = zip(_both(tmp_path, seed, WEIGHTS), *models, strict=True)
        for number, ((theirs, ours), by_spec, by_peer) in enumerate(answers):
            _check(seed, number, "the engine against the rules", ours, by_spec)
            _check(seed, number, "hermes-agent against the rules with its differences", theirs, by_peer)
            if not spec.model.met:
                _check(seed, number, "the engine against hermes-agent", ours, theirs)
        assert spec.model.met <= set(DIFFERENCES)


@pytest.mark.parametrize("name", DIFFERENCES)
def test_each_listed_difference_is_one(name):
    """Without any one of them, the model no longer answers as hermes-agent does on some script."""
    but_one = set(DIFFERENCES) - {name}
    for seed in range(MODEL_SEEDS):
        (_, whole), (_, less) = _model(seed, DIFFERENCES), _model(seed, but_one)
        if any(one != other for one, other in zip(whole, less, strict=True)):
            return
    pytest.fail(f"no script of {MODEL_SEEDS} shows {name!r}")
