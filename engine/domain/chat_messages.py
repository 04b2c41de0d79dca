"""A chat's messages as its client gave them, told apart and compared by their places (W8)."""

from collections.abc import Sequence
from typing import Any

from engine.domain import events as e
from engine.domain.encoding import Erased, decode
from engine.domain.transcript import Report, Row

LEFT: dict[str, Any] = {"role": "unknown", "content": "", "_erased": True}
"""In the place of a message that was erased or cannot be read: the places of the others stay."""


def said(rows: Sequence[Row], report: Report) -> list[dict[str, Any]]:
    """Return fresh objects of messages, as they were given: nothing is added but a platform's id."""
    return [_said(row, report) for row in rows]


def _said(row: Row, report: Report) -> dict[str, Any]:
    found = decode(row[1], row[2])
    if isinstance(found, (e.MessageAppended, e.MessageRewritten)):
        return found.message if found.message_id is None else {**found.message, "message_id": found.message_id}
    if not isinstance(found, Erased):
        report(row[3], getattr(found, "error", "not a message"))
    return dict(LEFT)
