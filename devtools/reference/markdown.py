"""Docstrings and tables as Markdown."""

import inspect
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table; a column in which no row says anything is left out, and so is a table without rows."""
    rows = list(rows)
    if not rows:
        return ""
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    kept = [index for index, _ in enumerate(head) if any(row[index] for row in cells)]
    lines = [[head[index] for index in kept], ["---"] * len(kept), *([row[index] for index in kept] for row in cells)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def paragraphs(documented: object) -> list[str]:
    """Return the paragraphs of a docstring, each on one line; raise ValueError if there is none."""
    text = inspect.getdoc(documented)
    if not text:
        raise ValueError(f"{getattr(documented, '__qualname__', documented)!r} is public and has no docstring")
    return [" ".join(part.split()) for part in text.split("\n\n")]


def code(text: object) -> str:
    """Return a text as inline code; nothing stays nothing."""
    return f"`{text}`" if text != "" else ""
