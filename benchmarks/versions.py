"""Holds this checkout against another one of the same project: `python -m benchmarks.versions OTHER [ROUNDS [WORDS]]`.

OTHER is a folder with that revision and a `.venv` of its own, made there by `make .venv/.ready`. Each side is a
process that runs the same operations through the public API; their rounds alternate, and each pair of neighbours gives
one ratio of wall time and one of CPU time, which a busy machine disturbs less. Reported are medians, and the ratio of
the CPU times of each side's quickest round, disturbed least. With WORDS, only operations with them in their names run.
"""

import asyncio
import gc
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from inspect import signature
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

LONG = 1_300
TASKS = 64
_USAGE = {"input_tokens": 1200, "output_tokens": 80, "last_prompt_tokens": 900}

Operation = tuple[int, Callable[[], Any]]
"""How many operations one call does, and the call."""


def operations(folder: Path) -> dict[str, Operation]:
    """Return what is compared; it uses nothing that one of two versions does not have."""
    from engine import AsyncSessionStore, Platform, SessionSource, SessionStore

    def source(lane: int) -> Any:
        chat, user = str(100_000 + lane), str(500_000 + lane)
        return SessionSource(
            platform=Platform.TELEGRAM, chat_id=chat, chat_name=f"Chat {lane}", user_id=user, user_name=f"User {lane}"
        )

    def message(number: int) -> dict[str, str]:
        words = "The quick brown fox jumps over the lazy dog. " * 4
        return {"role": "assistant" if number % 2 else "user", "content": f"message {number} {words}"}

    def many(times: int, call: Callable[[], object]) -> Operation:
        def calls() -> None:
            for _ in range(times):
                call()

        return times, calls

    # The views of later versions follow on a thread of their own, and have benchmarks of their own.
    options = {"views": False} if "views" in signature(SessionStore).parameters else {}
    open_store = partial(SessionStore, folder / "store", **options)
    store, numbers, lanes = open_store(), count(), count(1_000)
    entries = [store.get_or_create_session(source(lane)) for lane in range(TASKS)]
    key, session = entries[0].session_key, entries[0].session_id
    long = store.get_or_create_session(source(500)).session_id
    for number in range(LONG):
        store.append_to_transcript(long, message(number))
    others: list[Any] = []
    conversing = AsyncSessionStore(store)

    async def converse(each: int) -> None:
        async def talk(session_id: str) -> None:
            for number in range(each):
                await conversing.append_to_transcript(session_id, message(number))

        await asyncio.gather(*(talk(entry.session_id) for entry in entries))

    def append_with_id() -> None:
        number = next(numbers)
        store.append_to_transcript(session, {**message(number), "message_id": f"tg-{number}"})

    def turn() -> None:
        store.end_turn(store.begin_turn(key))

    def reopen() -> None:
        while others:
            others.pop().close()
        others.append(open_store())
        others[0].get_session(long)

    def load_cold() -> None:
        reopen()
        started = time.perf_counter(), time.process_time()
        assert len(others[0].load_transcript(long)) == LONG
        spent.append((time.perf_counter() - started[0], time.process_time() - started[1]))

    def undo() -> None:
        store.rewind_session(entries[1].session_id)
        store.restore_rewound(entries[1].session_id)

    for number in range(20):
        store.append_to_transcript(entries[1].session_id, message(number))
    return {
        "route an existing lane": many(3_000, lambda: store.get_or_create_session(source(7))),
        "create a session": many(100, lambda: store.get_or_create_session(source(next(lanes)))),
        "append a message": many(150, lambda: store.append_to_transcript(session, message(next(numbers)))),
        "append with a platform id": many(150, append_with_id),
        "append, 64 tasks": (TASKS * 20, lambda: asyncio.run(converse(20))),
        "append 50 messages at once": many(20, lambda: store.append_messages(session, list(map(message, range(50))))),
        "begin and end a turn": many(75, turn),
        "update_session with tokens": many(100, lambda: store.update_session(key, **_USAGE)),
        "reset a lane": many(50, partial(store.reset_session, entries[2].session_key)),
        "undo and restore": many(50, undo),
        "fork a session": many(50, partial(store.fork_session, entries[1].session_id)),
        "load 1,300 messages, first time": (1, load_cold),
        "load 1,300 messages, again": many(10, lambda: store.load_transcript(long)),
        "open, and close": (1, reopen),
        "read 20,000 events": (20_000, lambda: list(zip(range(20_000), store.log.events(), strict=False))),
    }


spent: list[tuple[float, float]] = []
"""What an operation measured itself, because it had to prepare something first."""


def serve() -> None:
    """Be one side: run the operations that are asked for by name, and print the seconds of each."""
    sys.path.insert(0, str(Path.cwd()))
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        found = operations(Path(folder))
        print(json.dumps(list(found)), flush=True)
        for line in sys.stdin:
            times, call = found[json.loads(line)]
            gc.collect()
            started, worked = time.perf_counter(), time.process_time()
            call()
            wall, cpu = spent.pop() if spent else (time.perf_counter() - started, time.process_time() - worked)
            print(json.dumps([wall / times, cpu / times]), flush=True)


class Side:
    """The process of one checkout."""

    def __init__(self, checkout: Path) -> None:
        command = [str(checkout / ".venv/bin/python"), str(Path(__file__).absolute()), "serve"]
        self._process = subprocess.Popen(
            command, cwd=checkout, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.names: list[str] = self._read()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        return json.loads(self._process.stdout.readline())

    def measure(self, name: str) -> tuple[float, float]:
        assert self._process.stdin is not None
        print(json.dumps(name), file=self._process.stdin, flush=True)
        wall, cpu = self._read()
        return wall, cpu

    def close(self) -> None:
        self._process.communicate()


def main(other: str, rounds: int = 15, words: str = "") -> None:
    before, after = Side(Path(other)), Side(Path(__file__).parent.parent)
    print("| operation | before | after | wall ratio | CPU ratio | CPU, quickest |")
    print("| --- | --- | --- | --- | --- | --- |")
    for name in [each for each in after.names if words in each]:
        pairs = [(before.measure(name), after.measure(name)) for _ in range(rounds + 1)][1:]
        wall, cpu = (median(new[which] / old[which] for old, new in pairs) for which in (0, 1))
        shown = [f"{median(pair[side][0] for pair in pairs) * 1e6:,.1f} µs" for side in (0, 1)]
        quickest = min(new[1] for _, new in pairs) / min(old[1] for old, _ in pairs)
        print(f"| {name} | {shown[0]} | {shown[1]} | {wall:.2f} | {cpu:.2f} | {quickest:.2f} |", flush=True)
    before.close()
    after.close()


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve()
    else:
        main(sys.argv[1], *map(int, sys.argv[2:3]), *sys.argv[3:])
