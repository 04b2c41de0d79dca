"""Archiving: ended conversations move into a file that was read back first, and back, byte for byte (V16)."""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import chain
from pathlib import Path

import msgspec

from engine.acting import acting_now
from engine.domain import events as e
from engine.domain.encoding import archive_marker, archived_digest, tombstone_digest
from engine.domain.session import Session
from engine.domain.streams import LOG, SESSION, session_stream
from engine.domain.times import microseconds
from engine.domain.transcript import MESSAGES
from engine.log.archive import Record, Written, read_archive, write_archive
from engine.log.chain import digest
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.log.errors import ArchiveError, StorageError
from engine.log.newfile import new_file
from engine.log.protocol import Command, Log, Queries, Reader, Transaction
from engine.log.rows import STORED
from projections.inline.quarantine import quarantined
from projections.inline.sessions import all_heads, family_of, find_session
from projections.inline.turns import turn_of

_VERSIONS = 1000
_LONGEST_PAUSE = 0.02
_POSITION, _STATE = STORED.index("position"), STORED.index("state")


class ArchiveReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of archiving: how much was moved, and how large the file is; no file if there was nothing to move."""

    archive: str | None
    sessions: int = 0
    messages: int = 0
    payload_bytes: int = 0
    archive_bytes: int = 0
    dry_run: bool = False


class RestoreReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of restoring: what was put back, what was there already, and what stays erased."""

    archive: str
    messages: int = 0
    already_there: int = 0
    erased: int = 0
    dry_run: bool = False


class Archiver:
    """Moves messages between a log and archives."""

    def __init__(self, log: Log, actor: str, reason: str | None, now: datetime) -> None:
        given = acting_now()
        self._log = log
        self._actor = actor if given is None else given.actor
        self._reason = reason if given is None else reason or given.reason
        self._now = now

    # Out of the log

    def archive(self, older_than: datetime, to: str | os.PathLike[str], *, dry_run: bool = False) -> ArchiveReport:
        """Move the messages of conversations that ended before a time into a new file; or only count them."""
        before, target = microseconds(older_than), str(Path(to).absolute())
        reads = self._log.reader
        log_id, records = reads.log_id(), _ended_messages(reads, before)
        if dry_run:
            return _counted(reads, records)
        first = next(records, None)
        if first is None:
            return ArchiveReport(archive=None)
        with new_file(target, "an archive") as part:
            written = write_archive(part, log_id, self._now, chain([first], records))
            for block in read_archive(part, log_id):
                self._compare(block, part)
        reason = self._reason or f"ended before {older_than.isoformat(timespec='seconds')}"
        moved: set[int] = set()
        for block in read_archive(target, log_id):
            moved.update(self._paused(_MoveOut(block, before, target, self._actor, reason)))
        if len(moved) < written.events:  # used again, or erased, since it was written
            written = keep_in_archive(target, log_id, self._now, moved.__contains__)
        return ArchiveReport(
            archive=target,
            sessions=len(_streams(reads, sorted(moved))),
            messages=len(moved),
            payload_bytes=written.payload_bytes,
            archive_bytes=written.file_bytes,
        )

    def _compare(self, block: Sequence[Record], path: Path) -> None:
        """Raise unless what was read back is what the log has, or had before it was erased."""
        states = states_at(self._log.reader, [position for position, _ in block])
        for position, payload in block:
            state = states.get(position)
            if state != payload and (state is None or tombstone_digest(state) is None):
                raise StorageError(
                    f"position {position} came back otherwise from {path} than it was written; check that disk: "
                    "nothing was moved"
                )

    # Back into it

    def restore(self, archive: str | os.PathLike[str], *, dry_run: bool = False) -> RestoreReport:
        """Put the messages of an archive back, or only count them; what was erased meanwhile stays erased."""
        path, reads = str(Path(archive).absolute()), self._log.reader
        log_id = reads.log_id()
        total = erased = away = 0
        for block in read_archive(path, log_id):
            states = states_at(reads, [position for position, _ in block])
            for position, payload in block:
                total += 1
                erased += check_fits(position, payload, states.get(position), path)
                away += archived_digest(states[position]) is not None
        if dry_run:
            there = total - away - erased
            return RestoreReport(archive=path, messages=away, already_there=there, erased=erased, dry_run=True)
        reason = self._reason or "restored"
        restored = 0
        for block in read_archive(path, log_id):
            restored += len(self._paused(_PutBack(block, path, self._actor, reason)))
        return RestoreReport(archive=path, messages=restored, already_there=total - restored - erased, erased=erased)

    def _paused(self, part: Command[list[int]]) -> list[int]:
        """Run a part, and leave the write lock to others for a while that is in proportion."""
        began = time.perf_counter()
        done = self._log.transact(part)
        time.sleep(min((time.perf_counter() - began) / 4, _LONGEST_PAUSE))
        return done


