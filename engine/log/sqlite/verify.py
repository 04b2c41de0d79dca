"""Checking the chain from the first row to the last, in a stream, without loading the log; then the file itself."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from engine.domain.encoding import archived_digest, decode, tombstone_digest
from engine.domain.events import ContentArchived, ContentErased
from engine.log.chain import digest, genesis, link
from engine.log.errors import CorruptLogError, LogError
from engine.log.protocol import Progress, Verification
from engine.log.sqlite.names import Names
from engine.log.sqlite.reader import SQLiteReader
from engine.log.sqlite.structure import definition_problem, integrity_problem, version_problem

_BATCH = 2000
_NAMED = (1, 5, 6)
_COLUMNS = (  # stream, actor and command are ids of names
    "position, stream, version, topic, time, actor, command, reason, "
    "iif(event_id IS NULL, NULL, lower(hex(event_id))), metadata, state, hash"
)


class _BrokenError(Exception):
    def __init__(self, position: int | None, problem: str) -> None:
        self.position, self.problem = position, problem


class _Check:
    """The state of one run over the log."""

    def __init__(self, published: dict[int, set[str]]) -> None:
        self.names: dict[int, str] = {}
        self.position = 0
        self.previous = b""
        self.time = 0
        self.tombstones: set[int] = set()
        self.accounted: set[int] = set()
        self.archived: set[int] = set()
        self.moved: set[int] = set()
        self.steps: list[int] = []
        self.published = published

    def row(self, row: tuple[Any, ...]) -> None:
        position, stream, version, topic, time, actor, command, reason, event_id, metadata, state, recorded = row
        if position != self.position + 1:
            raise _BrokenError(self.position + 1, f"position {self.position + 1} is missing")
        raw = state.encode() if isinstance(state, str) else state
        if not isinstance(raw, bytes):
            raise _BrokenError(position, "the payload is neither text nor a blob")
        names = self.names
        try:
            header = (position, names[stream], version, topic, time, names[actor], names[command], reason)
        except KeyError as error:
            raise _BrokenError(position, f"the name with id {error} is missing") from error
        kept = tombstone_digest(raw)
        if kept is not None:
            self.tombstones.add(position)
        elif (kept := archived_digest(raw)) is not None:
            self.archived.add(position)
        if link(self.previous, digest(raw) if kept is None else kept, (*header, event_id, metadata)) != recorded:
            raise _BrokenError(position, "the row does not match its hash: it, a name of it or a row before it changed")
        if position in self.published and self.published[position] != {recorded.hex()}:
            raise _BrokenError(position, "the hash differs from the published head")
        if topic == ContentErased.TOPIC:
            content = decode(ContentErased.TOPIC, state)
            if isinstance(content, ContentErased):
                self.accounted.update(content.positions)
        elif topic == ContentArchived.TOPIC:
            content = decode(ContentArchived.TOPIC, state)
            if isinstance(content, ContentArchived):
                self.moved.update(content.positions)
        if time < self.time:
            self.steps.append(position)
        self.position, self.previous, self.time = position, recorded, time

    @property
    def unaccounted(self) -> set[int]:
        return (self.tombstones - self.accounted) | (self.archived - self.moved)

    def end(self, steps: list[int]) -> None:
        if self.unaccounted:
            first = min(self.unaccounted)
            fate, record = ("erased", "erasure") if first in self.tombstones else ("archived", "archive")
            raise _BrokenError(first, f"the payload was {fate}, but no {record} is recorded for it")
        if steps != self.steps:
            wrong = min(set(steps) ^ set(self.steps))
            raise _BrokenError(wrong, "the table of clock steps does not match the times of the events")
        beyond = [position for position in self.published if position > self.position]
        if beyond:
            raise _BrokenError(
                self.position + 1, f"the published head is at position {max(beyond)}: the tail was cut off"
            )


def verify(reader: SQLiteReader, progress: Progress | None, published: str | Iterable[str] | None) -> Verification:
    """Recompute every hash, then check the file's structure. Published heads are `<position>:<hash>`."""
    check = _Check(_parse(published))
    try:
        _begin(check, reader)
        _go_through(check, reader, progress)
        _look_at_structure(reader)
    except CorruptLogError as error:
        return _result(check, error.position or check.position + 1, str(error))
    except _BrokenError as broken:
        return _result(check, broken.position, broken.problem)
    except LogError as error:
        return _result(check, None, _changed_definition(reader, error))
    return _result(check)


