"""Each line of code is in its room: what import-linter cannot see is looked for in the sources themselves."""

import ast
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.sources import ABOVE_THE_SEAM, ROOT, SOURCES, sql

SQL_ROOMS = (*ABOVE_THE_SEAM, "engine/log/sqlite/")
PRINTING_ROOM = "replay/"
PURE_ROOM = "engine/domain/"
PURE = {
    *("collections", "datetime", "enum", "functools", "hashlib", "itertools", "json", "math"),
    *("msgspec", "operator", "re", "types", "typing", "unicodedata"),
}
LOCKED = {"engine/domain/platforms.py": {"threading"}}
"""A register that any thread may add to: the lock is no way to the world outside."""

CLOCKS = {"now", "today", "utcnow"}
MUTEX = "engine/log/mutex.py"
WAITED_FOR = {"latch", "turn", "_bell"}
"""Locks that one thread takes at once, and another releases when it is to go on: nobody enters them."""


def printing(source: str) -> list[int]:
    """Return the lines that print, or that reach for the standard streams."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if (isinstance(node, ast.Name) and node.id == "print")
        or (isinstance(node, ast.Attribute) and node.attr in ("stdout", "stderr", "__stdout__", "__stderr__"))
    ]


def impure(source: str) -> list[int]:
    """Return the lines that open a file or read the clock."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call)
        and (
            (isinstance(node.func, ast.Name) and node.func.id in ("open", "input", "__import__"))
            or (isinstance(node.func, ast.Attribute) and node.func.attr in CLOCKS)
        )
    ]


def ownerless(source: str) -> list[int]:
    """Return the lines that make a lock which does not know its owner, and could make its thread wait for itself."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign)
        and ast.unparse(node.value) in ("threading.Lock()", "threading.Condition()", "threading.Event()")
        and not any(
            ast.unparse(each).removeprefix("self.").removeprefix("work.") in WAITED_FOR for each in node.targets
        )
    ]


def imported(source: str) -> set[str]:
    """Return the packages a module imports."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def found_outside(look: Callable[[str], list[int]], *rooms: str) -> list[str]:
    """Return where something is that belongs into certain rooms."""
    others = {name: source for name, source in SOURCES.items() if not name.startswith(rooms)}
    return [f"{name}:{line}" for name, source in others.items() for line in look(source)]


def test_sql_is_in_the_projections_and_the_backends_alone() -> None:
    assert found_outside(sql, *SQL_ROOMS) == []
    assert all(any(sql(source) for name, source in SOURCES.items() if name.startswith(room)) for room in SQL_ROOMS)


def test_printing_is_in_replay_alone() -> None:
    assert found_outside(printing, PRINTING_ROOM) == []


def test_a_lock_knows_its_owner() -> None:
    """G32: a signal handler that comes back into the store is told so, and never waits for what it interrupted."""
    assert [each for each in found_outside(ownerless, MUTEX) if not each.startswith(PRINTING_ROOM)] == []


def test_the_domain_opens_no_file_and_reads_no_clock() -> None:
    assert [each for each in found_outside(impure) if each.startswith(PURE_ROOM)] == []


@pytest.mark.parametrize("name", [name for name in SOURCES if name.startswith(PURE_ROOM)])
def test_a_module_of_the_domain_imports_nothing_that_does_things(name: str) -> None:
    allowed = PURE | LOCKED.get(name, set()) | {"engine"}
    assert imported(SOURCES[name]) <= allowed


def test_every_module_is_in_a_layer() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    [layers] = [each["layers"] for each in contracts if each["name"].startswith("imports point one way")]
    named = {name for layer in layers for name in layer.split(" | ")}
    modules = {".".join(Path(name).with_suffix("").parts[:2]) for name in SOURCES if not name.endswith("__init__.py")}
    assert [each for each in sorted(modules) if not {each, each.partition(".")[0]} & named] == []


@pytest.mark.parametrize(
    ("look", "source"),
    [
        (sql, "rows = log.query('SELECT key FROM lanes')"),
        (sql, "sql = f'DELETE FROM {table}'"),
        (sql, "sql = '''\n  CREATE TABLE lanes (key TEXT)'''"),
        (sql, "sql += ' ORDER BY key'"),
        (ownerless, "self._mutex = threading.Lock()"),
        (ownerless, "self._stopped = threading.Event()"),
        (printing, "print('hello')"),
        (printing, "sys.stderr.write('hello')"),
        (printing, "tell = print"),
        (impure, "text = open('settings').read()"),
        (impure, "at = datetime.now(UTC)"),
    ],
)
def test_what_is_out_of_its_room_is_found(look: Callable[[str], list[int]], source: str) -> None:
    assert look(source) != []


@pytest.mark.parametrize(
    ("look", "source"),
    [
        (sql, "def ask():\n    'SELECT key FROM lanes'\n"),
        (sql, "raise ValueError('select a lane, from those that are there')"),
        (printing, "blueprint('hello')"),
        (impure, "at = clock()"),
    ],
)
def test_what_is_in_its_room_is_left_alone(look: Callable[[str], list[int]], source: str) -> None:
    assert look(source) == []
