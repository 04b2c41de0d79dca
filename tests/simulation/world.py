"""The machine: one disk, one clock on the wall, and processes that are killed, delayed and lied to by both."""

import contextlib
import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import apsw
import msgspec

from engine import SessionStore, holders
from engine.domain.config import GatewayConfig, SessionResetPolicy
from engine.domain.errors import EngineError
from engine.domain.platforms import Platform
from engine.log.errors import ClosedLogError, CorruptLogError, DiskFullError, LockedLogError
from engine.log.sqlite.eventlog import EventLog, _open_logs
from engine.store import _open_stores
from tests.faults.disk import CODES, POLICIES, Disk, Platter, full_error, io_error
from tests.properties.model import EPOCH, micros
from tests.properties.workers import POLICIES as RESETS, ZONE
from tests.simulation.journal import Journal
from tests.simulation.primitives import Threading
from tests.simulation.scheduler import Doomed, Process, Scheduler, Task, here
from tests.simulation.seams import Seams

STARTS = (datetime(2026, 3, 28, 22, tzinfo=ZONE), datetime(2026, 10, 24, 22, tzinfo=ZONE))
"""The evenings before the clocks change."""
_DAY = 86_400.0
JUMPS = (1.0, 60.0, 31 * 60.0, 3 * 3600.0, 26 * 3600.0, 3650 * _DAY, -1.0, -300.0, -3700.0, -25 * 3600.0, -3650 * _DAY)
STALLS = (0.01, 0.06, 0.3, 1.5, 6.0, 700.0)


class Odds(msgspec.Struct, frozen=True):
    """The chance of each trouble at a step, and the sizes of everything: drawn from the seed, so seeds differ."""

    stores: int
    threads: int
    tasks: int
    stay: float
    io_error: float
    disk_full: float
    kill: float
    power: float
    jump: float
    stall: float
    interrupt: float
    cancel: float
    checkpoint_pages: int
    cached_lanes: int
    cached_bytes: int
    queue_limit: int
    views: bool


def draw(chance: random.Random) -> Odds:
    """Return the odds of a run: some troubles are often, some never, so that rare combinations get their turn."""
    pick = chance.choice
    return Odds(
        stores=pick((1, 2, 2, 2, 3)),
        threads=pick((0, 1, 1, 2)),
        tasks=pick((0, 0, 3, 6)),
        stay=pick((0.0, 0.5, 0.8, 0.95)),
        io_error=pick((0.0, 0.0, 0.001, 0.01)),
        disk_full=pick((0.0, 0.0, 0.0, 0.0005)),
        kill=pick((0.0, 0.0003, 0.001)),
        power=pick((0.0, 0.0, 0.0004)),
        jump=pick((0.0, 0.001, 0.005)),
        stall=pick((0.0, 0.001, 0.005)),
        interrupt=pick((0.0, 0.0, 0.005, 0.03)),
        cancel=pick((0.0, 0.2, 0.6)),
        checkpoint_pages=pick((4, 16, 1000)),
        cached_lanes=pick((1, 2, 100)),
        cached_bytes=pick((0, 600, 1_000_000)),
        queue_limit=pick((1, 3, 10_000)),
        views=pick((False, False, True)),
    )


class Host:
    """A process of a gateway with a store of its own; when it is killed, another takes its place."""

    def __init__(self, name: str) -> None:
        self.process = Process(name)
        self.store: SessionStore | None = None
        self.connections: list[apsw.Connection] = []
        self.logs: list[EventLog] = []
        self.stopping = False
        self.faults = 0
        self.clients = 0
        self.touched: dict[tuple[str, int], int] = {}
        """By lane, and when it was led to its session: the idle clock that was told to a client."""


