"""Sessions, messages and lanes as they were found in a source, before they become events."""

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from engine.domain.entry import SessionEntry
from engine.imports.report import ImportReport


class FoundSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session of a source. Times are UTC microseconds."""

    session_id: str
    source: str
    created_at: int
    lane: str | None = None
    origin: dict[str, Any] | None = None
    parent_session_id: str | None = None
    relation: str = "root"
    title: str | None = None
    ended_at: int | None = None
    end_reason: str | None = None
    child_session_id: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None
    model: str | None = None
    provider: str | None = None


class FoundMessage(msgspec.Struct, frozen=True):
    """A message of a source: its row there, when it was said, and whether it is still part of the history."""

    row: int
    time: int
    message: dict[str, Any]
    state: str = "live"
    """`live`, `undone` by the user, or `compacted` into a summary that follows."""


class ImportSource(Protocol):
    """A place that sessions are imported from. It is only read."""

    name: str

    def sessions(self, report: ImportReport) -> Iterator[FoundSession]:
        """Yield sessions, parents before their children."""

    def messages(self, session_id: str, after: int, report: ImportReport) -> Iterator[FoundMessage]:
        """Yield the messages of a session behind a row, in order."""

    def lanes(self, report: ImportReport) -> Iterator[SessionEntry]:
        """Yield where lanes lead."""

    def close(self) -> None:
        """Close what was opened."""
