"""Questions to the usage view: sums over any of its dimensions (V11)."""

from collections.abc import Sequence

import msgspec

from engine.log.protocol import Tables
from projections.inline.texts import original
from projections.views.usage import COUNTS

DIMENSIONS = {
    "day": "u.day",
    "platform": "s.platform",
    "user": "s.user_id",
    "model": "u.model",
    "provider": "u.provider",
    "lane": "s.lane",
    "session": "u.session_id",
}


class UsageRow(msgspec.Struct, frozen=True, kw_only=True):
    """Sums of one combination of what was asked for; a dimension that was not asked for is None."""

    day: str | None = None
    platform: str | None = None
    user: str | None = None
    model: str | None = None
    provider: str | None = None
    lane: str | None = None
    session: str | None = None
    sessions: int
    messages: int
    turns: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    cost_usd: float


def usage(tables: Tables, by: Sequence[str], since: str | None, until: str | None) -> list[UsageRow]:
    """Return sums by dimensions, for days at or after one and before another."""
    if isinstance(by, str):
        raise ValueError(f"by is a list of dimensions, not the text {by!r}")
    unknown = [name for name in by if name not in DIMENSIONS]
    if unknown:
        raise ValueError(f"there is no dimension {unknown[0]!r}; there are {', '.join(DIMENSIONS)}")
    chosen = list(dict.fromkeys(by))
    columns = "".join(f"{DIMENSIONS[name]}, " for name in chosen)
    sums = ", ".join(f"sum(u.{name})" for name in (*COUNTS, "cost_usd"))
    grouped = f" GROUP BY {', '.join(DIMENSIONS[name] for name in chosen)}" if chosen else ""
    ordered = f" ORDER BY {', '.join(str(number + 1) for number in range(len(chosen)))}" if chosen else ""
    where = [f"u.day {sign} ?" for sign, day in ((">=", since), ("<", until)) if day is not None]
    rows = tables.query(
        f"SELECT {columns}{sums} FROM usage AS u LEFT JOIN usage_sessions AS s ON s.session_id = u.session_id"
        f"{' WHERE ' + ' AND '.join(where) if where else ''}{grouped}{ordered}",
        [day for day in (since, until) if day is not None],
    )
    return [_row(chosen, row) for row in rows if row[len(chosen)] is not None]


def _row(chosen: Sequence[str], row: Sequence[object]) -> UsageRow:
    named = {name: original(str(value)) or None for name, value in zip(chosen, row, strict=False) if value is not None}
    counts = dict(zip((*COUNTS, "cost_usd"), row[len(chosen) :], strict=True))
    return UsageRow(**named, **counts)  # type: ignore[arg-type]
