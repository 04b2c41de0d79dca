"""Functions that the fault tests run in other processes: `python -m tests.faults.children <function> <arguments…>`.

A child says on standard output what it did, one JSON value per line, and starts at a line on standard input
if it says "ready" first.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path
from typing import Any, Self

import apsw

from engine.domain.events import MessageAppended
from engine.log import EventLog
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.log.errors import ConflictError, ForkedLogError, LogError
from engine.log.library.recorders import ApswApplicationRecorder

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 300.0


def message(name: str, stream: str, version: int = NEXT_VERSION) -> Envelope:
    return Envelope(stream, version, MessageAppended(message={"role": "user", "content": name}), command=name)


class Child:
    """A child process of a test; killed if the test leaves it running."""

    def __init__(self, function: str, *arguments: object) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.children", function, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )
        self._guard = threading.Timer(PATIENCE, self._process.kill)
        self._guard.start()
        self.pid = self._process.pid

    def said(self) -> Any:
        """The next line the child says; waits for it."""
        line = self._process.stdout.readline()
        assert line, f"the child ended with status {self._process.wait()}"
        return json.loads(line)

    def tell(self) -> None:
        """Let the child go on."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def end(self, timeout: float = PATIENCE) -> list[Any]:
        """Wait for a good end; what the child said since the last time."""
        rest, _ = self._process.communicate(timeout=timeout)
        assert self._process.returncode == 0, f"status {self._process.returncode}: {rest}"
        return [json.loads(line) for line in rest.splitlines()]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._guard.cancel()
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()


def say(value: Any) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")


def ready() -> None:
    say("ready")
    sys.stdin.readline()


def race(path: str, me: str, count: str, shared: str, synchronous: str) -> None:
    """Half of the appends to an own stream, half to shared ones at the version last seen, until each is won."""
    won: list[tuple[str, int]] = []
    conflicts = 0
    with EventLog(path, synchronous=synchronous, busy_timeout=PATIENCE) as log:
        ready()
        for number in range(int(count)):
            stream = f"session:{me}" if number % 2 else f"session:shared-{number // 2 % int(shared)}"
            while True:
                version = (log.version(stream) or 0) + 1
                try:
                    log.append([message(f"{me}-{number}", stream, version)])
                except ConflictError:
                    conflicts += 1
                else:
                    won.append((stream, version))
                    break
    say({"won": won, "conflicts": conflicts})


def write(path: str, me: str, count: str, synchronous: str, pages: str = "1000", pause: str = "0") -> None:
    """Append to an own stream."""
    with EventLog(path, synchronous=synchronous, checkpoint_pages=int(pages), busy_timeout=PATIENCE) as log:
        ready()
        for number in range(int(count)):
            log.append([message(f"{me}-{number}", f"session:{me}")])
            if float(pause):
                time.sleep(float(pause))


def follow(path: str, count: str) -> None:
    """Follow the log of another process, read-only, by `wait` and `events`; say the positions seen."""
    seen: list[tuple[int, str]] = []
    with EventLog(path, read_only=True) as log:
        ready()
        while len(seen) < int(count) and log.wait(len(seen), timeout=PATIENCE):
            seen += [(envelope.position, envelope.command) for envelope in log.events(len(seen))]
        ok = log.verify().ok
    say({"seen": seen, "ok": ok})


def subscribe(path: str, count: str) -> None:
    """Say each event of another process as the library's subscription gives it."""
    with EventLog(path) as log, ApswApplicationRecorder(log, "text").subscribe() as subscription:
        ready()
        for _, notification in zip(range(int(count)), subscription, strict=False):
            say(notification.id)


def leave_a_subscription_running(path: str) -> None:
    """End the main thread while a thread that is not a daemon iterates a subscription."""
    log = EventLog(path)
    log.append([message("one", "session:s")])
    subscription = ApswApplicationRecorder(log, "text").subscribe()
    seen = threading.Event()

    def iterate() -> None:
        for _ in subscription:
            seen.set()

    threading.Thread(target=iterate).start()
    seen.wait(PATIENCE)
    say("main thread ends")


def leave_the_log_open(path: str, busy: str) -> None:
    """End without closing the log; with `busy`, while daemon threads are appending."""
    log = EventLog(path)

    def append(worker: int) -> None:
        number = 0
        while True:
            name = f"w{worker}-{number}"
            log.append([message(name, f"session:{worker}")])
            say(name)
            number += 1

    if busy == "busy":
        for worker in range(3):
            threading.Thread(target=append, args=(worker,), daemon=True).start()
        time.sleep(0.3)
    for number in range(100):
        log.append([message(f"m-{number}", "session:main")])
        say(f"m-{number}")


