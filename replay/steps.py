"""One event at a time, forwards or backwards, with the change that each made (R15)."""

import msgspec

from engine.log.envelope import Envelope
from engine.log.sqlite.eventlog import EventLog
from replay.differences import Change, diff
from replay.past import check_position


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """An event, and the change it made."""

    position: int
    """Where one stands after the step."""
    event: Envelope
    """The event that was taken, or taken back."""
    changes: tuple[Change, ...]
    """What it changed, in the order of time also where it was taken back."""


def step(log: EventLog, position: int, *, backwards: bool = False) -> Step | None:
    """Return the step from a position to the next one, or back over its own event; None at the ends of the log."""
    check_position(log, position)
    at = position if backwards else position + 1
    if at == 0 or at > log.last_position:
        return None
    [event] = log.reader.recorded_at([at])
    return Step(position=position - 1 if backwards else at, event=event, changes=tuple(diff(log, at - 1, at)))
