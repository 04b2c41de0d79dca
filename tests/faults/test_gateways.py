"""Gateways that share a store and are killed at any moment: one live session per lane, nothing lost or doubled."""

import itertools
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from engine import SessionStore, TurnInProgressError
from tests.chance import SEED, SOAK
from tests.faults.children import PATIENCE, ROOT
from tests.faults.gateways import SUMMARY, source
from tests.faults.history import History
from tests.gateway.support import until

PROCESSES, TASKS, SECONDS, ENOUGH = (8, 50, 30.0, 10_000) if SOAK > 1 else (3, 12, 3.0, 1_500)
LANES = 20
KILLS = 30 * SOAK
CHUNKS = 3
TABLES = {
    "lanes": "SELECT * FROM lanes ORDER BY key",
    "sessions": "SELECT * FROM sessions ORDER BY session_id",
    "message_ids": "SELECT * FROM message_ids ORDER BY session_id, message_id",
    "turns": "SELECT * FROM turns ORDER BY token",
}


def start(function: str, *arguments: object, **options: Any) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.faults.gateways", function, *map(str, arguments)]
    return subprocess.Popen(command, cwd=ROOT, text=True, **options)


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    assert process.wait(PATIENCE) == -signal.SIGKILL


def tables(store: SessionStore) -> dict[str, list[tuple[Any, ...]]]:
    return {name: store.log.query(sql) for name, sql in TABLES.items()}


def assert_agree(store: SessionStore) -> History:
    """Index, heads, transcripts and turns are what the log says, and rebuilding them changes nothing."""
    history = History(store.log.events())
    assert history.problems == []
    assert history.childless() == []
    assert history.astray() == []
    assert {entry.session_key: entry.session_id for entry in store.list_sessions()} == history.leads
    for session_id in history.conversation_of:
        info = store.get_session(session_id)
        assert (info.end_reason, info.session_key) == (history.ended.get(session_id), history.lane_of[session_id])
        assert store.load_transcript(session_id) == history.messages[session_id]
        assert info.message_count == len(history.messages[session_id])
    before = tables(store)
    store.rebuild()
    assert tables(store) == before
    verification = store.log.verify()
    assert verification.ok, verification
    assert store.quarantined() == []
    return history


class Notes:
    """The notes of all gateways, written before they were killed."""

    def __init__(self, folder: Path) -> None:
        self.begun: set[tuple[str, str]] = set()
        self.done: set[tuple[str, str]] = set()
        self.errors: list[str] = []
        self.slowest = ("", 0.0)
        for path in sorted(folder.iterdir()):
            for line in path.read_text().splitlines(keepends=True):
                if line.endswith("\n"):
                    self._take(*json.loads(line))

    def _take(self, kind: str, *rest: Any) -> None:
        if kind == "error":
            self.errors += rest
        elif kind == "slowest":
            self.slowest = max(self.slowest, rest, key=lambda both: both[1])
        else:
            (self.begun if kind == "begin" else self.done).add((rest[0], rest[1]))


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    """Return the folder of the store, and that of the gateways' notes."""
    notes = tmp_path / "notes"
    notes.mkdir()
    return tmp_path / "store", notes


def serve_and_kill(
    store: Path, notes: Path, processes: int, tasks: int, seconds: float, seed: int, enough: int = 1
) -> int:
    """Run the gateways for so long, and until they noted enough; kill one each second; return how many were killed.

    Another takes the place of the killed one. Only a gateway that is at work is killed, however slowly it starts.
    """
    chance = random.Random(seed)
    names = (f"gateway{number}" for number in itertools.count())

    def another() -> subprocess.Popen[str]:
        return start("serve", store, notes, next(names), tasks, LANES, seed)

    gateways = [another() for _ in range(processes)]
    killed = 0
    try:
        end = time.monotonic() + seconds
        while time.monotonic() < end or lines_of(notes) < enough:
            time.sleep(1)
            victim = chance.randrange(processes)
            until(lambda pid=gateways[victim].pid: lines_of(notes, f"*-{pid}.jsonl") > 1)
            kill(gateways[victim])
            killed += 1
            gateways[victim] = another()
    finally:
        for gateway in gateways:
            gateway.kill()
        for gateway in gateways:
            gateway.wait(PATIENCE)
    return killed


def lines_of(notes: Path, names: str = "*") -> int:
    """Return how many things gateways noted."""
    return sum(path.read_bytes().count(b"\n") for path in notes.glob(names))


def assert_served(folder: Path, notebooks: Path) -> tuple[Notes, History]:
    """Nothing acknowledged is lost, nothing is doubled, and every conversation was held by one turn at a time."""
    notes = Notes(notebooks)
    with SessionStore(folder) as store:
        left_open = len(History(store.log.events()).turns)
        assert store.recover_interrupted_turns() == left_open
        history = assert_agree(store)
    found = set(history.appended)
    assert notes.errors == []
    assert notes.done
    conversation = history.conversation_of
    assert {(conversation[session], message) for session, message in notes.done} - found == set(), "lost"
    assert found - {(conversation[session], message) for session, message in notes.begun} == set(), "never sent"
    assert history.doubled() == []
    assert history.turns == {}
    for before, after in history.compressions:
        covered = int(after[0]["content"].removeprefix(SUMMARY))
        assert after[1:] == before[covered:], "messages fell between a session and the one it was compressed into"
    return notes, history


