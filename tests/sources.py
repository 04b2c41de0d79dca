"""The sources of the packages, and the SQL in them, for tests that hold each line to its room."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGES = ("engine", "projections", "replay")
SOURCES = {
    path.relative_to(ROOT).as_posix(): path.read_text() for name in PACKAGES for path in ROOT.glob(f"{name}/**/*.py")
}

ABOVE_THE_SEAM = ("projections/", "engine/log/library/tables.py")
"""Where SQL is written once, for every backend."""

SQL = re.compile(
    r"^\s*(ALTER|ATTACH|BEGIN|CREATE|DELETE|DROP|INSERT|PRAGMA|RELEASE|ROLLBACK|SAVEPOINT|SELECT|UPDATE|WITH) "
    r"|\b(SELECT .+ FROM|INSERT INTO|DELETE FROM|UPDATE \w+ SET|ORDER BY|PRIMARY KEY|ON CONFLICT)\b"
)
_DESCRIBED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_VALUE = "\0"


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module with their lines, but for docstrings. For a value in an f-string there is a NUL."""
    tree = ast.parse(source)
    left_out = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, _DESCRIBED) and node.body and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            left_out |= {id(part) for part in node.values}
            parts = (part.value if isinstance(part, ast.Constant) else _VALUE for part in node.values)
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in left_out:
            yield node.lineno, node.value


def sql(source: str) -> list[int]:
    """Return the lines with SQL."""
    return [line for line, text in texts(source) if SQL.search(text)]


_INDEX, _TABLE = re.compile(r"\\{(\w+)\\}_"), re.compile(r"\\{(\w+)\\}")
"""A table of a view in SQL stands in braces; an index of it gets a name that is used once."""


def _pattern(text: str) -> str:
    return ".*".join(map(re.escape, text.split(_VALUE)))


def statements_above_the_seam() -> dict[str, re.Pattern[str]]:
    """Return what each piece of SQL above the seam matches, by where it is written."""
    return {
        f"{name}:{line}": re.compile(_TABLE.sub(r"\1", _INDEX.sub(r"\1_\\w+_", _pattern(text))), re.DOTALL)
        for name, source in SOURCES.items()
        if name.startswith(ABOVE_THE_SEAM)
        for line, text in texts(source)
        if SQL.search(text)
    }
