"""Output of the command: its form, and where it goes (R1, R2)."""

import io
import json
import sys
from pathlib import Path

import pytest

from replay.cli.layout import Column, Table, write
from replay.cli.screen import Screen, screen
from replay.cli.text import as_json, in_one_line, safe
from tests.replay.cli.support import ADA, HOSTILE, fields_of, run

CONTROLS = [*map(chr, range(32)), *map(chr, range(127, 160)), "\u202e", "\u2066", "\ud800"]


def table(columns: list[Column], items: list[dict[str, object]], width: int, *, looked_at: bool = True) -> str:
    """Return a table as it is printed on a terminal without colours."""
    out = io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        write(items, Table(columns), Screen(looked_at, False, width), out.write)
    return out.getvalue()


def test_the_store_is_what_the_option_says_else_the_environment_else_the_folder(
    lived: Path, empty: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """R1: a folder with sessions.db or that file; SESSION_STORE; the current folder; else 3 and the three ways."""
    here = str(lived / "sessions.db")
    monkeypatch.chdir(lived)
    assert run("path").out.strip() == here
    monkeypatch.chdir(empty)
    assert run("path", env={"SESSION_STORE": here}).out.strip() == here
    assert run("path", store=lived, env={"SESSION_STORE": str(empty)}).out.strip() == here
    assert run("path", "--store", here, store=empty).out.strip() == here
    assert run("views", "status", store=lived).code == 0
    assert run("--store=~/lived", "path", env={"HOME": str(lived.parent)}).out.strip() == here
    monkeypatch.chdir(lived.parent)
    done = run("list")
    assert (done.code, done.out) == (3, "")
    assert "name one with --store PATH, in SESSION_STORE, or go to its folder" in done.err


def test_a_url_is_refused_as_long_as_there_is_no_backend_for_it() -> None:
    """R1."""
    done = run("list", store="postgresql://ada:secret@db/x")
    assert done.code == 1
    assert "secret" not in done.err


def test_a_page_has_a_cursor_to_the_next_one_until_there_is_none(lived: Path) -> None:
    """R2: bounded, `--limit`, `--all`, `--cursor`."""
    for words in (["list"], ["events", "--since", "@1"], ["show", ADA], ["stats"], ["search", "order"]):
        whole = run(*words, "--all", "-o", "json", store=lived).json()
        assert (whole["next_cursor"], whole["truncated"]) == (None, False)
        found, cursor = [], None
        while True:
            more = [] if cursor is None else ["--cursor", cursor]
            page = run(*words, "--limit", 1, "-o", "json", *more, store=lived).json()
            found += page["items"]
            cursor = page["next_cursor"]
            assert page["truncated"] is (cursor is not None)
            if cursor is None:
                break
        assert found == whole["items"]
    assert "there are more: --cursor" in run("events", "--limit", 1, store=lived).err


def test_the_newest_events_come_first_page_by_page_and_in_their_order_within_a_page(lived: Path) -> None:
    """R2, R16."""
    whole = [item["position"] for item in run("events", "--all", "-o", "json", store=lived).items]
    assert whole == sorted(whole)
    newest = run("events", "--limit", 3, "-o", "json", store=lived).json()
    assert [item["position"] for item in newest["items"]] == whole[-3:]
    before = run("events", "--limit", 3, "--cursor", newest["next_cursor"], "-o", "json", store=lived).items
    assert [item["position"] for item in before] == whole[-6:-3]


@pytest.mark.parametrize("verb", ["list", "events", "stats", "search"])
def test_a_cursor_of_something_else_is_refused(verb: str, lived: Path) -> None:
    """R2, R5."""
    done = run(verb, *(["order"] if verb == "search" else []), "--cursor", "nonsense", store=lived)
    assert (done.code, done.out) == (2, "")
    assert "cursor" in done.err


def test_nothing_of_a_transcript_that_a_terminal_would_act_upon_is_printed(lived: Path) -> None:
    """R2: control characters and escape sequences are shown as escapes in every form, and JSON is still exact."""
    for form in ("text", "json", "jsonl", "csv"):
        for words in (["show", ADA, "--all"], ["events", "--all"], ["search", "clear"], ["show", "@5"]):
            for color in ("never", "always"):
                done = run(*words, "-o", form, "--color", color, store=lived)
                plain = done.out if color == "never" or form != "text" else done.out.replace("\x1b[", "")
                assert [each for each in CONTROLS if each in plain and each not in "\n"] == []
    session = run("list", "--lane", ADA, "-o", "json", store=lived).items[0]["session_id"]
    first = next(item for item in run("show", ADA, "-o", "json", store=lived).items if item["title"] == "Late order")
    assert first["session_id"] != session
    said = [item.get("text") for item in run("show", first["session_id"], "-o", "json", store=lived).items]
    assert said == [None, "the order is late", HOSTILE]


@pytest.mark.parametrize("character", CONTROLS)
def test_a_character_that_a_terminal_acts_upon_is_shown_as_an_escape(character: str) -> None:
    """R2."""
    assert json.loads(as_json({"a": character})) == {"a": character}
    assert character not in as_json(character)
    assert character in "\n\t" or character not in safe(character)
    assert character not in in_one_line(character)


def test_colours_are_decided_by_the_option_then_the_environment_then_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """R2: NO_COLOR, FORCE_COLOR, TERM=dumb, `--color`."""
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert screen("auto")[:2] == (False, False)
    assert screen("always")[:2] == (True, True)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert screen("auto")[:2] == (True, True)
    assert screen("never")[:2] == (False, False)
    monkeypatch.setenv("NO_COLOR", "1")
    assert screen("auto")[:2] == (False, False)
    assert screen("always")[:2] == (True, True)
    monkeypatch.delenv("FORCE_COLOR")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert screen("auto")[:2] == (True, False)
    monkeypatch.delenv("NO_COLOR")
    assert screen("auto")[:2] == (True, True)
    monkeypatch.setenv("TERM", "dumb")
    assert screen("auto")[:2] == (False, False)


def test_a_table_is_cut_to_the_terminal_and_becomes_records_where_it_does_not_fit() -> None:
    """R2: a terminal of 40 columns."""
    columns = [Column("id"), Column("count", right=True), Column("text", wide=True), Column("nothing")]
    items: list[dict[str, object]] = [{"id": "a" * 12, "count": 7, "text": "你好 " * 20}, {"id": "b", "count": 12}]
    wide = table(columns, items, 200).splitlines()
    assert wide[0].split() == ["id", "count", "text"]
    assert wide[2].startswith("aaaaaaaaaaaa      7  你好")
    cut = table(columns, items, 44).splitlines()
    assert len(cut) == 4
    assert cut[2].rstrip().endswith("…")
    narrow = table(columns, items, 24).splitlines()
    assert narrow[0].split() == ["id", "a" * 12]
    assert [line for line in narrow if line.startswith("count")][1].split() == ["count", "12"]


def test_in_a_pipe_text_is_aligned_and_nothing_is_cut() -> None:
    """R2: plain aligned text in a pipe."""
    columns = [Column("id"), Column("count", right=True), Column("text", wide=True)]
    items: list[dict[str, object]] = [
        {"id": "你好", "count": 7, "text": "x" * 500},
        {"id": "bcde", "count": 12, "text": "y"},
    ]
    lines = table(columns, items, 80, looked_at=False).splitlines()
    assert lines == ["id    count  text", f"你好      7  {'x' * 500}", "bcde     12  y"]


def test_csv_has_its_head_whatever_there_is(empty: Path, lived: Path) -> None:
    """R2."""
    assert run("list", "-o", "csv", store=empty).out.startswith("lane,session_id,")
    row = fields_of(run("list", "--platform", "slack", "-o", "csv", store=lived).out)[0]
    assert (row["chat_id"], row["input_tokens"]) == ("C01", "0")


def test_times_are_local_and_their_zone_is_in_json(lived: Path) -> None:
    """R3."""
    item = run("events", "--limit", 1, "-o", "json", store=lived).items[0]
    assert item["time"].endswith("+00:00")
