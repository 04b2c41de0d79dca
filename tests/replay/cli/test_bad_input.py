"""Input that cannot be used: a clear error with the next step, and nothing changed (R1, R5)."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from engine import EventLog
from tests.gateway.support import say
from tests.replay.cli.support import ADA, run

LOOKING = [["list"], ["show", ADA], ["events"], ["stats"], ["health"], ["verify"], ["why", ADA], ["at", "now"]]


def newer(folder: Path) -> None:
    with sqlite3.connect(folder / "sessions.db") as connection:
        ((version,),) = connection.execute("PRAGMA user_version").fetchall()
        connection.execute(f"PRAGMA user_version = {version + 1}")
    connection.close()


def another_program(folder: Path) -> None:
    (folder / "sessions.db").unlink()
    with sqlite3.connect(folder / "sessions.db") as connection:
        connection.execute("CREATE TABLE orders (id INTEGER)")
    connection.close()


def empty_file(folder: Path) -> None:
    (folder / "sessions.db").write_bytes(b"")


def cut(folder: Path) -> None:
    file = folder / "sessions.db"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def a_pipe(folder: Path) -> None:
    (folder / "sessions.db").unlink()
    os.mkfifo(folder / "sessions.db")


def not_a_file(folder: Path) -> None:
    (folder / "sessions.db").unlink()
    (folder / "sessions.db").mkdir()


@pytest.mark.parametrize(
    ("spoil", "codes", "said"),
    [
        (newer, {1}, "newer"),
        (another_program, {3}, "another"),
        (empty_file, {3, 0}, ""),
        (cut, {4}, "salvage"),
        (not_a_file, {3}, "is no file"),
        (a_pipe, {3}, "is no file"),
    ],
)
@pytest.mark.parametrize("words", LOOKING, ids=lambda words: words[0])
def test_a_file_that_cannot_be_used_is_refused_and_left_alone(
    words: list[str], spoil: Callable[[Path], None], codes: set[int], said: str, own: Path
) -> None:
    """R5."""
    spoil(own)
    file = own / "sessions.db"
    before = file.read_bytes() if file.is_file() else b""
    done = run(*words, store=own)
    assert done.code in codes, (done.code, done.out, done.err)
    assert done.code == 0 or (said in done.err and done.err.startswith("sessions: "))
    assert before == (file.read_bytes() if file.is_file() else b"")


def test_a_log_that_is_written_at_this_moment_is_read(own: Path) -> None:
    """R16: whoever else writes it."""
    from engine import SessionStore

    with SessionStore(own, synchronous="OFF", views=False) as store:
        session = store.peek_session_id(ADA)
        assert session is not None
        say(store, session, "just now")
        for words in LOOKING:
            assert run(*words, store=own).code == 0
        assert "just now" in run("show", session, store=own).out


@pytest.mark.parametrize(
    "words",
    [
        ["lits"],
        ["list", "--limit", "0"],
        ["events", "--limit", "99999999999999999999"],
        ["list", "--output", "yaml"],
        ["list", "--nonsense"],
        ["list", "--since", "the other day"],
        ["list", "--lane", "agent"],
        ["at", "@x"],
        ["at", "@99999"],
        ["search"],
        ["search", "x", "--platform", "a", "--platform", "b"],
        ["usage", "--by", "colour"],
        ["events", "--follow", "-o", "json"],
        ["views"],
        ["verify", "--head", "nonsense:1"],
        ["completion", "tcsh"],
    ],
)
def test_a_command_line_that_cannot_be_understood_ends_with_2(words: list[str], lived: Path) -> None:
    """R5."""
    done = run(*words, store=lived)
    assert (done.code, done.out) == (2, "")
    assert done.err
    assert "islice" not in done.err  # it is told in the words of the command


@pytest.mark.parametrize(
    "words", [["show", "@0"], ["why", "@0"], ["show", "\udcff"], ["why", "\udcff"], ["list", "--lane", "\udcff"]]
)
def test_what_cannot_be_there_is_not_found(words: list[str], lived: Path) -> None:
    """R4, R5: position 0 is before the first event, and no name has half a character."""
    done = run(*words, store=lived)
    assert (done.code, done.out) == (3, ""), done.err
    assert done.err.startswith("sessions: there is no ")


def test_a_verb_that_is_misspelt_is_suggested(lived: Path) -> None:
    """R5."""
    assert "did you mean list" in run("lits", store=lived).err


def test_a_head_of_an_earlier_time_is_held_to(lived: Path, tmp_path: Path) -> None:
    """R18: in a file of heads too, and one that the log never had is an answer of 4."""
    with EventLog(lived / "sessions.db", read_only=True) as log:
        head = log.head()
    (tmp_path / "heads").write_text(f"{head}\n")
    assert run("verify", "--head", head, store=lived).code == 0
    assert run("verify", "--head", tmp_path / "heads", store=lived).code == 0
    position, _, digest = head.partition(":")
    done = run("verify", "--head", f"{position}:{'0' * len(digest)}", store=lived)
    assert (done.code, "problem" in done.out) == (4, True)
