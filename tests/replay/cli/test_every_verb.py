"""Every verb on a live, a damaged and an empty store, in each form of output (R2, R5, R16, R18, R20, R21)."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import click
import pytest

from replay import open_log
from replay.cli.command import sessions
from replay.cli.verbs import GROUPS, VERBS
from tests.replay.cli.support import Done, fields_of, run

READING: dict[str, list[str]] = {
    "list": [],
    "show": ["telegram"],
    "events": [],
    "search": ["order"],
    "usage": ["--by", "platform"],
    "stats": [],
    "why": ["telegram"],
    "at": ["now"],
    "timeline": ["telegram"],
    "diff": ["@0", "now"],
    "when": ["SELECT lane FROM audit_lanes"],
    "sql": ["SELECT count(*) AS events FROM log"],
    "what-if": ["--mode", "none"],
    "health": [],
    "path": [],
    "verify": [],
    "views status": [],
    "views verify": [],
}
"""The verbs that write nothing, with what they are asked."""
TRIED = {
    "heal": [],
    "salvage": ["{to}/new"],
    "restore": ["{store}", "{to}/new"],
    "archive": ["{to}/old", "--older-than", "1h", "--reason", "retention"],
    "erase": ["--user", "42", "--reason", "asked to"],
    "views rebuild": [],
}
"""Those that can be tried without writing, with what they are asked beside `--dry-run`."""
WRITING = {
    "backup": ["{to}/copy.db"],
    "copy": ["{to}/copy"],
    "import": [],
    "export": ["telegram", "--to", "{to}/ada.jsonl"],
}
"""Those that do, or that write somewhere else; tests/replay/cli/test_writing.py has more of them."""
OTHERS = {"completion"}
FINDS_DAMAGE = {"verify", "views verify", "heal"}
NOTHING_THERE = {"show", "timeline", "why"}


def verbs(group: click.Group, prefix: str = "") -> dict[str, click.Command]:
    """Return every verb with its whole name."""
    found: dict[str, click.Command] = {}
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        found |= verbs(command, f"{name} ") if isinstance(command, click.Group) else {f"{prefix}{name}": command}
    return found


ALL = verbs(sessions)


def items_of(done: Done, form: str) -> list[dict[str, Any]]:
    """Return the items of an answer in any form but text."""
    if form == "json":
        answer = done.json()
        assert set(answer) == {"items", "next_cursor", "truncated"}
        return list(answer["items"])
    if form == "jsonl":
        return [json.loads(line) for line in done.out.splitlines()]
    return list(fields_of(done.out))


def test_every_verb_is_tried_here() -> None:
    assert READING.keys() | TRIED.keys() | WRITING.keys() | OTHERS == ALL.keys()


@pytest.mark.parametrize("form", ["text", "json", "jsonl", "csv"])
@pytest.mark.parametrize("name", READING)
def test_a_verb_answers_on_a_live_store(name: str, form: str, lived: Path) -> None:
    """R2: the same items in every form; what is said beside them is on stderr."""
    done = run(*name.split(), *READING[name], "-o", form, store=lived)
    assert (done.code, bool(done.out)) == (0, True), done.err
    if form == "text":
        assert not done.out.startswith("{")
    else:
        assert len(items_of(done, form)) == len(run(*name.split(), *READING[name], "-o", "json", store=lived).items)


@pytest.mark.parametrize("form", ["text", "json", "jsonl", "csv"])
@pytest.mark.parametrize("name", READING)
def test_a_verb_answers_on_an_empty_store(name: str, form: str, empty: Path) -> None:
    """R2: nothing is an answer too."""
    done = run(*name.split(), *READING[name], "-o", form, store=empty)
    if name in NOTHING_THERE:
        assert (done.code, done.out) == (3, "")
        assert "there is no" in done.err
    else:
        assert done.code == 0, done.err
        assert form == "text" or items_of(done, form) is not None


@pytest.mark.parametrize("form", ["text", "json", "jsonl", "csv"])
@pytest.mark.parametrize("name", READING)
def test_a_verb_answers_on_a_damaged_store(name: str, form: str, damaged: Path) -> None:
    """R5, R18: what can be read is read, and what verifies says where the damage is, with 4."""
    done = run(*name.split(), *READING[name], "-o", form, store=damaged)
    assert done.code == (4 if name in FINDS_DAMAGE else 0), done.err
    if name == "verify" and form == "json":
        assert done.items[0]["bad_position"] > 1
        assert "hash" in done.items[0]["problem"]


@pytest.mark.parametrize("form", ["text", "json", "jsonl", "csv"])
@pytest.mark.parametrize("kind", ["lived", "empty", "damaged"])
@pytest.mark.parametrize("name", TRIED)
def test_a_verb_that_writes_can_be_tried_on_any_store(
    name: str, kind: str, form: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """R2, R6, R19, R20: it tells what would be done, and nothing is."""
    store, to = tmp_path / "store", tmp_path / "to"
    shutil.copytree(request.getfixturevalue(kind), store)
    to.mkdir()
    with open_log(store) as log:
        before = log.head()
    words = [word.format(store=store, to=to) for word in TRIED[name]]
    done = run(*name.split(), *words, "--dry-run", "-o", form, store=store)
    if kind == "damaged" and name == "heal":
        assert (done.code, done.out) == (4, "")
        assert "sessions salvage TO" in done.err
    else:
        assert (done.code, bool(done.out)) == (0, True), done.err
        assert form == "text" or items_of(done, form)
    assert list(to.iterdir()) == []
    with open_log(store) as log:
        assert log.head() == before


@pytest.mark.parametrize("name", ["list", "events", "stats", "verify", "health"])
def test_a_verb_says_what_is_wrong_with_what_is_no_store(name: str, tmp_path: Path) -> None:
    """R1, R5: no file, a folder without a store, and a file of another program."""
    (tmp_path / "other.db").write_bytes(b"not a database, but long enough to have a header" * 100)
    for where in (tmp_path, tmp_path / "nowhere", tmp_path / "other.db"):
        done = run(name, store=where)
        assert (done.code, done.out) == (3, "")
        assert re.match(r"sessions: .*(--store PATH, in SESSION_STORE|is not a|not a session log)", done.err), done.err


def test_the_table_of_verbs_says_what_their_docstrings_say() -> None:
    for name, verb in VERBS.items():
        command = sessions.get_command(click.Context(sessions), name)
        assert command is not None
        assert (command.help or "").split("\n\n")[0] == verb.summary
    assert sum(len(group) for group in GROUPS.values()) == len(VERBS)


@pytest.mark.parametrize("name", ALL)
def test_the_help_of_a_verb_has_two_examples_that_can_be_parsed(name: str) -> None:
    """R8: `--help` of each verb has two real examples."""
    done = run(*name.split(), "--help")
    examples = re.findall(r"^ +\$ (.*sessions .*)$", done.out, re.MULTILINE)
    assert (done.code, len(examples)) == (0, 2), done.out
    for example in examples:
        words = re.findall(r"[^\s()*|]+", example[example.index("sessions ") :])
        assert name.split()[0] in words
        named = {word.partition("=")[0] for word in words if word.startswith("--")}
        known = {option for each in (ALL[name], sessions) for param in each.params for option in param.opts}
        assert named <= known
    undocumented = [param.name for param in ALL[name].params if isinstance(param, click.Option) and not param.help]
    assert undocumented == []
