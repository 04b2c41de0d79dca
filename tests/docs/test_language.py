"""The language of the code: a docstring says what the caller gets, verb first."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
ROOMS = ("engine", "projections", "replay", "examples", "devtools")
OTHERS = ("tests", "benchmarks")
MODULES = sorted(path for room in ROOMS for path in (ROOT / room).rglob("*.py"))
ALL = sorted([*MODULES, *(path for room in OTHERS for path in (ROOT / room).rglob("*.py") if ".tmp" not in path.parts)])
QUESTIONS = ("What", "Whether", "How", "Who", "Where", "Why", "Which", "Tell whether", "Return whether")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def docstrings(module: Path) -> dict[str, str]:
    """Every docstring of a module, by the name and the line of what it documents."""
    found = {}
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, DOCUMENTED) and (text := ast.get_docstring(node)):
            found[f"{getattr(node, 'name', 'module')} at line {getattr(node, 'lineno', 1)}"] = text
    return found


@pytest.mark.parametrize("module", ALL, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_docstring_does_not_open_with_a_question(module: Path) -> None:
    found = docstrings(module)
    assert [name for name, text in found.items() if text.startswith(tuple(f"{word} " for word in QUESTIONS))] == []


def test_every_module_says_what_it_is() -> None:
    assert [str(path) for path in MODULES if not ast.get_docstring(ast.parse(path.read_text()))] == []
