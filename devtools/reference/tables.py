"""The page of tables, from the definitions and their comments in the files of a new store."""

import re
import tempfile
from pathlib import Path

from devtools.reference.markdown import code, table
from engine import SessionCatalog, SessionStore
from engine.log.sqlite.tables import SQLiteTables
from engine.views import VIEWS_FILE

HEAD = """# Tables

<!-- made by `make docs` from the definitions in the file of a new store -->

A store is one SQLite file, `sessions.db`, with its `-wal` and `-shm` files beside it while it is open. Any SQLite
client can read it. Write only through the engine: triggers keep the rules at the end of this page, and the hash chain
shows what they could not prevent. Times are UTC microseconds.
"""

STATE = """## State tables

They are folds of the log. They change in the transaction that appends, and `SessionStore.rebuild()` makes them again.
"""

VIEWS = """## Audit views

They say the same in columns of text and numbers, for any SQL client and for `sessions sql`; times are ISO 8601 in UTC.
They are a supported interface: columns are added, never renamed or removed. [Audit](../audit.md) asks them.
"""

FOLLOWING = """## Tables of the views

They are in a file of their own, `views.db`, follow the log, and may be a moment behind. Deleting the file loses
nothing. They change with the views that keep them: ask the store and not these. `search_words` is an FTS5 index
without a copy of the text.
"""

LOG = ("events", "names", "log", "clock_steps", "meta", "tracking", "snapshots")
"""Tables of the log; all others are state tables."""

_COLUMN = re.compile(r"^\s+(\w+)\s+([A-Z]+)([^,\n-]*),?\s*(?:-- (.*))?$")


def page() -> str:
    """Return the page."""
    with tempfile.TemporaryDirectory() as folder, SessionStore(folder) as store:
        definitions = dict(
            store.log.query("SELECT name, sql FROM sqlite_schema WHERE type IN ('table', 'view') AND sql IS NOT NULL")
        )
        views = {
            name: [column for (column,) in store.log.query("SELECT name FROM pragma_table_info(?)", (name,))]
            for (name,) in store.log.query("SELECT name FROM sqlite_schema WHERE type = 'view' ORDER BY name")
            if name not in LOG
        }
        SessionCatalog(store).new_session()  # the file is there once a view has something to follow
        store.wait_for_views()
        followers = _tables_of(Path(folder) / VIEWS_FILE)
        triggers = store.log.query("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger' ORDER BY name")
    ours = sorted(
        name for name in definitions if name not in LOG and name not in views and not name.startswith("sqlite_")
    )
    return "\n".join(
        [
            HEAD,
            "## The log\n",
            *(_section(name, definitions[name]) for name in LOG),
            STATE,
            *(_section(name, definitions[name]) for name in ours),
            VIEWS,
            table(["view", "columns"], [[code(name), ", ".join(map(code, each))] for name, each in views.items()]),
            FOLLOWING,
            *(_section(name, definition) for name, definition in followers.items()),
            "## Rules the database keeps\n",
            table(["trigger", "rule"], [[code(name), _refusal(sql)] for name, sql in triggers]),
        ]
    )


def _tables_of(path: Path) -> dict[str, str]:
    """Return the definitions in the file of the views, but for the index of words, which is SQLite's own."""
    tables = SQLiteTables(path, read_only=True)
    found = dict(tables.query("SELECT name, sql FROM sqlite_schema WHERE type = 'table' ORDER BY name"))
    tables.close()
    return {name: sql for name, sql in found.items() if not name.startswith(("sqlite_", "search_words"))}


def _section(name: str, definition: str) -> str:
    first, _, rest = definition.partition("\n")
    said = re.search(r"-- (.*)$", first)
    meaning = "" if said is None else f"{said[1]}\n\n"
    rows = [match.groups("") for line in rest.splitlines() if (match := _COLUMN.match(line))]
    listed = table(
        ["column", "type", "meaning"], [[code(each[0]), f"{each[1]}{each[2]}".strip(), each[3]] for each in rows]
    )
    return f"### {name}\n\n{meaning}{listed}"


def _refusal(sql: str) -> str:
    found = re.search(r"RAISE\(ABORT, '([^']*)'\)", sql)
    return "" if found is None else found[1]
