"""Files that verbs make: whole or not at all (R7, R14, R17)."""

import errno
import os
import subprocess
from pathlib import Path

import pytest

from replay.cli import files
from tests.replay.cli.support import ADA, run
from tests.replay.cli.test_process import COMMAND, ENVIRONMENT, ROOT


def test_a_page_is_written_and_replaces_nothing_unless_told_to(lived: Path, tmp_path: Path) -> None:
    """R14."""
    to = tmp_path / "life.html"
    done = run("timeline", ADA, "--html", to, store=lived)
    assert (done.code, done.out, done.err) == (0, "", f"wrote {to}\n")
    assert to.read_text().startswith("<!doctype html>")
    assert run("timeline", ADA, "--html", "-", store=lived).out == to.read_text()
    to.write_text("mine")
    assert run("timeline", ADA, "--html", to, store=lived).code == 1
    assert to.read_text() == "mine"
    assert run("timeline", ADA, "--html", to, "--force", store=lived).code == 0
    assert [each.name for each in tmp_path.iterdir()] == ["life.html"]


def test_the_picture_fits_and_ends_at_a_moment(lived: Path) -> None:
    """R14: `--at`, and in a pipe as in a terminal."""
    text = run("timeline", ADA, store=lived).out
    assert "reset: idle 3 h 5 min" in text
    assert "reset:" not in run("timeline", ADA, "--at", "@6", store=lived).out
    assert run("timeline", ADA, "-o", "json", store=lived).items[0]["event"] == "session.created"


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)), KeyboardInterrupt()])
def test_what_is_cut_off_leaves_no_file(
    error: BaseException, lived: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R5, R7: a full disk, or Ctrl-C."""

    def fails(_: int) -> None:
        raise error

    monkeypatch.setattr(files.os, "fsync", fails)
    done = run("timeline", ADA, "--html", tmp_path / "life.html", store=lived)
    assert done.code == (130 if isinstance(error, KeyboardInterrupt) else 1)
    assert done.err.startswith("sessions: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no disk that is always full")
@pytest.mark.parametrize("form", ["text", "jsonl"])
def test_a_full_disk_behind_stdout_is_told(form: str, lived: Path) -> None:
    """R5."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*COMMAND, "--store", str(lived), "events", "-o", form],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=ENVIRONMENT,
            check=False,
        )
    assert (done.returncode, done.stderr) == (
        1,
        "sessions: there is no space left for what is to be written; free some, or write it elsewhere\n",
    )
