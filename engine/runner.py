"""Runs commands on the log: now, on the caller's thread, or for an await. Both from one definition of each command."""

import asyncio
import logging
import weakref
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Executor
from contextvars import copy_context
from functools import partial
from typing import Any, Generic, TypeVar

import msgspec

from engine.acting import acting_now
from engine.archived import saying_where
from engine.claims import GIVEN_UP
from engine.clock import Instant
from engine.command import Command, Sweep
from engine.commands.turns import end_turn, renew_turn
from engine.domain.errors import ArchivedError
from engine.domain.events import StoreOpened
from engine.domain.streams import LOG
from engine.errors import SessionConflictError
from engine.lane_cache import LaneCache
from engine.lines import Lines
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.log.errors import ConflictError
from engine.log.mutex import check_outside
from engine.log.protocol import Log, Transaction
from engine.renewals import Renewals
from engine.threads import DaemonThreads
from engine.touches import Touches
from engine.work import Answers, AskFirstError, LookFirstError, StoreContext, Work
from projections.inline.projection import BehindError, catch_up

logger = logging.getLogger("engine.store")

T = TypeVar("T")
_Question = AskFirstError | LookFirstError | BehindError
_ASKERS = 64
_LOOKERS = 4
_LONGEST_ANSWER = 30.0
"""So many seconds a task waits for the host to say whether it works on a lane; no answer means that it does."""
_PART = 500
"""So many lanes are changed at a time: 20 ms under the write lock."""
_ATTEMPTS = 5
"""How often a command is decided anew because a new session's id was taken: a chance of one in 4 billion each time."""


class Outcome(msgspec.Struct, Generic[T]):
    """The outcome of a command: its answer, and the work its store has to know of once it is durable."""

    value: T
    work: Work | None


class PendingCommand(Generic[T]):
    """A command on its way to the log, which runs it under the write lock, at the time it is run at."""

    __slots__ = ("acting", "answers", "command", "runner")

    def __init__(self, runner: "Runner", command: Command[T], answers: Answers) -> None:
        self.runner, self.command, self.answers = runner, command, answers
        self.acting = acting_now()

    def __call__(self, transaction: Transaction) -> Outcome[T]:
        work = self.runner.begin(transaction, self.answers)
        value = self.decide(work)
        work.commit()
        if work.opened_at is not None:
            self.runner.opening.written(transaction, work.opened_at)
        return Outcome(value, work)

    def decide(self, work: Work) -> T:
        """Decide on the state that the work reads; what is decided is collected there."""
        command = self.command
        work.begin(command.name, self.acting)
        return command.decide(work, *command.arguments)


def run_together(transaction: Transaction, commands: Sequence[PendingCommand[Any]]) -> list[Outcome[Any]]:
    """Decide grouped commands on one state, and append for all at once."""
    runner = commands[0].runner
    work = runner.begin(transaction, {})
    values = [pending.decide(work) for pending in commands]
    work.commit()
    if work.opened_at is not None:
        runner.opening.written(transaction, work.opened_at)
    outcomes = [Outcome(value, None) for value in values]
    outcomes[0].work = work
    return outcomes


class Opening:
    """Says in the log that a store began to write, once, with its first command. Used under the write lock."""

    def __init__(self, event: StoreOpened) -> None:
        self._event = event
        self._written_at: int | None = None
        self._rollbacks = 0
        self.confirmed = False

    def due(self, transaction: Transaction) -> StoreOpened | None:
        """Return the event if it is not in the log yet: never written, or rolled back."""
        if self._written_at is None or not self._stands(transaction):
            return self._event
        self.confirmed = transaction.began_at >= self._written_at
        return None

    def _stands(self, transaction: Transaction) -> bool:
        """Return True if the event that was written is still there after whatever was rolled back."""
        if self._rollbacks == transaction.rollbacks:
            return True
        self._rollbacks = transaction.rollbacks
        return any(each.event == self._event for each in transaction.recorded_at([self._written_at or 0]))

    def announce(self, transaction: Transaction, time: int, actor: str) -> None:
        """Record the event now, past the state tables, because the store takes over those of another build."""
        event = self.due(transaction)
        if event is not None:
            why = "another build of this package takes over the state tables"
            (position,) = transaction.insert([Envelope(LOG, NEXT_VERSION, event, time, actor, "open", why)])
            self.written(transaction, position)

    def written(self, transaction: Transaction, position: int) -> None:
        """Remember where the event was written, with the first of a command's own."""
        self._written_at, self._rollbacks = position, transaction.rollbacks

    @property
    def happened(self) -> bool:
        """Return True if the store has written anything."""
        return self._written_at is not None


