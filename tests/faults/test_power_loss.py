"""Power loss at every operation of a mixed workload: what was acknowledged is there, the rest wholly or not."""

import random
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from engine.domain.events import SessionEnded
from engine.log import EventLog
from engine.log.envelope import Envelope
from engine.log.errors import ConflictError
from tests.chance import SEED, SOAK
from tests.faults.disk import Disk, Heads, Ledger
from tests.faults.power import Losses, lose_power
from tests.faults.stores import StoreWorkload, gateway_by_day, operator_by_night

CHUNKS = 4
STREAMS = [f"session:{number}" for number in range(6)]
WAYS_TRIED = 1
STORE_IMAGES = 150


class Workload:
    """One run on a recording disk."""

    def __init__(self, path: Path, disk: Disk, rng: random.Random, synchronous: str = "FULL") -> None:
        self.path, self.disk, self.rng, self.synchronous = path, disk, rng, synchronous
        self.ledger = Ledger(lambda: len(disk.operations), rng)
        self.created = 0
        self.largest_batch = 0

    def run(self) -> None:
        with self._open() as log:
            self.created = len(self.disk.operations)
            self._singles(log, 12)
            self._groups(log, 8)
            self._fail(log)
            self._concurrent(log)
            self._erase(log)
            self._singles(log, 6)
            self.largest_batch = log.health().largest_batch
        with self._open() as log:
            self.ledger.check(log)
            self._groups(log, 6)
            self._concurrent(log)
            self._fail(log)
            self._erase(log)
            self._singles(log, 10)

    def check(self, folder: Path, index: int) -> None:
        """Raise if the log in a folder is not what a power loss at an operation may leave."""
        with EventLog(folder / self.path.name, synchronous="OFF", inline=[Heads()]) as log:
            if index < self.created:
                assert log.last_position == 0, "events before the first command"
            self.ledger.check(log, index)
            after = log.last_position
            assert log.append([Envelope("session:new", 1, SessionEnded(end_reason="test"))]) == [after + 1]
            assert log.verify().ok

    def _open(self) -> EventLog:
        return EventLog(
            self.path, synchronous=self.synchronous, vfs=self.disk.name, inline=[Heads()], checkpoint_pages=25
        )

    def _append(self, log: EventLog, count: int) -> None:
        command, envelopes = self.ledger.new([self.rng.choice(STREAMS) for _ in range(count)])
        self.ledger.acknowledge(command, log.append(envelopes))

    def _singles(self, log: EventLog, number: int) -> None:
        for _ in range(number):
            self._append(log, 1)

    def _groups(self, log: EventLog, number: int) -> None:
        for _ in range(number):
            self._append(log, self.rng.randint(2, 4))

    def _fail(self, log: EventLog) -> None:
        _, envelopes = self.ledger.new(STREAMS[:3], doomed=True)
        with pytest.raises(ZeroDivisionError):
            log.transact(lambda transaction: (transaction.append(envelopes), 1 // 0))
        _, envelopes = self.ledger.new(STREAMS[:2], doomed=True)
        late = Envelope(STREAMS[0], 1, envelopes[0].event, command=envelopes[0].command)
        with pytest.raises(ConflictError):
            log.append([*envelopes, late])

    def _concurrent(self, log: EventLog) -> None:
        failed: list[BaseException] = []

        def work(seed: int) -> None:
            rng = random.Random(seed)
            try:
                for turn in range(6):
                    command, envelopes = self.ledger.new(
                        [rng.choice(STREAMS) for _ in range(rng.randint(1, 3))], doomed=turn == 3
                    )
                    if not command.doomed:
                        self.ledger.acknowledge(command, log.append(envelopes))
                        continue
                    with pytest.raises(ZeroDivisionError):
                        log.transact(lambda transaction, rows=envelopes: (transaction.append(rows), 1 // 0))
            except BaseException as error:  # noqa: BLE001 - handed to the test's thread
                failed.append(error)

        threads = [threading.Thread(target=work, args=(self.rng.getrandbits(32),)) for _ in range(5)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed, failed

    def _erase(self, log: EventLog) -> None:
        whole = [command for command in self.ledger.commands.values() if command.positions and not command.erased_by]
        command = self.rng.choice(whole)
        command.erased_since = len(self.disk.operations)
        assert log.erase(command.positions, actor="test", reason="asked") == command.positions
        command.erased_by = len(self.disk.operations)


def lost(seed: int, synchronous: str, ways: int, most: int | None = None) -> Losses:
    """Run the log's workload, and lose power at every operation in several ways, or at so many."""
    workloads: list[Workload] = []

    def make(folder: Path, disk: Disk, rng: random.Random) -> Workload:
        folder.mkdir()
        workloads.append(Workload(folder / "log.db", disk, rng, synchronous))
        return workloads[0]

    found = lose_power(make, seed, ways, most)
    assert synchronous == "OFF" or workloads[0].largest_batch > 1, "no group commit happened"
    return found


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_power_loss(chunk: int) -> None:
    found = lost(SEED * CHUNKS + chunk, "FULL", WAYS_TRIED * SOAK)
    assert not found.findings, f"{len(found.findings)} images are wrong:\n" + "\n".join(found.findings[:5])
    assert found.images >= 500


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL"])
def test_the_disk_loses_what_was_not_synced(synchronous: str) -> None:
    """The same check does find losses where they must be: it would also find them at FULL."""
    findings = lost(SEED * CHUNKS, synchronous, 1).findings
    assert any("was acknowledged and is lost" in finding for finding in findings)


@pytest.mark.parametrize("make", [gateway_by_day, operator_by_night])
def test_power_loss_under_a_store(make: Callable[[Path, Disk, random.Random], StoreWorkload]) -> None:
    """Routes, transcripts, turns, rebuilding, erasing: the log ends with a whole command, and its tables fit it."""
    found = lose_power(make, SEED, SOAK, STORE_IMAGES * SOAK)
    assert not found.findings, f"{len(found.findings)} images are wrong:\n" + "\n".join(found.findings[:5])
    assert found.images >= STORE_IMAGES


@pytest.mark.parametrize("make", [gateway_by_day, operator_by_night])
def test_a_seed_does_the_same_to_the_disk_again(make: Callable[[Path, Disk, random.Random], StoreWorkload]) -> None:
    """Without it these tests would be of chance, and a finding could not be repeated."""
    first, again = (lose_power(make, SEED, 1, 1) for _ in range(2))
    assert (first.trace, first.operations) == (again.trace, again.operations)


def test_a_disk_that_loses_commits_of_a_store_is_found_out() -> None:
    found = lose_power(partial(gateway_by_day, synchronous="NORMAL"), SEED, 1, STORE_IMAGES)
    assert any("was acknowledged and is lost" in finding for finding in found.findings)