class _MoveOut:
    """A command that puts markers in the place of messages that are in an archive, where their session may go."""

    def __init__(self, block: Sequence[Record], before: int, archive: str, actor: str, reason: str) -> None:
        self._block, self._before, self._archive = block, before, archive
        self._actor, self._reason = actor, reason

    def __call__(self, transaction: Transaction) -> list[int]:
        moved: list[int] = []
        may_go: dict[str, bool] = {}
        rows = {row[_POSITION]: row for row in transaction.stored_at([position for position, _ in self._block])}
        for position, payload in self._block:
            row = rows[position]
            if row[_STATE] != payload:  # erased, or moved into another archive, since it was read
                continue
            stream = row[0]
            if stream not in may_go:
                may_go[stream] = self._may_go(transaction, stream)
            if may_go[stream]:
                marker = archive_marker(payload, digest(payload.encode()).hex(), transaction.now)
                transaction.replace_payload(position, marker)
                moved.append(position)
        if moved:
            event = e.ContentArchived(positions=moved, archive=self._archive)
            transaction.append([_said(event, self._actor, "archive", self._reason)])
        return moved

    def _may_go(self, transaction: Transaction, stream: str) -> bool:
        """Return False for a session that was used since: it, or one that goes on from it."""
        head = find_session(transaction, stream.removeprefix(SESSION))
        if head is None or transaction.version(stream) != head.version:
            return False
        return all(_is_over(transaction, each, self._before) for each in _family(transaction, head))


class _PutBack:
    """A command that puts the messages of an archive back in the place of their markers."""

    def __init__(self, block: Sequence[Record], archive: str, actor: str, reason: str) -> None:
        self._block, self._archive = block, archive
        self._actor, self._reason = actor, reason

    def __call__(self, transaction: Transaction) -> list[int]:
        states = states_at(transaction, [position for position, _ in self._block])
        back = [(position, payload) for position, payload in self._block if archived_digest(states[position])]
        for position, payload in back:
            transaction.replace_payload(position, payload)
        restored = [position for position, _ in back]
        if restored:
            event = e.ContentRestored(positions=restored, archive=self._archive)
            transaction.append([_said(event, self._actor, "restore", self._reason)])
        return restored


def _counted(reads: Reader, records: Iterator[Record]) -> ArchiveReport:
    """Return the report of what would be moved."""
    positions: list[int] = []
    size = 0
    for position, payload in records:
        positions.append(position)
        size += len(payload.encode())
    sessions = len(_streams(reads, positions))
    return ArchiveReport(archive=None, sessions=sessions, messages=len(positions), payload_bytes=size, dry_run=True)


def keep_in_archive(path: str, log_id: bytes, now: datetime, keep: Callable[[int], bool]) -> Written:
    """Write an archive anew with some of its positions alone, in the place of the old file."""
    with new_file(path, "an archive", replacing=True) as part:
        records = (record for block in read_archive(path, log_id) for record in block if keep(record[0]))
        written = write_archive(part, log_id, now, records)
        for _ in read_archive(part, log_id):
            pass
    return written


def check_fits(position: int, payload: str, state: str | bytes | None, archive: str) -> bool:
    """Return True if a payload was erased; raise ArchiveError if it is not what the log had at its position."""
    if state is None:
        raise ArchiveError(
            f"the archive {archive} has position {position}, which the log does not have: the log was set back to an "
            "earlier copy; restore the archive into a log that has it"
        )
    if tombstone_digest(state) is not None:
        return True
    kept = archived_digest(state)
    if state != payload if kept is None else kept != digest(payload.encode()):
        raise ArchiveError(
            f"the archive {archive} was changed, or is of another copy of this log: its payload for position "
            f"{position} is not the one that the log's digest names; nothing is taken from it, use another copy"
        )
    return False


def _said(event: e.ContentArchived | e.ContentRestored, actor: str, command: str, reason: str) -> Envelope:
    return Envelope(LOG, NEXT_VERSION, event, actor=actor, command=command, reason=reason)


def _ended_messages(reads: Queries, before: int) -> Iterator[Record]:
    """Yield the messages of conversations that ended before a time, but for what is in quarantine."""
    bad = {position for position, _ in quarantined(reads)}
    for family in _ended_families(reads, before):
        for head in family:
            yield from (record for record in _messages_of(reads, head) if record[0] not in bad)


def _ended_families(reads: Queries, before: int) -> Iterator[list[Session]]:
    """Yield conversations, each with all its segments and forks, of which all ended before a time."""
    seen: set[str] = set()
    for head in all_heads(reads):
        family = head.family_id or head.session_id
        if family not in seen:
            seen.add(family)
            members = _family(reads, head)
            if all(_is_over(reads, each, before) for each in members):
                yield members


def _family(reads: Queries, head: Session) -> list[Session]:
    return family_of(reads, head) if head.family_id else [head]


def _is_over(reads: Queries, head: Session, before: int) -> bool:
    """Return True for a session that ended before a time, cannot be recovered, and has no turn."""
    ended = head.ended_at is not None and head.ended_at < before and not head.recoverable
    return ended and turn_of(reads, head.conversation_id) is None


def _messages_of(reads: Queries, head: Session) -> Iterator[Record]:
    """Yield the messages of a session that are in the log and can be read, undone and rewritten ones too."""
    stream = session_stream(head.session_id)
    for after in range(0, head.version, _VERSIONS):
        for _, topic, state, position, _ in reads.payloads(stream, after, min(after + _VERSIONS, head.version)):
            if topic in MESSAGES and isinstance(state, str) and not state.startswith('{"$'):
                try:
                    archive_marker(state, "", 0)
                except (ValueError, msgspec.MsgspecError):
                    continue  # it cannot be read, and stays where the quarantine says it is
                yield position, state


def states_at(reads: Reader | Transaction, positions: Sequence[int]) -> dict[int, str | bytes]:
    """Return the payloads that the log has at some positions."""
    return {row[_POSITION]: row[_STATE] for row in reads.stored_at(positions)}


def _streams(reads: Reader, positions: Sequence[int]) -> set[str]:
    found: set[str] = set()
    for start in range(0, len(positions), _VERSIONS):
        found.update(row[0] for row in reads.stored_at(positions[start : start + _VERSIONS]))
    return found
