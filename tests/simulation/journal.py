"""The decisions of all stores, in the one order in which it was committed, held against the model at once."""

import contextlib
import copy
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any

from engine import runner
from engine.domain.errors import EngineError
from engine.errors import SessionError
from engine.log.errors import ConflictError
from engine.log.protocol import Transaction
from engine.work import AskFirstError, LookFirstError, Work
from tests.properties.workers import plain
from tests.simulation.rules import Decided, Rules
from tests.simulation.scheduler import Task, here

PendingCommand = runner.PendingCommand
SWEEPS = ("prune_old_entries", "suspend_recently_active")
"""Calls that are carried out in parts."""


class Call:
    """One call of a client: it may have been answered, refused, cancelled or killed, but it happened at most once."""

    def __init__(self, name: str, started: int) -> None:
        self.name = name
        self.started = started
        self.committed: list[Decided] = []
        self.refused: list[str | None] = []


CALL: ContextVar[Call | None] = ContextVar("call", default=None)


class Open:
    """The commands of a transaction that is not committed yet."""

    def __init__(self, before: int) -> None:
        self.before = before
        self.after = before
        self.decided: list[Decided] = []
        self.committing = False


class Journal:
    """Follows the transactions of all stores. The write lock is exclusive, so there is one order."""

    def __init__(self) -> None:
        self.rules = Rules()
        self.position = 0
        self.commands = 0
        self.recent: deque[str] = deque(maxlen=40)
        self._deciding: tuple[Decided, Task | None] | None = None
        self._open: dict[int, Open] = {}
        self._in_doubt: list[Open] = []
        self._watched: list[tuple[Callable[[], Any], list[Any]]] = []

    # Transactions

    def begun(self, transaction: Transaction) -> None:
        """Take note of a transaction; after a crash it may see more than was acknowledged, but nothing else."""
        self._open[id(transaction)] = Open(transaction.position)
        if transaction.position == self.position:
            return
        assert transaction.position > self.position, (
            f"the log is at {transaction.position}, and {self.position} was committed: acknowledged events are lost"
        )
        found = [(each.stream, each.event) for each in transaction.recorded(self.position, transaction.position)]
        for doubtful in self._in_doubt:
            wanted = [(each.stream, each.event) for decided in doubtful.decided for each in decided.events]
            if (doubtful.before, doubtful.after, wanted) == (self.position, transaction.position, found):
                self._apply(doubtful)
                return
        raise AssertionError(f"after position {self.position} is what was committed by nobody: {found}")

    def committing(self, transaction: Transaction) -> None:
        """From here on the commit may be found after a crash, whatever its caller was told."""
        found = self._open[id(transaction)]
        found.after, found.committing = transaction.position, True

    def committed(self, transaction: Transaction) -> None:
        """Let it happen to the model; nobody else can have seen it before."""
        found = self._open.pop(id(transaction))
        assert found.before == self.position, f"committed on {found.before} while the log was at {self.position}"
        found.after = transaction.position
        self._apply(found)

    def undone(self, transaction: Transaction) -> None:
        found = self._open.pop(id(transaction), None)
        if found is None:
            return
        for decided in found.decided:
            if decided.refused is not None and len(found.decided) == 1:
                self._check(decided)
        if found.committing and found.after > found.before:
            self._in_doubt.append(found)

    def taken_back(self, transaction: Transaction, mark: int, own: object) -> None:
        """A savepoint was rolled back: only the refusal of a single command remains to be checked."""
        found = self._open.get(id(transaction))
        if found is not None:
            since = found.decided[mark:]
            single = isinstance(own, PendingCommand)
            found.decided[mark:] = [each for each in since if single and each.refused is not None]

    def mark(self, transaction: Transaction) -> int:
        found = self._open.get(id(transaction))
        return 0 if found is None else len(found.decided)

    def decided(self, transaction: Transaction, decided: Decided) -> None:
        self._open[id(transaction)].decided.append(decided)

    def _apply(self, found: Open) -> None:
        self.position = found.after
        if found.after > found.before:  # else it wrote nothing over what may be found
            self._in_doubt.clear()
        for decided in found.decided:
            self._check(decided)
        for ask, answers in self._watched:
            answers.append(copy.deepcopy(ask()))

    def _check(self, decided: Decided) -> None:
        self.commands += 1
        outcome = f"refused: {decided.refused}" if decided.refused else f"{decided.answer!r:.100}"
        who = decided.holder.rpartition(":")[2]
        self.recent.append(f"{self.position:4} {who} {decided.name}{decided.arguments!r:.140} -> {outcome}")
        self.rules.check(decided)
        if isinstance(decided.call, Call):
            if decided.refused is None:
                decided.call.committed.append(decided)
                once = len(decided.call.committed) == 1 or decided.name in SWEEPS
                assert once, f"{decided.name} happened twice for one call"
            else:
                decided.call.refused.append(decided.refused)

    @contextlib.contextmanager
    def deciding(self, decided: Decided) -> Iterator[None]:
        self._deciding = decided, here()
        try:
            yield
        finally:
            self._deciding = None

    def asked_if_gone(self, holder: str, gone: bool) -> None:
        """Remember what the command that is decided in this thread was told about the holder of a turn."""
        if self._deciding is not None and self._deciding[1] is here():
            self._deciding[0].gone[holder] = gone

    # Reads

    @contextlib.contextmanager
    def watching(self, ask: Callable[[], Any]) -> Iterator[list[Any]]:
        """Collect what the model answers to a question at every moment until the end."""
        answers = [copy.deepcopy(ask())]
        watched = (ask, answers)
        self._watched.append(watched)
        try:
            yield answers
        finally:
            self._watched.remove(watched)


class Recorded(runner.PendingCommand[Any]):
    """A command that says to the journal how it was decided."""

    __slots__ = ("call",)
    journal: Journal

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.call = None if self.command.name == "touch" else CALL.get()

    def decide(self, work: Work) -> Any:
        journal = self.journal
        decided = Decided(
            holder=work.context.holder,
            name=self.command.name,
            arguments=(*getattr(self.command.decide, "args", ()), *self.command.arguments),
            now=work.now,
            busy=frozenset(key for key, busy in self.answers.items() if busy),
            call=self.call,
            started=0 if self.call is None else self.call.started,
        )
        touched, events = set(work.touched), len(work.envelopes)
        try:
            with journal.deciding(decided):
                answer = super().decide(work)
        except (AskFirstError, LookFirstError, ConflictError):
            raise
        except SessionError as error:
            decided.refused = type(error).__name__
            journal.decided(work.transaction, decided)
            raise
        decided.answer = plain(answer)
        decided.touched = {key: touch for key, touch in work.touched.items() if key not in touched}
        decided.events = work.envelopes[events:]
        journal.decided(work.transaction, decided)
        return answer


def is_fault(error: BaseException) -> bool:
    """Return True for what a store raises when its disk fails, not because of the command."""
    return isinstance(error, EngineError) and not isinstance(error, SessionError)
