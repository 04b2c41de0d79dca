"""A small view to try the runner with: how many events each stream has, and the last words said in it."""

from typing import ClassVar

from engine.domain.events import MessageAppended
from engine.log.sqlite.tables import SQLiteTables
from projections.views.view import View


class Counts(View):
    """Counts events by stream."""

    name = "counts"
    tables: ClassVar = {
        "counts": (
            "CREATE TABLE {counts} (stream TEXT PRIMARY KEY, events BIGINT NOT NULL, words TEXT)",
            "CREATE INDEX {counts}_by_number ON {counts} (events)",
        )
    }

    def __init__(self, definition: str = "1") -> None:
        self.definition = definition

    def fingerprint(self) -> str:
        return super().fingerprint() + self.definition

    def apply(self, tables, events):
        for each in events:
            words = str(each.event.message.get("content")) if isinstance(each.event, MessageAppended) else None
            if words == "unusable":
                raise ValueError("a word this view cannot use")
            tables.execute(
                "INSERT INTO {counts} VALUES (?, 1, ?) ON CONFLICT (stream) DO UPDATE "
                "SET events = {counts}.events + 1, words = coalesce(excluded.words, {counts}.words)",
                (each.stream, words),
            )

    def forget(self, tables, streams):
        for stream in streams:
            tables.execute("DELETE FROM {counts} WHERE stream = ?", (stream,))


def rows(tables: SQLiteTables) -> dict[str, tuple[int, str]]:
    return {stream: (events, words) for stream, events, words in tables.query("SELECT * FROM counts")}
