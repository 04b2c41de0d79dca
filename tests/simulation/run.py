"""One run of a seed: processes come and go until the steps are used up; then all must be as the model says."""

import gc
import logging
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec

from engine import SessionStore
from tests.faults.disk import memory_folder
from tests.properties.workers import plain
from tests.simulation.clients import Gateway, info
from tests.simulation.rules import seen
from tests.simulation.scheduler import StuckError, shown
from tests.simulation.world import Host, World

STEPS = 4000
PATIENCE = 3600.0
TABLES = {"lanes": "key", "sessions": "session_id", "turns": "token", "message_ids": "1, 2"}


class Result(msgspec.Struct, frozen=True):
    """The account of a run: the same seed and steps give the same trace."""

    seed: int
    wanted: int
    steps: int
    calls: int
    commands: int
    trace: str
    troubles: dict[str, int]
    seconds: float
    problem: str | None
    last_steps: str
    last_commands: str


def simulate(seed: int, steps: int = STEPS) -> Result:
    """Run a seed."""
    with memory_folder() as folder, undisturbed():
        return _run(World(folder, seed), steps)


def _run(world: World, steps: int) -> Result:
    started = time.perf_counter()
    problem = None
    try:
        with world.running():
            world.scheduler.run(world.machine, partial(_main, world, steps))
    except BaseException as error:  # noqa: BLE001 - whatever it is, it is what the seed found
        problem = f"{type(error).__name__}: {error}\n{''.join(traceback.format_tb(error.__traceback__)[-5:])}"
        for host in world.host_of.values():
            world.forget(host)
    return Result(
        seed=world.seed,
        wanted=steps,
        steps=world.scheduler.steps,
        calls=world.calls,
        commands=world.journal.commands,
        trace=world.scheduler.trace,
        troubles=dict(sorted(world.counts.items())),
        seconds=time.perf_counter() - started,
        problem=problem,
        last_steps=shown(world.scheduler.recent),
        last_commands="\n".join(world.journal.recent),
    )


@contextmanager
def undisturbed() -> Iterator[None]:
    """No finaliser runs at a moment of its own, and nobody logs: faults are meant to happen."""
    hook = sys.unraisablehook
    gc.collect()
    gc.disable()
    logging.disable(logging.CRITICAL)
    sys.unraisablehook = lambda told: None if "injected" in str(told.exc_value) else hook(told)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)  # it was killed
            yield
            gc.collect()  # of what was killed
    finally:
        sys.unraisablehook = hook
        logging.disable(logging.NOTSET)
        gc.enable()


def _main(world: World, steps: int) -> None:
    """The machine: keeps as many processes running as there are to be, and checks in the end."""
    scheduler = world.scheduler
    supervisors = [
        world.threading.Thread(target=_supervise, args=(world, number, steps), name="init")
        for number in range(world.odds.stores)
    ]
    for supervisor in supervisors:
        supervisor.start()
    for supervisor in supervisors:
        supervisor.join()
    world.calm = True
    _live(world, Host("last"), partial(_check, world))
    assert len(scheduler.tasks) == 1


def _supervise(world: World, number: int, steps: int) -> None:
    """Start a process again and again, as an init system does, until the run is to end."""
    incarnation = 0
    while True:
        if world.image is not None:
            world.scheduler.wait(lambda: world.image is None or not world.hosts, None, "power")
            if world.image is not None:
                world.lose_power()
        if world.scheduler.steps >= steps:
            world.ending = True
            return
        host = Host(f"gateway{number}.{incarnation}")
        incarnation += 1
        _live(world, host, Gateway(world, host).run, steps)


def _live(world: World, host: Host, run: Any, steps: int = 0) -> None:
    """Run a process until its last thread has ended, and bury it if it was killed."""
    scheduler, process = world.scheduler, host.process
    world.hosts.append(host)
    world.host_of[process] = host
    scheduler.start(process, "main", run)

    def ended() -> bool:
        if steps and scheduler.steps >= steps:
            world.ending = True
        return not any(task.process is process for task in scheduler.tasks)

    if not scheduler.wait(ended, PATIENCE * 1000, "wait for its end"):
        left = [task.name for task in scheduler.tasks if task.process is process]
        raise StuckError(f"still running: {left}")
    if process.dead:
        world.bury(host)
    world.hosts.remove(host)


def _check(world: World) -> None:
    """Open the store in peace and hold everything in it against the model."""
    rules = world.journal.rules
    with world.open(world.hosts[-1]) as store:
        for key, lane in rules.lanes.items():
            for (touched, chosen), at in world.touched.items():
                if touched == key and rules.chosen[key] == chosen:
                    assert max(lane["updated_at"], lane["ahead_at"]) >= at, f"a touch of {key} was lost"
        assert plain(store.list_sessions()) == [seen(entry) for entry in rules.list_sessions()]
        for session_id in rules.sessions:
            assert plain(store.get_session(session_id)) == info(rules, session_id)
            assert store.load_transcript(session_id) == rules.load_transcript(session_id)
        turns = dict(store.log.query("SELECT conversation_id, token FROM turns"))
        assert turns == {conversation: turn["token"] for conversation, turn in rules.turns.items()}
        _check_log(world, store)


def _check_log(world: World, store: SessionStore) -> None:
    log = store.log
    events = list(log.events())
    assert [each.position for each in events] == list(range(1, len(events) + 1))
    verification = log.verify()
    assert verification.ok, verification
    assert log.query("PRAGMA integrity_check") == [("ok",)]
    assert store.quarantined() == []
    before = _tables(store)
    store.rebuild()
    assert _tables(store) == before


def _tables(store: SessionStore) -> dict[str, list[tuple[Any, ...]]]:
    return {name: store.log.query(f"SELECT * FROM {name} ORDER BY {order}") for name, order in TABLES.items()}
