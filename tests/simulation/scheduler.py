"""One thread at a time: a seeded scheduler decides at every step which of the simulated threads goes on.

Each simulated thread is a real one that runs only while it holds the baton. It gives the baton back at every
scheduling point: a lock, a wait, an I/O call, a transaction, a change of a cache. So the order of all steps, and
with it the whole run, follows from the seed. Time is simulated too: it moves a little with every step, and to the
next deadline when everybody waits.
"""

import hashlib
import random
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

STEP_SECONDS = 0.0001
SHOWN = 80
_local = threading.local()


class Doomed(BaseException):
    """Ends a thread of a process that was killed, or of a run that is over: what a real thread would never notice."""


class StuckError(Exception):
    """Every thread waits for something that only another one could do."""


class Process:
    """A simulated process: its threads die together."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.numbers: dict[str, int] = {}

    def number(self, name: str) -> str:
        """Return a name for another thread, the same in every run of a seed."""
        self.numbers[name] = number = self.numbers.get(name, 0) + 1
        return f"{self.name}/{name}" if number == 1 else f"{self.name}/{name}-{number}"


class Task:
    """A simulated thread."""

    def __init__(self, process: Process, name: str, run: Callable[[], None]) -> None:
        self.process = process
        self.name = process.number(name)
        self.run = run
        self.gate = threading.Lock()
        self.gate.acquire()
        self.ready: Callable[[], bool] | None = None
        self.deadline: float | None = None
        self.interruptible = False
        self.done = False


def here() -> Task | None:
    """Return the simulated thread that asks, or None outside of a simulation."""
    task: Task | None = getattr(_local, "task", None)
    return task


class Scheduler:
    """Hands the baton on, by chance from a seed; the same seed gives the same steps."""

    def __init__(self, chance: random.Random, stay: float) -> None:
        self.chance = chance
        self.stay = stay
        self.now = 1000.0
        self.steps = 0
        self.tasks: list[Task] = []
        self.at_step: Callable[[Task, str], None] = lambda _task, _label: None
        self.signal: Callable[[Task, str], None] = lambda _task, _label: None
        """Called when a thread goes on: may raise what a signal handler would."""
        self.over = False
        self.urgent = False
        self.failure: BaseException | None = None
        self.recent: deque[tuple[str, str]] = deque(maxlen=SHOWN)
        self._trace = hashlib.blake2b(digest_size=8)
        self._finished = threading.Lock()
        self._finished.acquire()

    @property
    def trace(self) -> str:
        """Return a digest of every step so far."""
        return self._trace.hexdigest()

    # From outside

    def run(self, process: Process, main: Callable[[], None]) -> None:
        """Run a first thread and all that it starts until the last one has ended; raise what failed."""
        self.start(process, "main", main)
        self.tasks[0].gate.release()
        self._finished.acquire()
        if self.failure is not None:
            raise self.failure

    # For simulated threads

    def start(self, process: Process, name: str, run: Callable[[], None]) -> Task:
        """Add a thread; it runs when its turn comes."""
        task = Task(process, name, run)
        self.tasks.append(task)
        threading.Thread(target=self._live, args=(task,), name=task.name, daemon=True).start()
        return task

    def pause(self, label: str) -> None:
        """Let others go first, or not; raise Doomed if this thread's process was killed meanwhile."""
        task = here()
        if task is None:
            return
        if self._is_doomed(task):
            raise Doomed
        self._step(task, label)
        if self.urgent or self.chance.random() >= self.stay:
            self._hand_on(task)
        if self._is_doomed(task):
            raise Doomed
        self.signal(task, label)

    def wait(self, ready: Callable[[], bool], timeout: float | None, label: str) -> bool:
        """Let others go on until something is so; False if it is not after so many simulated seconds."""
        task = here()
        if task is None:
            if not ready():
                raise StuckError(f"{label}: nobody is there who could do what is waited for")
            return True
        if self._is_doomed(task):
            raise Doomed
        self._step(task, label)
        task.ready, task.deadline = ready, None if timeout is None else self.now + max(timeout, 0.0)
        try:
            if not ready():
                self._hand_on(task)
        finally:
            task.ready = task.deadline = None
        if self._is_doomed(task):
            raise Doomed
        self.signal(task, label)
        return ready()

    def sleep(self, seconds: float) -> None:
        """Let simulated time pass."""
        self.wait(lambda: False, seconds, "sleep")

    def kill(self, process: Process) -> None:
        """End all threads of a process, each where it is, before anybody else goes on."""
        process.dead = True
        self.urgent = True

    def fail(self, error: BaseException) -> None:
        """End the run: the first failure is what it reports."""
        if self.failure is None:
            self.failure = error
        self.over = True

    # Handing on

    def _live(self, task: Task) -> None:
        task.gate.acquire()
        _local.task = task
        try:
            if not self._is_doomed(task):
                task.run()
        except Doomed:
            pass
        except BaseException as error:  # noqa: BLE001 - reported by `run`
            if not self._is_doomed(task):
                self.fail(error)
        task.done = True
        self.tasks.remove(task)
        if not self.tasks:
            self._finished.release()
            return
        try:
            following = self._choose()
        except StuckError as error:
            self.fail(error)
            following = self.tasks[0]
        following.gate.release()

    def _hand_on(self, task: Task) -> None:
        self.urgent = False
        try:
            following = self._choose()
        except StuckError as error:
            self.fail(error)
            return
        if following is not task:
            following.gate.release()
            task.gate.acquire()

    def _choose(self) -> Task:
        """Return who goes on. The threads of a killed process come first: a kill takes them all at once."""
        for task in self.tasks:
            if self._is_doomed(task):
                return task
        while True:
            able = [task for task in self.tasks if self._can_go_on(task)]
            if able:
                return able[0] if len(able) == 1 else able[int(self.chance.random() * len(able))]
            deadlines = [task.deadline for task in self.tasks if task.deadline is not None]
            if not deadlines:
                raise StuckError("everybody waits: " + ", ".join(task.name for task in self.tasks))
            self.now = max(self.now, min(deadlines))

    def _can_go_on(self, task: Task) -> bool:
        if task.ready is None or task.ready():
            return True
        return task.deadline is not None and task.deadline <= self.now

    def _is_doomed(self, task: Task) -> bool:
        return self.over or task.process.dead

    def _step(self, task: Task, label: str) -> None:
        self.steps += 1
        self.now += STEP_SECONDS
        self._trace.update(f"{task.name} {label}\n".encode())
        self.recent.append((task.name, label))
        self.at_step(task, label)


def shown(steps: "deque[tuple[str, str]]") -> str:
    """Return the last steps as text, those of one thread in a row on one line."""
    lines: list[list[Any]] = []
    for name, label in steps:
        if lines and lines[-1][0] == name:
            lines[-1][1].append(label)
        else:
            lines.append([name, [label]])
    return "\n".join(f"  {name:28} {' '.join(labels)}" for name, labels in lines)
