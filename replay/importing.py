"""Importing an export back: the same events with their times, actors, ids and versions, in another store (R17)."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from engine.acting import acting_now
from engine.domain import events as e
from engine.domain.encoding import archived_digest, decode, encode, tombstone_digest
from engine.domain.keys import check_session_id
from engine.domain.streams import LANE, LOG, SESSION
from engine.log.chain import digest
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.log.protocol import Transaction
from engine.log.rows import Row
from engine.store import SessionStore
from projections.inline.lanes import find_lane
from projections.inline.sessions import find_session, titled
from replay.errors import BadExportError, ExportConflictError
from replay.exporting import NAME, REFERRING, VERSION, Line, moved

_WHY = "imported from an export"
_BEGINS = f'{{"export": "{NAME}"'.encode()
_read_line = msgspec.json.Decoder(Line).decode


class ImportedExport(msgspec.Struct, frozen=True):
    """The report of an import."""

    subject: str
    sessions: int
    lanes: int
    events: int
    erased: int
    """Events whose content had been erased; their digests came along."""
    dry_run: bool = False


class _Head(msgspec.Struct):
    export: str
    version: int
    subject: str
    events: int
    redacted: bool = False


class _Raw(msgspec.Struct):
    raw: str = msgspec.field(name="$raw")
    text: bool


def is_export(source: str | os.PathLike[str]) -> bool:
    """Return True if a file is an export as JSON lines, or is called like one."""
    place = Path(source)
    if not place.is_file():
        return False
    if place.suffix == ".jsonl":
        return True
    with place.open("rb") as file:
        return file.read(len(_BEGINS)) == _BEGINS


def import_export(store: SessionStore, lines: Iterable[str], *, dry_run: bool = False) -> ImportedExport:
    """Append what `export` wrote as `jsonl` to a store that has none of it: all of it, or nothing.

    Everything comes as it was, but for positions, which are the store's own. The import itself is recorded, and with
    `acting` who did it and why. Raise BadExportError for what is no export, or a redacted or cut one, and
    ExportConflictError if the store has one of its lanes, sessions or titles already.
    """
    head, rows = _read(lines)
    found = _report(head, rows, dry_run=dry_run)
    actor, reason = acting_now() or (store.runner.actor, None)

    def bring_in(transaction: Transaction) -> None:
        _check_free(transaction, rows)
        if dry_run:
            return
        first = transaction.position
        positions = {number: first + number for number in range(1, len(rows) + 1)}
        transaction.append_rows([_placed(row, positions) for row in rows])
        _check_titles(transaction, rows)
        erased = [positions[number] for number, row in enumerate(rows, 1) if tombstone_digest(row.state)]
        said: list[e.AnyEvent] = [e.ContentErased(positions=erased, request=None)] if erased else []
        said.append(e.ImportFinished(source="export", sessions=found.sessions, messages=_messages(rows), skipped=0))
        why = reason or _WHY
        transaction.append([Envelope(LOG, NEXT_VERSION, each, 0, actor, "import", why) for each in said])

    store.log.transact(bring_in)
    return found


def _read(lines: Iterable[str]) -> tuple[_Head, list[Row]]:
    given = iter(lines)
    try:
        head = msgspec.json.decode(next(given, ""), type=_Head)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise BadExportError(f"the first line is no head of an export: {error}") from error
    if (head.export, head.version) != (NAME, VERSION):
        raise BadExportError(f"this is {head.export!r} of version {head.version}, not {NAME!r} of version {VERSION}")
    if head.redacted:
        raise BadExportError("a redacted export is for reading: it does not import back; export without redaction")
    rows = list(_rows(given))
    if len(rows) != head.events:
        raise BadExportError(f"the export has {len(rows)} of its {head.events} events: it was cut off; export it again")
    return head, rows


def _rows(lines: Iterator[str]) -> Iterator[Row]:
    for number, text in enumerate(lines, 2):
        if not text.strip():
            continue
        try:
            yield _row(_read_line(text))
        except (msgspec.MsgspecError, ValueError, UnicodeError) as error:
            raise BadExportError(f"line {number} is no event of an export: {error}") from error


def _row(line: Line) -> Row:
    if line.stream.startswith(SESSION):
        check_session_id(line.stream.removeprefix(SESSION))
    elif not line.stream.startswith(LANE):
        raise ValueError(f"an export has streams of lanes and sessions, not {line.stream!r:.200}")
    payload, state = bytes(line.payload), bytes(line.payload).decode()
    kept: str | bytes = state
    if payload.startswith(b'{"$raw":'):
        given = msgspec.json.decode(payload, type=_Raw)
        payload = bytes.fromhex(given.raw)
        kept = payload.decode() if given.text else payload
    if archived_digest(payload) is not None:
        raise ValueError("its content is in an archive; bring that back, and export again")
    return Row(
        line.stream,
        line.version,
        line.type,
        line.time,
        line.actor,
        line.command,
        line.reason,
        bytes.fromhex(line.id),
        line.metadata,
        kept,
        tombstone_digest(payload) or digest(payload),
        None,
    )


def _placed(row: Row, positions: dict[int, int]) -> Row:
    """Return a row whose positions are those of this store."""
    event = decode(row.topic, row.state)
    if not isinstance(event, REFERRING):
        return row
    state = encode(moved(event, positions))
    return row._replace(state=state.decode(), digest=digest(state))


def _streams(rows: list[Row], kind: str) -> list[str]:
    return list(dict.fromkeys(row.stream.removeprefix(kind) for row in rows if row.stream.startswith(kind)))


def _check_free(transaction: Transaction, rows: list[Row]) -> None:
    for stream in dict.fromkeys(row.stream for row in rows):
        if transaction.version(stream) is not None:
            raise ExportConflictError(
                f"{stream.replace(':', ' ', 1)} is in this store already; import into another one"
            )
    for row in rows:
        event = decode(row.topic, row.state)
        if isinstance(event, e.LaneRouted) and event.key is not None and find_lane(transaction, event.key) is not None:
            raise ExportConflictError(f"the lane {event.key!r:.200} is in this store already; import into another one")


def _check_titles(transaction: Transaction, rows: list[Row]) -> None:
    """Titles are unique in a store; what is refused here is undone as a whole."""
    sessions = _streams(rows, SESSION)
    for session_id in sessions:
        session = find_session(transaction, session_id)
        if session is not None and session.title is not None:
            others = set(titled(transaction, session.title, session_id)) - set(sessions)
            if others:
                raise ExportConflictError(
                    f"session {min(others)!r} of this store has the title {session.title!r:.200}; rename it first"
                )


def _messages(rows: list[Row]) -> int:
    return sum(row.topic == e.MessageAppended.TOPIC for row in rows)


def _report(head: _Head, rows: list[Row], *, dry_run: bool) -> ImportedExport:
    return ImportedExport(
        subject=head.subject,
        sessions=len(_streams(rows, SESSION)),
        lanes=len(_streams(rows, LANE)),
        events=len(rows),
        erased=sum(tombstone_digest(row.state) is not None for row in rows),
        dry_run=dry_run,
    )
