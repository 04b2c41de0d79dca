"""The table of modules in the page on the architecture, from their first lines."""

import ast
from pathlib import Path

from devtools.reference.markdown import code, table

ROOT = Path(__file__).parent.parent.parent
PAGE = "docs/explanation/architecture.md"
ROOMS = (
    "engine/domain",
    "engine/log",
    "engine/log/sqlite",
    "engine/log/library",
    "projections",
    "projections/inline",
    "projections/views",
    "engine/erasure",
    "engine/imports",
    "engine/commands",
    "engine",
    "replay",
    "replay/cli",
)
BEGIN, END = "<!-- modules: made by `make docs` from the first lines of the modules -->\n", "<!-- end of modules -->"


def page() -> str:
    """Return the page with the modules of today."""
    before, _, rest = (ROOT / PAGE).read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    tables = [f"\n### {room}\n\n{table(['module', 'what it is'], _rows(room))}" for room in ROOMS]
    return f"{before}{BEGIN}{''.join(tables)}\n{END}{after}"


def _rows(room: str) -> list[list[str]]:
    modules = [path for path in sorted((ROOT / room).glob("*.py")) if path.name != "__init__.py"]
    return [[code(f"{room}/{path.name}"), _first_line(path)] for path in modules]


def _first_line(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text())) or "").partition("\n")[0]
