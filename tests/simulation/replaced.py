"""Threads, clocks, tokens and chance of whole packages, replaced for a while by those of a scheduler."""

import contextlib
import random
import sys
from collections.abc import Iterator
from functools import partial
from queue import SimpleQueue
from types import SimpleNamespace
from typing import Any

from engine import holders
from engine.threads import DaemonThreads
from tests.simulation.primitives import Pool, Queue, Secrets, Threading, Time
from tests.simulation.scheduler import Scheduler

ENGINE = ("engine", "projections")


class Replaced:
    """Attributes of other modules and classes that are replaced, with what they were before."""

    def __init__(self) -> None:
        self._before: list[tuple[Any, str, Any]] = []

    @contextlib.contextmanager
    def put_back(self) -> Iterator[None]:
        """Put everything back in the end."""
        try:
            yield
        finally:
            while self._before:
                owner, name, value = self._before.pop()
                setattr(owner, name, value)

    def set(self, owner: Any, name: str, value: Any) -> None:
        """Give an attribute another value."""
        self._before.append((owner, name, vars(owner)[name]))
        setattr(owner, name, value)

    def modules(self, scheduler: Scheduler, chance: random.Random, packages: tuple[str, ...]) -> None:
        """Replace `threading`, `time` and the like in the modules of packages, or in single modules."""
        fakes = {
            "threading": Threading(scheduler),
            "time": Time(scheduler),
            "secrets": Secrets(chance),
            "random": chance,
        }
        classes = {
            DaemonThreads: partial(Pool, scheduler),
            SimpleQueue: partial(Queue, scheduler),
        }
        for name, module in list(sys.modules.items()):
            if name not in packages and name.partition(".")[0] not in packages:
                continue
            for each, fake in fakes.items():
                if vars(module).get(each) is sys.modules.get(each):
                    self.set(module, each, fake)
            for kind, fake in classes.items():
                if vars(module).get(kind.__name__) is kind:
                    self.set(module, kind.__name__, fake)
        self._machine()

    def _machine(self) -> None:
        """Make the names of stores as long on every machine and in every process: they are in the log."""
        self.set(holders, "_HOST", "machine")
        self.set(holders, "_started", lambda _pid: "1")
        self.set(holders, "os", SimpleNamespace(getpid=lambda: 1))
