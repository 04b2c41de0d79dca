"""The examples run, and do what a reader is told they do."""

import subprocess
import sys
from pathlib import Path

from engine import SessionStore

ROOT = Path(__file__).parent.parent.parent
TELEGRAM, SLACK = "agent:main:telegram:dm:4711", "agent:main:slack:dm:C01"


def serve(folder: Path, lines: str | None = None) -> dict[str, list[str]]:
    """Run the gateway of the examples; what it said on each lane."""
    arguments = [str(folder)] if lines is None else [str(folder), "-"]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "examples.gateway", *arguments],
        cwd=ROOT,
        input=lines,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    said: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        lane, words = line.split(": ", 1)
        said.setdefault(lane, []).append(words)
    return said


def test_the_gateway_goes_on_where_it_was_when_it_is_started_again(tmp_path: Path) -> None:
    again = "message 1 of this session is 'me again' (a new session: you asked for it)"
    assert serve(tmp_path) == {
        SLACK: ["message 1 of this session is 'good morning'"],
        TELEGRAM: ["message 1 of this session is 'hello'", "starting over", again],
    }
    assert serve(tmp_path) == {
        SLACK: ["message 3 of this session is 'good morning'"],
        TELEGRAM: ["message 3 of this session is 'hello'", "starting over", again],
    }


def test_the_gateway_resumes_whom_a_crash_cut_off(tmp_path: Path) -> None:
    serve(tmp_path, "telegram 4711 ada hello\n")
    crash = f"import engine, os; engine.SessionStore({str(tmp_path)!r}).begin_turn({TELEGRAM!r}); os._exit(1)"
    assert subprocess.run([sys.executable, "-c", crash], cwd=ROOT, check=False).returncode == 1
    said = serve(tmp_path, "telegram 4711 ada are you there?\nslack C01 bob hi\n")
    assert said == {
        TELEGRAM: [
            "was cut off and will be resumed (restart_interrupted)",
            "message 3 of this session is 'are you there?'",
        ],
        SLACK: ["message 1 of this session is 'hi'"],
    }
    with SessionStore(tmp_path) as store:
        assert not any(entry.resume_pending for entry in store.list_sessions())