def _changed_definition(reader: SQLiteReader, refused: LogError) -> str:
    """Return what is wrong with a table that SQLite refuses to query; raise the refusal if nothing is."""
    try:
        problem = definition_problem(reader)
    except CorruptLogError as error:
        return f"the definitions of the tables cannot be read: {error}"
    if problem is None:
        raise refused
    return f"{problem}: {refused}"


def _parse(published: str | Iterable[str] | None) -> dict[int, set[str]]:
    heads: dict[int, set[str]] = {}
    for head in [published] if isinstance(published, str) else published or ():
        found = re.fullmatch(r"([0-9]+):([0-9a-fA-F]{64})", head)
        if found is None:
            raise ValueError(f"a published head looks like 17:ab12… (position and 64 hex digits), not {head!r}")
        heads.setdefault(int(found[1]), set()).add(found[2].lower())
    return heads


def _begin(check: _Check, reader: SQLiteReader) -> None:
    """Check what must be there before the first row can be checked."""
    there = {name for (name,) in reader.query("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    missing = {"meta", "names", "events", "clock_steps"} - there
    if missing:
        raise _BrokenError(1, f"the table {min(missing)} is missing")
    log_id = reader.value("SELECT value FROM meta WHERE key = 'log_id'")
    if not isinstance(log_id, bytes):
        raise _BrokenError(1, "the log's own id, from which the first hash is made, is missing")
    check.previous = genesis(log_id)
    if 0 in check.published and check.published[0] != {check.previous.hex()}:
        raise _BrokenError(1, "this is not the log whose head was published")
    first = reader.value("SELECT min(position) FROM events")
    if first is not None and first < 1:
        raise _BrokenError(first, "positions begin at 1: this row was never appended")


def _go_through(check: _Check, reader: SQLiteReader, progress: Progress | None) -> None:
    last = reader.end()
    names = Names()  # not those in memory: a name that was changed in the file must be seen
    while check.position < last:
        start = check.position
        for rows in reader.window(_COLUMNS, start + 1, min(start + _BATCH, last)):
            for some in _with_names(check, rows, names, reader):
                for row in some:
                    check.row(row)
        if check.position == start:
            raise _BrokenError(start + 1, f"position {start + 1} is missing")
        if progress is not None:
            progress(check.position, last)
        if check.position == last and check.unaccounted:
            last = reader.end()  # what was erased meanwhile is accounted for by an event that is newer still
    check.end([step for (step,) in reader.query("SELECT position FROM clock_steps WHERE position <= ?", (last,))])


def _look_at_structure(reader: SQLiteReader) -> None:
    """Check what the hashes do not cover: the rules, the indexes and pages, the order within streams."""
    try:
        problem = definition_problem(reader) or integrity_problem(reader)
        out_of_order = version_problem(reader)
    except CorruptLogError as error:
        raise _BrokenError(None, str(error)) from error
    if problem is not None:
        raise _BrokenError(None, problem)
    if out_of_order is not None:
        raise _BrokenError(*out_of_order)


def _with_names(
    check: _Check, rows: list[tuple[Any, ...]], names: Names, reader: SQLiteReader
) -> Iterator[list[tuple[Any, ...]]]:
    """Yield rows when their names are known; if a name cannot be read, row by row up to the first that needs it."""
    try:
        check.names = names.find([row[at] for row in rows for at in _NAMED], reader.query)
    except CorruptLogError:
        for row in rows:
            try:
                check.names = names.find([row[at] for at in _NAMED], reader.query)
            except CorruptLogError as error:
                raise CorruptLogError(str(error), row[0]) from error
            yield [row]
    else:
        yield rows


def _result(check: _Check, bad_position: int | None = None, problem: str | None = None) -> Verification:
    return Verification(
        ok=problem is None,
        events=check.position,
        head=f"{check.position}:{check.previous.hex()}",
        erased=len(check.tombstones),
        archived=len(check.archived),
        bad_position=bad_position,
        problem=problem,
    )
