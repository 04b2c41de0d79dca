"""Functions run by the gateway's tests in other processes: `python -m tests.gateway.children <function> …`."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path

from engine import SessionStore
from engine.log.errors import ForkedLogError
from tests.gateway.support import source

ROOT = Path(__file__).parent.parent.parent


class Child:
    """A child process; says one JSON value a line, goes on at a line of input, and is killed at the end."""

    def __init__(self, function, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.gateway.children", function, *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )

    def said(self):
        line = self.process.stdout.readline()
        assert line, f"the child ended with status {self.process.wait()}"
        return json.loads(line)

    def tell(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def rest(self):
        """Return what the child had said when it was killed, whole lines only."""
        text = self.process.stdout.read()
        return [json.loads(line) for line in text.split("\n")[:-1]]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.kill()
        self.process.stdin.close()
        self.process.stdout.close()


def say(value):
    os.write(1, json.dumps(value).encode() + b"\n")


def ready():
    say("ready")
    sys.stdin.readline()


def route(folder, *names):
    """Route each name when told to; say where it leads."""
    with SessionStore(folder, busy_timeout=300) as store:
        ready()
        for name in names:
            say(store.get_or_create_session(source(name)).session_id)
        sys.stdin.readline()


def churn(folder, name):
    """Create, append, compress and reset for ever; say what was acknowledged."""
    store = SessionStore(folder, busy_timeout=300)
    number = 0
    while True:
        entry = store.get_or_create_session(source(name))
        store.append_to_transcript(entry.session_id, {"role": "user", "content": number, "message_id": f"m{number}"})
        say([entry.session_id, number])
        if number % 5 == 3:
            store.compress_session(entry.session_id, summary_messages=[{"role": "system", "content": "s"}], covers=1)
        elif number % 5 == 4:
            store.reset_session(entry.session_key)
        number += 1


def take_a_turn(folder, name):
    """Begin a turn and never end it."""
    store = SessionStore(folder, busy_timeout=300)
    entry = store.get_or_create_session(source(name))
    say(store.begin_turn(entry.session_key))
    sys.stdin.readline()


def fork_while_routing(folder):
    """Fork again and again while threads route; say how each child ended."""
    store = SessionStore(folder, synchronous="OFF")

    def route():
        for number in count():
            store.get_or_create_session(source(str(number % 8)))
            time.sleep(0.0005)

    for _ in range(2):
        threading.Thread(target=route, daemon=True).start()
    ends = [store.close, lambda: None, lambda: used_in_a_fork(store)]
    for number in range(15):
        time.sleep(0.02)
        child = os.fork()
        if child == 0:
            ends[number % 3]()
            sys.exit(0)
        say(os.waitpid(child, 0)[1])
    say("done")
    store.close()


def used_in_a_fork(store):
    for call in (store.list_sessions, lambda: store.get_or_create_session(source("0"))):
        with contextlib.suppress(ForkedLogError):
            call()
            os._exit(1)


def touch_and_leave(folder, name):
    """Route a lane twice and end without closing, long before a touch is written by itself."""
    store = SessionStore(folder)
    store.runner.touches._delay = 600
    created = store.get_or_create_session(source(name)).created_at
    time.sleep(0.001)
    say([created.isoformat(), store.get_or_create_session(source(name)).updated_at.isoformat()])


def sweep_and_die(folder, command, *arguments):
    """Run a command of many parts, and be killed while the third is about to begin."""
    asked = count(1)

    def busy(key):
        if next(asked) == 1200:
            os.kill(os.getpid(), signal.SIGKILL)
        return False

    later = datetime.now(UTC) + timedelta(days=100)
    store = SessionStore(folder, None, busy, clock=lambda: later)
    say(getattr(store, command)(*map(float, arguments)))


def hold_the_lock(folder):
    import apsw

    connection = apsw.Connection(str(Path(folder) / "sessions.db"))
    connection.execute("BEGIN IMMEDIATE")
    ready()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
