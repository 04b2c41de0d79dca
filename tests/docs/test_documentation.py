"""What the documentation says is what the code does: snippets run, names exist, nothing is left out."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine import errors as session_errors
from engine.log import errors

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text()
PAGES = {
    name: (ROOT / name).read_text() for name in ("README.md", "CHANGELOG.md", "docs/architecture.md", "docs/events.md")
}

SNIPPETS = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", README, re.DOTALL)
TARGETS = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
FOLDERS = ("engine/", "projections/", "replay/", "tests/", "benchmarks/", "examples/", "docs/")
ENDINGS = (".py", ".md", ".toml")


def without_variable_parts(output: str) -> str:
    """Hashes hang on the time and on the log's random id; everything else is the same in every run."""
    return re.sub(r"\b[0-9a-f]{64}\b", "<hash>", output).strip()


def run(arguments: list[str], folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def without_numbers(output: str) -> list[str]:
    """The demo's lines, squeezed: rates and counts of the killed writer differ from run to run, the words do not."""
    words = re.sub(r"\d[\d,.]*", "#", without_variable_parts(output))
    return [" ".join(line.split()) for line in words.splitlines()]


def rows(output: str) -> list[str]:
    """The lines of the demo's table of lanes: on a fast clock, these are the same in every run."""
    return [line for line in output.splitlines() if "agent:main:" in line]


def test_the_readme_has_snippets() -> None:
    assert len(SNIPPETS) >= 5


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_a_snippet_of_the_readme_prints_what_stands_below_it(number: int, tmp_path: Path) -> None:
    code, shown = SNIPPETS[number]
    assert shown, "a snippet is followed by a text block with its output"
    assert without_variable_parts(run(["-c", code], tmp_path)) == without_variable_parts(shown)


def test_the_demo_prints_the_lines_that_the_readme_shows() -> None:
    [shown] = re.findall(r"```console\n\$ make demo\n\.venv/bin/python -m examples\.demo\n(.*?)```", README, re.DOTALL)
    printed = run(["-m", "examples.demo"], ROOT)
    assert without_numbers(shown) == without_numbers(printed)
    assert len(rows(printed)) == 8
    assert rows(shown) == rows(printed)


@pytest.mark.parametrize("name", PAGES)
def test_every_make_target_that_a_page_names_exists(name: str) -> None:
    named = set(re.findall(r"(?:`|\$ )make ([a-z][\w-]*)", PAGES[name]))
    assert named <= TARGETS


def test_every_make_target_stands_in_the_readme() -> None:
    assert {"demo", "test", "clean"} <= TARGETS
    assert set(re.findall(r"^\| `make ([\w-]+)` \|", README, re.MULTILINE)) == TARGETS


def test_every_error_stands_in_the_architecture_with_its_code() -> None:
    defined = {
        (name, value.code)
        for module, base in ((errors, errors.LogError), (session_errors, session_errors.SessionError))
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, base)
    }
    assert set(re.findall(r"^\| `(\w+Error)` \| `(\w+)` \|", ARCHITECTURE, re.MULTILINE)) == defined


def test_every_rule_has_its_place_in_the_readme() -> None:
    cells = re.findall(r"^\| (G\d[^|]*) \|", README, re.MULTILINE)
    spans = [re.findall(r"\d+", part) for cell in cells for part in cell.split(", ")]
    assert {rule for span in spans for rule in range(int(span[0]), int(span[-1]) + 1)} == set(range(1, 58))


@pytest.mark.parametrize("name", PAGES)
def test_every_file_that_a_page_names_exists(name: str) -> None:
    quoted = re.findall(r"`([\w./-]+)`", re.sub(r"```.*?```", "", PAGES[name], flags=re.DOTALL))
    named = {word for word in quoted if word.startswith(FOLDERS) or word.endswith(ENDINGS) or word == "LICENSE"}
    assert named, "the page names files"
    assert [word for word in sorted(named) if not (ROOT / word).exists()] == []


@pytest.mark.parametrize("name", PAGES)
def test_every_link_within_a_page_leads_to_a_heading(name: str) -> None:
    headings = {
        re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-")
        for title in re.findall(r"^#+ (.*)$", PAGES[name], re.MULTILINE)
    }
    assert set(re.findall(r"\]\(#([\w-]+)\)", PAGES[name])) <= headings


@pytest.mark.parametrize("folder", ["engine/log", "engine/commands", "projections"])
def test_every_module_stands_in_the_architecture(folder: str) -> None:
    modules = {f"{folder}/{path.name}" for path in (ROOT / folder).glob("*.py")} - {f"{folder}/__init__.py"}
    assert modules <= set(re.findall(r"`([\w/]+\.py)`", ARCHITECTURE))
