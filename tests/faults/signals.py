"""Children whose main thread is interrupted by signal handlers that use the store, or at chosen places by the same.

`python -m tests.faults.signals <function> <arguments…>`; a child that waits for itself says where, and ends badly.
"""

import faulthandler
import random
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Any

from engine import Platform, SessionCatalog, SessionSource, SessionStore
from engine.domain.errors import EngineError
from engine.domain.events import MessageAppended
from engine.log import NEXT_VERSION, Envelope
from engine.log.errors import ClosedLogError, NestedCommandError
from engine.log.library.recorders import ApswApplicationRecorder
from tests.faults.children import say

HANG_SECONDS = 120
_WHERE = (
    *("log/mutex.py", "log/tail.py", "log/writer.py", "sqlite/eventlog.py", "sqlite/reader.py", "sqlite/tables.py"),
    *("sqlite/watch.py", "engine/lane_cache.py", "engine/lines.py", "engine/renewals.py", "engine/store.py"),
    *("engine/threads.py", "engine/touches.py", "inline/transcripts.py", "views/runner.py"),
)


def source(name: str) -> SessionSource:
    return SessionSource(Platform.TELEGRAM, name, user_id="ada")


class Used:
    """A store, everything that is done with it, and what was said to be stored and what not."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.store = self.open()
        self.closed = False
        entry = self.store.get_or_create_session(source("first"))
        self.key, self.session_id = entry.session_key, entry.session_id
        self.acknowledged: list[str] = []
        self.refused: list[str] = []
        self.wrong: list[str] = []
        self.outcomes: Counter[str] = Counter()
        self.count = 0
        self.inside: SessionStore | None = None

    def open(self) -> SessionStore:
        return SessionStore(self.folder, synchronous="OFF", checkpoint_pages=4)

    # What is done, by the main thread and by the handlers that interrupt it

    def append(self) -> None:
        self.count += 1
        text = f"m{self.count}"
        try:
            self.store.append_to_transcript(self.session_id, {"role": "user", "content": text})
        except EngineError:
            self.refused.append(text)
            raise
        self.acknowledged.append(text)

    def log_append(self) -> None:
        self.count += 1
        text = f"m{self.count}"
        said = Envelope("session:bare", NEXT_VERSION, MessageAppended(message={"content": text}))
        try:
            self.store.log.append([said])
        except EngineError:
            self.refused.append(text)
            raise
        self.acknowledged.append(text)

    def route(self) -> None:
        assert self.store.get_or_create_session(source("first")).session_id == self.session_id

    def route_new(self) -> None:
        self.count += 1
        self.store.get_or_create_session(source(f"new-{self.count}"))

    def begin_turn(self) -> None:
        self.count += 1
        key = self.store.get_or_create_session(source(f"turn-{self.count}")).session_key
        assert self.store.end_turn(self.store.begin_turn(key))

    def turn(self) -> None:
        self.count += 1
        with self.store.turn(source(f"turn-{self.count}")) as turn:
            turn.append({"role": "user", "content": "in a turn"})

    def load(self) -> None:
        assert len(self.store.load_transcript(self.session_id)) >= 0

    def list(self) -> None:
        assert self.store.list_sessions(limit=20)
        assert self.store.lookup_by_session_id(self.session_id)

    def log_read(self) -> None:
        last = self.store.log.last_position
        assert list(self.store.log.events(last - 1))
        assert self.store.log.wait(last - 1, 0.001)
        self.store.log.wait(last, 0.001)

    def subscribe(self) -> None:
        with ApswApplicationRecorder(self.store.log, "text").subscribe(gt=0) as subscription:
            assert next(subscription).id == 1

    def views(self) -> None:
        self.store.search("m1")
        self.store.wait_for_views(None, 0.001)
        self.store.usage(("day",))

    def chats(self) -> None:
        SessionCatalog(self.store).all_sessions(limit=5)

    def sweep(self) -> None:
        self.store.runner.touches.flush()
        self.store.prune_old_entries(1000)

    def purge(self) -> None:
        self.store.purge()

    def close(self) -> None:
        self.inside = self.store
        self.store.close()
        # Closed from within its own `close`, it is closed when that is done; `reopen` looks.
        self.closed = True

    # How it went

    def interrupting(self, name: str) -> None:
        """Do something from a handler; an error it may not raise is kept."""
        store = self.store
        try:
            getattr(self, name)()
        except NestedCommandError:
            self.outcomes["nested"] += 1
            if name == "close" and store.log._unusable is not None:
                self.wrong.append("a close that was refused has closed something")
        except ClosedLogError as error:
            self.outcomes["closed"] += 1
            if not (self.closed or self.inside is store):
                self.wrong.append(f"{name}: {error!r}")
        except BaseException as error:  # noqa: BLE001 - told to the test
            self.wrong.append(f"{name}: {error!r}")
        else:
            self.outcomes["done"] += 1

    def interrupted(self, name: str) -> None:
        """Do something that a handler may interrupt; begin again with another store if that has closed this one."""
        try:
            getattr(self, name)()
        except ClosedLogError as error:
            if not self.closed:
                self.wrong.append(f"{name}, interrupted: {error!r}")
        except BaseException as error:  # noqa: BLE001 - told to the test
            if not self.closed:
                self.wrong.append(f"{name}, interrupted: {error!r}")
        if self.closed:
            self.reopen()

    def reopen(self) -> None:
        self.store.close()
        for each in threading.enumerate():
            if each.name.startswith("session-"):
                each.join(HANG_SECONDS)  # it is told to end, and some are not waited for
        try:
            self.store.log.append([])
        except ClosedLogError:
            pass
        else:
            self.wrong.append("a closed store takes commands")
        self.store, self.closed, self.inside = self.open(), False, None

    def end(self) -> None:
        """Close, and say what was wrong; every word that was acknowledged is there once, and none that was refused."""
        self.store.close()
        with SessionStore(self.folder, views=False) as store:
            ok = store.verify().ok
            messages = [each.event.message for each in store.log.events() if isinstance(each.event, MessageAppended)]
        stored = Counter(message.get("content") for message in messages)
        times = {text: stored[text] for text in self.acknowledged if stored[text] != 1}
        self.wrong += [f"{text} was acknowledged and stored {count} times" for text, count in times.items()]
        self.wrong += [f"{text} was refused and stored" for text in self.refused if stored[text]]
        say({"ok": ok, "wrong": self.wrong[:20], "outcomes": self.outcomes})


MAIN = (
    *("append", "log_append", "route", "route_new", "begin_turn", "turn", "load", "list", "log_read", "subscribe"),
    *("views", "chats", "sweep", "purge", "close"),
)


def at_random(folder: str, seed: str, rounds: str, *actions: str) -> None:
    """Let a timer's signal interrupt whatever the main thread does, while another thread appends."""
    chance = random.Random(seed)
    used = Used(folder)
    stop = threading.Event()

    def beside() -> None:
        while not stop.wait(0.001):
            try:
                used.store.append_to_transcript(used.session_id, {"role": "assistant", "content": "beside"})
            except EngineError:
                continue

    left = [int(rounds)]

    def handle(_number: int, _frame: FrameType | None) -> None:
        used.interrupting(chance.choice(actions))
        left[0] -= 1
        if left[0] > 0:
            signal.setitimer(signal.ITIMER_REAL, chance.uniform(0.0001, 0.004))

    threading.Thread(target=beside, daemon=True).start()
    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.001)
    while left[0] > 0:
        used.interrupted(chance.choice(MAIN))
    signal.setitimer(signal.ITIMER_REAL, 0)
    stop.set()
    used.end()


class CalledAt:
    """Calls a function before the n-th bytecode of the code that is chosen: where a handler could be, and more."""

    def __init__(self, number: int, chosen: Callable[[CodeType], bool], action: Callable[[], None]) -> None:
        self.left = number
        self._chosen = chosen
        self._action = action

    def __enter__(self) -> "CalledAt":
        sys.settrace(self._call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _call(self, frame: FrameType, _event: str, _argument: Any) -> Any:
        if not self._chosen(frame.f_code):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._opcode

    def _opcode(self, _frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "opcode":
            self.left -= 1
            if self.left == 0:
                self._action()
        return self._opcode


def everywhere(folder: str, step: str, action: str, *mains: str) -> None:
    """Interrupt each thing before every n-th bytecode of the code that has locks."""
    used = Used(folder)

    def chosen(code: CodeType) -> bool:
        return code.co_filename.endswith(_WHERE)

    for main in mains:
        number, done = 1 + used.count % int(step), False
        while not done:
            with CalledAt(number, chosen, lambda: used.interrupting(action)) as called:
                used.interrupted(main)
            done = called.left > 0
            number += int(step)
    used.end()


if __name__ == "__main__":
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    globals()[sys.argv[1]](*sys.argv[2:])
