"""The parts of `make torture`: each runs a harness of the suite with big numbers, in shards that can be repeated."""

import asyncio
import logging
import math
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from engine import SessionStore
from tests.chance import SEED
from tests.faults import full, test_cancelled_turns, test_gateways, test_io_errors, test_kill, test_power_loss
from tests.faults.disk import memory_folder
from tests.faults.flips import Specimen
from tests.faults.power import Losses, lose_power
from tests.faults.stores import gateway_by_day, operator_by_night
from tests.faults.test_wal_flips import Crash
from tests.simulation.run import simulate
from tests.simulation.seeds import FIRST

WAYS = 10


class Shard(msgspec.Struct):
    """The result of a shard of a part."""

    counts: dict[str, float] = {}
    """Numbers that are added up over the shards; those whose name begins with "slowest" or "largest" are not."""
    words: list[str] = []
    """What the numbers cannot say: which file system it was, for one."""
    findings: list[str] = []
    """What is wrong. There must be none."""
    seconds: float = 0.0
    commit: str = ""
    date: str = ""


class Part(msgspec.Struct, frozen=True):
    """One kind of trouble. `total` things of a `unit` make the whole of it, so many of them a shard."""

    name: str
    title: str
    method: str
    unit: str
    total: int
    shard: int
    run: Callable[[int, int], Shard]
    """Given the number of a shard and how many things it is to do."""
    bars: dict[str, Callable[[dict[str, float]], bool]] = {}
    """What must hold of the counts beside that nothing was found."""

    def wanted(self, scale: float) -> int:
        """Return how many things are to be done."""
        return max(1, math.ceil(self.total * scale))

    def shards(self, scale: float) -> int:
        """Return into how many shards they are cut."""
        return math.ceil(self.wanted(scale) / self.shard)

    def run_shard(self, number: int, scale: float) -> Shard:
        """Run a shard; whatever it raises is a finding."""
        first = number * self.shard
        logging.disable(logging.CRITICAL)  # thousands of faults that are meant to happen
        try:
            return self.run(number, min(self.shard, self.wanted(scale) - first))
        except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
            return Shard(findings=[f"{type(error).__name__}: {error!s:.3000}"])
        finally:
            logging.disable(logging.NOTSET)


@contextmanager
def folder() -> Iterator[Path]:
    """A folder on the disk of the machine."""
    with tempfile.TemporaryDirectory(prefix="torture-") as found:
        yield Path(found)


# Power loss


def _power(lose: Callable[[int, int], Losses], number: int, units: int) -> Shard:
    found = lose(SEED + number, units)
    counts = {"images": float(found.images), "operations of the disk": float(found.operations)}
    return Shard(counts, [], found.findings)


def _log_loses(seed: int, units: int) -> Losses:
    return test_power_loss.lost(seed, "FULL", WAYS, units)


# I/O errors


