"""On a terminal: the list to choose from, the bar, and questions (R4, R6, R7)."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from engine import EventLog
from replay.cli.picker import Picker
from replay.cli.progress import Bar
from tests.replay.cli.support import ADA, BOB
from tests.replay.cli.test_process import COMMAND, ENVIRONMENT, ROOT

NAMES = ["agent:main:telegram:dm:4711", "agent:main:slack:dm:C01", "agent:main:slack:dm:C02"]


class Terminal:
    """A terminal with the command on it."""

    def __init__(self, descriptor: int, process: "subprocess.Popen[bytes]") -> None:
        self._descriptor = descriptor
        self.process = process
        self.seen = ""

    def type(self, keys: str) -> None:
        os.write(self._descriptor, keys.encode())

    @property
    def plain(self) -> str:
        """Everything that was seen, without colours."""
        return re.sub(r"\x1b\[[0-9;]*m", "", self.seen)

    def wait_for(self, text: str, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < deadline, f"{text!r} never came:\n{self.seen}"
            assert self._look(0.1) or text in self.seen, f"{text!r} never came:\n{self.seen}"

    def end(self, seconds: float = 300) -> int:
        """Wait for the command to end, reading what it prints until then."""
        deadline = time.monotonic() + seconds
        while self._look(0.1) and self.process.poll() is None:
            assert time.monotonic() < deadline, f"it does not end:\n{self.seen}"
        while self._look(0) and select.select([self._descriptor], [], [], 0)[0]:
            pass
        return self.process.wait(300)

    def _look(self, seconds: float) -> bool:
        """Read what is there; return False when the terminal was closed."""
        if not select.select([self._descriptor], [], [], seconds)[0]:
            return True
        try:
            self.seen += os.read(self._descriptor, 65536).decode("utf-8", "replace")
        except OSError:
            return False
        return True


@contextmanager
def terminal(store: Path, *words: str, columns: int = 80) -> Iterator[Terminal]:
    """Run the command on a terminal of its own."""
    ours, theirs = pty.openpty()
    environment = {**ENVIRONMENT, "TERM": "xterm", "COLUMNS": str(columns), "LINES": "30"}
    command = [*COMMAND, "--store", str(store), *words]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=ROOT, env=environment, start_new_session=True
    )
    os.close(theirs)
    try:
        yield Terminal(ours, process)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def test_a_lane_is_chosen_by_typing_and_enter(lived: Path) -> None:
    """R4: type to filter, arrows, and a preview."""
    with terminal(lived, "show") as screen:
        screen.wait_for("2 of 2")
        screen.type("4711")
        screen.wait_for("1 of 2")
        screen.type("\r")
        screen.wait_for("Late order")
        assert screen.end() == 0
    assert "\x1b]0;title" not in screen.seen


def test_a_choice_is_left_with_escape(lived: Path) -> None:
    """R4, R5."""
    with terminal(lived, "why") as screen:
        screen.wait_for("2 of 2")
        screen.type("\x1b")
        assert screen.end() == 130


def test_a_moment_is_chosen_from_the_newest_decisions(lived: Path) -> None:
    """R4: `at` offers them."""
    with terminal(lived, "at") as screen:
        screen.wait_for("lane.reset")
        screen.type("lane.reset telegram\r")
        screen.wait_for("as of @")
        screen.wait_for(ADA)
        assert screen.end() == 0


def test_a_narrow_terminal_shows_records(lived: Path) -> None:
    """R2: a terminal of 40 columns."""
    with terminal(lived, "list", columns=40) as screen:
        screen.wait_for("times are of UTC")
        assert screen.end() == 0
    plain = re.sub(r"\x1b\[[0-9;]*m", "", screen.seen)
    assert all(len(line) <= 40 for line in plain.splitlines())
    assert "lane " in plain
    assert BOB in re.sub(r"\s", "", plain)
    assert ADA in re.sub(r"\s", "", plain)


def test_a_step_goes_on_with_the_arrow_keys_and_ends_where_one_stands(lived: Path) -> None:
    """R15: on a terminal; the answer is where it was left."""
    with terminal(lived, "at", "@4", "--step", columns=120) as screen:
        screen.wait_for("at @4 of @")
        screen.type("\x1b[C")
        screen.wait_for("at @5 of @")
        screen.type("\x1b[C")
        screen.wait_for("at @6 of @")
        screen.type("\x1b[D\x1b[D\x1b[D")
        screen.wait_for("at @3 of @")
        screen.type("\r")
        assert screen.end() == 0
    assert "← @3  2026-07-01 14:25:30  lane.routed" in screen.plain
    assert "\x1b]0;title" not in screen.seen


def test_a_question_is_asked_before_something_is_erased(own: Path) -> None:
    """R6: and no is an answer."""
    with terminal(own, "erase", "--user", "42", "--reason", "asked to") as screen:
        screen.wait_for("It cannot be undone")
        screen.type("n\n")
        assert screen.end() == 1


def test_a_question_that_is_left_is_answered_with_no(own: Path) -> None:
    """R5, R6: Ctrl-D here, and Ctrl-C is the same to Click."""
    with terminal(own, "erase", "--user", "42", "--reason", "asked to") as screen:
        screen.wait_for("It cannot be undone")
        screen.type("\x04")
        assert screen.end(30) == 130
    assert "nothing was done" in screen.seen
    with EventLog(own / "sessions.db", read_only=True) as log:
        assert [each.actor for each in log.events(topics=["log.erased"])] == ["ada"]


def test_a_command_on_a_terminal_ends_with_ctrl_c(lived: Path) -> None:
    """R7."""
    with terminal(lived, "events", "--follow") as screen:
        screen.wait_for("store.closed")
        os.killpg(screen.process.pid, signal.SIGINT)
        assert screen.end() == 130
    assert "Traceback" not in screen.seen


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        (["\r"], NAMES[0]),
        (["\x1b[B", "\r"], NAMES[1]),
        (["\x1b[B", "\x1b[B", "\x1b[B", "\x1b[A", "\r"], NAMES[1]),
        ([*"slack", "\x1b[B", "\r"], NAMES[2]),
        ([*"c02 Slack", "\r"], NAMES[2]),
        ([*"x", "\x7f", "\r"], NAMES[0]),
        ([*"nothing", "\r", "\x1b[B"], None),
    ],
)
def test_keys_choose(keys: list[str], chosen: str | None) -> None:
    """R4."""
    picker = Picker(NAMES)
    found = None
    for key in keys:
        found = picker.press(key)
    assert found == chosen


@pytest.mark.parametrize("key", ["\x1b", "\x03", "\x04"])
def test_keys_leave(key: str) -> None:
    """R4."""
    with pytest.raises(KeyboardInterrupt):
        Picker(NAMES).press(key)


class Stderr:
    """A standard error that is a terminal, or not."""

    def __init__(self, terminal: bool) -> None:
        self._terminal = terminal
        self.written = ""

    def isatty(self) -> bool:
        return self._terminal

    def write(self, text: str) -> int:
        self.written += text
        return len(text)

    def flush(self) -> None:
        """Nothing waits."""


def shown(stderr: Stderr, monkeypatch: pytest.MonkeyPatch, wait: Callable[[], object]) -> str:
    monkeypatch.setattr(sys, "stderr", stderr)
    bar = Bar("verify", after=0.01)
    bar.start()
    bar.tell(30, 60)
    wait()
    bar.stop()
    return stderr.written


def test_a_bar_comes_after_a_while_with_rate_and_time_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    """R7."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    stderr = Stderr(True)

    def seen() -> None:
        deadline = time.monotonic() + 30
        while "30/60" not in stderr.written and time.monotonic() < deadline:
            time.sleep(0.01)

    assert "30/60" in shown(stderr, monkeypatch, seen)


def test_nothing_is_shown_in_a_pipe_or_of_what_is_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """R7: on a terminal only."""
    monkeypatch.setenv("TERM", "xterm")
    assert shown(Stderr(False), monkeypatch, lambda: time.sleep(0.05)) == ""
    monkeypatch.setenv("TERM", "dumb")
    assert shown(Stderr(True), monkeypatch, lambda: time.sleep(0.05)) == ""
    monkeypatch.setenv("TERM", "xterm")
    stderr = Stderr(True)
    monkeypatch.setattr(sys, "stderr", stderr)
    bar = Bar("verify")
    bar.start()
    bar.stop()
    assert stderr.written == ""
