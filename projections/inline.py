"""What changes with the log: routing index, session heads and open turns, in the transaction that appends.

Each apply first checks that the tables stand where the log stood. If another program has appended without
them, or they were made by an older version, they are brought up to date by replay before anything is added.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from json import dumps
from typing import Any

import apsw
from msgspec.structs import replace

from engine.domain.encoding import Unreadable, decode
from engine.domain.envelope import LOG_STREAM, NEXT_VERSION, Envelope
from engine.domain.events import ContentErased, EventQuarantined
from engine.domain.lane import Lane
from engine.domain.session import Session
from engine.log.eventlog import EventLog
from engine.log.transaction import Transaction
from projections import routing, sessions, turns
from projections.routing import Known, Query

logger = logging.getLogger("engine.projections")

NAME = "inline"
VERSION = 4
_BATCH = 500
_HEADS_IN_MEMORY = 10_000
_PER_TRANSACTION = 5_000
_TABLES = """
CREATE TABLE IF NOT EXISTS projections (
    name     TEXT PRIMARY KEY,
    version  INTEGER NOT NULL,
    position INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS quarantine (
    position   INTEGER NOT NULL,
    projection TEXT NOT NULL,
    error      TEXT NOT NULL,
    reported   INTEGER NOT NULL,
    PRIMARY KEY (position, projection)
) STRICT, WITHOUT ROWID;
"""
_UNUSABLE = (apsw.ConstraintError, ValueError, TypeError, KeyError, AttributeError, OverflowError)
_AT = "position IN (SELECT value FROM json_each(?))"
_ADVANCE = "UPDATE projections SET position = ? WHERE name = ? AND position = ? RETURNING 1"


class Inline:
    """The log's inline projection for sessions."""

    def __init__(self) -> None:
        self.lanes: Known[Lane] = Known()
        self.heads: Known[Session] = Known()
        """What the command that is appending knows: set by it, and taken back when it is done."""
        self._memory: dict[str, Session] = {}
        self._epoch = -1
        self._current = (-1, -1)

    def head(self, transaction: Transaction, session_id: str) -> Session | None:
        """The head of a session, from memory as long as nobody else has written and nothing was undone."""
        if self._epoch != transaction.epoch:
            self._memory.clear()
            self._epoch = transaction.epoch
        return self._memory.get(session_id) or sessions.find_session(transaction.query, session_id)

    def _remember(self, transaction: Transaction, heads: dict[str, Session]) -> None:
        if self._epoch == transaction.epoch and len(self._memory) < _HEADS_IN_MEMORY:
            self._memory.update(heads)
        else:
            self._epoch = -1

    def ensure_current(self, transaction: Transaction) -> None:
        """Bring the tables to the end of the log, if another program has appended without them."""
        here = (transaction.position, transaction.epoch)
        if self._current != here:
            if replay(transaction, transaction.position):
                self._epoch = -1
            self._current = here

    def create(self, transaction: Transaction) -> None:
        """Make the tables, or make them again if they are of another version; filling them is `catch_up`."""
        transaction.execute(_TABLES)
        rows = transaction.query("SELECT version FROM projections WHERE name = ?", (NAME,))
        if not rows or rows[0][0] != VERSION:
            for table in (routing, sessions, turns):
                transaction.execute(table.DROP)
                transaction.execute(table.TABLES)
            transaction.execute("DELETE FROM quarantine WHERE projection = ?", (NAME,))  # each is tried again
            transaction.execute("INSERT OR REPLACE INTO projections VALUES (?,?,0)", (NAME, VERSION))

    def apply(self, transaction: Transaction, events: Sequence[Envelope]) -> None:
        first, last = events[0].position, events[-1].position
        if transaction.execute(_ADVANCE, (last, NAME, first - 1)).get is None:
            replay(transaction, first - 1)
            transaction.execute(_ADVANCE, (last, NAME, first - 1))
            self.lanes, self.heads = Known(), Known()
            self._epoch = -1
        decided = self.lanes.after or self.heads.after  # else the events came from outside the store's commands
        lanes = (routing.Routing if decided else routing.CheckedRouting)(transaction, self.lanes)
        heads = sessions.Heads(transaction, self.heads)
        _apply(transaction, events, lanes, heads)
        self._remember(transaction, heads.after)
        self._current = (last, transaction.epoch)


def catch_up(log: EventLog) -> int:
    """Bring the tables to the end of the log, in bounded transactions; how many events that took."""
    total = 0
    while done := log.transact(lambda transaction: replay(transaction, transaction.position, _PER_TRANSACTION)):
        total += done
    log.transact(_report)
    return total


def _report(transaction: Transaction) -> None:
    """Record in the log itself what had to be put aside, once: also if it was put aside again since."""
    rows = transaction.query(
        "UPDATE quarantine SET reported = 1 WHERE projection = ? AND NOT reported RETURNING position, error", (NAME,)
    )
    if not rows:
        return
    recorded = _recorded(transaction, "stream = ? AND topic = ?", (LOG_STREAM, EventQuarantined.TOPIC))
    known = {each.event.position for each in recorded if isinstance(each.event, EventQuarantined)}
    transaction.append(
        [
            Envelope(
                LOG_STREAM,
                NEXT_VERSION,
                EventQuarantined(position=at, projection=NAME, error=error),
                actor="engine",
                command="catch_up",
                reason=error,
            )
            for at, error in sorted(rows)
            if at not in known
        ]
    )


def position(query: Query) -> int:
    """How far the tables are."""
    (found,) = query("SELECT position FROM projections WHERE name = ?", (NAME,))[0]
    return int(found)


def quarantined(query: Query) -> list[tuple[int, str]]:
    """The events that no table could use: position and error."""
    sql = "SELECT position, error FROM quarantine WHERE projection = ? ORDER BY position"
    return [(at, error) for at, error in query(sql, (NAME,))]


def rebuild(log: EventLog) -> int:
    """Forget the tables and make them again from the log alone; no command sees them half made."""

    def again(transaction: Transaction) -> int:
        transaction.execute("DELETE FROM projections WHERE name = ?", (NAME,))
        Inline().create(transaction)
        transaction.epoch += 1  # what a store remembers of the tables is not asked again
        return replay(transaction, transaction.position)

    return log.transact(again) + catch_up(log)


def replay(transaction: Transaction, upto: int, limit: int | None = None) -> int:
    """Apply recorded events up to a position; one that cannot be used is put aside and reported."""
    after = position(transaction.query)
    stop = upto if limit is None else min(upto, after + limit)
    done = 0
    while after < stop:
        events = _recorded(transaction, "position > ? AND position <= ?", (after, min(after + _BATCH, stop)))
        _apply_usable(transaction, events, _apply)
        done += len(events)
        after = min(after + _BATCH, stop)
    if done:
        transaction.execute("UPDATE projections SET position = ? WHERE name = ?", (stop, NAME))
    return done


def _recorded(transaction: Transaction, where: str, bindings: tuple[Any, ...]) -> list[Envelope]:
    rows = transaction.query(
        "SELECT stream, version, topic, state, time, actor, command, reason, position FROM events "
        f"WHERE {where} ORDER BY position",
        bindings,
    )
    return [Envelope(row[0], row[1], decode(row[2], row[3]), *row[4:]) for row in rows]


_Apply = Callable[[Transaction, Sequence[Envelope], routing.Routing, sessions.Heads], None]


def _apply_usable(transaction: Transaction, events: Sequence[Envelope], apply: _Apply) -> None:
    """Apply what others may have written: an event that cannot be used is put aside, and the rest goes on."""

    def checked(inside: Transaction, some: Sequence[Envelope]) -> None:
        apply(inside, some, routing.CheckedRouting(inside, Known()), sessions.Heads(inside, Known()))

    try:
        transaction.attempt(partial(checked, some=events))
    except _UNUSABLE:
        for event in events:
            try:
                transaction.attempt(partial(checked, some=[event]))
            except _UNUSABLE as error:
                aside = Unreadable(event.event.topic, b"", f"{type(error).__name__}: {error}")
                checked(transaction, [replace(event, event=aside)])


def _put_aside(transaction: Transaction, at: int, error: str) -> None:
    """Quarantine an event: remembered, to be reported. It keeps its version, so its stream goes on."""
    if transaction.query("INSERT OR IGNORE INTO quarantine VALUES (?,?,?,0) RETURNING 1", (at, NAME, error)):
        logger.warning("position %d cannot be used and was put aside: %s", at, error)


def _apply(transaction: Transaction, events: Sequence[Envelope], lanes: routing.Routing, heads: sessions.Heads) -> None:
    for envelope in events:
        if isinstance(envelope.event, Unreadable):
            _put_aside(transaction, envelope.position, envelope.event.error)
        if envelope.stream.startswith(sessions.PREFIX):
            heads.apply(envelope)
        elif envelope.stream.startswith(routing.PREFIX):
            lanes.apply(envelope)
        elif isinstance(envelope.event, ContentErased):
            lanes.save()
            heads.save()
            _fold_again(transaction, envelope.event.positions, envelope.position)
            lanes, heads = type(lanes)(transaction, Known()), sessions.Heads(transaction, Known())
        if envelope.event.topic.startswith("turn."):
            turns.apply_turn(transaction, envelope)
    lanes.save()
    heads.save()


def _fold_again(transaction: Transaction, erased: Sequence[int], upto: int) -> None:
    """Fold the streams of erased events again: what was erased is gone from the tables too."""
    transaction.epoch += 1  # what is in memory may be what was erased
    streams = {stream for (stream,) in transaction.query(f"SELECT stream FROM events WHERE {_AT}", (dumps(erased),))}
    keys = [stream.removeprefix(routing.PREFIX) for stream in streams if stream.startswith(routing.PREFIX)]
    ids = [stream.removeprefix(sessions.PREFIX) for stream in streams if stream.startswith(sessions.PREFIX)]
    family = sessions.families(transaction.query, ids)
    routing.remove(transaction, keys)
    sessions.remove(transaction, family)
    again = [*map(routing.PREFIX.__add__, keys), *map(sessions.PREFIX.__add__, family)]
    sql = "SELECT position FROM events WHERE stream = ? AND position <= ?"
    positions = sorted(at for stream in again for (at,) in transaction.query(sql, (stream, upto)))
    for start in range(0, len(positions), _BATCH):
        events = _recorded(transaction, _AT, (dumps(positions[start : start + _BATCH]),))
        _apply_usable(transaction, events, _apply_to_states)


def _apply_to_states(
    _transaction: Transaction, events: Sequence[Envelope], lanes: routing.Routing, heads: sessions.Heads
) -> None:
    """Without the turns: they have nothing to erase, and those that were open are still open."""
    for envelope in events:
        (heads if envelope.stream.startswith(sessions.PREFIX) else lanes).apply(envelope)
    lanes.save()
    heads.save()
