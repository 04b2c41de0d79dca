"""Usage: messages, turns, tokens and cost by day, person, model and session (V11)."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, tzinfo
from functools import lru_cache
from types import ModuleType
from typing import Any

from engine.domain import events as e, times
from engine.domain.encoding import Archived
from engine.domain.streams import SESSION
from engine.domain.times import moment, names_of
from engine.log.envelope import Envelope
from engine.log.protocol import Tables
from projections.inline import texts
from projections.inline.texts import storable
from projections.views.view import View, ViewTables

COUNTS = ("sessions", "messages", "turns", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
_COLUMNS = len(COUNTS) + 1
_COUNTED: Mapping[type, int] = {
    e.SessionCreated: COUNTS.index("sessions"),
    e.MessageAppended: COUNTS.index("messages"),
    e.TurnBegun: COUNTS.index("turns"),
}
"""The column that counts each kind of event."""
_MINUTE = 60_000_000
_ADDED = ", ".join(f"{name} = {{usage}}.{name} + excluded.{name}" for name in (*COUNTS, "cost_usd"))
_ADD = (
    "INSERT INTO {usage} VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?) "
    f"ON CONFLICT (stream, day, session_id, model, provider) DO UPDATE SET {_ADDED}"
)


class Usage(View):
    """Counts by stream and day; whose session it was stands in a table beside them."""

    name = "usage"
    modules: Sequence[ModuleType] = (texts, times)
    tables: Mapping[str, Sequence[str]] = {
        "usage": (
            """CREATE TABLE {usage} (
    stream             TEXT NOT NULL,    -- the events it was counted from: an erasure counts them again
    day                TEXT NOT NULL,    -- in the store's time zone
    session_id         TEXT NOT NULL,
    model              TEXT NOT NULL,    -- '' if nobody said
    provider           TEXT NOT NULL,    -- '' if nobody said
    sessions           BIGINT NOT NULL,  -- that began
    messages           BIGINT NOT NULL,  -- that were appended
    turns              BIGINT NOT NULL,  -- that began
    input_tokens       BIGINT NOT NULL,  -- that models read
    output_tokens      BIGINT NOT NULL,  -- that models wrote
    cache_read_tokens  BIGINT NOT NULL,  -- that models had read before
    cache_write_tokens BIGINT NOT NULL,  -- that models keep for later
    cost_usd           DOUBLE PRECISION NOT NULL,  -- as hosts said
    PRIMARY KEY (stream, day, session_id, model, provider)
)""",
        ),
        "usage_sessions": (
            """CREATE TABLE {usage_sessions} (
    session_id TEXT PRIMARY KEY,
    lane       TEXT,  -- the key of its lane
    platform   TEXT,  -- where it was begun, or given to its lane
    user_id    TEXT   -- by whom
)""",
        ),
    }

    def __init__(self, zone: Callable[[], tzinfo | None]) -> None:
        self._zone = zone

    def fingerprint(self) -> str:
        """Return a digest of what decides the rows: another time zone has other days."""
        return f"{super().fingerprint()}:{'/'.join(names_of(self._zone()))}"

    def contents(self, tables: Tables) -> dict[str, list[tuple[Any, ...]]]:
        """Return the rows of each table; costs are sums, whose last digits depend on their order."""
        columns = ", ".join(("stream", "day", "session_id", "model", "provider", *COUNTS))
        return {
            "usage": tables.query(
                f"SELECT {columns}, CAST(round(cost_usd * 1000000) AS BIGINT) FROM usage ORDER BY 1, 2, 3, 4, 5"
            ),
            "usage_sessions": tables.query("SELECT * FROM usage_sessions ORDER BY 1"),
        }

    def apply(self, tables: ViewTables, events: Sequence[Envelope]) -> None:
        """Count what a batch says; rows of one key are added up first."""
        zone = self._zone()
        added: dict[tuple[str, ...], list[float]] = {}
        for each in events:
            event = each.event
            archived = isinstance(event, Archived) and event.topic == e.MessageAppended.TOPIC
            counted = _COUNTED.get(e.MessageAppended if archived else type(event))
            if counted is None and not isinstance(event, e.UsageRecorded | e.SessionClaimed):
                continue
            session_id = each.stream.removeprefix(SESSION)
            if isinstance(event, e.SessionCreated | e.SessionClaimed):
                _place(tables, session_id, event)
            if counted is not None:
                key = (each.stream, _day(each.time // _MINUTE, zone), session_id, "", "")
                added.setdefault(key, [0] * _COLUMNS)[counted] += 1
            elif isinstance(event, e.UsageRecorded):
                named = event.session_id, storable(event.model or ""), storable(event.provider or "")
                key = (each.stream, _day(each.time // _MINUTE, zone), *named)
                known = added.setdefault(key, [0] * _COLUMNS)
                added[key] = [a + b for a, b in zip(known, _spent(event), strict=True)]
        tables.executemany(_ADD, [(*key, *counts) for key, counts in added.items()])

    def forget(self, tables: ViewTables, streams: Sequence[str]) -> None:
        """Remove what was counted from streams, to be counted again."""
        for stream in streams:
            tables.execute("DELETE FROM {usage} WHERE stream = ?", (stream,))
            tables.execute("DELETE FROM {usage_sessions} WHERE session_id = ?", (stream.removeprefix(SESSION),))


@lru_cache(maxsize=4096)
def _day(minute: int, zone: tzinfo | None) -> str:
    """Return the day that a minute of UTC begins in: zones are whole minutes apart."""
    there: datetime = moment(minute * _MINUTE, zone)
    return f"{there:%Y-%m-%d}"


def _place(tables: ViewTables, session_id: str, event: e.SessionCreated | e.SessionClaimed) -> None:
    """Note whose session it is, from its first event and from each that gives it to another lane."""
    source: Mapping[str, Any] = event.source or {}
    values = (event.lane, source.get("platform"), source.get("user_id"))
    tables.execute(
        "INSERT INTO {usage_sessions} VALUES (?,?,?,?) ON CONFLICT (session_id) DO UPDATE SET "
        "lane = excluded.lane, platform = excluded.platform, user_id = excluded.user_id",
        (session_id, *(None if value is None else storable(str(value)) for value in values)),
    )


def _spent(event: e.UsageRecorded) -> list[float]:
    """Return what an event adds to each column."""
    tokens = [event.input_tokens, event.output_tokens, event.cache_read_tokens, event.cache_write_tokens]
    return [0, 0, 0, *tokens, event.cost_usd or 0.0]
