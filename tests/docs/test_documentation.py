"""Everything that the documentation says is there: files, make targets, headings and modules."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
ARCHITECTURE = (ROOT / "docs/explanation/architecture.md").read_text()
PAGES = {
    str(path.relative_to(ROOT)): path.read_text()
    for path in (ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md")))
}

TARGETS = set(re.findall(r"^([a-z][\w-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
FOLDERS = ("engine/", "projections/", "replay/", "tests/", "benchmarks/", "examples/", "docs/", "devtools/")
ENDINGS = (".py", ".md", ".toml")


@pytest.mark.parametrize("name", PAGES)
def test_every_make_target_that_a_page_names_exists(name: str) -> None:
    named = set(re.findall(r"(?:`|\$ )make ([a-z][\w-]*)", PAGES[name]))
    assert named <= TARGETS


@pytest.mark.parametrize("name", PAGES)
def test_every_file_that_a_page_names_exists(name: str) -> None:
    quoted = re.findall(r"`([\w./-]+)`", re.sub(r"```.*?```", "", PAGES[name], flags=re.DOTALL))
    named = {word for word in quoted if word.startswith(FOLDERS) or word.endswith(ENDINGS) or word == "LICENSE"}
    named -= set(re.findall(r'title="([\w./-]+)"', PAGES[name]))
    assert [word for word in sorted(named) if not (ROOT / word).exists()] == []


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as the usual viewers make them."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).strip().lower().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("name", PAGES)
def test_every_link_within_the_documentation_leads_to_a_page_and_a_heading(name: str) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)#?([^)\s]*)\)", PAGES[name]):
        page = (ROOT / name).parent / target if target else ROOT / name
        assert page.exists(), target
        assert not anchor or anchor in anchors(page.read_text()), f"{target}#{anchor}"


def test_the_index_leads_to_every_page() -> None:
    linked = {(ROOT / "docs" / target).resolve() for target in re.findall(r"\]\(([^)#]+)", PAGES["docs/index.md"])}
    pages = {ROOT / name for name in PAGES if name != "docs/index.md"}
    assert {str(page.relative_to(ROOT)) for page in pages - linked} == set()


def test_every_module_stands_in_the_architecture() -> None:
    rooms = [path for room in ("engine", "projections", "replay") for path in (ROOT / room).rglob("*.py")]
    modules = {str(path.relative_to(ROOT)) for path in rooms if path.name != "__init__.py"}
    assert modules == set(re.findall(r"^\| `([\w/]+\.py)` \| \S", ARCHITECTURE, re.MULTILINE))
