"""Processes that archive and restore and are killed at each step: `python -m tests.faults.archivers FOLDER`.

Having all imported, it forks one for each step, and one after it that holds the log against what it was.
"""

import os
import signal
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from engine import Platform, SessionSource, SessionStore
from engine.log import archive, newfile
from engine.log.sqlite.eventlog import EventLog

NOW = datetime(2026, 7, 1, tzinfo=UTC)
SOURCE = SessionSource(Platform.TELEGRAM, "1")
MESSAGES = 50
archive.BLOCK_EVENTS = 20


def opened(folder: Path, now: datetime) -> SessionStore:
    return SessionStore(folder / "store", clock=lambda: now, views=False, synchronous="OFF")


def fill(folder: Path) -> None:
    with opened(folder, NOW) as store:
        session_id = store.get_or_create_session(SOURCE).session_id
        said = [{"role": "user", "content": f"words {n} " * 20, "message_id": f"m{n}"} for n in range(MESSAGES)]
        store.append_messages(session_id, said)
        store.end_session(session_id, "done")


def rows(store: SessionStore, upto: int) -> list[Any]:
    return store.log.query("SELECT position, state, hash FROM events WHERE position <= ? ORDER BY 1", (upto,))


def in_a_child(function: Callable[[], None]) -> int:
    """Run in a process of its own; return how it ended."""
    child = os.fork()
    if child == 0:
        try:
            function()
        except BaseException:  # noqa: BLE001 - told by how it ends
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed_at(step: int, function: Callable[[], None]) -> None:
    """Kill this process before the so-and-so-many-th step: a sync, a name given, a commit, or what comes after one."""
    left = step

    def counted(plain: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            tick()
            result = plain(*arguments, **options)
            tick()
            return result

        return call

    def tick() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    newfile.sync = counted(newfile.sync)
    Path.hardlink_to = counted(Path.hardlink_to)  # type: ignore[method-assign]
    EventLog.transact = counted(EventLog.transact)  # type: ignore[method-assign]
    function()


def move_out(folder: Path, step: int) -> None:
    with opened(folder, NOW + timedelta(days=2)) as store:
        killed_at(step, partial(store.archive, timedelta(days=1), folder / f"{step}.archive"))


def put_back(folder: Path, step: int) -> None:
    with opened(folder, NOW + timedelta(days=2)) as store:
        killed_at(step, partial(store.restore, folder / "whole.archive"))


def everything_is_there(folder: Path, before: list[Any], *, archives: bool) -> None:
    """Check that the chain verifies with what was left, and that what is archived comes back; then begin anew."""
    with opened(folder, NOW + timedelta(days=2)) as store:
        assert store.verify().ok
        if archives:
            for path in sorted(folder.glob("*.archive")):
                store.restore(path)
                path.unlink()
        else:
            store.restore(folder / "whole.archive")
        assert rows(store, len(before)) == before
        assert store.verify().archived == 0
        assert store.verify().ok
        for part in folder.glob(".*.part"):
            part.unlink()


def archive_whole(folder: Path) -> None:
    (folder / "whole.archive").unlink(missing_ok=True)
    with opened(folder, NOW + timedelta(days=2)) as store:
        assert store.archive(timedelta(days=1), folder / "whole.archive").messages == MESSAGES


def main(folder: Path) -> None:
    fill(folder)
    before: list[Any] = []

    def remember() -> None:
        with opened(folder, NOW) as store:
            before.extend(rows(store, store.log.last_position))

    remember()
    _open_no_more()
    for move, archives in ((move_out, True), (put_back, False)):
        step = 1
        while True:
            if not archives:
                assert in_a_child(partial(archive_whole, folder)) == 0
            ended = in_a_child(partial(move, folder, step))
            assert ended in (0, -signal.SIGKILL), ended
            assert in_a_child(partial(everything_is_there, folder, before, archives=archives)) == 0, (move, step)
            if ended == 0:
                break
            step += 1
        print(move.__name__, step - 1, flush=True)  # noqa: T201 - what the test reads


def _open_no_more() -> None:
    """See that nothing of the log is open here: a fork would inherit it."""
    assert not [name for name in Path("/proc/self/fd").iterdir() if "sessions.db" in str(name.resolve())]


if __name__ == "__main__":
    main(Path(sys.argv[1]))
