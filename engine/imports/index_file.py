"""Older installations: `sessions.json` beside one `<session_id>.jsonl` per transcript (V18)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.domain.entry import SessionEntry
from engine.domain.times import microseconds
from engine.imports.found import FoundProject, FoundSession
from engine.imports.found_message import FoundMessage
from engine.imports.report import ImportReport
from engine.imports.times import micros
from engine.log.errors import ForeignFileError

INDEX = "sessions.json"
_LINES = "lines"


class IndexFolder:
    """Reads a folder with an index file and transcripts. A file that cannot be read is reported, the others go on."""

    def __init__(self, folder: str) -> None:
        self.name = folder
        self._folder = Path(folder)
        try:
            found = json.loads((self._folder / INDEX).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ForeignFileError(f"{self._folder / INDEX} cannot be read as an index of sessions: {error}") from error
        if not isinstance(found, dict):
            raise ForeignFileError(f"{self._folder / INDEX} is no index of sessions: it is a {type(found).__name__}")
        self._entries: dict[str, Any] = found
        self._found: list[SessionEntry] | None = None

    def lanes(self, report: ImportReport) -> Iterator[SessionEntry]:
        """Yield where lanes lead; keys that begin with `_` are notes."""
        if self._found is None:
            self._found = list(self._read(report))
        yield from self._found

    def _read(self, report: ImportReport) -> Iterator[SessionEntry]:
        for key, entry in self._entries.items():
            if key.startswith("_"):
                continue
            try:
                if not isinstance(entry, dict):
                    raise ValueError(f"its entry is a {type(entry).__name__}")  # noqa: TRY301 - reported like the others
                yield SessionEntry.from_dict({"session_key": key} | entry)
            except (ValueError, TypeError, KeyError) as error:
                report.skip(f"lane {key!r}", error)

    def sessions(self, report: ImportReport) -> Iterator[FoundSession]:
        """Yield the sessions of the index, and those that only a transcript is left of."""
        entries = {entry.session_id: entry for entry in self.lanes(report)}
        for session_id, entry in entries.items():
            origin = None if entry.origin is None else entry.origin.to_dict()
            yield FoundSession(
                session_id=session_id,
                source="gateway" if entry.platform is None else entry.platform.value,
                created_at=microseconds(entry.created_at),
                lane=entry.session_key,
                origin=origin,
                input_tokens=entry.input_tokens,
                output_tokens=entry.output_tokens,
                cache_read_tokens=entry.cache_read_tokens,
                cache_write_tokens=entry.cache_write_tokens,
                cost_usd=entry.estimated_cost_usd or None,
                counted=_LINES,
            )
        for path in sorted(self._folder.glob("*.jsonl")):
            if path.stem not in entries:
                created_at = micros(path.stat().st_mtime)
                yield FoundSession(session_id=path.stem, source="gateway", created_at=created_at, counted=_LINES)

    def messages(self, session_id: str, after: int, report: ImportReport) -> Iterator[FoundMessage]:
        """Yield the messages of a transcript, a line each; its row is the number of its line."""
        path = self._folder / f"{session_id}.jsonl"
        if not path.is_file():
            return
        changed = path.stat().st_mtime
        with path.open(encoding="utf-8", errors="surrogateescape") as lines:
            for row, line in enumerate(lines, 1):
                if row <= after or not line.strip():
                    continue
                try:
                    yield _found(row, line, changed)
                except (ValueError, TypeError, RecursionError) as error:
                    report.skip(f"line {row} of {path.name}", error)

    def projects(self, report: ImportReport) -> Iterator[FoundProject]:  # noqa: ARG002 - there were none
        """Yield nothing: older installations had no projects."""
        return iter(())

    def close(self) -> None:
        """Close nothing: each file is closed when it was read."""


def _found(row: int, line: str, changed: float) -> FoundMessage:
    message = json.loads(line)
    if not isinstance(message, dict):
        raise ValueError(f"a message must be an object, not a {type(message).__name__}")
    if message.get("role") == "session_meta":
        raise ValueError("it describes the session and is no message")
    time = message.get("timestamp")
    said = time if isinstance(time, (int, float)) and not isinstance(time, bool) else changed
    return FoundMessage(row, micros(said), message)
