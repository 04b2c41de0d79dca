"""The archives that payloads were moved into, as the log says."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from engine.domain import events as e
from engine.domain.encoding import decode
from engine.domain.errors import ArchivedError
from engine.domain.streams import LOG
from engine.log.protocol import Queries

_OTHERS = (e.ContentErased.TOPIC, e.EventQuarantined.TOPIC, e.StoreOpened.TOPIC, e.StoreClosed.TOPIC)


def archives_of(reads: Queries, positions: Collection[int]) -> dict[int, str]:
    """Return the archive that each of some positions was moved into last, unless it was put back since."""
    wanted, found = frozenset(positions), {}
    for _, topic, state, _, _ in reads.payloads(LOG, without=_OTHERS):
        event = decode(topic, state)
        if isinstance(event, e.ContentArchived):
            found.update(dict.fromkeys(wanted.intersection(event.positions), event.archive))
        elif isinstance(event, e.ContentRestored):
            for position in wanted.intersection(event.positions):
                found.pop(position, None)
    return found


@contextmanager
def saying_where(reads: Queries) -> Iterator[None]:
    """Say in an error about an archived message which archive it is in."""
    try:
        yield
    except ArchivedError as error:
        where = archives_of(reads, [error.position]).get(error.position)
        raise ArchivedError(error.position, where) from None
