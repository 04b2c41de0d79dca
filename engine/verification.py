"""Verifying a store: its log, and the state tables beside it."""

from collections.abc import Iterable

import msgspec

from engine.log.errors import SAYS_NOTHING, CorruptLogError, CorruptStateError, LogError
from engine.log.protocol import Log, Progress, Verification
from projections.inline.comparison import any_tables, compare
from projections.inline.projection import standing


class StoreVerification(Verification, frozen=True, kw_only=True):
    """The findings of `verify`: those of the log, and the first row of the state tables that the log contradicts.

    `bad_position` is then the last event that the row is made of, if that is known.
    """

    state_rows: int = 0
    table: str | None = None
    key: str | None = None
    not_compared: str | None = None
    """Why the state tables were not compared: another build made them, so it is for that build to say what is right."""


def verify_store(log: Log, progress: Progress | None, published: str | Iterable[str] | None) -> StoreVerification:
    """Verify the log, and if it is sound fold it again and compare the state tables row by row."""
    found = StoreVerification(**msgspec.structs.asdict(log.verify(progress, published)))
    if not found.ok:
        return found
    why = not_compared(log)
    if why is not None:
        return msgspec.structs.replace(found, not_compared=why)
    compared = compare(log, progress)
    different = compared.difference
    if different is None:
        return msgspec.structs.replace(found, state_rows=compared.rows)
    where = different.table if different.key is None else f"{different.table}, row {different.key!r}"
    return msgspec.structs.replace(
        found,
        ok=False,
        state_rows=compared.rows,
        table=different.table,
        key=different.key,
        bad_position=different.position,
        problem=f"state table {where}: {different.problem}; the log is sound: SessionStore.rebuild() makes the "
        "state tables again from it",
    )


def not_compared(log: Log) -> str | None:
    """Return why the state tables are not to be compared; what is wrong with them comparing says."""
    try:
        other = standing(log.reader).other_version
    except CorruptStateError:
        return None
    except (CorruptLogError, *SAYS_NOTHING):
        raise
    except LogError:  # no such table
        return None if any_tables(log.reader) else "there are no state tables; opening the store makes them of the log"
    if other is None:
        return None
    return (
        f"another build of this package, version {other}, made the state tables; opening the store with this one makes "
        "them again from the log"
    )
