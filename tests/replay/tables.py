"""The state tables of any moment as values, to be compared."""

from typing import Any

from engine.log.protocol import Log, Queries
from projections.inline.past import Refolded
from projections.inline.shadow import STATE

_KEYS = {name: key for module in STATE for name, key in module.KEYS.items()} | {"quarantine": "position"}


def contents(reads: Queries) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of the state tables, and how far they are."""
    found = {name: reads.query(f"SELECT * FROM {name} ORDER BY {key}") for name, key in _KEYS.items()}
    found["quarantine"] = [row[:3] for row in found["quarantine"]]
    found["projections"] = reads.query("SELECT position FROM projections WHERE name = 'inline'")
    return found


def folded(log: Log, position: int) -> dict[str, list[tuple[Any, ...]]]:
    """Return what a fold of the log from its beginning up to a position makes of the tables."""
    tables = Refolded(log, position)
    try:
        return contents(tables)
    finally:
        tables.close()
