"""Processes that run the runner of the views: `python -m tests.faults.view_runners` forks them, having all imported.

A job is a line of JSON, `[function, arguments…]`; several in a line run at once. The answer is how each ended.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from engine import Platform, SessionCatalog, SessionSource, SessionStore
from engine.log import EventLog
from engine.log.sqlite.tables import SQLiteTables, SQLiteTableTransaction
from projections.views import catchup
from projections.views.catalogue import Catalogue
from projections.views.runner import ViewRunner
from projections.views.search import Search
from projections.views.usage import Usage
from tests.views.support import Counts

ROOT = Path(__file__).parent.parent.parent
BATCH = 20
"""So many batches that a kill meets many ends and beginnings."""
LAST_WORDS = "the last words"


class Runners:
    """The process that the others are forked from."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.view_runners"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )

    def run(self, *jobs: list[object]) -> list[int]:
        """Run jobs at once, each in a process of its own; return how each ended."""
        self._process.stdin.write(json.dumps(jobs) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        assert line, "the process that the runners are forked from is gone"
        return json.loads(line)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.stdout.close()
        self._process.wait(300)


def kinds(log: EventLog, tables: SQLiteTables) -> list[Any]:
    """The views of a store, and one that counts how often each event was applied."""
    return [Counts(), Search(tables.text), Usage(lambda: None), Catalogue(log.reader)]


def catch_up(folder: str, kill_at: int, rebuild: bool) -> None:
    """Bring all views to the end of the log; be killed at a call to the tables, counted over all of them."""
    _count_calls(kill_at)
    with EventLog(Path(folder) / "sessions.db", synchronous="OFF") as log:
        tables = SQLiteTables(Path(folder) / "views.db")
        runner = ViewRunner(log, tables, kinds(log, tables))
        runner.step()
        if rebuild:
            runner.rebuild()
        while runner.step():
            pass
        runner.stop()


def _count_calls(kill_at: int) -> None:
    """Kill this process before the so-and-so-many-th call: a statement, a commit, or the first thing after one."""
    left = kill_at

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return function(*arguments)

        return call

    for name in ("query", "execute", "executemany", "define"):
        setattr(SQLiteTableTransaction, name, counted(getattr(SQLiteTableTransaction, name)))
    commit = counted(lambda: None)

    def transact(tables: SQLiteTables, command: Callable[[Any], Any]) -> Any:
        def told(transaction: Any) -> Any:
            done = command(transaction)
            commit()
            return done

        done = plain(tables, told)
        commit()
        return done

    plain = SQLiteTables.transact
    SQLiteTables.transact = transact  # type: ignore[method-assign]


def follow(folder: str) -> None:
    """Follow the log with the thread of a runner until the last words were seen."""
    with EventLog(Path(folder) / "sessions.db", synchronous="OFF", busy_timeout=300) as log:
        tables = SQLiteTables(Path(folder) / "views.db", busy_timeout=300)
        runner = ViewRunner(log, tables, kinds(log, tables))
        runner.start()
        position, heard = 0, False
        while not heard:
            for each in log.events(after=position):
                position, heard = each.position, heard or LAST_WORDS in str(each.event)
            log.wait(position, 0.2)
        assert runner.wait(log.last_position, 300)
        runner.stop()


def write(folder: str, count: int) -> None:
    """Write while the others follow: messages, undos, forks and erasures."""
    with SessionStore(folder, synchronous="OFF", views=False, busy_timeout=300) as store:
        history(store, count)
        session = store.get_or_create_session(SessionSource(Platform.TELEGRAM, "0", user_id="u0")).session_id
        store.append_to_transcript(session, {"role": "user", "content": LAST_WORDS})


def history(store: SessionStore, count: int) -> None:
    """Some of everything that a view has to follow."""
    for number in range(count):
        chat = str(number % 7)
        entry = store.get_or_create_session(SessionSource(Platform.TELEGRAM, chat, user_id=f"u{chat}"))
        texts = f"question {number}", f"answer {number}"
        roles = "user", "assistant"
        positions = store.append_messages(
            entry.session_id, [{"role": role, "content": text} for role, text in zip(roles, texts, strict=True)]
        )
        store.update_session(entry.session_key, input_tokens=number, cost_usd=0.1)
        match number % 11:
            case 1:
                web_chat(SessionCatalog(store), number)
            case 3:
                store.rewind_session(entry.session_id)
            case 5:
                store.fork_session(entry.session_id)
            case 7:
                store.log.erase(positions[:1], actor="operator", reason="asked to")
            case 9:
                store.compress_session(entry.session_id, None, [{"role": "system", "content": "so far"}], covers=1)


def web_chat(catalog: SessionCatalog, number: int) -> None:
    """A web chat with some of everything that stands in its row, in a chain and with branches."""
    session = catalog.new_session(model="large-2").session_id
    said = [{"role": role, "content": f"chat {number}", "timestamp": number} for role in ("user", "assistant")]
    catalog.start_turn(session, f"s-{number}", "words")
    catalog.finish_turn(session, f"s-{number}", said)
    branch = catalog.branch_session(session).session_id
    catalog.set_attributes(catalog.duplicate_session(session).session_id, parent_session_id=branch)
    catalog.store.end_session(branch, "cli_close")
    catalog.undo(session)
    catalog.rename_session(session, f"Chat {number}")
    catalog.rotate_session(session, f"chat_{number}_{session}")
    if number % 2:
        catalog.delete_session(session)


def _forked(job: list[Any]) -> int:
    name, *arguments = job
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        globals()[name](*arguments)
        status = 0
    finally:
        os._exit(status)


def main() -> None:
    catchup.BATCH = BATCH
    for line in sys.stdin:
        processes = [_forked(job) for job in json.loads(line)]
        statuses = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
        sys.stdout.write(json.dumps(statuses) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
