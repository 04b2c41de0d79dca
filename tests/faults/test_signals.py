"""Signal handlers that use a store: what they do is done or refused, and neither they nor what they interrupt hang.

In child processes, which say where they stand when they wait for themselves, and end badly.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.chance import SEED, SOAK
from tests.faults.children import ROOT

USES = ("append", "log_append", "route", "route_new", "begin_turn", "turn", "load", "list", "log_read", "subscribe")
ALL = (*USES, "views", "chats", "sweep", "purge", "close")


def child(function: str, folder: Path, *arguments: object) -> Any:
    """Run a child; return what it said in the end."""
    command = [sys.executable, "-m", "tests.faults.signals", function, str(folder), *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["wrong"] == []
    assert said["ok"]
    return said["outcomes"]


@pytest.mark.parametrize("actions", [("close",), ("route",), ("append", "begin_turn"), ALL], ids=" ".join)
def test_a_real_signal_at_any_moment(tmp_path: Path, actions: tuple[str, ...]) -> None:
    """G32, G48: a timer's handler does something while the main thread does anything, and another thread appends.

    A handler that closed hung 7 times of 15, one that routed 5 times; some crashed the interpreter. What it was told
    is stored is there once, what it was refused is not, and a `close` that was refused has closed nothing.
    """
    outcomes = child("at_random", tmp_path / "sessions", SEED, 100 * SOAK, *actions)
    assert outcomes["done"]


@pytest.mark.parametrize("action", ["close", "append", "route", "load", "turn"])
def test_a_handler_before_any_bytecode(tmp_path: Path, action: str) -> None:
    """G32, G48: the same wherever a handler could come in the code that takes locks, and where it could not."""
    outcomes = child("everywhere", tmp_path / "sessions", max(1, 113 // SOAK), action, *USES, "sweep", "close")
    assert outcomes["done"]
    if action != "load":
        assert outcomes["nested"]
