"""All that was said in a session, with the positions between which each message was live: a transcript through time."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from engine.domain.encoding import archived_digest, mark
from engine.domain.errors import ArchivedError
from engine.domain.messages import text_of
from engine.domain.streams import session_stream
from engine.domain.transcript import MESSAGES, Row, Transcript, inheritance, objects_of
from engine.log.protocol import Queries
from projections.inline.backwards import inherited_from, newest_first
from projections.inline.quarantine import quarantined
from projections.inline.transcripts import report

_IN_AN_ARCHIVE = "What was said here is in an archive."
_BESIDE = frozenset({"role", "content", "timestamp", "message_id"})


class Said(msgspec.Struct, frozen=True):
    """A message of a session. `live` are the spans of positions in which it was: from one up to before the other."""

    session_id: str
    position: int
    """Where it was recorded first."""
    time: int
    role: str
    text: str
    beside: str
    """Everything else of it, as JSON; "" if there is nothing."""
    live: tuple[tuple[int, int | None], ...]
    erased: bool = False


def said_in(reads: Queries, session_id: str, upto: int) -> list[Said]:
    """Return the messages that were ever live in a session up to a position, in the order they became so."""
    bad = {position for position, _ in quarantined(reads)}
    rows = reads.payloads(session_stream(session_id), until_position=upto)
    found = _Found()
    for row in rows:
        if row[3] not in bad:
            found.add(reads, row)
    return found.said(session_id)


def told(rows: list[Row]) -> list[dict[str, Any] | None]:
    """Return messages as objects, None for what cannot be read; of one whose content is in an archive its digest."""
    try:
        return objects_of(rows, report)
    except ArchivedError:
        return [message for row in rows for message in _archived(row) or objects_of([row], report)]


def _archived(row: Row) -> list[dict[str, Any] | None]:
    digest = archived_digest(row[2])
    return [] if digest is None else [{"archived": True, "digest": digest.hex()}]


class _Found:
    """Messages with their spans, as rows of the stream come in."""

    def __init__(self) -> None:
        self._transcript = Transcript(0, report)
        self._rows: list[Row] = []
        self._spans: list[list[list[int | None]]] = []
        self._at: dict[int, int] = {}

    def add(self, reads: Queries, row: Row) -> None:
        """Take in an event of the session."""
        if row[1] in MESSAGES:
            self._transcript.fold([row])
            self._show(row, row[3])
            return
        taken = inheritance(row)
        inherited = [] if taken is None else list(newest_first(reads, inherited_from(taken), report))[::-1]
        before = self._transcript.live()
        self._transcript.fold([row], [(*each,) for each in inherited])
        after = self._transcript.live()
        there, now = set(map(id, before)), set(map(id, after))
        for each in before:
            if id(each) not in now:
                self._spans[self._at[id(each)]][-1][1] = row[3]
        for each in after:
            if id(each) not in there:
                self._show(each, row[3])

    def _show(self, row: Row, position: int) -> None:
        """Begin a span; the row is kept, so that its id stays its own."""
        at = self._at.get(id(row))
        if at is None:
            at = self._at[id(row)] = len(self._rows)
            self._rows.append(row)
            self._spans.append([])
        self._spans[at].append([position, None])

    def said(self, session_id: str) -> list[Said]:
        objects = told(self._rows)
        return [
            _said(session_id, row, message, [(int(first or 0), end) for first, end in spans])
            for row, message, spans in zip(self._rows, objects, self._spans, strict=True)
        ]


def _said(session_id: str, row: Row, message: dict[str, Any] | None, live: Sequence[tuple[int, int | None]]) -> Said:
    if message is None:
        return Said(session_id, row[3], row[4], "", "", "", tuple(live), erased=True)
    if "role" not in message and message.get("archived") is True:
        message = {**message, "role": "archived", "content": _IN_AN_ARCHIVE}
    content = message.get("content")
    beside = {name: value for name, value in message.items() if name not in _BESIDE}
    text = text_of(content)
    if content and not text:
        beside["content"] = content
    return Said(
        session_id=session_id,
        position=row[3],
        time=row[4],
        role=str(message.get("role") or "unknown"),
        text=text,
        beside=json.dumps(mark(beside), ensure_ascii=True) if beside else "",
        live=tuple(live),
    )