def fork(path: str) -> None:
    """Fork while threads are appending; the child tries everything and exits, the parent goes on."""
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    log = EventLog(path)
    stop = threading.Event()
    counts = [0, 0, 0]

    def append(worker: int) -> None:
        while not stop.is_set():
            log.append([message(f"w{worker}-{counts[worker]}", f"session:{worker}")])
            counts[worker] += 1
            log.version(f"session:{worker}")

    threads = [threading.Thread(target=append, args=(worker,)) for worker in range(3)]
    for thread in threads:
        thread.start()
    for number in range(10):
        time.sleep(0.02)
        pid = os.fork()
        if not pid:
            _in_the_fork(log, number)
        _, status = os.waitpid(pid, 0)
        say({"status": os.waitstatus_to_exitcode(status)})
    stop.set()
    for thread in threads:
        thread.join()
    log.append([message("after", "session:after")])
    say({"counts": counts, "verified": log.verify().ok, "events": log.last_position})
    log.close()


def fork_while_a_thread_waits(path: str) -> None:
    """Fork while another thread waits for events; nobody of the child must wait for it, nor tell it."""
    warnings.filterwarnings("ignore", category=DeprecationWarning)
    with EventLog(path) as log:
        held, stop = threading.Event(), threading.Event()

        def hold() -> None:
            log.wait(0, stopped=lambda: held.set() or stop.is_set())

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        pid = os.fork()
        if not pid:
            signal.alarm(60)
            log.wake()
            os._exit(0)
        say({"status": os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])})
        stop.set()
        thread.join()


async def _append_later(log: EventLog) -> None:
    await log.append_async([message("fork", "session:fork")])


def _in_the_fork(log: EventLog, number: int) -> None:
    """Use the parent's log in every way; leave by exit or at once."""
    uses = [
        lambda: log.append([message("fork", "session:fork")]),
        lambda: log.transact(lambda transaction: transaction.position),
        lambda: list(log.events()),
        lambda: log.version("session:0"),
        lambda: log.last_position,
        lambda: log.verify(),
        lambda: log.erase([1], actor="a", reason="b"),
        lambda: log.health(),
        lambda: EventLog(log.path),
        lambda: EventLog(log.path, read_only=True),
        lambda: asyncio.run(_append_later(log)),
    ]
    status = 1
    try:
        refused = 0
        for use in uses:
            try:
                use()
            except ForkedLogError:
                refused += 1
        log.close()
        status = 0 if refused == len(uses) else 10 + refused
    except BaseException as error:  # noqa: BLE001 - said to the test
        say({"fork": repr(error)})
        status = 2
    if number % 2:
        os._exit(status)
    # The ordinary end of a process: atexit handlers run, the inherited log must stay untouched.
    sys.exit(status)


def hold_the_lock(path: str) -> None:
    """Hold the write lock until told to release it."""
    connection = apsw.Connection(path)
    connection.execute("BEGIN IMMEDIATE")
    ready()
    connection.execute("ROLLBACK")
    connection.close()


def create(*paths: str) -> None:
    """Create each log together with another process; the signal is a file that appears."""
    ready()
    for path in paths:
        gate = Path(f"{path}.gate")
        mine = Path(f"{path}.{os.getpid()}.here")
        mine.touch()
        while not gate.exists():
            pass
        with EventLog(path) as log:
            log.append([message(f"{os.getpid()}", f"session:{os.getpid()}")])
    say("done")


def append_until_refused(path: str, report: str) -> None:
    """Append until an append is refused; write down what was acknowledged, and what was although a file was gone."""
    files = [f"{path}{suffix}" for suffix in ("", "-wal", "-shm")]
    log = EventLog(path)
    log.append([message("first", "session:a")])
    here = [_inode(file) for file in files]
    acknowledged: list[str] = []
    blind: list[str] = []
    say("open")
    number, refusal = 0, None
    while refusal is None:
        name = f"m-{number}"
        gone = [_inode(file) for file in files] != here
        try:
            log.append([message(name, "session:a")])
            acknowledged.append(name)
            if gone:
                blind.append(name)
        except LogError as error:
            refusal = {"code": error.code, "error": str(error)}
        number += 1
    Path(report).write_text(json.dumps({**refusal, "acknowledged": acknowledged, "blind": blind}))
    say("refused")
    sys.stdin.readline()
    log.close()


def _inode(file: str) -> int | None:
    try:
        return os.stat(file).st_ino  # noqa: PTH116 - no Path made in the loop
    except FileNotFoundError:
        return None


def open_and_append(path: str, count: str) -> None:
    """Append to a log of another process; say how far it is then, or what was said against it."""
    try:
        with EventLog(path) as log:
            for number in range(int(count)):
                log.append([message(f"other-{number}", "session:other")])
            say(["done", log.last_position])
            sys.stdin.readline()
    except LogError as error:
        say([error.code, str(error)])


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
