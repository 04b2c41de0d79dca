"""Statements that bring the state tables up to date, and running them."""

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from engine.log.protocol import StateTables

Change = tuple[str, tuple[Any, ...]]
"""A statement and its bindings."""

_statement, _bindings = itemgetter(0), itemgetter(1)
_FEW = 4


def run(transaction: StateTables, changes: Sequence[Change]) -> None:
    """Run statements; of many, neighbours of the same text run as one."""
    if len(changes) <= _FEW:
        for sql, bindings in changes:
            transaction.execute(sql, bindings)
        return
    for sql, same in groupby(changes, _statement):
        transaction.executemany(sql, map(_bindings, same))
