"""Checking the chain from the first row to the last, in a stream, without loading the log."""

import re
from collections.abc import Callable
from typing import Any

import msgspec

from engine.domain.encoding import decode, tombstone_digest
from engine.domain.events import ContentErased
from engine.log.chain import digest, genesis, link
from engine.log.errors import CorruptLogError
from engine.log.reader import Reader

_BATCH = 2000
_COLUMNS = (
    "position, stream, version, topic, time, actor, command, reason, "
    "iif(event_id IS NULL, NULL, lower(hex(event_id))), metadata, state, hash"
)

Progress = Callable[[int, int], None]


class Verification(msgspec.Struct, frozen=True, kw_only=True):
    """What `verify` found. Publish `head` off the machine: without it a cut tail cannot be seen."""

    ok: bool
    events: int
    head: str
    erased: int = 0
    bad_position: int | None = None
    problem: str | None = None


class _BrokenError(Exception):
    def __init__(self, position: int, problem: str) -> None:
        self.position, self.problem = position, problem


class _Check:
    """The state of one run over the log."""

    def __init__(self, published: dict[int, str]) -> None:
        self.position = 0
        self.previous = b""
        self.time = 0
        self.tombstones: set[int] = set()
        self.accounted: set[int] = set()
        self.steps: list[int] = []
        self.published = published

    def row(self, row: tuple[Any, ...]) -> None:
        *header, state, recorded = row
        position, time = header[0], header[4]
        if position != self.position + 1:
            raise _BrokenError(self.position + 1, f"position {self.position + 1} is missing")
        raw = state.encode() if isinstance(state, str) else state
        if not isinstance(raw, bytes):
            raise _BrokenError(position, "the payload is neither text nor a blob")
        kept = tombstone_digest(raw)
        if kept is not None:
            self.tombstones.add(position)
        if link(self.previous, digest(raw) if kept is None else kept, tuple(header)) != recorded:
            raise _BrokenError(position, "the row does not match its hash: it or a row before it was changed")
        if self.published.get(position, recorded.hex()) != recorded.hex():
            raise _BrokenError(position, "the hash differs from the published head")
        if header[3] == ContentErased.TOPIC:
            content = decode(ContentErased.TOPIC, state)
            if isinstance(content, ContentErased):
                self.accounted.update(content.positions)
        if time < self.time:
            self.steps.append(position)
        self.position, self.previous, self.time = position, recorded, time

    @property
    def unaccounted(self) -> set[int]:
        return self.tombstones - self.accounted

    def end(self, steps: list[int]) -> None:
        if self.unaccounted:
            raise _BrokenError(min(self.unaccounted), "the payload was erased, but no erasure is recorded for it")
        if steps != self.steps:
            wrong = min(set(steps) ^ set(self.steps))
            raise _BrokenError(wrong, "the table of clock steps does not match the times of the events")
        beyond = [position for position in self.published if position > self.position]
        if beyond:
            raise _BrokenError(
                self.position + 1, f"the published head is at position {max(beyond)}: the tail was cut off"
            )


def verify(reader: Reader, progress: Progress | None, published: str | None) -> Verification:
    """Recompute every hash. `published` is a head from an earlier run, `<position>:<hash>`."""
    check = _Check(_parse(published))
    try:
        _begin(check, reader)
        _go_through(check, reader, progress)
    except CorruptLogError as error:
        return _result(check, error.position or check.position + 1, str(error))
    except _BrokenError as broken:
        return _result(check, broken.position, broken.problem)
    return _result(check)


def _parse(published: str | None) -> dict[int, str]:
    if published is None:
        return {}
    found = re.fullmatch(r"([0-9]+):([0-9a-fA-F]{64})", published)
    if found is None:
        raise ValueError(f"a published head looks like 17:ab12… (position and 64 hex digits), not {published!r}")
    return {int(found[1]): found[2].lower()}


def _begin(check: _Check, reader: Reader) -> None:
    """What must be there before the first row can be checked."""
    there = {name for (name,) in reader.rows("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    missing = {"meta", "events", "clock_steps"} - there
    if missing:
        raise _BrokenError(1, f"the table {min(missing)} is missing")
    log_id = reader.value("SELECT value FROM meta WHERE key = 'log_id'")
    if not isinstance(log_id, bytes):
        raise _BrokenError(1, "the log's own id, from which the first hash is made, is missing")
    check.previous = genesis(log_id)
    if check.published.get(0, check.previous.hex()) != check.previous.hex():
        raise _BrokenError(1, "this is not the log whose head was published")
    first = reader.value("SELECT min(position) FROM events")
    if first is not None and first < 1:
        raise _BrokenError(first, "positions begin at 1: this row was never appended")


def _go_through(check: _Check, reader: Reader, progress: Progress | None) -> None:
    last = reader.end()
    while check.position < last:
        start = check.position
        for rows in reader.window(_COLUMNS, start + 1, min(start + _BATCH, last)):
            for row in rows:
                check.row(row)
        if check.position == start:
            raise _BrokenError(start + 1, f"position {start + 1} is missing")
        if progress is not None:
            progress(check.position, last)
        if check.position == last and check.unaccounted:
            last = reader.end()  # what was erased meanwhile is accounted for by an event that is newer still
    check.end([step for (step,) in reader.rows("SELECT position FROM clock_steps WHERE position <= ?", (last,))])


def _result(check: _Check, bad_position: int | None = None, problem: str | None = None) -> Verification:
    return Verification(
        ok=problem is None,
        events=check.position,
        head=f"{check.position}:{check.previous.hex()}",
        erased=len(check.tombstones),
        bad_position=bad_position,
        problem=problem,
    )
