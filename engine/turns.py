"""Turns as context managers: wait for the conversation, hold it while the block runs, fence its writes."""

import asyncio
import logging
import threading
import time
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from engine.claims import TurnClaim
from engine.command import Command
from engine.commands.transcripts import rewind_session
from engine.commands.turns import begin_turn
from engine.domain.entry import SessionEntry
from engine.domain.sources import SessionSource
from engine.errors import TurnInProgressError, UnknownLaneError
from engine.lines import Place
from engine.log.errors import NestedCommandError
from engine.renewals import pause_of
from engine.runner import Runner
from engine.validation import checked_lease, checked_number, checked_source
from projections.inline.turns import turn_with

if TYPE_CHECKING:
    from engine.aio import AsyncSessionStore
    from engine.store import SessionStore

logger = logging.getLogger("engine.store")

DEFAULT_LEASE_SECONDS = 600.0
_FIRST_PAUSE = 0.01
_LONGEST_PAUSE = 0.2

TURN_REFUSED = (TurnInProgressError, UnknownLaneError, NestedCommandError)
"""Errors of a begin that say that no turn has begun."""


class TurnFacts:
    """The facts both forms of a turn know: the entry its message was routed to, and the token of the lease."""

    _claim: TurnClaim | None = None

    def __init__(self, runner: Runner, source: SessionSource, wait: float | None, lease_seconds: float) -> None:
        self._runner = runner
        self._source = checked_source(source)
        self._wait = None if wait is None else float(checked_number("wait", wait))
        self._lease = checked_lease(lease_seconds) or DEFAULT_LEASE_SECONDS
        self._entry: SessionEntry | None = None
        self._token: str | None = None

    def __del__(self) -> None:
        if self._claim is not None:  # an interrupt came where no code of ours could see it
            self._give_up()

    @property
    def entry(self) -> SessionEntry:
        """Return the lane as it stood when the turn began."""
        if self._entry is None:
            raise ValueError("a turn has its entry inside its block: use `with store.turn(source) as turn:`")
        return self._entry

    @property
    def session_key(self) -> str:
        """Return the key of the lane."""
        return self.entry.session_key

    @property
    def session_id(self) -> str:
        """Return the session the turn began in. Writes follow the conversation through a compression."""
        return self.entry.session_id

    @property
    def token(self) -> str:
        """Return the token that fences writes: give it as `turn=` to other commands."""
        if self._token is None:
            raise ValueError("a turn has its token inside its block: use `with store.turn(source) as turn:`")
        return self._token

    def _beginning(self, session_key: str) -> Command[str]:
        """Return the command that begins the turn, whose token is known already."""
        self._claim = TurnClaim()
        return begin_turn(session_key, self._lease, self._claim)

    def _begun(self, entry: SessionEntry, token: str, worker: object) -> None:
        self._entry, self._token = entry, token
        self._runner.workers[token] = weakref.ref(worker)

    def _give_up(self) -> None:
        """End the turn without waiting: this caller was interrupted, and may not have its token."""
        if self._claim is not None:
            self._runner.renewals.give_up(self._claim)
            self._runner.workers.pop(self._claim.token, None)
            self._claim = None

    def _over(self) -> None:
        """Forget the turn: it has ended."""
        self._claim = None
        self._runner.workers.pop(self.token, None)

    def _refused(self, error: TurnInProgressError, worker: object) -> None:
        """Note that no turn was begun; raise if the one in progress is this worker's own, which would wait for ever."""
        self._claim = None
        if self._wait is not None:
            return
        for token, other in list(self._runner.workers.items()):
            if other() is worker:
                running = turn_with(self._runner.reads, token)
                if running is not None and running.conversation_id == error.conversation_id:
                    raise _own_turn(error.conversation_id) from error

    def _deadline(self) -> float | None:
        return None if self._wait is None else time.monotonic() + self._wait

    def _pause(self, pause: float, deadline: float | None, error: Exception) -> float:
        """Return how long to wait before the next attempt; raise the error when the time is up."""
        if deadline is None:
            return pause
        left = deadline - time.monotonic()
        if left <= 0:
            raise error
        return min(pause, left)

    def _retrying(self) -> Command[dict[str, Any] | None]:
        return rewind_session(self.session_id, 1, "retry", self.token)


def _without_id(undone: dict[str, Any] | None) -> dict[str, Any] | None:
    if undone is None:
        return None
    message: dict[str, Any] = undone["target_message"]
    return {name: value for name, value in message.items() if name != "message_id"}


def _own_turn(what: str) -> NestedCommandError:
    return NestedCommandError(
        f"the turn of {what!r} is this worker's own, or it waits for it already: beginning it again, also from a "
        "signal handler, would wait for ever; use the turn there is, or begin when its block has ended"
    )


def _said(error: BaseException | None) -> str | None:
    """Return what the log records of a turn that failed."""
    if error is None:
        return None
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text.encode("utf-8", "backslashreplace").decode().replace("\0", " ")[:1000]


