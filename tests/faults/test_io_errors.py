"""An I/O error or a full disk at every single call: answered or refused, never lost, never stuck."""

import contextlib
import random
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from engine.domain.errors import EngineError
from engine.domain.events import SessionEnded
from engine.log import EventLog
from engine.log.envelope import Envelope
from engine.log.errors import ConflictError, CorruptLogError, DiskFullError
from tests.chance import SEED, SOAK
from tests.faults.disk import Disk, Heads, Ledger, full_error, io_error, memory_folder
from tests.faults.stores import StoreTrial, everyday, upkeep

THINNED = 150
STORE_THINNED = 20
STREAMS = ["session:a", "session:b", "session:c"]
Fault = Callable[[str], apsw.Error]
Which = tuple[str, ...]
"""Kinds of calls that fail; none means all."""


class Trial:
    """The workload on a disk that may fail, then on the healed disk."""

    def __init__(self, path: Path, disk: Disk) -> None:
        self.path, self.disk = path, disk
        self.ledger = Ledger(lambda: 0, random.Random(SEED))
        self.refused: list[EngineError] = []
        self.raw: list[BaseException] = []
        self.log: EventLog | None = None

    def open(self) -> EventLog:
        return EventLog(self.path, vfs=self.disk.name, inline=[Heads()], checkpoint_pages=8, busy_timeout=0.5)

    def attempt(self, command: Callable[[], object]) -> None:
        try:
            command()
        except EngineError as error:
            self.refused.append(error)
        except BaseException as error:  # noqa: BLE001 - what must not happen
            self.raw.append(error)

    def append(self, count: int, size: int = 0) -> None:
        command, envelopes = self.ledger.new([STREAMS[number % 3] for number in range(count)], size=size)
        log = self.log
        if log is not None:
            self.attempt(lambda: self.ledger.acknowledge(command, log.append(envelopes)))

    def reopen(self) -> None:
        """Open the log if it is not; a failure leaves it closed for the next command to try again."""

        def opening() -> None:
            self.log = self.open()

        if self.log is None:
            self.attempt(opening)

    def close(self) -> None:
        if self.log is not None:
            log, self.log = self.log, None
            log.close()

    @property
    def all_acknowledged(self) -> bool:
        return all(command.positions or command.doomed for command in self.ledger.commands.values())

    def work(self) -> None:
        self.reopen()
        for turn in range(6):
            self.append(1 + turn % 3)
            self.reopen()
        self.group()
        self.conflict()
        self.read()
        self.append(2, size=9000)
        self.erase()
        self.close()
        self.reopen()
        for turn in range(3):
            self.append(1 + turn)

    def group(self) -> None:
        threads = [threading.Thread(target=self.append, args=(2,)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def conflict(self) -> None:
        log = self.log
        if log is not None:
            _, envelopes = self.ledger.new(STREAMS[:2], doomed=True)
            late = Envelope(STREAMS[0], 99, envelopes[0].event, command=envelopes[0].command)
            self.attempt(lambda: log.append([*envelopes, late]))

    def read(self) -> None:
        log = self.log
        if log is not None:
            self.attempt(lambda: list(log.events()))
            self.attempt(lambda: list(log.stream(STREAMS[0])))
            self.attempt(log.health)

    def erase(self) -> None:
        log = self.log
        whole = [command for command in self.ledger.commands.values() if command.positions]
        if log is not None and whole:
            whole[0].erased_since = 0
            self.attempt(lambda: log.erase(whole[0].positions or [], actor="test", reason="asked"))

    def healed(self) -> None:
        """The object that met the errors goes on; only a log that saw damage wants to be opened again."""
        self.disk.fail = None
        if self.raw:
            raise self.raw[0]
        if self.log is None:
            self.log = self.open()
        if any(isinstance(error, CorruptLogError) for error in self.refused):
            self.close()
            self.log = self.open()
        self.check(self.log)
        position = self.log.last_position
        command, envelopes = self.ledger.new(STREAMS)
        self.ledger.acknowledge(command, self.log.append(envelopes))
        assert command.positions == [position + 1, position + 2, position + 3]
        self.close()
        with EventLog(self.path, inline=[Heads()]) as log:
            self.check(log)
            log.append([Envelope("session:end", 1, SessionEnded(end_reason="test"))])

    def check(self, log: EventLog) -> None:
        self.ledger.check(log)


def run(disk: Disk, path: Path, *, heal: bool = True) -> Trial:
    """One trial, in a thread of its own, so that a hang is a failure and not the end of the suite."""
    trial = Trial(path, disk)
    failed: list[BaseException] = []

    def go() -> None:
        try:
            trial.work()
            trial.healed()
        except BaseException as error:  # noqa: BLE001 - handed to the test's thread
            failed.append(error)
            disk.fail = None
            trial.close()

    thread = threading.Thread(target=go, daemon=True)
    thread.start()
    thread.join(300)
    assert not thread.is_alive(), "the log hangs"
    if failed:
        raise failed[0]
    return trial


def count_calls(which: Which) -> int:
    """Return how many calls of these kinds a run without errors makes."""
    seen = 0

    def count(_number: int, what: str) -> None:
        nonlocal seen
        seen += not which or what in which

    disk = Disk()
    with memory_folder() as folder, disk.in_use():
        disk.fail = count
        trial = Trial(folder / "log.db", disk)
        trial.work()
        disk.fail = None
        assert [type(error) for error in trial.refused] == [ConflictError]
        trial.healed()
    return seen


def chosen(total: int, limit: int, seed: str) -> list[int]:
    if SOAK > 1 or total <= limit:
        return list(range(total))
    return sorted(random.Random(seed).sample(range(total), limit))


@contextlib.contextmanager
def swallowed() -> Iterator[None]:
    """Let pass what SQLite passes over, such as an error of a hint; apsw tells Python's hook about it."""
    plain = sys.unraisablehook
    sys.unraisablehook = lambda told: None if "injected" in str(told.exc_value) else plain(told)
    try:
        yield
    finally:
        sys.unraisablehook = plain


FAULTS: dict[str, tuple[Fault, Which]] = {"I/O error": (io_error, ()), "disk full": (full_error, ("write",))}


def try_errors(kind: str, persistent: bool, targets: list[int]) -> tuple[list[str], int]:
    """Fail at each of these calls; return what is wrong, and at how many calls an error came."""
    fault, which = FAULTS[kind]
    findings = []
    fired = 0
    for target in targets:
        with memory_folder() as folder, failing(fault, which, persistent, target) as disk:
            try:
                trial = run(disk, folder / "log.db")
                if which and persistent and disk.fired:
                    assert trial.all_acknowledged or DiskFullError in map(type, trial.refused)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
                findings.append(f"{kind} at call {target}, {persistent=}: {type(error).__name__}: {error!s:.600}")
            fired += bool(disk.fired)
    return findings, fired


@contextlib.contextmanager
def failing(fault: Fault, which: Which, persistent: bool, target: int) -> Iterator[Disk]:
    """A disk that fails at one call of some kinds, or from there on."""
    seen = -1

    def fail(_number: int, what: str) -> apsw.Error | None:
        nonlocal seen
        if which and what not in which:
            return None
        seen += 1
        return fault(what) if seen == target or (persistent and seen > target) else None

    disk = Disk()
    with swallowed(), disk.in_use():
        disk.fail = fail
        yield disk


@pytest.mark.parametrize("part", range(2))
@pytest.mark.parametrize("persistent", [False, True], ids=["once", "until healed"])
@pytest.mark.parametrize("kind", FAULTS)
def test_errors(kind: str, persistent: bool, part: int) -> None:
    total = count_calls(FAULTS[kind][1])
    assert total > 30
    findings, fired = try_errors(kind, persistent, chosen(total, THINNED, f"{SEED}{persistent}{kind}")[part::2])
    assert not findings, f"FAULT_SEED={SEED}, {total} calls: {len(findings)} wrong:\n" + "\n".join(findings[:8])
    assert fired


WORK = {"by day": everyday, "by night": upkeep}


def store_trial(folder: Path, disk: Disk, work: str) -> StoreTrial:
    return StoreTrial(folder / "store", disk, list(WORK[work](random.Random(SEED), 12)))


def count_store_calls(work: str) -> int:
    """Return how many calls a store makes when none fails."""
    disk = Disk()
    with memory_folder() as folder, disk.in_use():
        store_trial(folder, disk, work).work()
    return disk.calls


def try_store_errors(work: str, persistent: bool, targets: list[int]) -> tuple[list[str], int]:
    """Fail at each of these calls of a store; return what is wrong, and at how many calls an error came."""
    findings = []
    fired = 0
    for target in targets:
        with memory_folder() as folder, failing(io_error, (), persistent, target) as disk:
            try:
                trial = store_trial(folder, disk, work)
                trial.work()
                trial.healed()
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
                findings.append(f"{work}, at call {target}, {persistent=}: {type(error).__name__}: {error!s:.600}")
            fired += bool(disk.fired)
    return findings, fired


@pytest.mark.parametrize("persistent", [False, True], ids=["once", "until healed"])
@pytest.mark.parametrize("work", WORK)
def test_errors_under_a_store(work: str, persistent: bool) -> None:
    """Whatever a store was doing: what was acknowledged is there, and its tables are those of the log."""
    total = count_store_calls(work)
    findings, fired = try_store_errors(work, persistent, chosen(total, STORE_THINNED, f"{SEED}{persistent}{work}"))
    assert not findings, f"FAULT_SEED={SEED}, {total} calls: {len(findings)} wrong:\n" + "\n".join(findings[:8])
    assert fired
