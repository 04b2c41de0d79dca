"""Power loss at every operation of a workload: each image that the disk may be left with is opened and checked."""

import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from tests.faults.disk import POLICIES, Disk, Platter, memory_folder
from tests.simulation.order import OrderedDisk

WAYS = [(policy, lazy) for lazy in (True, False) for policy in POLICIES]


class Workload(Protocol):
    """Something that is done on a disk, and knows what must be found after a power loss."""

    def run(self) -> None:
        """Do it on the recording disk."""

    def check(self, folder: Path, index: int) -> None:
        """Raise if the files in a folder are not what a power loss at an operation of the disk may leave."""


class Losses(msgspec.Struct):
    """The result of losing power again and again."""

    images: int
    operations: int
    findings: list[str]
    trace: str = ""
    """A digest of every step of the workload's threads."""


def lose_power(
    make: Callable[[Path, Disk, random.Random], Workload], seed: int, ways: int, most: int | None = None
) -> Losses:
    """Run a workload; lose power at every operation in several ways, or at so many at most, spread evenly.

    The workload's threads go on in an order that follows from the seed, and so do the operations and the images.
    """
    disk = OrderedDisk(seed)
    found = Losses(0, 0, [])
    with memory_folder() as folder, disk.in_use():
        workload = make(folder / "live", disk, random.Random(seed))
        disk.run(workload.run, sys.modules[type(workload).__module__])
        disk.record = False
        operations = [*disk.operations, ("end",)]
        found.operations, found.trace = len(operations), disk.scheduler.trace
        stride = 1 if most is None else max(1, len(operations) * ways // most)
        platter = Platter()
        target = folder / "image"
        target.mkdir()
        for index, operation in enumerate(operations):
            for extra in range(ways if index % stride == 0 else 0):
                policy, lazy = WAYS[(index // stride + extra * 3 + seed) % len(WAYS)]
                files = platter.image(operation, policy, lazy, random.Random(f"{seed}/{index}/{extra}"))
                problem = _problem(target, files, workload, index)
                found.images += 1
                if problem is not None:
                    where = f"{seed=} {index=} {operation[:3]!r:.80} {policy=} lazy names={lazy}"
                    found.findings.append(f"{where}: {problem}")
            if operation != ("end",):
                platter.apply(operation)
    return found


def _problem(target: Path, files: dict[str, bytes], workload: Workload, index: int) -> str | None:
    """Open the files as the power loss left them; what is wrong with them, if anything."""
    for name, content in files.items():
        (target / name).touch(mode=0o600)
        (target / name).write_bytes(content)
    try:
        workload.check(target, index)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        return f"{type(error).__name__}: {error}; files { {name: len(content) for name, content in files.items()} }"
    finally:
        for file in target.iterdir():
            file.unlink()
    return None
