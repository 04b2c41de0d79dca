"""The examples run, and do what a reader is told they do."""

import subprocess
import sys
from pathlib import Path

from engine import Platform, SessionSource, SessionStore

ROOT = Path(__file__).parent.parent.parent
TELEGRAM, SLACK = "agent:main:telegram:dm:4711", "agent:main:slack:dm:C01"
THINKS_FOR_EVER = """
import asyncio, sys
from examples import gateway

async def think(history):
    print("thinking", flush=True)
    await asyncio.sleep(60)

gateway.think = think
asyncio.run(gateway.main(sys.argv[1], sys.stdin))
"""


def serve(folder: Path, lines: str | None = None) -> dict[str, list[str]]:
    """Run the gateway of the examples; what it said on each lane."""
    arguments = [str(folder)] if lines is None else [str(folder), "-"]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "examples.gateway", *arguments],
        cwd=ROOT,
        input=lines,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    said: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        lane, words = line.split(": ", 1)
        said.setdefault(lane, []).append(words)
    return said


def kill_while_it_thinks(folder: Path, line: str) -> None:
    command = [sys.executable, "-c", THINKS_FOR_EVER, str(folder)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as gateway:
        assert gateway.stdin is not None
        assert gateway.stdout is not None
        gateway.stdin.write(line)
        gateway.stdin.flush()
        assert gateway.stdout.readline() == "thinking\n"
        gateway.kill()


def test_the_gateway_goes_on_where_it_was_when_it_is_started_again(tmp_path: Path) -> None:
    serve(tmp_path)
    said = serve(tmp_path, "telegram 4711 ada m4 still there?\nslack C01 bob m2 and you?\n")
    assert said == {
        SLACK: ["message 3 of this session is 'and you?'"],
        TELEGRAM: ["message 3 of this session is 'still there?'"],
    }


def test_the_gateway_plays_its_own_lines(tmp_path: Path) -> None:
    again = "message 1 of this session is 'me again' (a new session: you asked for it)"
    assert serve(tmp_path) == {
        SLACK: ["message 1 of this session is 'good morning'"],
        TELEGRAM: ["message 1 of this session is 'hello'", "starting over", again],
    }


def test_a_message_whose_worker_was_killed_while_it_thought_is_answered_when_it_is_delivered_again(
    tmp_path: Path,
) -> None:
    """G36, G47."""
    line = "telegram 4711 ada m1 are you there?\n"
    kill_while_it_thinks(tmp_path, line)
    answered = "message 1 of this session is 'are you there?'"
    assert serve(tmp_path, line) == {TELEGRAM: ["was cut off and will be resumed (restart_interrupted)", answered]}
    assert serve(tmp_path, line) == {TELEGRAM: ["had this message already"]}
    with SessionStore(tmp_path) as store:
        assert not any(entry.resume_pending for entry in store.list_sessions())
        session = store.get_or_create_session(SessionSource(Platform.TELEGRAM, "4711", user_id="ada")).session_id
        said = [(message["role"], message["content"]) for message in store.load_transcript(session)]
    assert said == [("user", "are you there?"), ("assistant", answered)]


def test_a_line_that_is_no_message_is_told_and_the_others_are_served(tmp_path: Path) -> None:
    said = serve(tmp_path, "nonsense\ntelegraph 1 ada m1 hello\nslack C01 bob m1 hi\n")
    assert said[SLACK] == ["message 1 of this session is 'hi'"]
    assert len(said) == 3
