"""The installed command as a process: pipes, Ctrl-C, start-up, completion (R2, R5, R7, R8)."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from engine import SessionStore
from tests.gateway.support import say

ROOT = Path(__file__).parents[3]
COMMAND = [sys.executable, "-W", "error", "-m", "replay"]
ENVIRONMENT = {name: value for name, value in os.environ.items() if name not in ("SESSION_STORE", "COLUMNS")}


def start(*words: object, store: Path, **options: object) -> "subprocess.Popen[str]":
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": ROOT, "env": ENVIRONMENT, "text": True}
    command = [*COMMAND, "--store", str(store), *map(str, words)]
    return subprocess.Popen(command, **{**given, **options})  # type: ignore[call-overload, no-any-return]


def test_the_entry_point_of_the_package_is_the_command() -> None:
    """R8."""
    declared = (ROOT / "pyproject.toml").read_text()
    assert '\nsessions = "replay.cli:main"\n' in declared


def test_the_command_runs_as_a_process(lived: Path) -> None:
    with start("list", "-o", "json", store=lived) as process:
        out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    assert len(json.loads(out)["items"]) == 2


def test_a_closed_pipe_is_silent(lived: Path) -> None:
    """R2: `| head`, also while much is still to come."""
    with start("events", "--all", "-o", "jsonl", store=lived) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0


def test_what_is_followed_comes_as_it_is_recorded_until_ctrl_c(own: Path) -> None:
    """R5, R7, R16: each line at once, and 130 in the end, without a traceback."""
    with SessionStore(own, synchronous="OFF", views=False) as store:
        entry = next(entry for entry in store.list_sessions() if entry.session_key.endswith("4711"))
        with start("events", "--follow", "--lane", "4711", "-o", "jsonl", "--limit", 1, store=own) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            first = json.loads(process.stdout.readline())
            say(store, entry.session_id, "is anybody there")
            then = json.loads(process.stdout.readline())
            process.send_signal(signal.SIGINT)
            assert process.stdout.read() == ""
            said = process.stderr.read()
    assert then["position"] > first["position"]
    assert then["payload"]["message"]["content"] == "is anybody there"
    assert (process.returncode, said) == (130, "sessions: interrupted; nothing was left half done\n")


def test_ctrl_c_in_the_middle_of_a_backup_leaves_nothing(own: Path, tmp_path: Path) -> None:
    """R7: Ctrl-C leaves nothing half done."""
    code = (
        "import os, signal, engine.log.newfile as newfile; "
        "there = newfile._give_name; "
        "newfile._give_name = lambda *_, **__: os.kill(os.getpid(), signal.SIGINT); "
        "from replay.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "--store", str(own), "backup", str(tmp_path / "copy.db")]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert "interrupted" in done.stderr
    assert [each.name for each in tmp_path.iterdir()] == ["own"]


@pytest.mark.parametrize("module", ["replay.cli.command", "replay.cli.looking", "engine.reader"])
def test_ctrl_c_while_the_command_is_still_being_imported_is_told_as_one(module: str, lived: Path) -> None:
    """R5, R7: the first half second of a verb is its imports."""
    code = (
        "import sys\n"
        "class Interrupted:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}:\n"
        "            raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Interrupted())\n"
        "from replay.cli import main\n"
        "main()"
    )
    command = [sys.executable, "-c", code, "--store", str(lived), "list"]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr in ("", "sessions: interrupted; nothing was left half done\n")


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_stream_that_is_closed_is_no_failure(closed: int, lived: Path) -> None:
    """R5: a service manager may start it without one."""
    with start("list", store=lived, preexec_fn=lambda: os.close(closed)) as process:
        out, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (0, "")
    assert ("4711" in out) == (closed != 1)


def test_embedding_the_packages_imports_nothing_of_the_command() -> None:
    """R8: Click and Rich are imported by the command alone."""
    code = (
        "import sys, engine, replay, engine.store; "
        "from replay import open_log, why, statistics, subject_of; "
        "print([name for name in sys.modules if {'click', 'rich', 'cli'} & set(name.split('.'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_help_needs_neither_the_engine_nor_rich() -> None:
    """R8: `sessions --help` in at most 200 ms; benchmarks/test_command.py has the time."""
    code = (
        "import sys; from replay.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "print([name for name in sys.modules if name.partition('.')[0] in ('engine', 'rich', 'apsw', 'msgspec')])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert "Usage: sessions" in done.stdout


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("sessions ev", ["events"]),
        ("sessions show telegram", ["agent:main:telegram:dm:4711"]),
        ("sessions events --lane sla", ["agent:main:slack:group:C01:bob"]),
        ("sessions events --type lane.rese", ["lane.reset"]),
        ("sessions list --platform tel", ["telegram"]),
        ("sessions events --actor ad", ["ada"]),
        ("sessions list --output js", ["json", "jsonl"]),
    ],
)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_completes_verbs_options_and_ids_of_the_live_store(
    shell: str, line: str, offered: list[str], lived: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R8: completion with live ids."""
    from click.shell_completion import get_completion_class

    from replay.cli.command import sessions

    monkeypatch.setenv("SESSION_STORE", str(lived))
    made = get_completion_class(shell)
    assert made is not None
    words = line.split()
    found = made(sessions, {}, "sessions", "_SESSIONS_COMPLETE").get_completions(words[1:-1], words[-1])
    assert [item.value for item in found] == offered


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_is_printed(shell: str, tmp_path: Path) -> None:
    """R8: and bash takes it; session keys have colons, which bash would take for the end of a word."""
    done = subprocess.run([*COMMAND, "completion", shell], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "_SESSIONS_COMPLETE=" in done.stdout
    if shell == "bash":
        assert done.stdout.startswith("COMP_WORDBREAKS=${COMP_WORDBREAKS//:}")
        subprocess.run(["bash", "-n"], input=done.stdout, text=True, check=True)  # noqa: S607


def test_completion_offers_nothing_where_there_is_no_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """R8."""
    from click.shell_completion import BashComplete

    from replay.cli.command import sessions

    monkeypatch.setenv("SESSION_STORE", str(tmp_path))
    for words in (["show"], ["list", "--platform"]):
        assert BashComplete(sessions, {}, "sessions", "_SESSIONS_COMPLETE").get_completions(words, "") == []
