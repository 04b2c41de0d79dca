"""Heads in memory: bounded, and forgotten by what changed, not because somebody committed something."""

from collections.abc import Mapping

from engine.domain.events import EventQuarantined, StoreClosed, StoreOpened
from engine.domain.session import Session
from engine.domain.streams import LOG, SESSION
from engine.log.protocol import Transaction

_LIMIT = 10_000
_FAR_BEHIND = 10_000
"""So many foreign events are not looked through: everything is forgotten."""

_SAYS_NOTHING = (StoreOpened.TOPIC, StoreClosed.TOPIC, EventQuarantined.TOPIC)


class HeadMemory:
    """Heads of sessions as of one position of the log. Used under the write lock only."""

    def __init__(self) -> None:
        self.heads: dict[str, Session] = {}
        self._position = 0
        self._rollbacks = 0
        self._began_at = -1
        self._base = 0
        self._unconfirmed: set[str] = set()

    def refresh(self, transaction: Transaction) -> None:
        """Forget heads that were rolled back, and those that other processes have changed since."""
        if transaction.rollbacks != self._rollbacks:
            for session_id in self._unconfirmed:
                self.heads.pop(session_id, None)
            self._unconfirmed.clear()
            self._rollbacks = transaction.rollbacks
            self._position = min(self._position, self._base)
        elif transaction.began_at != self._began_at:
            self._unconfirmed.clear()
            self._base = transaction.began_at
        self._began_at = transaction.began_at
        if transaction.position != self._position:
            self._forget_changed(transaction)
            self._position = transaction.position

    def _forget_changed(self, transaction: Transaction) -> None:
        behind = transaction.position - self._position
        if not self.heads or not 0 <= behind <= _FAR_BEHIND:
            self.heads.clear()
            return
        for stream in transaction.changed_streams(self._position, transaction.position, _SAYS_NOTHING):
            if stream == LOG:  # an erasure may have changed any head
                self.heads.clear()
                return
            self.heads.pop(stream.removeprefix(SESSION), None)

    def keep(self, heads: Mapping[str, Session], position: int) -> None:
        """Remember heads that were just written up to a position, until a rollback says otherwise."""
        self._unconfirmed.update(heads)
        self._position = position
        if len(self.heads) + len(heads) > _LIMIT:
            self.heads.clear()
        self.heads.update(heads)

    def clear(self) -> None:
        """Forget everything, because the tables were rebuilt."""
        self.heads.clear()
        self._unconfirmed.clear()
