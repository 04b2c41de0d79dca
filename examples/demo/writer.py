"""Kill a writer of the log in mid-flight and hold the log against what it had acknowledged.

A child process appends at full speed from threads and an event loop and reports each acknowledgement
through a pipe. It is killed with SIGKILL; the log is opened again and compared with the reports.
"""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

from engine.domain.events import MessageAppended
from engine.log import EventLog
from engine.log.envelope import NEXT_VERSION, Envelope
from examples.demo.report import show

ROOT = Path(__file__).parent.parent.parent
SECONDS = 1.0
THREADS = 3
TASKS = 16


def command(name: str) -> list[Envelope]:
    """The events of a command, computed from its name alone: `<worker>.<number>.<events>`.

    Both sides compute them, so that the parent knows what an acknowledged command must have stored.
    """
    worker, number, size = name.split(".")
    return [
        Envelope(
            f"session:{worker}" if part == 0 else f"session:shared-{(int(number) + part) % 5}",
            NEXT_VERSION,
            MessageAppended(message={"role": "user", "content": f"{name} part {part} {'x' * (int(number) % 97)}"}),
            actor=worker,
            command=name,
        )
        for part in range(int(size))
    ]


def events_of(name: str) -> int:
    return int(name.rsplit(".", 1)[1])


def append_until_killed(path: str, run: str, pipe: int, threads: int, tasks: int) -> None:
    """The child: every third command has three events on up to three streams, the others one event."""
    log = EventLog(path)

    def name(worker: str, number: int) -> str:
        return f"{worker}.{number}.{3 if number % 3 == 0 else 1}"

    def acknowledge(command_name: str, positions: list[int]) -> None:
        os.write(pipe, f"{command_name} {','.join(map(str, positions))}\n".encode())

    def work(worker: str) -> None:
        number = 0
        while True:
            acknowledge(this := name(worker, number), log.append(command(this)))
            number += 1

    async def work_async(worker: str) -> None:
        number = 0
        while True:
            acknowledge(this := name(worker, number), await log.append_async(command(this)))
            number += 1

    async def work_together() -> None:
        await asyncio.gather(*(work_async(f"{run}task{n}") for n in range(tasks)))

    for n in range(threads):
        threading.Thread(target=work, args=(f"{run}thread{n}",), daemon=True).start()
    asyncio.run(work_together())


class Killed:
    """A child that appended and was killed, and what it had acknowledged by then."""

    def __init__(self, path: Path, run: str, seconds: float, threads: int = THREADS, tasks: int = TASKS) -> None:
        read, write = os.pipe()
        self.acknowledged: dict[str, list[int]] = {}
        arguments = [str(path), run, str(write), str(threads), str(tasks)]
        child = subprocess.Popen(
            [sys.executable, "-m", "examples.demo.writer", *arguments],
            pass_fds=[write],
            cwd=ROOT,
        )
        os.close(write)
        with os.fdopen(read, "rb") as pipe:
            patience = threading.Timer(30, child.kill)
            patience.start()
            received = pipe.read1(65536)
            patience.cancel()
            started = time.monotonic()
            execution = threading.Timer(seconds, child.kill)
            execution.start()
            received += pipe.read()
            self.seconds = time.monotonic() - started
        self.status = child.wait()
        execution.cancel()
        for line in received.decode().splitlines(keepends=True):
            if line.endswith("\n"):
                name, positions = line.split()
                self.acknowledged[name] = [int(position) for position in positions.split(",")]


class Findings:
    """The log held against the acknowledgements."""

    def __init__(self, log: EventLog, acknowledged: dict[str, list[int]], after: int = 0) -> None:
        found: dict[str, list[Envelope]] = {}
        for envelope in log.events(after):
            found.setdefault(envelope.command, []).append(envelope)
        self.events = sum(map(len, found.values()))
        self.acknowledged_events = sum(map(events_of, acknowledged))
        self.missing = [name for name in acknowledged if name not in found]
        self.in_flight = [name for name in found if name not in acknowledged]
        self.partial = [name for name, envelopes in found.items() if len(envelopes) != events_of(name)]
        self.changed = [name for name, envelopes in found.items() if not self._is_same(name, envelopes, acknowledged)]

    @staticmethod
    def _is_same(name: str, found: list[Envelope], acknowledged: dict[str, list[int]]) -> bool:
        positions = [envelope.position for envelope in found]
        wanted = [(e.stream, e.event, e.actor, e.command) for e in command(name)]
        return (
            [(e.stream, e.event, e.actor, e.command) for e in found] == wanted
            and positions == list(range(positions[0], positions[0] + len(positions)))
            and acknowledged.get(name, positions) == positions
        )

    @property
    def ok(self) -> bool:
        return not (self.missing or self.partial or self.changed)


def gaps(log: EventLog) -> list[str]:
    """Streams whose versions are not 1, 2, 3 …"""
    sizes: Counter[str] = Counter()
    wrong = set()
    for envelope in log.events():
        sizes[envelope.stream] += 1
        if envelope.version != sizes[envelope.stream]:
            wrong.add(envelope.stream)
    return sorted(wrong)


def kill_a_writer() -> bool:
    """Show it; whether nothing is missing."""
    print(f"1. A child appends with {THREADS} threads and {TASKS} asyncio tasks at synchronous=FULL, ", end="")
    print(f"and is killed after {SECONDS:g} s.\n", flush=True)
    with tempfile.TemporaryDirectory(prefix="session-engine-demo-") as folder:
        path = Path(folder) / "log.db"
        killed = Killed(path, "", SECONDS)
        if killed.status != -signal.SIGKILL:
            print(f"the child ended by itself with status {killed.status}: there was nothing to show")
            return False
        started = time.perf_counter()
        with EventLog(path) as log:
            head = log.last_position
            reopened = time.perf_counter() - started
            findings = Findings(log, killed.acknowledged)
            verification = log.verify()
            broken = gaps(log)
    in_flight = sum(map(events_of, findings.in_flight))
    show("acknowledged events", f"{findings.acknowledged_events:,}", f"{len(killed.acknowledged):,} commands")
    show("events in the log", f"{head:,}")
    show("missing acknowledged commands", len(findings.missing))
    show("changed acknowledged commands", len(findings.changed))
    show("partial commands", len(findings.partial))
    show("unacknowledged but present", in_flight, "in flight at the kill: stored, answer not read")
    show("streams with gaps", len(broken))
    show("acknowledged events per second", f"{findings.acknowledged_events / killed.seconds:,.0f}")
    show("time to reopen", f"{reopened * 1000:.1f} ms")
    show("hash chain", "verified" if verification.ok else "BROKEN", verification.problem or "")
    return findings.ok and verification.ok and not broken and verification.events == head


if __name__ == "__main__":
    append_until_killed(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]))