def _io(number: int, units: int) -> Shard:
    """Fail at the calls of some slices: each slice has one call in a hundred, of one harness, once or until healed."""
    kinds: list[tuple[Callable[..., tuple[list[str], int]], str, int]] = [
        *((test_io_errors.try_errors, kind, test_io_errors.count_calls(which)) for kind, (_, which) in _FAULTS.items()),
        *((test_io_errors.try_store_errors, work, test_io_errors.count_store_calls(work)) for work in _WORK),
    ]
    found = Shard(counts={"trials": 0, "calls that failed": 0})
    for at in range(number * _IO.shard, number * _IO.shard + units):
        attempt, name, total = kinds[at % len(kinds)]
        rest = at // len(kinds)
        targets = list(range(rest // 2, total, _SLICES))
        findings, fired = attempt(name, bool(rest % 2), targets)
        found.findings += findings
        found.counts["trials"] += len(targets)
        found.counts["calls that failed"] += fired
    return found


_FAULTS, _WORK = test_io_errors.FAULTS, test_io_errors.WORK
_SLICES = 100


# Kills


def _kill_writers(number: int, units: int) -> Shard:
    with folder() as place:
        survived = test_kill.kill_writers(place / "log.db", random.Random(f"{SEED}:kill:{number}"), units)
    return Shard({"kills": units, "events that survived": survived})


def _kill_gateways(number: int, units: int) -> Shard:
    with folder() as place:
        kept = test_gateways.kill_while_lanes_change(place, random.Random(f"{SEED}:lanes:{number}"), units)
    return Shard({"kills": units, "answers that were kept": kept})


def _serve(number: int, units: int) -> Shard:
    with folder() as place:
        store, notes = place / "store", place / "notes"
        notes.mkdir()
        killed = test_gateways.serve_and_kill(store, notes, 8, 50, units, SEED + number)
        told, history = test_gateways.assert_served(store, notes)
    counts = {
        "seconds": units,
        "kills": killed,
        "messages acknowledged": len(told.done),
        "turns": history.turns_begun,
        "turns taken over from the dead": history.turns_interrupted,
        "slowest call in seconds": round(told.slowest[1], 2),
    }
    return Shard(counts)


# Flipped bits


def _flip_database(number: int, units: int) -> Shard:
    with memory_folder() as place:
        specimen = Specimen(place / "intact")
        damaged = place / "damaged"
        damaged.mkdir()
        judged = [specimen.judge(damaged, offset, bit) for offset, bit in specimen.flips(units, SEED + number)]
    counts = {"flips": units, "detected": 0, "harmless": 0, "silent": 0} | Counter(kind for kind, _ in judged)
    return Shard(counts, [], [words for kind, words in judged if kind == "silent"])


def _flip_wal(number: int, units: int) -> Shard:
    chance = random.Random(f"{SEED}:wal:{number}")
    with memory_folder() as place:
        crash = Crash(place)
        places = [(chance.randrange(len(crash.wal)), chance.randrange(8)) for _ in range(units)]
        judged = [(crash.judge(*each), each) for each in places]
    found = Counter(kind for kind, _ in judged)
    counts = {
        "flips": units,
        "detected": found["noticed"],
        "harmless": found["harmless"],
        "in the very last commit": found["in the last commit"],
        "silent": found["silent"],
    }
    return Shard(counts, [], [f"byte and bit {each}" for kind, each in judged if kind == "silent"])


# Cancellations, full disks, simulation


def _cancel(number: int, units: int) -> Shard:
    with memory_folder() as place, SessionStore(place / "store", synchronous="OFF", views=False) as store:
        storm = test_cancelled_turns.Storm(store, random.Random(f"{SEED}:cancel:{number}"))
        asyncio.run(storm.blow(units))
        storm.check()
    return Shard({"cancellations": storm.cancelled, "tasks": storm.begun, "messages answered": len(storm.answered)})


def _fill(number: int, units: int) -> Shard:
    found = Shard(counts={"full disks": 0, "commands done": 0, "commands refused": 0})
    with memory_folder() as place, full.small_room(place) as room:
        found.words = [room.kind]
        for each in range(units):
            name = f"store-{number}-{each}"
            filled = full.fill_up(room, name, random.Random(f"{SEED}:{name}"))
            shutil.rmtree(room.place / name)
            found.counts["full disks"] += 1
            found.counts["commands done"] += filled.done
            found.counts["commands refused"] += filled.refused
    return found


def _simulate(number: int, units: int) -> Shard:
    counts: Counter[str] = Counter()
    findings = []
    first = FIRST + number * _SIMULATION.shard
    for seed in range(first, first + units):
        result = simulate(seed)
        told: dict[str, Any] = {"seeds": 1, "steps": result.steps, "commands": result.commands, **result.troubles}
        counts.update(told)
        counts["seconds"] += result.seconds
        if result.problem is not None:
            findings.append(f"seed {seed}: {result.problem}\n{result.last_commands}")
    return Shard(dict(counts), [], findings)


_LOG = Part(
    "power-log",
    "Power loss under a log",
    "Single events, groups, threads that commit together, refused commands, erasures and checkpoints run on a disk "
    "that records every call. At each call the power is cut, in ten ways: what was not synced is dropped, kept, torn "
    "at sectors, garbage, or a random subset, with and without the names of new files. Each image is opened; "
    "everything acknowledged is there, unchanged and in its place, every other command wholly or not at all.",
    "images",
    60_000,
    10_000,
    partial(_power, _log_loses),
)
_DAY = Part(
    "power-gateway",
    "Power loss under a gateway by day",
    "Four threads route, append, reset, undo, compress, fork, rewrite, name, suspend and take turns on one store. "
    "The hash of the newest row, which covers all before it, is that of the true history; it reaches what was "
    "acknowledged and ends with a whole command; the state tables equal a fresh fold; the store goes on.",
    "images",
    20_000,
    10_000,
    partial(_power, lambda seed, units: lose_power(gateway_by_day, seed, WAYS, units)),
)
_NIGHT = Part(
    "power-operator",
    "Power loss under an operator by night",
    "The same check while the tables are rebuilt, a session is erased, the files are purged (VACUUM), lanes are "
    "marked and pruned; what was acknowledged as erased stays erased.",
    "images",
    20_000,
    10_000,
    partial(_power, lambda seed, units: lose_power(operator_by_night, seed, WAYS, units)),
)
_IO = Part(
    "io-errors",
    "An I/O error at every call",
    "Each call to the disk (open, read, write, sync, truncate, delete, size, access, folder) fails in a trial of its "
    "own, once, and again from there on until the disk is healed; the same for a full disk at every write; under a "
    "log, a gateway by day and an operator by night. Only the engine's own errors come out, nothing hangs, and on "
    "the healed disk everything acknowledged is there.",
    "slices of the calls",
    800,
    20,
    _io,
    {
        "nearly every trial met its error": lambda counts: (
            counts["calls that failed"] >= max(1, 0.9 * counts["trials"] - 2)
        )
    },
)
_KILLS = Part(
    "kills-log",
    "Kills under a log",
    "A process that appends from threads and tasks gets SIGKILL at a random moment; the next one goes on with the "
    "file. Everything acknowledged is there, no command in part, no stream with a gap, and the chain verifies "
    "against the head published before.",
    "kills",
    600,
    20,
    _kill_writers,
)
_LANES = Part(
    "kills-gateway",
    "Kills under a gateway",
    "A process whose threads create, append, compress and reset gets SIGKILL at a random moment. Index, heads and "
    "transcripts agree with a plain reading of the log, rebuilding changes nothing, and every answer was kept.",
    "kills",
    400,
    10,
    _kill_gateways,
)
_PROCESSES = Part(
    "processes",
    "Eight processes for ten minutes",
    "Eight gateways of 50 tasks each share twenty lanes of one store; every second one is killed and another "
    "started. Every message that was acknowledged is there once, no conversation had two turns at a time, each lane "
    "leads to one live session, and no message fell between a session and the one it was compressed into.",
    "seconds",
    600,
    600,
    _serve,
    {"more than one kill in two seconds": lambda counts: counts["kills"] > counts["seconds"] / 2},
)
_DATABASE = Part(
    "flips-database",
    "Flipped bits in the database",
    "One bit anywhere in the file of a closed store with rows in every table is flipped, then every question is "
    "asked. Detected: opening or `verify()` says so. Harmless: every answer is as before. Silent: an answer is "
    "wrong, and `verify()` says ok.",
    "flips",
    10_000,
    500,
    _flip_database,
    {"no silent flip": lambda counts: counts["silent"] == 0},
)
_WAL = Part(
    "flips-wal",
    "Flipped bits in the WAL",
    "One bit anywhere in the WAL of a crashed log of 40 commits is flipped, then the log is opened. Detected: "
    "opening says so and keeps the WAL aside. Harmless: nothing is missing. Silent: commits are missing and nobody "
    "says so. A flip in the very last commit is counted apart: it looks like a commit that never got through.",
    "flips",
    10_000,
    1_000,
    _flip_wal,
    {"no silent flip but in the very last commit": lambda counts: counts["silent"] == 0},
)
_CANCELLATIONS = Part(
    "cancellations",
    "Cancellations",
    "Thirty tasks at a time begin turns, take them, wait for them with a timeout and append messages, and each is "
    "cancelled after some turns of the loop or some microseconds. No turn stays open, every answered message is "
    "there, none is there twice. Counted are the tasks that the cancellation ended.",
    "cancellations",
    100_000,
    10_000,
    _cancel,
)
_FULL = Part(
    "full-disk",
    "A full disk on a real file system",
    "A store works on a small file system until it is full and five commands were refused, answers questions "
    "meanwhile, gets space back and goes on, without being opened again. Everything acknowledged is there.",
    "full disks",
    200,
    10,
    _fill,
    {"every disk was full": lambda counts: counts["commands refused"] >= 5 * counts["full disks"]},
)
_SIMULATION = Part(
    "simulation",
    "Deterministic simulation",
    "Several stores on one file in one process. A seed decides every step at each transaction, call to the disk and "
    "change of a cache, with kills, power losses, I/O errors, full disks, clock jumps, stalls, interrupts and "
    "cancellations. Every command is held against a model at once, and all of the store in the end. `python -m "
    "tests.simulation --seed N` replays a seed exactly.",
    "seeds",
    1_500,
    50,
    _simulate,
)
PARTS = {
    part.name: part
    for part in (
        *(_LOG, _DAY, _NIGHT, _IO, _KILLS, _LANES, _PROCESSES),
        *(_DATABASE, _WAL, _CANCELLATIONS, _FULL, _SIMULATION),
    )
}
