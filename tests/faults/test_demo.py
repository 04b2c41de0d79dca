"""`make demo` shows what it promises, and fails when it does not."""

import subprocess
import sys
from pathlib import Path

import pytest

from engine.domain.events import MessageAppended, SessionCreated
from engine.log import EventLog
from engine.log.envelope import Envelope
from engine.store import FILE_NAME
from examples.demo.__main__ import tell
from examples.demo.chats import Ledger

ROOT = Path(__file__).parent.parent.parent


def value(line: str) -> str:
    return line[36:48].strip()


def test_the_demo_loses_nothing_and_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "examples.demo", str(tmp_path / "demo")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout + done.stderr
    lines = done.stdout.splitlines()
    values = {line[2:36].strip(): value(line) for line in lines if line.startswith("  ") and "agent:" not in line}
    writer, rest = done.stdout.split("\n2. ")
    gateway, asked = rest.split("\n3. ")
    assert int(values["acknowledged events"].replace(",", "")) > 0
    assert [values[name] for name in ("missing acknowledged commands", "partial commands", "lost", "doubled")] == [
        "0"
    ] * 4
    assert values["acknowledged messages"] == values["found in the log"]
    assert int(values["delivered again and refused"]) > 0
    assert values["lanes in the emptied index"] == "0"
    assert values["lanes after the restart"] == "8"
    assert values["turns cut off by the kill"] == values["lanes marked for resuming"] == "3"
    assert "verified" in writer
    assert "verified" in gateway
    assert all(f" {reason}" in gateway for reason in ("idle", "daily", "suspended", "session_reset"))
    assert "**restart**" in asked
    assert "it leads to" in asked
    assert "no byte of it is left in the files" in asked
    assert values["times ada@sms stands in the files"] == values["messages of it that search finds"] == "0"
    assert lines[-1] == "Nothing acknowledged was lost."


@pytest.mark.parametrize(("acknowledged", "complete"), [({"one"}, True), ({"one", "two"}, False), (set(), False)])
def test_the_demo_fails_when_the_log_holds_less_or_more_than_was_acknowledged(
    acknowledged: set[str], complete: bool, tmp_path: Path
) -> None:
    ledger = Ledger()
    for message_id in acknowledged:
        ledger.acknowledge("s", message_id)
    with EventLog(tmp_path / FILE_NAME) as log:
        created = Envelope("session:s", 1, SessionCreated(conversation_id="s", lane="agent:main:sms:dm:1"))
        log.append([created, Envelope("session:s", 2, MessageAppended(message={}, message_id="one"))])
    assert tell(tmp_path, ledger) is complete
