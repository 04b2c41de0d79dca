"""Run every block of a page in a folder and a process of its own."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

from tests.docs.pages import ROOT, Page

RECORDED = "docs/incident"
"""The store that the pages ask as if they were read in the clone."""
ZONE = "Europe/Amsterdam"
"""Where the pages are read: times without a zone are local."""


def results_of(page: Page, folder: Path) -> tuple[list[dict[str, str]], str]:
    """Return what each step printed, with its error if it failed, and how the page ended if it did not end well."""
    work = folder / "work"
    shutil.copytree(ROOT / RECORDED, work / RECORDED)
    steps, results = folder / "page.json", folder / "results.json"
    steps.write_text(json.dumps([{**asdict(step), "page": page.name} for step in page.steps]))
    child = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.docs.run_page", str(steps), str(results)],
        cwd=work,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error", "TZ": ZONE},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    done = json.loads(results.read_text()) if results.exists() else []
    if child.returncode or child.stderr or len(done) < len(page.steps):
        return done, f"{page.name} ended with status {child.returncode}\n{child.stdout}{child.stderr}"
    return done, ""