class Runner:
    """Runs the commands of one store, asks the host in between, and tells the store's caches what changed."""

    def __init__(
        self,
        log: Log,
        context: StoreContext,
        clock: Callable[[], Instant],
        is_active: Callable[[str], bool] | None,
        opening: StoreOpened,
    ) -> None:
        self._log = log
        self.reads = log.reader
        self._context = context
        self._clock = clock
        self._is_active = is_active
        self.opening = Opening(opening)
        self.touches = Touches(self._flush)
        self.renewals = Renewals(
            lambda token, lease: self.run(renew_turn(token, lease)),
            lambda token: self.run(end_turn(token, GIVEN_UP)),
            context.given_up,
        )
        self.lines = Lines()
        self.workers: dict[str, weakref.ref[object]] = {}
        """Threads and tasks inside the block of a turn, by its token."""
        self.lanes: LaneCache | None = None
        self._askers = DaemonThreads(_ASKERS, "session-asking-host")
        self._lookers = DaemonThreads(_LOOKERS, "session-looking")  # the host's functions may never return

    def begin(self, transaction: Transaction, answers: Answers) -> Work:
        """Return the work of a command that starts now."""
        opening = None if self.opening.confirmed else self.opening.due(transaction)
        return Work(transaction, self._clock(), self._context, self.touches.pending, answers, opening)

    @property
    def now(self) -> int:
        """The time, as the log keeps it."""
        return self._clock().time

    @property
    def actor(self) -> str:
        """The actor of commands that nobody else is said to give."""
        return self._context.actor

    def announce(self, transaction: Transaction) -> None:
        """Record that the store was opened before anything else: it takes over the state tables."""
        self.opening.announce(transaction, self._clock().time, self._context.actor)

    def run(self, command: Command[T]) -> T:
        """Run a command; return its answer once it is durable."""
        answers: dict[Any, Any] = {}
        conflicts = 0
        while True:
            try:
                pending = PendingCommand(self, command, answers)
                return self._settle(self._log.transact(pending, together=run_together if command.grouped else None))
            except (AskFirstError, LookFirstError, BehindError) as question:
                answers.update(self._answer(question))
            except SessionConflictError:
                raise
            except ConflictError:
                conflicts += 1
                if conflicts == _ATTEMPTS:
                    raise
            except ArchivedError as error:
                self._say_where(error)

    async def run_async(self, command: Command[T]) -> T:
        """Run a command from a task, which never blocks its loop.

        A cancelled await neither loses nor doubles the command: what is asked first comes between two transactions,
        and cancelling must not stop there.
        """
        pending = PendingCommand(self, command, {})
        try:
            return self._settle(
                await self._log.transact_async(pending, together=run_together if command.grouped else None)
            )
        except SessionConflictError:
            raise
        except (AskFirstError, LookFirstError, BehindError, ConflictError, ArchivedError) as error:
            first = error
        return await asyncio.shield(asyncio.ensure_future(self._again(pending, first)))

    async def _again(self, pending: PendingCommand[T], question: _Question | ConflictError | ArchivedError) -> T:
        answers: dict[Any, Any] = {}
        conflicts = 0
        while True:
            if isinstance(question, ConflictError):
                conflicts += 1
                if conflicts == _ATTEMPTS:
                    raise question
            elif isinstance(question, ArchivedError):
                await in_thread(self._askers, self._say_where, question)
            elif isinstance(question, AskFirstError):
                answers.update(await self.ask_async(question.keys))
            else:
                answers.update(await in_thread(self._lookers, self._answer, question))
            again = PendingCommand(self, pending.command, answers)
            again.acting = pending.acting
            try:
                return self._settle(await self._log.transact_async(again))
            except SessionConflictError:
                raise
            except (AskFirstError, LookFirstError, BehindError, ConflictError, ArchivedError) as error:
                question = error

    def _say_where(self, error: ArchivedError) -> None:
        with saying_where(self._log.reader):
            raise error

    def sweep(self, sweep: Sweep) -> int:
        """Change many things in parts; return how many were changed."""
        return sum(map(self.run, self._parts(sweep)))

    async def sweep_async(self, sweep: Sweep) -> int:
        """Change many things in parts from a task; return how many were changed."""
        return sum([await self.run_async(part) for part in await in_thread(self._lookers, self._parts, sweep)])

    def _parts(self, sweep: Sweep) -> list[Command[int]]:
        """Return the commands that each change a part of what is found now, on tables that are up to date."""
        now = self._clock().time
        self.touches.flush()
        self.run(Command(sweep.name, sweep.change, ([], now)))
        found = sweep.find(self._log.reader, now)
        return [
            Command(sweep.name, sweep.change, (found[start : start + _PART], now))
            for start in range(0, len(found), _PART)
        ]

    def _settle(self, outcome: Outcome[T]) -> T:
        """Tell the touches, the lane cache and the host's log what became durable."""
        work = outcome.work
        if work is not None:
            if work.touched:
                self.touches.settle(work.touched)
            if work.envelopes and self.lanes is not None:
                self.lanes.committed(work.began_at, work.began_at + len(work.envelopes), work.envelopes)
            for note in work.notes:
                logger.log(note.level, note.text, *note.arguments)
        return outcome.value

    def _answer(self, question: _Question) -> dict[Any, Any]:
        """Find out, or do, what has to come before a decision, while the write lock is free."""
        if isinstance(question, AskFirstError):
            return {**self.ask(question.keys)}
        if isinstance(question, BehindError):
            catch_up(self._log)
            return {}
        return {question.key: question.question(self._log.reader, None)}

    def ask(self, keys: Sequence[str]) -> dict[str, bool]:
        """Ask the host which of these lanes it works on; no answer means that it does (G30)."""
        return {key: self.busy(key) for key in keys}

    def busy(self, key: str) -> bool:
        """Ask the host whether it works on a lane."""
        if self._is_active is None:
            return False
        try:
            return bool(self._is_active(key))
        except Exception:
            logger.exception("has_active_processes_fn raised for lane %r; the lane counts as busy", key)
            return True

    async def ask_async(self, keys: Sequence[str]) -> dict[str, bool]:
        """Ask the host from a task, which waits only so long."""
        answers: dict[str, bool] = {}
        shares = [keys[first::_ASKERS] for first in range(min(_ASKERS, len(keys)))]
        for asked in await asyncio.gather(*map(self._ask_share, shares)):
            answers.update(asked)
        return answers

    async def _ask_share(self, keys: Sequence[str]) -> dict[str, bool]:
        try:
            return await asyncio.wait_for(in_thread(self._askers, self.ask, keys), _LONGEST_ANSWER * len(keys))
        except TimeoutError:
            logger.error("has_active_processes_fn does not return for %s; they count as busy", list(keys))  # noqa: TRY400
            return dict.fromkeys(keys, True)

    def _flush(self, keys: list[str]) -> None:
        self.run(Command("touch", Work.flush_touches, (keys,)))

    def check_may_close(self) -> None:
        """Raise NestedCommandError if this thread is inside what other threads may wait for."""
        self.touches.check_may_close()
        if self.lanes is not None:
            check_outside(self.lanes.mutex)
        self._askers.check_may_end()
        self._lookers.check_may_end()

    def close(self) -> None:
        """Let the threads that ask the host end; one that still waits for an answer is left behind."""
        self._askers.shutdown(cancel_futures=True)
        self._lookers.shutdown(cancel_futures=True)

    def abandon_after_fork(self) -> None:
        """Give up the threads in the child of a fork."""
        self.touches.abandon_after_fork()
        self.renewals.abandon_after_fork()
        self.lines.abandon_after_fork()


def in_thread(threads: Executor, function: Callable[..., T], *arguments: Any) -> Awaitable[T]:
    """Call in a thread of a pool of our own: the loop's default one may be full of the host's slow work."""
    call = partial(copy_context().run, function, *arguments)
    return asyncio.get_running_loop().run_in_executor(threads, call)
