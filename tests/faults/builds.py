"""Another build of the package in a process of its own: `python -m tests.faults.builds FOLDER VERSION`.

It has that version and a fingerprint of its own, unless the version is "same"; it does what it is asked, and
says a line of JSON for each.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Self

from engine import SessionStore, opening, store
from engine.log.errors import ReplacedTablesError
from projections.inline import projection, rebuilding
from tests.gateway.support import source

ROOT = Path(__file__).parent.parent.parent
KEY = "agent:main:telegram:dm:4711"


class Build:
    """A process with another build; killed at the end."""

    def __init__(self, folder: Path, version: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.builds", str(folder), version],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )

    def ask(self, question: str) -> Any:
        """Let it do something; return what it says."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(question + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, f"the process ended with status {self.process.wait()}"
        return json.loads(line)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for stream in (self.process.stdin, self.process.stdout):
            assert stream is not None
            stream.close()


class Other:
    """Questions that a process of another build can be asked."""

    def __init__(self, folder: str) -> None:
        self.store = SessionStore(folder, synchronous="OFF")

    def peek(self) -> str | None:
        return self.store.peek_session_id(KEY)

    def live(self) -> str:
        session_id = self.store.get_or_create_session(source()).session_id
        self.store.append_to_transcript(session_id, {"role": "user", "content": "hello"})
        return session_id

    def close(self) -> None:
        self.store.close()

    def rebuild_for_ever(self) -> None:
        say(None)
        while True:
            self.store.rebuild()


def say(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def main(folder: str, version: str) -> None:
    if version != "same":
        for module in (projection, rebuilding):
            vars(module)["fingerprint"] = lambda: f"build {version}"
        for module in (projection, rebuilding, store, opening):
            vars(module)["package_version"] = lambda: version
    other: Other | None = None
    for line in sys.stdin:
        try:
            other = other or Other(folder)
            say(getattr(other, line.strip())())
        except ReplacedTablesError as error:
            say(str(error))


if __name__ == "__main__":
    main(*sys.argv[1:3])
