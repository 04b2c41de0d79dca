"""A turn: the lease a worker holds on a conversation, as its events make it."""

from typing import NamedTuple

import msgspec

from engine.domain import events as e
from engine.domain.encoding import Content, Erased

_ENDS = (e.TurnEnded.TOPIC, e.TurnInterrupted.TOPIC)


class BootTime(NamedTuple):
    """A time by the clock of a machine that nobody sets: the name of its run since it was switched on, and how long."""

    boot: str
    at: int


class TurnState(msgspec.Struct, frozen=True):
    """A turn that was begun and has not ended. `ends_at` is when the lease runs out, if it does.

    While the machine of `boot` runs, `boot_ends_at` says so instead, whatever happens to the clock on its wall.
    """

    conversation_id: str
    token: str
    session_id: str
    lane_id: str | None
    holder: str | None
    begun_at: int
    ends_at: int | None
    boot: str | None = None
    boot_ends_at: int | None = None


def evolve(turn: TurnState | None, event: Content, session_id: str, time: int) -> TurnState | None:
    """Return the conversation's open turn after an event of a session; None when there is none.

    Raise ValueError for a turn that begins over another one: two would interleave.
    """
    match event:
        case e.TurnBegun():
            if turn is not None:
                raise ValueError(f"turn {event.token!r} begins while {turn.token!r} of the same conversation is open")
            turn = TurnState(event.conversation_id, event.token, session_id, event.lane_id, event.holder, time, None)
            return _leased(turn, event, time)
        case e.TurnRenewed() if turn is not None and turn.token == event.token:
            return _leased(turn, event, time)
        case e.TurnEnded() | e.TurnInterrupted() if turn is not None and turn.token == event.token:
            return None
        case Erased() if event.topic in _ENDS:  # its error may have repeated somebody's words; the lease is free anyway
            return None
    return turn


def _leased(turn: TurnState, event: e.TurnBegun | e.TurnRenewed, time: int) -> TurnState:
    """Return a turn whose lease runs from an event on."""
    if event.lease_seconds is None:
        return msgspec.structs.replace(turn, ends_at=None, boot=None, boot_ends_at=None)
    lease = int(event.lease_seconds * 1e6)
    known = event.boot is not None and event.boot_at is not None
    boot, boot_ends_at = (event.boot, (event.boot_at or 0) + lease) if known else (None, None)
    return msgspec.structs.replace(turn, ends_at=time + lease, boot=boot, boot_ends_at=boot_ends_at)


def over(turn: TurnState, now: int, holder_is_gone: bool, here: BootTime | None = None) -> str | None:
    """Return why a turn cannot be running any more, or None if it may be.

    `here` is the time since this machine was switched on: if the turn began since then and here, it decides.
    """
    if holder_is_gone:
        return f"its worker {turn.holder} is gone"
    ends_at, time = turn.ends_at, now
    if here is not None and turn.boot == here.boot and turn.boot_ends_at is not None:
        ends_at, time = turn.boot_ends_at, here.at
    if ends_at is not None and ends_at <= time:
        return f"its lease ran out {(time - ends_at) / 1e6:.1f} s ago"
    return None
