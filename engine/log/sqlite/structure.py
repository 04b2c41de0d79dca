"""The file as this package made it: tables, triggers, SQLite's own check, the streams' versions."""

import re
from functools import cache

import apsw

from engine.log.protocol import Queries
from engine.log.sqlite import schema
from engine.log.sqlite.names import Query

Defined = dict[str, tuple[str, str]]
"""A schema by name, the kind and the SQL."""

_QUOTED, _GENERATION = re.compile(r'"(\w+)"'), re.compile(r"__[0-9]+\b")
_DEFINITIONS = (
    "SELECT name, type, coalesce(sql, '') FROM sqlite_schema "
    "WHERE substr(tbl_name, -5) <> '_next' AND substr(tbl_name, -4) <> '_old'"
)
"""But for tables that are being built, or were replaced and are being emptied."""
_OUT_OF_ORDER = """
SELECT position, version, before, position_before FROM (
    SELECT position, version, stream, lag(version) OVER (PARTITION BY stream ORDER BY version) AS before,
           lag(position) OVER (PARTITION BY stream ORDER BY version) AS position_before
    FROM events
) WHERE (before IS NULL AND version NOT IN (0, 1)) OR version <> before + 1 OR position < position_before LIMIT 1"""


def definition_problem(reads: Queries) -> str | None:
    """Return what is missing or changed of the tables, triggers and views of the log itself, or is new among them."""
    found = definitions(reads.query)
    expected = _log_definitions()
    problem = difference(expected, found)
    if problem is not None:
        return problem
    strange = [name for name, (kind, _) in found.items() if kind == "trigger" and name not in expected]
    return f"the trigger {min(strange)} is not one of the log's" if strange else None


def difference(expected: Defined, found: Defined) -> str | None:
    """Return what is missing or other than expected; what is there beside it is not looked at."""
    for name, definition in sorted(expected.items()):
        kind = definition[0]
        if name not in found:
            return f"the {kind} {name} is missing"
        if found[name] != definition:
            return f"the {kind} {name} is not as it was defined"
    return None


def definitions(query: Query) -> Defined:
    """Return what a file defines; without what tables that took the place of others have otherwise.

    SQLite puts a renamed table's name into quotes, and an index has the generation of its table in its name.
    """
    found = query(_DEFINITIONS, ())
    return {
        _GENERATION.sub("", name): (kind, _GENERATION.sub("", _QUOTED.sub(r"\1", sql))) for name, kind, sql in found
    }


@cache
def _log_definitions() -> Defined:
    connection = apsw.Connection(":memory:")
    try:
        for migration in schema.MIGRATIONS:
            migration(connection)
        return definitions(lambda sql, bindings: connection.execute(sql, bindings).fetchall())
    finally:
        connection.close()


def integrity_problem(reads: Queries) -> str | None:
    """Return the first thing that SQLite's own check finds, in any table of the file."""
    ((found,),) = reads.query("PRAGMA integrity_check(1)")
    if found == "ok":
        return None
    return (
        f"SQLite's integrity_check: {found}; restore a backup, or if that is a table or an index of a projection, "
        "let it be made again: SessionStore.rebuild()"
    )


def version_problem(reads: Queries) -> tuple[int, str] | None:
    """Return the first position at which a stream's versions do not follow each other, in the order of the log."""
    rows = reads.query(_OUT_OF_ORDER)
    if not rows:
        return None
    position, version, before, position_before = rows[0]
    if before is None:
        return position, f"a stream begins at version {version}"
    if version != before + 1:
        return position, f"version {version} of a stream follows version {before}"
    return (
        position,
        f"version {version} of a stream is at an earlier position than version {before} ({position_before})",
    )
