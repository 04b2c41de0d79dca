"""Ask the store what happened, with the command `sessions`: search, audit, why, the past; then erase somebody."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

from examples.demo.report import show

PERSON = "ada@sms"
ERASE = f"erase --user {PERSON} --platform sms --reason 'request 2026-044' --purge --yes"
RESETS = (
    "SELECT substr(time, 1, 16) AS time, platform, cause, round(idle_seconds / 3600, 1) AS idle_hours "
    "FROM audit_resets ORDER BY position DESC LIMIT 4"
)
QUESTIONS = (
    ("Find what was said", "search '\"before the kill\" OR restart' --platform telegram --limit 2"),
    ("Ask as an auditor: the last resets, and what each decision saw", f'sql "{RESETS}"'),
    ("Ask why a conversation is where it is", "why telegram --limit 8"),
    ("Look at the past, as it was at position 300", "at @300 --lane discord"),
    ("See what changed in a morning", "diff 2026-07-02T09:00Z 2026-07-02T12:00Z --lane discord"),
)
NEXT = ("list", "timeline telegram --html life.html", "what-if --idle-minutes 600", "show matrix", "--help")


def run(folder: Path, words: str) -> tuple[int, str]:
    """Run the command on a store; return how it ended and what it printed."""
    command = [sys.executable, "-m", "replay", "--store", str(folder), *shlex.split(words)]
    done = subprocess.run(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"TZ": "UTC"},
        check=False,
    )
    return done.returncode, done.stdout


def ask(folder: Path, heading: str, words: str) -> bool:
    """Print a command and its answer; False if it failed."""
    status, answer = run(folder, words)
    print(f"   {heading}:\n\n  $ sessions {words}")
    print("".join(f"  {line}\n" for line in answer.splitlines()), flush=True)
    return status == 0


def count_bytes(folder: Path) -> int:
    """Count how often the name of the person stands in any file."""
    return sum(path.read_bytes().count(PERSON.encode()) for path in folder.iterdir())


def ask_and_erase(folder: Path) -> bool:
    """Ask the questions, erase a person, and look whether a byte of them is left; False if something is wrong."""
    print("3. Ask what happened, in a shell, on the store that this left behind.\n")
    answers = [ask(folder, *question) for question in QUESTIONS]
    before = count_bytes(folder)
    erased = ask(folder, "Erase a person", ERASE)
    found = [line for line in run(folder, "search sms --output jsonl")[1].splitlines() if line.startswith("{")]
    left = count_bytes(folder)
    show(f"times {PERSON} stands in the files", left, f"it was {before}")
    show("messages of it that search finds", len(found))
    print()
    verified = ask(folder, "Check the log, the tables and the views against each other", "verify")
    print("   Try next:\n")
    for words in NEXT:
        print(f"  $ sessions --store {shown(folder)} {words}")
    print()
    return all(answers) and erased and verified and before > 0 and left == 0 and not found


def shown(folder: Path) -> Path:
    """Return the path of a folder as short as it can be given here."""
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder
