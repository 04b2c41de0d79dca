"""The pages that explain name tests that exist, and every rule has its line."""

import ast
import re
import sys
from pathlib import Path
from types import FrameType

import pytest

from devtools.reference.behaviours import NOBODY, PAGES, rules
from engine import Platform, SessionSource, SessionStore

ROOT = Path(__file__).parent.parent.parent
EXPLANATION = sorted((ROOT / "docs/explanation").glob("*.md"))
UNCOUNTED = {"architecture", "behaviours-chat", "behaviours-views", "behaviours-replay"}
CORRECTIONS = """
    G1a G3a G4a G7a G12a G16a G17a G17b G18a G23a G26a G27a G34a G35a G40a G44a G47a G49a G49b G51a G53a G54a G55a G56a
    G57a
"""
"""The rules that were added to those of the same number after a review."""


def defined(path: Path) -> set[str]:
    """The names of a test module's tests and classes of tests, those of a class behind its name."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            found.add(node.targets[0].id)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{each.name}" for each in node.body if isinstance(each, ast.FunctionDef)}
    return found


@pytest.mark.parametrize("path", EXPLANATION, ids=lambda path: path.stem)
def test_every_test_that_a_page_names_exists(path: Path) -> None:
    named = [
        (module, name)
        for line in re.findall(r"^> (.*)$", path.read_text(), re.MULTILINE)
        for module, names in re.findall(r"`(tests/[\w/]+\.py)`: ([^;]*)", line)
        for name in re.findall(r"`([\w.]+)`", names)
    ]
    assert path.stem in UNCOUNTED or len(named) > 20
    missing = [(module, name) for module, name in named if name not in defined(ROOT / module)]
    assert missing == []


def test_every_guarantee_names_the_tests_that_hold_it() -> None:
    text = (ROOT / "docs/explanation/guarantees.md").read_text()
    promised, _, rest = text.partition("## What is not guaranteed")
    paragraphs = promised.split("\n\n")
    bare = [
        paragraph
        for paragraph, following in zip(paragraphs, [*paragraphs[1:], ""], strict=True)
        if paragraph.startswith("**") and not following.startswith("> `tests/")
    ]
    assert bare == []
    assert rest.count("\n- **") > 5


def test_every_rule_has_a_line_and_every_correction_too() -> None:
    wanted = {f"G{number}" for number in range(1, 60)} | set(CORRECTIONS.split())
    assert set(rules("G")) == wanted


@pytest.mark.parametrize("letter", PAGES)
def test_no_rule_has_two_lines(letter: str) -> None:
    assert len(rules(letter)) == len(set(rules(letter)))


def test_every_rule_that_the_code_cites_has_a_line() -> None:
    sources = [path.read_text() for room in ("engine", "projections") for path in (ROOT / room).rglob("*.py")]
    cited = {number for text in sources for number in re.findall(r"\bG\d+[a-z]?\b", text)}
    assert len(cited) > 40
    assert cited <= set(rules("G"))


def test_a_message_goes_the_way_that_the_architecture_says(tmp_path: Path) -> None:
    _, _, text = (ROOT / "docs/explanation/architecture.md").read_text().partition("## From a call to a row")
    steps = re.findall(r"^\d\. `([\w.]+)`", text.partition("\n## ")[0], re.MULTILINE)
    assert 5 < len(steps) <= 8
    calls: list[str] = []

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and "engine" in frame.f_globals.get("__name__", ""):
            calls.append(frame.f_code.co_qualname)

    with SessionStore(tmp_path) as store:
        session_id = store.get_or_create_session(SessionSource(Platform.TELEGRAM, "4711")).session_id
        sys.setprofile(note)
        try:
            store.append_to_transcript(session_id, {"role": "user", "content": "hello"})
        finally:
            sys.setprofile(None)
    passed = iter(calls)
    assert [step for step in steps if step not in passed] == [], calls


@pytest.mark.parametrize("letter", PAGES)
def test_every_rule_is_cited_by_a_test(letter: str) -> None:
    text = (ROOT / PAGES[letter]).read_text()
    assert NOBODY not in text
    assert len(re.findall(r"^> `tests/", text, re.MULTILINE)) == len(rules(letter))
