"""What the documentation says is what the code does: snippets run, names exist, nothing is left out."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from engine.log import errors

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "docs/architecture.md").read_text()
PAGES = {
    name: (ROOT / name).read_text() for name in ("README.md", "CHANGELOG.md", "docs/architecture.md", "docs/events.md")
}

SNIPPETS = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```)?", README, re.DOTALL)
TARGETS = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
FOLDERS = ("engine/", "projections/", "replay/", "tests/", "benchmarks/", "docs/")
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


def labels(output: str) -> list[str]:
    """The demo's lines without their values: a label fills 34 columns after an indent of two."""
    lines = [line for line in output.splitlines() if line.startswith("  ")]
    return [line[2:36].strip() if not line.startswith("  head ") else "head" for line in lines]


def test_the_readme_has_snippets() -> None:
    assert len(SNIPPETS) >= 5


@pytest.mark.parametrize("number", range(len(SNIPPETS)))
def test_a_snippet_of_the_readme_prints_what_stands_below_it(number: int, tmp_path: Path) -> None:
    code, shown = SNIPPETS[number]
    assert shown, "a snippet is followed by a text block with its output"
    assert without_variable_parts(run(["-c", code], tmp_path)) == without_variable_parts(shown)


def test_the_demo_prints_the_lines_that_the_readme_shows() -> None:
    [shown] = re.findall(r"```console\n\$ make demo\n(.*?)```", README, re.DOTALL)
    printed = run(["-m", "benchmarks.demo"], ROOT)
    assert len(labels(printed)) > 5
    assert labels(shown) == labels(printed)
    sentences = [[line for line in text.splitlines() if re.match(r"[A-Z]", line)] for text in (shown, printed)]
    assert sentences[0] == sentences[1]


@pytest.mark.parametrize("name", PAGES)
def test_every_make_target_that_a_page_names_exists(name: str) -> None:
    named = set(re.findall(r"(?:`|\$ )make ([a-z][\w-]*)", PAGES[name]))
    assert named <= TARGETS


def test_every_make_target_stands_in_the_readme() -> None:
    assert {"demo", "test", "clean"} <= TARGETS
    assert set(re.findall(r"^\| `make ([\w-]+)` \|", README, re.MULTILINE)) == TARGETS


def test_every_error_of_the_log_stands_in_the_architecture_with_its_code() -> None:
    defined = {
        (name, value.code)
        for name, value in vars(errors).items()
        if isinstance(value, type) and issubclass(value, errors.LogError)
    }
    assert set(re.findall(r"^\| `(\w+Error)` \| `(\w+)` \|", ARCHITECTURE, re.MULTILINE)) == defined


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


def test_every_module_of_the_log_stands_in_the_architecture() -> None:
    modules = {f"engine/log/{path.name}" for path in (ROOT / "engine/log").glob("*.py")} - {"engine/log/__init__.py"}
    assert modules <= set(re.findall(r"`(engine/log/\w+\.py)`", ARCHITECTURE))
