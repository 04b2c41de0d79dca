"""`make demo` shows what it promises."""

import subprocess
import sys
from pathlib import Path


def test_the_demo_loses_nothing_and_says_so() -> None:
    root = Path(__file__).parent.parent.parent
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.demo"], cwd=root, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    values = {line[:36].strip(): line[36:48].strip() for line in done.stdout.splitlines() if line.startswith("  ")}
    assert int(values["acknowledged events"].replace(",", "")) > 0
    assert int(values["events in the log"].replace(",", "")) >= int(values["acknowledged events"].replace(",", ""))
    assert values["missing acknowledged commands"] == "0"
    assert values["changed acknowledged commands"] == "0"
    assert values["partial commands"] == "0"
    assert values["hash chain"] == "verified"
    assert "Nothing acknowledged was lost." in done.stdout
    assert done.stderr == ""