def test_killed_gateways_leave_one_live_session_per_lane_and_lose_or_double_no_message(
    folders: tuple[Path, Path],
) -> None:
    """G32, G36, G42, G47 and regressions 2, 9, 10, 12."""
    folder, notebooks = folders
    killed = serve_and_kill(folder, notebooks, PROCESSES, TASKS, SECONDS, SEED, ENOUGH)
    notes, history = assert_served(folder, notebooks)
    print(f"{killed} kills, {len(notes.done)} acknowledged, slowest {notes.slowest}")  # noqa: T201
    print(f"{history.turns_begun} turns, {history.turns_interrupted} interrupted")  # noqa: T201
    assert len(history.leads) == LANES
    assert history.child_of
    assert history.resets["session_reset"]


@pytest.fixture
def killed_in_mid_turn(tmp_path: Path) -> Iterator[Path]:
    """A store on which one process was killed in turns on lanes 1, 2 and 3, and another is in a turn on lane 4."""
    folder = tmp_path / "store"
    with SessionStore(folder) as store:
        untouched = store.get_or_create_session(source(0))
        assert not untouched.resume_pending
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with start("hold_turns", folder, 1, 2, 3, **options) as dead, start("hold_turns", folder, 4, **options) as alive:
        for process in (dead, alive):
            assert json.loads(process.stdout.readline())
            assert json.loads(process.stdout.readline()) == "ready"
        kill(dead)
        yield folder
        alive.communicate("\n", timeout=PATIENCE)
    assert alive.returncode == 0


def test_a_restart_marks_exactly_the_lanes_whose_turns_were_cut_off(killed_in_mid_turn: Path) -> None:
    """G36: not those that are idle, whose turn ended, that are suspended, or whose worker still runs."""
    with SessionStore(killed_in_mid_turn) as store:
        keys = {number: store.get_or_create_session(source(number), touch=False).session_key for number in range(5)}
        assert store.suspend_session(keys[3])
        assert store.recover_interrupted_turns() == 3
        marked = {entry.session_key: entry.resume_reason for entry in store.list_sessions() if entry.resume_pending}
        assert marked == {keys[1]: "restart_interrupted", keys[2]: "restart_interrupted"}
        assert store.recover_interrupted_turns() == 0
        with pytest.raises(TurnInProgressError):
            store.begin_turn(keys[4])
        assert store.end_turn(store.begin_turn(keys[1]))
        resumed = store.get_or_create_session(source(1))
        assert resumed.resume_pending
        assert store.clear_resume_pending(keys[1])
        assert_agree(store)


def test_a_turn_of_a_killed_process_is_free_before_anybody_has_waited_for_it(tmp_path: Path) -> None:
    """A zombie has a row in the process table and its start time, but works on nothing (G36)."""
    with (
        SessionStore(tmp_path) as store,
        start("hold_turns", tmp_path, 1, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder,
    ):
        [key] = json.loads(holder.stdout.readline())
        with pytest.raises(TurnInProgressError):
            store.begin_turn(key)
        holder.kill()
        os.waitid(os.P_PID, holder.pid, os.WEXITED | os.WNOWAIT)
        assert store.recover_interrupted_turns() == 1
        assert store.end_turn(store.begin_turn(key))


def kill_while_lanes_change(folder: Path, chance: random.Random, kills: int) -> int:
    """Kill processes of one store, one after the other, and look each time; return how many answers were kept."""
    kept = 0
    for number in range(kills):
        answers = change_until_killed(folder, f"run{number}", chance)
        with SessionStore(folder) as store:
            history = assert_agree(store)
        for name, answer in answers:
            assert is_kept(history, name, answer), f"{name} {answer} was acknowledged and is not there"
        kept += len(answers)
    return kept


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_create_reset_and_compress_are_one_step_whenever_the_process_is_killed(chunk: int, tmp_path: Path) -> None:
    """G42 and regressions 1 and 10: index and sessions agree after every kill, and answers given are kept."""
    kills = len(range(chunk, KILLS, CHUNKS))
    assert kill_while_lanes_change(tmp_path, random.Random(f"{SEED}:{chunk}"), kills) > 0


def change_until_killed(folder: Path, me: str, chance: random.Random) -> list[tuple[str, Any]]:
    """Return what the process had answered when it was killed."""
    arguments = (folder, me, chance.random(), chance.randint(1, 4))
    with start("change_lanes", *arguments, stdout=subprocess.PIPE) as process:
        first = process.stdout.readline()
        execution = threading.Timer(chance.uniform(0.01, 0.1), process.kill)
        execution.start()
        rest = process.stdout.read()
        execution.join()
    assert process.returncode == -signal.SIGKILL
    lines = (first + rest).splitlines(keepends=True)
    return [tuple(json.loads(line)) for line in lines if line.endswith("\n")]


def is_kept(history: History, name: str, answer: Any) -> bool:
    if name == "append":
        return history.kept(*answer)
    if name == "compress":
        parent, child = answer
        return history.child_of.get(parent) == child and child in history.messages
    return answer in history.conversation_of
