"""The threads of a test in an order that follows from a seed, so that what they do to a disk is always the same."""

import random
from collections.abc import Callable
from types import ModuleType

from tests.faults.disk import CODES, Disk, io_error
from tests.simulation.primitives import Threading
from tests.simulation.replaced import ENGINE, Replaced
from tests.simulation.run import undisturbed
from tests.simulation.scheduler import Doomed, Process, Scheduler

STAY = 0.5
"""The chance that a thread goes on where others could."""


class OrderedDisk(Disk):
    """A recording disk; at each call to it, and wherever threads wait, the seed decides who goes on."""

    def __init__(self, seed: int) -> None:
        super().__init__(record=True)
        self.seed = seed
        self.scheduler = Scheduler(random.Random(f"order {seed}"), STAY)

    def run(self, main: Callable[[], None], *modules: ModuleType) -> None:
        """Run something and the threads that the engine and some modules start in it, one at a time, to their end."""
        replaced = Replaced()
        tokens = random.Random(f"tokens {self.seed}")
        with undisturbed(), replaced.put_back():
            replaced.modules(self.scheduler, tokens, ENGINE)
            for module in modules:
                replaced.set(module, "threading", Threading(self.scheduler))
            self.scheduler.run(Process("process"), main)

    def call(self, what: str) -> None:
        """Let others go first, or not."""
        try:
            self.scheduler.pause(f"disk {what}")
        except Doomed:
            raise io_error(what if what in CODES else "open") from None
        super().call(what)

    def xSleep(self, microseconds: int) -> int:  # noqa: N802 - SQLite's name
        self.scheduler.sleep(microseconds / 1e6)
        return microseconds

    def xRandomness(self, amount: int) -> bytes:  # noqa: N802
        return random.Random(amount).randbytes(amount)