class Turn(TurnFacts):
    """The turn of a conversation, for threads. See `SessionStore.turn`."""

    def __init__(self, store: "SessionStore", source: SessionSource, wait: float | None, lease_seconds: float) -> None:
        super().__init__(store.runner, source, wait, lease_seconds)
        self._store = store

    def __enter__(self) -> Self:
        deadline = self._deadline()
        try:
            self._stand_in_line(self._store.get_or_create_session(self._source), deadline)
        except BaseException:
            self._give_up()
            raise
        return self

    def _stand_in_line(self, entry: SessionEntry, deadline: float | None) -> None:
        lines, key, place = self._runner.lines, entry.session_key, Place()
        try:
            if not lines.join(key, place):
                raise _own_turn(key)
            if lines.wait(key, place, None if deadline is None else max(0.0, deadline - time.monotonic())):
                self._take_waiting(entry, deadline)
            else:
                self._take(entry)  # raises who has it
        finally:
            place.left = True
            lines.look(key)

    def _take_waiting(self, entry: SessionEntry, deadline: float | None) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                self._take(entry)
                return
            except TurnInProgressError as error:
                self._refused(error, threading.current_thread())
                time.sleep(self._pause(pause, deadline, error))
            pause = min(2 * pause, _LONGEST_PAUSE)
            entry = self._store.get_or_create_session(self._source)

    def _take(self, entry: SessionEntry) -> None:
        """Begin the turn, and make sure that the lane still leads where the message was routed."""
        while True:
            with suppress(UnknownLaneError):  # pruned since it was routed
                token = self._runner.run(self._beginning(entry.session_key))
                now = self._store.get_or_create_session(self._source, touch=False)
                if now.session_id == entry.session_id:
                    self._begun(entry, token, threading.current_thread())
                    self._runner.renewals.add(token, self._lease)
                    return
                self._store.end_turn(token)
            entry = self._store.get_or_create_session(self._source)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._runner.renewals.remove(self.token)
            ended = self._store.end_turn(self.token, error=_said(error))
        except BaseException:
            self._give_up()
            raise
        self._over()
        if not ended:
            logger.warning("turn %s of %s was lost before its block ended", self.token, self.session_key)

    def append(self, message: Mapping[str, Any]) -> int | None:
        """Append a message; raise TurnLostError once the lease is gone."""
        return self._store.append_to_transcript(self.session_id, message, turn=self.token)

    def append_messages(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Append messages, all or none; raise TurnLostError once the lease is gone."""
        return self._store.append_messages(self.session_id, messages, turn=self.token)

    def load_transcript(self) -> list[dict[str, Any]]:
        """Return the live messages of the session."""
        return self._store.load_transcript(self.session_id)

    def retry(self) -> dict[str, Any] | None:
        """Hide the last user message and what followed; return it whole, to be appended again. None if there is none.

        It comes without its platform id: that was delivered already, and appending it once more would store nothing.
        """
        return _without_id(self._store.runner.run(self._retrying()))


class AsyncTurn(TurnFacts):
    """The turn of a conversation, for tasks. See `AsyncSessionStore.turn`."""

    def __init__(
        self, store: "AsyncSessionStore", source: SessionSource, wait: float | None, lease_seconds: float
    ) -> None:
        super().__init__(store.store.runner, source, wait, lease_seconds)
        self._store = store
        self._renewing: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        try:
            await self._stand_in_line(self._deadline())
        except BaseException:
            self._give_up()
            raise
        return self

    async def _stand_in_line(self, deadline: float | None) -> None:
        entry = await self._store.get_or_create_session(self._source)
        async with self._store.line(entry.session_key):  # first come first served within this process
            pause = _FIRST_PAUSE
            while True:
                try:
                    await self._take(entry)
                    return
                except TurnInProgressError as error:
                    self._refused(error, asyncio.current_task())
                    await asyncio.sleep(self._pause(pause, deadline, error))
                pause = min(2 * pause, _LONGEST_PAUSE)
                entry = await self._store.get_or_create_session(self._source)

    async def _take(self, entry: SessionEntry) -> None:
        while True:
            with suppress(UnknownLaneError):  # pruned since it was routed
                token = await self._store.run(self._beginning(entry.session_key))
                now = await self._store.get_or_create_session(self._source, touch=False)
                if now.session_id == entry.session_id:
                    self._begun(entry, token, asyncio.current_task())
                    self._renewing = asyncio.ensure_future(self._renew(token))
                    return
                await self._store.end_turn(token)
            entry = await self._store.get_or_create_session(self._source)

    async def _renew(self, token: str) -> None:
        while True:
            await asyncio.sleep(pause_of(self._lease))
            try:
                if not await self._store.renew_turn(token, lease_seconds=self._lease):
                    return
            except Exception as error:  # noqa: BLE001 - a full disk may have space at the next attempt
                logger.warning("the lease of turn %s could not be renewed: %s", token, error)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is GeneratorExit:  # the task was dropped with its loop: nothing can be awaited any more
            self._give_up()
            return
        if self._renewing is not None:
            self._renewing.cancel()
        try:
            ended = await self._store.end_turn(self.token, error=_said(error))  # given at once, also if cancelled here
        except BaseException:
            self._give_up()
            raise
        self._over()
        if not ended:
            logger.warning("turn %s of %s was lost before its block ended", self.token, self.session_key)

    async def append(self, message: Mapping[str, Any]) -> int | None:
        """Append a message; raise TurnLostError once the lease is gone."""
        return await self._store.append_to_transcript(self.session_id, message, turn=self.token)

    async def append_messages(self, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Append messages, all or none; raise TurnLostError once the lease is gone."""
        return await self._store.append_messages(self.session_id, messages, turn=self.token)

    async def load_transcript(self) -> list[dict[str, Any]]:
        """Return the live messages of the session."""
        return await self._store.load_transcript(self.session_id)

    async def retry(self) -> dict[str, Any] | None:
        """Hide the last user message and what followed; return it whole, to be appended again. None if there is none.

        It comes without its platform id: that was delivered already, and appending it once more would store nothing.
        """
        return _without_id(await self._store.run(self._retrying()))
