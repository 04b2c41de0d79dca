"""Questions to the catalogue: a page of the list of chats, and what has changed in it since a position (W11, W15)."""

import logging
from collections.abc import Mapping
from heapq import merge
from typing import Any, NamedTuple

from engine.domain.chat_rows import ROW
from engine.domain.encoding import state_decoder
from engine.log.protocol import Tables
from projections.inline.states import UNUSABLE
from projections.inline.texts import original, storable
from projections.views import progress
from projections.views.catalogue import Catalogue, Listed
from projections.views.lineage import HIDDEN, SHOWN
from projections.views.progress import SERVING

logger = logging.getLogger("engine.views")

_ALL = 1 << 62
_NOTHING: dict[str, Any] = {name: value for name, value in ROW.items() if value is None}
_read = state_decoder(Listed)


class Place(NamedTuple):
    """The place of a row in the list: pinned ones first, then by activity, newest first."""

    pinned: int
    activity: float
    session_id: str


FIRST = Place(2, 0.0, "")
"""Before all rows."""


class Changed(NamedTuple):
    """A session whose row was written at a position; without a row it is in no list, or not in this one."""

    position: int
    session_id: str
    row: dict[str, Any] | None


def place_of(row: Mapping[str, Any]) -> Place:
    """Return where a row that was given stands; raise ValueError for what is no row."""
    try:
        return Place(int(bool(row["pinned"])), float(row["last_message_at"]), storable(str(row["session_id"])))
    except (TypeError, ValueError, LookupError) as error:
        raise ValueError(f"after must be a row of the list, or None, not {row!r:.200}") from error


def page(tables: Tables, hidden: bool, after: Place, limit: int | None) -> list[dict[str, Any]]:
    """Return rows after a place; one that cannot be read is logged and left out."""
    sql = (
        "SELECT pinned, activity, session_id, state FROM catalogue_rows "
        "WHERE place = ? AND (pinned, activity, session_id) < (?,?,?) "
        "ORDER BY pinned DESC, activity DESC, session_id DESC LIMIT ?"
    )
    most = _ALL if limit is None else limit
    found = [tables.query(sql, (place, *after, most)) for place in (SHOWN, HIDDEN)[: 1 + hidden]]
    rows = merge(*found, key=lambda row: row[:3], reverse=True) if hidden else found[0]
    read = [_row(session_id, state) for _, _, session_id, state in rows]
    return [row for row in read if row is not None][:most]


def changed(tables: Tables, hidden: bool, after: tuple[int, str], upto: int, limit: int) -> list[Changed]:
    """Return sessions whose rows were written after a position, or there and after an id, in the order they were."""
    rows = tables.query(
        "SELECT changed, session_id, place, state FROM catalogue_rows "
        "WHERE (changed, session_id) > (?,?) AND changed <= ? ORDER BY changed, session_id LIMIT ?",
        (*after, upto, limit),
    )
    shown = (SHOWN, HIDDEN)[: 1 + hidden]
    return [
        Changed(at, original(session_id), _row(session_id, state) if place in shown else None)
        for at, session_id, place, state in rows
    ]


def position(tables: Tables) -> int:
    """Return how far the list is."""
    found = progress.progress_of(tables).get((Catalogue.name, SERVING))
    return 0 if found is None else found.position


def _row(session_id: str, state: str) -> dict[str, Any] | None:
    try:
        return _NOTHING | _read(state).row
    except UNUSABLE as error:
        logger.warning("the row of session %s cannot be read and is left out: %s", original(session_id), error)
        return None
