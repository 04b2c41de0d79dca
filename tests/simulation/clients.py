"""Threads and tasks of a gateway that use a store at random, and what each answer is held against."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from engine import AsyncSessionStore, SessionStore
from engine.domain.errors import EngineError
from engine.errors import SessionError
from tests.properties.model import Json, lane_key, micros
from tests.properties.workers import plain, source_of
from tests.simulation.journal import CALL, SWEEPS, Call
from tests.simulation.primitives import Loop
from tests.simulation.rules import SOURCES, Rules, seen
from tests.simulation.scheduler import Task, here
from tests.simulation.world import Host, World

REASONS = ("agent_close", "ws_orphan_reap", "session_reset", "user_exit")
OVERRIDES = (None, {"model": "m-1", "api_key": "secret"}, {"provider": "p", "model": ""}, {"base_url": "http://h"})
TITLES = (None, "trip", "trip #2", "other")
LEASES = (0.5, 60.0, 4000.0, None)
ROUTE, TURN = "get_or_create_session", "turn"
PATIENCE = 20_000
Step = tuple[str, tuple[Any, ...], Json]


class Chooser:
    """Picks what a client does next."""

    def __init__(self, rules: Rules, chance: random.Random, name: str) -> None:
        self.rules = rules
        self.chance = chance
        self.name = name
        self.tokens: list[str] = []
        self.written = 0

    def step(self) -> Step:
        choices = self._choices()
        made = self.chance.choices([choice for choice, _ in choices], [weight for _, weight in choices])[0]
        return made()

    def _choices(self) -> list[tuple[Callable[[], Step], int]]:
        always: list[tuple[Callable[[], Step], int]] = [(self._route, 18), (self._lane, 8), (self._begin_turn, 3)]
        always += [(self._store, 2), (self._turn_block, 3)]
        if self.rules.sessions:
            always += [(self._append, 12), (self._session, 8), (self._read, 8)]
        if self.tokens:
            always += [(self._turn, 4)]
        return always

    def _store(self) -> Step:
        names = ("list_sessions", "list_sessions", "recover_interrupted_turns", "recover_interrupted_turns", "rebuild")
        return self.chance.choice(names), (), {}

    def _turn_block(self) -> Step:
        wait = self.chance.choice((0, 0.05, 1.0))
        return TURN, (self.chance.choice(SOURCES),), {"wait": wait, "lease_seconds": self.chance.choice((0.02, 60.0))}

    def key(self) -> str:
        return lane_key(self.chance.choice(SOURCES))

    def session(self) -> str:
        """A lane's session, or now and then any there is."""
        here = self.rules.peek_session_id(self.key())
        if here is not None and self.chance.random() < 0.8:
            return here
        return self.chance.choice(list(self.rules.sessions))

    def _route(self) -> Step:
        source = self.chance.choice(SOURCES)
        forced, touch = self.chance.random() < 0.08, self.chance.random() < 0.85
        return "get_or_create_session", (source, forced), {"touch": touch}

    def _lane(self) -> Step:
        key, pick = self.key(), self.chance.choice
        choices: list[Step] = [
            ("update_session", (key, pick((None, 0, 3))), {"input_tokens": 2, "cost_usd": pick((None, 0.25))}),
            ("suspend_session", (key,), {}),
            ("mark_resume_pending", (key, "shutdown"), {}),
            ("clear_resume_pending", (key,), {}),
            ("suspend_recently_active", (pick((0, 120, 4000)),), {}),
            ("reset_session", (key, pick((None, "", "fresh"))), {}),
            ("switch_session", (key, self.session() if self.rules.sessions else "nobody"), {}),
            ("set_model_override", (key, pick(OVERRIDES)), {}),
            ("set_expiry_finalized", (key,), {}),
            ("prune_old_entries", (pick((0.01, 1, 2)),), {}),
            ("consume_notices", (key,), {}),
        ]
        return pick(choices)

    def _session(self) -> Step:
        session, pick = self.session(), self.chance.choice
        summary = [{"role": "system", "content": "summary"}]
        choices: list[Step] = [
            ("end_session", (session, pick(REASONS)), {}),
            ("reopen_session", (session,), {}),
            ("compress_session", (session, None, summary), {"covers": pick((None, 0, 2))}),
            ("compress_session", (session,), {}),
            ("fork_session", (session,), {}),
            (pick(("set_session_title", "set_auto_title")), (session, pick(TITLES)), {}),
            ("rewrite_transcript", (session, summary[: pick((0, 1))]), {}),
            ("rewind_session", (session, pick((1, 2))), {}),
            ("restore_rewound", (session,), {}),
        ]
        return pick(choices)

    def _append(self) -> Step:
        several = [self.message() for _ in range(self.chance.choice((1, 1, 1, 2, 3)))]
        turn = self.chance.choice(self.tokens) if self.tokens and self.chance.random() < 0.2 else None
        if len(several) == 1:
            return "append_to_transcript", (self.session(), several[0]), {"turn": turn}
        return "append_messages", (self.session(), several), {"turn": turn}

    def message(self) -> Json:
        self.written += 1
        role = self.chance.choice(("user", "assistant"))
        content = f"{self.name} {self.written} " + "x" * self.chance.choice((0, 30, 700))
        known = self.chance.choice(("p1", "p2", f"{self.name}-{self.written}", None))
        return {"role": role, "content": content} | ({} if known is None else {"message_id": known})

    def _begin_turn(self) -> Step:
        return "begin_turn", (self.key(),), {"lease_seconds": self.chance.choice(LEASES)}

    def _turn(self) -> Step:
        token = self.chance.choice(self.tokens)
        if self.chance.random() < 0.3:
            return "renew_turn", (token,), {"lease_seconds": self.chance.choice(LEASES)}
        return "end_turn", (token,), {}

    def _read(self) -> Step:
        session, pick = self.session(), self.chance.choice
        choices: list[Step] = [
            ("peek_session_id", (self.key(),), {}),
            ("load_transcript", (session,), {}),
            ("get_session", (session,), {}),
            ("has_platform_message_id", (session, pick(("p1", "p2"))), {}),
        ]
        return pick(choices)


