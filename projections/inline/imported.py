"""Rows of other programs that sessions were imported from, looked up when an import runs again (W20)."""

from collections.abc import Sequence

from engine.domain.encoding import decode
from engine.domain.events import SessionImported
from engine.domain.session import Session
from engine.domain.streams import session_stream
from engine.domain.transcript import MESSAGES
from engine.log.protocol import Queries
from projections.inline.backwards import TooFarError

_WITHOUT: Sequence[str] = sorted(MESSAGES)


class ImportedRows:
    """The rows that a session has of a source: single ones, and all up to one."""

    def __init__(self) -> None:
        self.upto = 0
        self._single: set[int] = set()

    def add(self, event: SessionImported) -> None:
        """Add the rows that came with an event."""
        if event.rows:
            self._single.update(event.rows)
        else:
            self.upto = max(self.upto, event.row)

    def __contains__(self, row: int) -> bool:
        return row <= self.upto or row in self._single


def imported_rows(reads: Queries, session: Session, source: str, budget: int | None = None) -> ImportedRows:
    """Return the rows that a session has of a source; raise TooFarError where too much would have to be read."""
    found = ImportedRows()
    if source not in session.imported:
        return found
    if budget is not None and session.version > budget:
        raise TooFarError
    rows = reads.payloads(session_stream(session.session_id), 0, session.version, without=_WITHOUT)
    for event in (decode(topic, state) for _, topic, state, _, _ in rows if topic == SessionImported.TOPIC):
        if isinstance(event, SessionImported) and event.source == source:
            found.add(event)
    return found
