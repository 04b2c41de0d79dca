"""Titles of sessions: unique in a store, numbered in a lineage (G44)."""

import re
from typing import NamedTuple

_NUMBERED = re.compile(r"^(.*?) #([2-9]|[1-9][0-9]{1,17})$", re.DOTALL)


class Numbered(NamedTuple):
    """A title taken apart: its name, and its number in the lineage, 1 where none is written."""

    name: str
    number: int


def numbered(title: str) -> Numbered:
    """Return a title's name and number; two titles are the same if both are."""
    found = _NUMBERED.match(title)
    return Numbered(title, 1) if found is None else Numbered(found[1], int(found[2]))


def following(title: str, highest: int) -> str:
    """Return a title's name with the number after the highest that others have."""
    return f"{numbered(title).name} #{max(highest, 1) + 1}"
