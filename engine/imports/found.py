"""Sessions, messages and lanes as they were found in a source, before they become events."""

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from engine.domain.entry import SessionEntry
from engine.imports.chat_document import ChatDocument
from engine.imports.found_message import FoundMessage
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
    counted: str = ""
    """What its messages are numbered by, where they have no rows: lines or places."""
    chat: ChatDocument | None = None
    """A web chat has this beside its messages, which it has as they were given."""

    @property
    def key(self) -> str:
        """Return the name under which the store remembers how far it was imported."""
        return f"{self.source} {self.counted}" if self.counted else self.source


class FoundProject(msgspec.Struct, frozen=True):
    """A project of a source. Times are UTC microseconds."""

    project_id: str
    name: str
    color: str | None
    created_at: int


class ImportSource(Protocol):
    """A place that sessions are imported from. It is only read."""

    name: str

    def projects(self, report: ImportReport) -> Iterator[FoundProject]:
        """Yield the projects that sessions are in."""

    def sessions(self, report: ImportReport) -> Iterator[FoundSession]:
        """Yield sessions, parents before their children."""

    def messages(self, session_id: str, after: int, report: ImportReport) -> Iterator[FoundMessage]:
        """Yield the messages of a session behind a row, in order."""

    def lanes(self, report: ImportReport) -> Iterator[SessionEntry]:
        """Yield where lanes lead."""

    def close(self) -> None:
        """Close what was opened."""
