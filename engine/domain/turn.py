"""A turn: the lease a worker holds on a conversation, as its events make it."""

import msgspec

from engine.domain import events as e
from engine.domain.encoding import Content, Erased

_ENDS = (e.TurnEnded.TOPIC, e.TurnInterrupted.TOPIC)


class TurnState(msgspec.Struct, frozen=True):
    """A turn that was begun and has not ended. `ends_at` is when the lease runs out, if it does."""

    conversation_id: str
    token: str
    session_id: str
    lane_id: str | None
    holder: str | None
    begun_at: int
    ends_at: int | None


def evolve(turn: TurnState | None, event: Content, session_id: str, time: int) -> TurnState | None:
    """Return the conversation's open turn after an event of a session; None when there is none.

    Raise ValueError for a turn that begins over another one: two would interleave.
    """
    match event:
        case e.TurnBegun():
            if turn is not None:
                raise ValueError(f"turn {event.token!r} begins while {turn.token!r} of the same conversation is open")
            ends_at = _lease_end(time, event.lease_seconds)
            return TurnState(event.conversation_id, event.token, session_id, event.lane_id, event.holder, time, ends_at)
        case e.TurnRenewed() if turn is not None and turn.token == event.token:
            return msgspec.structs.replace(turn, ends_at=_lease_end(time, event.lease_seconds))
        case e.TurnEnded() | e.TurnInterrupted() if turn is not None and turn.token == event.token:
            return None
        case Erased() if event.topic in _ENDS:  # its error may have repeated somebody's words; the lease is free anyway
            return None
    return turn


def _lease_end(time: int, seconds: float | None) -> int | None:
    return None if seconds is None else time + int(seconds * 1e6)


def over(turn: TurnState, now: int, holder_is_gone: bool) -> str | None:
    """Return why a turn cannot be running any more, or None if it may be."""
    if holder_is_gone:
        return f"its worker {turn.holder} is gone"
    if turn.ends_at is not None and turn.ends_at <= now:
        return f"its lease ran out {(now - turn.ends_at) / 1e6:.1f} s ago"
    return None
