"""The turns that are open: one per conversation at most, whichever lane or process runs it."""

from collections.abc import Iterable
from typing import Any

import msgspec

from engine.domain.session import Session
from engine.domain.turn import TurnState
from engine.log.protocol import Queries
from projections.inline.changes import Change
from projections.inline.states import ask, unusable

TABLES = (
    """CREATE TABLE turns (  -- The turns that are open: the key is the lease.
    conversation_id TEXT PRIMARY KEY,  -- one turn at a time
    token           TEXT NOT NULL UNIQUE, -- ends it, and fences writes
    session_id      TEXT NOT NULL,     -- whose stream has the turn's events
    lane_id         TEXT,              -- the lane it was begun on
    holder          TEXT,              -- machine, process and store that run it
    begun_at        INTEGER NOT NULL,  -- when it began
    ends_at         INTEGER,           -- when the lease runs out, if it does
    boot            TEXT,              -- the run of the machine whose own clock says so instead
    boot_ends_at    INTEGER            -- and when by that clock
)""",
)
KEYS = {"turns": "conversation_id"}
NAMES = tuple(KEYS)
_COLUMNS = TurnState.__struct_fields__
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM turns "
_UPDATED = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS[1:])


def turn_of(reads: Queries, conversation_id: str) -> TurnState | None:
    """Return the open turn of a conversation."""
    return _first(reads, "WHERE conversation_id = ?", conversation_id)


def turn_with(reads: Queries, token: str) -> TurnState | None:
    """Return the open turn of a token."""
    return _first(reads, "WHERE token = ?", token)


def _first(reads: Queries, where: str, value: str) -> TurnState | None:
    rows = ask(reads, "turns", _SELECT + where, (value,))
    return _turn(rows[0]) if rows else None


def open_turns(reads: Queries) -> list[TurnState]:
    """Return all open turns, oldest first."""
    return [_turn(row) for row in ask(reads, "turns", f"{_SELECT} ORDER BY begun_at, token", ())]


def _turn(row: tuple[Any, ...]) -> TurnState:
    try:
        return msgspec.convert(dict(zip(TurnState.__struct_fields__, row, strict=True)), TurnState)
    except msgspec.ValidationError as error:
        raise unusable("turns", row[0], error) from error


def change_of(conversation_id: str, turn: TurnState | None) -> Change:
    """Return what brings a conversation's row up to date. Beginning over another turn fails: the key is the lease."""
    if turn is None:
        return "DELETE FROM turns WHERE conversation_id = ?", (conversation_id,)
    sql = (
        f"INSERT INTO turns VALUES ({','.join('?' * len(_COLUMNS))}) "
        f"ON CONFLICT (conversation_id) DO UPDATE SET {_UPDATED}"
    )
    return sql, (conversation_id, *msgspec.structs.astuple(turn)[1:])


def removal_of(sessions: Iterable[Session]) -> list[Change]:
    """Return what takes the turns of sessions' conversations out of the table, to be folded again."""
    conversations = {session.conversation_id or session.session_id for session in sessions}
    return [("DELETE FROM turns WHERE conversation_id = ?", (each,)) for each in sorted(conversations)]
