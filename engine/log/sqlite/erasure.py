"""Erasing payloads: checked first, then in parts that each hold the write lock briefly and say what they erased."""

from collections.abc import Sequence
from json import dumps
from typing import NamedTuple

from engine.domain.encoding import archived_digest, tombstone, tombstone_digest
from engine.domain.events import PAYLOADS_CHANGED, ContentErased
from engine.log import chain
from engine.log.envelope import LOG_STREAM, NEXT_VERSION, Envelope
from engine.log.errors import InvalidEventError
from engine.log.protocol import Queries, Transaction

_EVENTS, _BYTES = 500, 8 * 1024 * 1024
"""So much is erased at a time: some 20 ms under the write lock, and what is overwritten fits into the WAL."""
_TOGETHER = 10_000
_RECORDS = {kind.TOPIC for kind in PAYLOADS_CHANGED}


class Wish(NamedTuple):
    """The actor of an erasure, the reason, and the request it answers."""

    actor: str
    reason: str
    request: str | None


def checked_positions(reads: Queries, positions: Sequence[int], reason: str) -> list[int]:
    """Return the positions sorted; raise InvalidEventError for one that cannot be erased, before anything is."""
    if not reason:
        raise InvalidEventError("an erasure needs a reason: it is what remains in the place of the content")
    odd = [position for position in positions if type(position) is not int]
    if odd:
        raise InvalidEventError(f"a position is an int, not {odd[0]!r}")
    wanted = sorted(set(positions))
    for start in range(0, len(wanted), _TOGETHER):
        part = wanted[start : start + _TOGETHER]
        sql = "SELECT position, topic FROM events WHERE position IN (SELECT value FROM json_each(?))"
        found = dict(reads.query(sql, (dumps(part),)))
        for position in part:
            if position not in found:
                raise InvalidEventError(f"there is no event at position {position} to erase")
            if found[position] in _RECORDS:
                raise InvalidEventError(f"position {position} records an erasure or an archive and cannot be erased")
    return wanted


class Part:
    """A command that erases the first of some positions, as many as are to be erased at a time."""

    def __init__(self, positions: Sequence[int], wish: Wish) -> None:
        self._positions = positions
        self._wish = wish
        self.looked_at = 0

    def __call__(self, transaction: Transaction) -> list[int]:
        """Erase, record it, and return what was erased now."""
        erased: list[int] = []
        size = self.looked_at = 0
        for position in self._positions[:_EVENTS]:
            self.looked_at += 1
            found = _erase_one(transaction, position)
            if found is not None:
                erased.append(position)
                size += found
                if size >= _BYTES:
                    break
        if erased:
            event = ContentErased(positions=erased, request=self._wish.request)
            actor, reason = self._wish.actor, self._wish.reason
            transaction.append([Envelope(LOG_STREAM, NEXT_VERSION, event, actor=actor, command="erase", reason=reason)])
        return erased


def _erase_one(transaction: Transaction, position: int) -> int | None:
    """Put a tombstone in the place of a payload; return how long that was, None if it was erased before."""
    ((state,),) = transaction.query("SELECT state FROM events WHERE position = ?", (position,))
    raw = state.encode() if isinstance(state, str) else state
    if tombstone_digest(raw) is not None:
        return None
    stood_there = archived_digest(raw) or chain.digest(raw)
    transaction.replace_payload(position, tombstone(stood_there.hex(), transaction.now))
    return len(raw)
