"""Power loss at every operation of a mixed workload: what was acknowledged is there, the rest wholly or not."""

import random
import threading
from pathlib import Path

import pytest

from engine.domain.events import SessionEnded
from engine.log import EventLog
from engine.log.envelope import Envelope
from engine.log.errors import ConflictError
from tests.faults.disk import POLICIES, SEED, SOAK, Disk, Heads, Ledger, Platter, memory_folder

CHUNKS = 4
STREAMS = [f"session:{number}" for number in range(6)]
WAYS = [(policy, lazy) for lazy in (True, False) for policy in POLICIES]
WAYS_TRIED = 4


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
        start = threading.Barrier(5)
        failed: list[BaseException] = []

        def work(seed: int) -> None:
            rng = random.Random(seed)
            start.wait()
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
        self.disk.sync_seconds = 0.002
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        self.disk.sync_seconds = 0.0
        assert not failed, failed

    def _erase(self, log: EventLog) -> None:
        whole = [command for command in self.ledger.commands.values() if command.positions and not command.erased_by]
        command = self.rng.choice(whole)
        command.erased_since = len(self.disk.operations)
        assert log.erase(command.positions, actor="test", reason="asked") == command.positions
        command.erased_by = len(self.disk.operations)


def lose_power(chunk: int, synchronous: str, per_operation: int) -> list[str]:
    """Run the workload, lose power at every operation in several ways; the findings, and at least 500 tries."""
    seed = SEED * CHUNKS + chunk
    rng = random.Random(seed)
    disk = Disk(record=True)
    findings = []
    with memory_folder() as folder, disk.in_use():
        workload = Workload(folder / "log.db", disk, rng, synchronous)
        workload.run()
        disk.record = False
        assert synchronous == "OFF" or workload.largest_batch > 1, "no group commit happened"
        images = 0
        platter = Platter()
        target = folder / "image"
        target.mkdir()
        for index, operation in enumerate([*disk.operations, ("end",)]):
            for extra in range(per_operation):
                policy, lazy = WAYS[(index + extra * 3 + chunk) % len(WAYS)]
                files = platter.image(operation, policy, lazy, random.Random(f"{seed}/{index}/{extra}"))
                problem = check_image(target, files, workload, index)
                images += 1
                if problem is not None:
                    where = f"FAULT_SEED={SEED} {chunk=} {index=} {operation[:3]!r:.80} {policy=} lazy names={lazy}"
                    findings.append(f"{where}: {problem}")
            if operation != ("end",):
                platter.apply(operation)
        assert images >= 500, f"only {images} images"
        print(f"{images} images of {len(disk.operations)} operations, largest batch {workload.largest_batch}")  # noqa: T201
    return findings


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_power_loss(chunk: int) -> None:
    findings = lose_power(chunk, "FULL", WAYS_TRIED * SOAK)
    assert not findings, f"{len(findings)} images are wrong:\n" + "\n".join(findings[:5])


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL"])
def test_the_disk_loses_what_was_not_synced(synchronous: str) -> None:
    """The same check does find losses where they must be: it would also find them at FULL."""
    findings = lose_power(0, synchronous, 1)
    assert any("was acknowledged and is lost" in finding for finding in findings)


def check_image(target: Path, files: dict[str, bytes], workload: Workload, index: int) -> str | None:
    """Open the files as the power loss left them; what is wrong with them, if anything."""
    for name, content in files.items():
        (target / name).write_bytes(content)
    try:
        with EventLog(target / "log.db", synchronous="OFF", inline=[Heads()]) as log:
            if index < workload.created:
                assert log.last_position == 0, "events before the first command"
            workload.ledger.check(log, index)
            after = log.last_position
            assert log.append([Envelope("session:new", 1, SessionEnded(end_reason="test"))]) == [after + 1]
            assert log.verify().ok
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        return f"{type(error).__name__}: {error}; files { {name: len(content) for name, content in files.items()} }"
    finally:
        for file in target.iterdir():
            file.unlink()
    return None
