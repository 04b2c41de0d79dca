"""G59: the page for those who come from hermes-agent tells of the differences that are there, and of no other."""

import re
from pathlib import Path

from tests.differential.differences import BESIDES, DIFFERENCES

PAGE = (Path(__file__).parents[2] / "docs/how-to/coming-from-hermes-agent.md").read_text()


def told(heading: str) -> list[tuple[str, str]]:
    """Return the differences of a section's table, each with its rule."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \| (G\d+[a-z]?) \| [^|]+ \|$", section, re.MULTILINE)
    assert len(rows) == len(re.findall(r"^\|", section, re.MULTILINE)) - 2
    return rows


def listed(differences: dict[str, str]) -> list[tuple[str, str]]:
    rules = {name: re.match(r"G\d+[a-z]?", said) for name, said in differences.items()}
    return [(name, found[0]) for name, found in rules.items() if found is not None]


def test_g59_the_page_tells_of_every_difference_that_scripts_reach() -> None:
    assert told("What differs when commands are given") == listed(DIFFERENCES)


def test_g59_the_page_tells_of_every_other_difference() -> None:
    assert told("What else differs") == listed(BESIDES)


def test_g59_every_difference_names_its_rule_and_is_told_once() -> None:
    assert len(listed(DIFFERENCES)) == len(DIFFERENCES)
    assert len(listed(BESIDES)) == len(BESIDES)
    assert not DIFFERENCES.keys() & BESIDES.keys()