QUESTIONS: dict[str, Callable[..., Any]] = {
    "peek_session_id": lambda rules, key: rules.peek_session_id(key),
    "load_transcript": lambda rules, session: rules.load_transcript(session),
    "get_session": lambda rules, session: info(rules, session),
    "has_platform_message_id": lambda rules, session, message: rules.has_platform_message_id(session, message),
    "list_sessions": lambda rules: {key: lane["session_id"] for key, lane in rules.lanes.items()},
}


def info(rules: Rules, session_id: str) -> Json:
    """Return what `get_session` ought to."""
    session = rules.sessions[session_id]
    return {
        "session_id": session_id,
        "conversation_id": session["conversation_id"],
        "session_key": session["lane"],
        "created_at": session["created_at"],
        "ended_at": session["ended_at"],
        "end_reason": session["end_reason"],
        "parent_session_id": session["parent"],
        "relation": session["relation"],
        "compressed_into": session["child"] if session["end_reason"] == "compression" else None,
        "title": session["title"],
        "message_count": len(rules.load_transcript(session_id)),
    }


def without_touch(entry: Json | None) -> Json | None:
    """An entry without its idle clock, which a store may know better than the log."""
    return None if entry is None else {name: value for name, value in entry.items() if name != "updated_at"}


class Client:
    """One thread or task of a gateway."""

    def __init__(self, world: World, host: Host, store: SessionStore) -> None:
        self.world, self.host, self.store = world, host, store
        task = here()
        assert task is not None
        host.clients += 1
        name = f"{host.process.name}:{host.clients}"
        self.chance = random.Random(f"{world.seed} {name}")
        self.chooser = Chooser(world.journal.rules, self.chance, name)

    @property
    def goes_on(self) -> bool:
        return not self.host.stopping and not self.world.ending

    # Threads

    def work(self) -> None:
        """Call the store until the run or the process is to end."""
        task = here()
        assert task is not None
        while self.goes_on:
            name, arguments, named = self.chooser.step()
            if name == TURN:
                self._take_a_turn(task, *arguments, **named)
                continue
            given = self._given(name, arguments)
            with self.world.journal.watching(partial(self._expected, name, arguments)) as expected:
                call = self._called(name)
                task.interruptible = True
                try:
                    found = getattr(self.store, name)(*given, **named)
                except KeyboardInterrupt:
                    continue
                except EngineError as error:
                    self._refused(call, error)
                    continue
                finally:
                    task.interruptible = False
                self._answered(call, arguments, found, expected)
            self._rest()
        CALL.set(None)

    def _take_a_turn(self, task: Task, source: Json, **named: Any) -> None:
        """A turn as a block: whatever ends it, it is over afterwards, unless the disk failed or the process died."""
        CALL.set(None)
        task.interruptible = True
        try:
            with self.store.turn(source_of(source), **named) as turn:
                turn.append(self.chooser.message())
                self.world.scheduler.sleep(self.chance.choice((0.0, 0.01, 0.1)))
                turn.append(self.chooser.message())
        except (KeyboardInterrupt, SessionError):
            self.world.calls += 1
        except EngineError as error:
            self.world.fault(self.host, error)
        finally:
            task.interruptible = False

    def _rest(self) -> None:
        if self.chance.random() < 0.1:
            self.world.scheduler.sleep(self.chance.choice((0.001, 0.02, 0.2)))
        if self.chance.random() < 0.004:
            self.host.stopping = True
        if self.chance.random() < 0.03:
            self.world.busy ^= {self.chooser.key()}

    # Tasks

    async def work_async(self, store: AsyncSessionStore) -> None:
        """The same from a task, which is cancelled now and then."""
        while self.goes_on:
            name, arguments, named = self.chooser.step()
            if name == TURN:
                await self._await_a_turn(store, *arguments, **named)
                continue
            with self.world.journal.watching(partial(self._expected, name, arguments)) as expected:
                call = self._called(name)
                doing = getattr(store, name)(*self._given(name, arguments), **named)
                try:
                    found = await self._perhaps_cancelled(doing)
                except asyncio.CancelledError:
                    continue
                except EngineError as error:
                    self._refused(call, error)
                    continue
                self._answered(call, arguments, found, expected)
            await asyncio.sleep(self.chance.choice((0, 0, 0, 0.001, 0.02)))
            if self.chance.random() < 0.004:
                self.host.stopping = True

    async def _await_a_turn(self, store: AsyncSessionStore, source: Json, **named: Any) -> None:
        CALL.set(None)

        async def block() -> None:
            async with store.turn(source_of(source), **named) as turn:
                await turn.append(self.chooser.message())
                await asyncio.sleep(self.chance.choice((0.0, 0.01, 0.1)))
                await turn.append(self.chooser.message())

        try:
            await self._perhaps_cancelled(block())
        except (asyncio.CancelledError, SessionError):
            self.world.calls += 1
        except EngineError as error:
            self.world.fault(self.host, error)

    async def _perhaps_cancelled(self, doing: Awaitable[Any]) -> Any:
        if not self.world.happens(self.world.odds.cancel):
            return await doing
        task = asyncio.ensure_future(doing)
        for _ in range(self.chance.randrange(6)):
            await asyncio.sleep(self.chance.choice((0, 0, 0.001, 0.01)))
        if task.cancel():
            self.world.count("cancellations")
        return await task

    # Answers

    def _called(self, name: str) -> Call:
        call = Call(name, self.world.journal.rules.changes)
        CALL.set(call)
        return call

    def _given(self, name: str, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return (source_of(arguments[0]), *arguments[1:]) if name == ROUTE else arguments

    def _expected(self, name: str, arguments: tuple[Any, ...]) -> Any:
        rules = self.world.journal.rules
        if name == ROUTE:
            return without_touch(seen(rules.entry(rules.lanes.get(lane_key(arguments[0])))))
        return QUESTIONS[name](rules, *arguments) if name in QUESTIONS else None

    def _answered(self, call: Call, arguments: tuple[Any, ...], found: Any, expected: list[Any]) -> None:
        self.world.calls += 1
        answer = plain(found)
        if call.name in SWEEPS:
            assert answer == sum(each.answer for each in call.committed), f"{call.name} answered {answer}"
        elif call.committed:
            assert call.committed[0].answer == answer, f"{call.name} answered {answer}, not what was decided"
        elif call.name == "list_sessions":
            listed = {lane["session_key"]: lane["session_id"] for lane in answer}
            assert listed in expected, f"listed {listed}, expected one of {expected}"
        elif call.name == ROUTE:
            assert without_touch(answer) in expected, f"{call.name}{arguments} found {answer}, expected {expected}"
        elif call.name != "rebuild":
            assert call.name in QUESTIONS, f"{call.name} was answered and never happened"
            assert answer in expected, f"{call.name}{arguments} answered {answer}, expected {expected}"
        if call.name == "begin_turn":
            self.world.journal.rules.known_tokens.add(answer)
            self.chooser.tokens = [*self.chooser.tokens[-2:], answer]
        elif call.name == ROUTE:
            self._touched(arguments[0], answer, call)

    def _touched(self, source: Json, answer: Json, call: Call) -> None:
        """Remember an idle clock that must be in the log once the store is closed in good order."""
        key, rules = lane_key(source), self.world.journal.rules
        if answer["updated_at"] > micros(self.world.clock()):
            return  # the clock has been set back since: see World
        if rules.peek_session_id(key) == answer["session_id"] and rules.chosen.get(key, 0) < call.started:
            self.host.touched[key, rules.chosen[key]] = answer["updated_at"]

    def _refused(self, call: Call, error: EngineError) -> None:
        self.world.calls += 1
        if isinstance(error, SessionError):
            assert type(error).__name__ in call.refused, f"{call.name} was refused, by no decision: {error}"
            return
        assert not call.committed or call.name in SWEEPS, f"{call.name} happened, and its caller was told {error!r}"
        self.world.fault(self.host, error)


class Gateway:
    """All that runs in one process: opens the store, works, closes it."""

    def __init__(self, world: World, host: Host) -> None:
        self.world, self.host = world, host

    def run(self) -> None:
        try:
            store = self.world.open(self.host)
        except EngineError as error:
            self.world.fault(self.host, error)
            return
        threading, odds = self.world.threading, self.world.odds
        others = [threading.Thread(target=self._thread, args=(store,), name="client") for _ in range(odds.threads)]
        if odds.tasks:
            others.append(threading.Thread(target=self._tasks, args=(store,), name="loop"))
        for other in others:
            other.start()
        self._thread(store)
        for other in others:
            other.join()
        self._check_turns(store)
        try:
            store.close()
        except EngineError as error:
            self.world.fault(self.host, error)
        else:
            self.world.touched.update(self.host.touched)

    def _check_turns(self, store: SessionStore) -> None:
        """A turn whose caller was interrupted or cancelled is ended by its store before long."""

        scheduler, rules = self.world.scheduler, self.world.journal.rules
        last = scheduler.steps + PATIENCE

        def left() -> list[Json]:
            return [] if self.host.faults else rules.unknown_turns_of(store._holder)

        scheduler.wait(lambda: not left() or scheduler.steps > last, None, "turns to end")
        assert not left(), f"open for ever: {left()}"

    def _thread(self, store: SessionStore) -> None:
        Client(self.world, self.host, store).work()

    def _tasks(self, store: SessionStore) -> None:
        face = AsyncSessionStore(store)

        async def main() -> None:
            clients = [Client(self.world, self.host, store) for _ in range(self.world.odds.tasks)]
            await asyncio.gather(*(client.work_async(face) for client in clients))
            if face._tasks:
                await asyncio.wait(face._tasks)

        try:
            Loop(self.world.scheduler).run(main())
        finally:
            for threads in (face.readers, face._loaders, face._routing):
                threads.shutdown(wait=False)