class World:
    """Everything outside of the stores, and the troubles of one run."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.seed = seed
        self.chance = random.Random(f"simulation {seed}")
        self.odds = draw(self.chance)
        self.scheduler = Scheduler(self.chance, self.odds.stay)
        self.scheduler.at_step = self._trouble
        self.scheduler.signal = self._signal
        self.journal = Journal()
        self.threading = Threading(self.scheduler)
        self.machine = Process("machine")
        self.hosts: list[Host] = []
        self.host_of: dict[Process, Host] = {}
        self.disk = Shared(self)
        self.platter = Platter()
        self.image: dict[str, bytes] | None = None
        self.calm = False
        self.ending = False
        self.calls = 0
        self.touched: dict[tuple[str, int], int] = {}
        self.full_until = 0.0
        self.busy: set[str] = set()
        self.counts: dict[str, int] = {}
        self._wall = micros(self.chance.choice(STARTS))
        self.seams = Seams(self.scheduler, self.journal)
        self.seams.connected, self.seams.opened = self._connected, self._opened

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Put the world under the engine until the end."""
        with self.disk.in_use(), self.seams.in_place(self.seed):
            yield

    # Clocks

    def clock(self) -> datetime:
        """Return the time of the wall, which jumps now and then."""
        return (EPOCH + timedelta(microseconds=self._wall + int(self.scheduler.now * 1e6))).astimezone(ZONE)

    # Stores

    def open(self, host: Host) -> SessionStore:
        """Open a store in this thread's process."""
        policies = {Platform(name): SessionResetPolicy(**policy) for name, policy in RESETS.items()}
        host.store = SessionStore(
            self.folder,
            GatewayConfig(reset_by_platform=policies),
            self.busy.__contains__,
            clock=self.clock,
            actor=host.process.name,
            cached_lanes=self.odds.cached_lanes,
            cached_transcript_bytes=self.odds.cached_bytes,
            checkpoint_pages=self.odds.checkpoint_pages,
            queue_limit=self.odds.queue_limit,
            views=self.odds.views,
            vfs=self.disk.name,
        )
        return host.store

    def _connected(self, connection: apsw.Connection) -> None:
        task = here()
        if task is not None and task.process in self.host_of:
            self.host_of[task.process].connections.append(connection)

    def _opened(self, log: EventLog) -> None:
        task = here()
        if task is not None and task.process in self.host_of:
            self.host_of[task.process].logs.append(log)

    def bury(self, host: Host) -> None:
        """Do for a killed process what the operating system does: its locks are free, its files stay as they are."""
        task = here()
        assert task is not None
        before, task.process = task.process, host.process
        try:
            for connection in host.connections:
                with contextlib.suppress(apsw.Error):  # it reaches no disk any more
                    connection.close(True)
        finally:
            task.process = before
        self.forget(host)

    def forget(self, host: Host) -> None:
        """Leave nothing of a process that the interpreter would close at its exit."""
        gone = ClosedLogError("its process was killed")
        for log in host.logs:
            log._unusable, log._ended = gone, True
            _open_logs.discard(log)
        if host.store is not None:
            host.store._closed = True
            _open_stores.discard(host.store)
            holders.give_up(host.store._holder)

    def lose_power(self) -> None:
        """Put what the power loss left of the files in their place; every process must be dead."""
        assert self.image is not None
        for path in list(self.folder.iterdir()):
            path.unlink()
        self.platter = Platter()
        self.disk.inodes.clear()
        self.disk.operations.clear()
        for name, content in self.image.items():
            (self.folder / name).write_bytes(content)
            self.platter.apply(("create", name, self.disk.inode(name)))
            self.platter.inodes[self.disk.inodes[name]].durable = bytearray(content)
        self.platter.apply(("folder",))
        self.disk.operations.clear()
        self.image = None

    # Troubles

    def count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1

    def happens(self, odds: float) -> bool:
        return not self.calm and odds > 0 and self.chance.random() < odds

    def _trouble(self, task: Task, _label: str) -> None:
        """Let happen what may happen to the machine at any step."""
        odds = self.odds
        if self.happens(odds.jump):
            jump = int(self.chance.choice(JUMPS) * 1e6)
            self._wall += jump
            self.count("clock jumps")
            if jump < 0:  # the next touch of a lane has an earlier time, and may take the place of one not yet written
                for where in (self, *self.hosts):
                    where.touched.clear()
        if self.happens(odds.stall):
            self.scheduler.now += self.chance.choice(STALLS)
            self.count("stalls")
        if self.happens(odds.disk_full):
            self.full_until = self.scheduler.now + 0.3
            self.count("full disks")
        alive = [host for host in self.hosts if not host.process.dead]
        if alive and self.happens(odds.kill):
            self.scheduler.kill(self.chance.choice(alive).process)
            self.count("kills")
        if alive and self.image is None and self.happens(odds.power):
            self._take_image()
            for host in alive:
                self.scheduler.kill(host.process)
            self.count("power losses")

    def _take_image(self) -> None:
        for operation in self.disk.operations:
            self.platter.apply(operation)
        self.disk.operations.clear()
        policy = self.chance.choice(POLICIES)
        self.image = self.platter.image(("end",), policy, self.chance.random() < 0.5, self.chance)

    def _signal(self, task: Task, label: str) -> None:
        """A signal for a thread that Python code runs in: SQLite's own calls end first."""
        if task.interruptible and not label.startswith("disk") and self.happens(self.odds.interrupt):
            self.count("interrupts")
            raise KeyboardInterrupt

    def io(self, what: str) -> None:
        """A call to the disk: others may go first, it may fail, and a killed process reaches it no more."""
        task = here()
        if task is None:
            return
        if task.process.dead or self.scheduler.over:
            raise io_error(what if what in CODES else "open")
        try:
            self.scheduler.pause(f"disk {what}")
        except Doomed:
            raise io_error(what) from None
        if self.happens(self.odds.io_error):
            self._fault(task)
            raise io_error(what)
        if what == "write" and self.scheduler.now < self.full_until and not self.calm:
            self._fault(task)
            raise full_error(what)

    def fault(self, host: Host, error: EngineError) -> None:
        """Accept an error that the disk or the delays explain; a store that refuses to go on is opened again."""
        if isinstance(error, LockedLogError):
            assert self.counts.get("stalls"), f"nothing was delayed, and yet: {error!r}"
            return
        assert host.faults or (self.counts.get("I/O errors") and isinstance(error, CorruptLogError)), repr(error)
        if not isinstance(error, DiskFullError) and self.chance.random() < 0.5:
            host.stopping = True

    def _fault(self, task: Task) -> None:
        self.count("I/O errors")
        host = self.host_of.get(task.process)
        if host is not None:
            host.faults += 1


class Shared(Disk):
    """The disk of the simulated machine."""

    def __init__(self, world: World) -> None:
        super().__init__(record=True)
        self.world = world

    def call(self, what: str) -> None:
        self.world.io(what)

    def xSleep(self, microseconds: int) -> int:  # noqa: N802 - SQLite's name
        self.world.scheduler.sleep(microseconds / 1e6)
        return microseconds

    def xRandomness(self, amount: int) -> bytes:  # noqa: N802
        return random.Random(amount).randbytes(amount)
