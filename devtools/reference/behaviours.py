"""The pages of behaviours: their sentences are written by hand, the tests below them are found by number."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent.parent
PAGES = {
    "G": "docs/explanation/behaviours.md",
    "W": "docs/explanation/behaviours-chat.md",
    "V": "docs/explanation/behaviours-views.md",
    "R": "docs/explanation/behaviours-replay.md",
}
"""The pages, by the letter that their rules' numbers begin with."""
NOBODY = "> No test cites it."
SHOWN = 3

_RULE = re.compile(r"\*\*([GWVR]\d+[a-z]?)\.\*\* ")
_CITED = re.compile(r"\b([GWVR])(\d+)([a-z]?)\b(?: to \1(\d+)\b)?")
_IN_NAME = re.compile(r"_([gwvr])(\d+[a-z]?)(?=_|$)")


class Citation(NamedTuple):
    """A test that cites a number: how near to the test the number stands, the test's file and its name."""

    distance: int
    path: str
    name: str


def page(letter: str) -> str:
    """Return the page of a letter's rules with the tests of today."""
    found = citations()
    paragraphs = (ROOT / PAGES[letter]).read_text().rstrip("\n").split("\n\n")
    written = []
    for paragraph in paragraphs:
        if not paragraph.startswith("> "):
            written.append(paragraph)
            if rule := _RULE.match(paragraph):
                written.append(_tests(found.get(rule[1], [])))
    return "\n\n".join(written) + "\n"


def rules(letter: str) -> list[str]:
    """Return a letter's numbers that have a line, in their order."""
    return _RULE.findall((ROOT / PAGES[letter]).read_text())


@cache
def citations() -> dict[str, list[Citation]]:
    """Return the tests that cite each number, the nearest citations first."""
    found: dict[str, dict[tuple[str, str], int]] = defaultdict(dict)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = str(path.relative_to(ROOT))
        for distance, test, number in _of_file(path.read_text()):
            nearest = min(distance, found[number].get((name, test), distance))
            found[number][name, test] = nearest
    return {
        number: sorted(Citation(distance, *where) for where, distance in tests.items())
        for number, tests in found.items()
    }


def _tests(cited: list[Citation]) -> str:
    """Return the paragraph that names the first tests, by file, and then the other files."""
    shown: dict[str, list[str]] = defaultdict(list)
    for each in cited[:SHOWN]:
        shown[each.path].append(f"`{each.name}`")
    others = sorted({each.path for each in cited[SHOWN:]} - shown.keys())
    parts = [f"`{path}`: {', '.join(names)}" for path, names in shown.items()]
    if others:
        parts.append(f"also {', '.join(f'`{path}`' for path in others)}")
    return f"> {'; '.join(parts)}" if parts else NOBODY


def _of_file(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield (distance, test, number): 0 in the test itself, 1 in its class's docstring, 2 in the module's."""
    tree = ast.parse(source)
    yield from _of_body(tree.body, source, "", [ast.get_docstring(tree) or ""])


def _of_body(body: list[ast.stmt], source: str, prefix: str, above: list[str]) -> Iterator[tuple[int, str, str]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            said = ast.get_docstring(node) or ""
            yield from _of_body(node.body, source, f"{node.name}.", [f"{node.name} {said}", *above])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            texts = [f"{ast.get_source_segment(source, node)} {_IN_NAME.sub(_spelled, node.name)}", *above]
            for distance, text in enumerate(texts):
                for number in _numbers(text):
                    yield distance, f"{prefix}{node.name}", number


def _spelled(found: re.Match[str]) -> str:
    return f" {found[1].upper()}{found[2]} "


def _numbers(text: str) -> Iterator[str]:
    """Yield the numbers that a text cites, those of a range included."""
    for kind, first, letter, last in _CITED.findall(text):
        yield f"{kind}{first}{letter}"
        for between in range(int(first) + 1, int(last or 0) + 1):
            yield f"{kind}{between}"
