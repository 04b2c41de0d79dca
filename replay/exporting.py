"""Export of a lane, or of a session's conversation: as lines that import back, as Markdown, or as a page (R17)."""

import heapq
import json
from collections.abc import Iterator, Sequence
from datetime import tzinfo
from operator import itemgetter
from typing import Any, Literal, get_args

import msgspec

from engine.archived import archives_of
from engine.clock import local_now
from engine.domain import events as e
from engine.domain.chat_events import MessageExtended
from engine.domain.encoding import archived_digest, decode, encode
from engine.domain.errors import ArchivedError
from engine.domain.streams import lane_stream, session_stream
from engine.domain.times import moment
from engine.log.protocol import Log, Reader
from engine.log.rows import STORED
from replay.errors import UnknownSubjectError
from replay.lives import LifeEvent, life_of
from replay.moments import Moment, shown
from replay.pages import timeline_html
from replay.redacting import Redactor
from replay.said import Said, said_in
from replay.scope import Scope, lane_steps, relatives, scope_of, sessions_in
from replay.words import counted

Format = Literal["jsonl", "markdown", "html"]
FORMATS: tuple[str, ...] = get_args(Format)
NAME, VERSION = "session-engine export", 1
REFERRING = (e.SessionForked, e.MessageRewritten, e.TranscriptRewritten, MessageExtended)
"""Events that name positions of others."""
_BATCH = 500
_ALL = 1 << 40
_POSITION = STORED.index("position")


def export(
    log: Log,
    subject: str,
    form: Format = "jsonl",
    *,
    at: Moment | int | None = None,
    redact: bool = False,
    key: str | bytes | None = None,
    zone: tzinfo | None = None,
) -> Iterator[str]:
    """Yield a lane with its sessions, or a session's conversation, in lines of a form; a page is one of them.

    `jsonl` has every event, and `import_export` makes the same of it in another store. `redact` replaces ids and names
    of people and chats by hashes, with `key` by keyed ones, and hides addresses and numbers; that cannot be imported.
    Raise UnknownSubjectError if nothing of that name was there then, and ArchivedError if messages are in an archive.
    """
    if form not in FORMATS:
        raise ValueError(f"an export is one of {', '.join(FORMATS)}, not {form!r}")
    here = local_now().tzinfo if zone is None else zone
    scope = scope_of(log, subject, at.position if isinstance(at, Moment) else at)
    if scope.kind == "log":
        raise UnknownSubjectError(f"{subject!r} is of no lane and no session, and an export is of either")
    _check_whole(log, scope)
    redactor = _redactor(log, scope, key) if redact else None
    if form == "jsonl":
        return _jsonl(log, scope, redactor)
    if form == "markdown":
        return _markdown(log, subject, at, here, redactor)
    return iter([timeline_html(log, subject, at, zone=here, change=None if redactor is None else redactor.text)])


def _check_whole(log: Log, scope: Scope) -> None:
    """Raise ArchivedError if a message is in an archive, and name its file."""
    positions = log.reader.positions_of(streams_of(log, scope), scope.upto)
    for position, archive in sorted(archives_of(log.reader, positions).items()):
        ((*_, state),) = log.reader.stored_at([position])
        if archived_digest(state) is not None:  # it may have been erased since
            raise ArchivedError(position, archive)


def streams_of(log: Log, scope: Scope) -> list[str]:
    """Return the streams of a lane with all conversations it was ever in, or of a session's conversation."""
    reads = log.reader
    if scope.session_id is not None:
        lanes, sessions = [], [scope.session_id]
    else:
        lanes = [lane_stream(each) for each in scope.lane_ids]
        sessions = sessions_in(step for steps in lane_steps(reads, scope) for step in steps)
    family = dict.fromkeys(each for session_id in sessions for each in relatives(reads, session_id))
    return [*lanes, *(session_stream(each) for each in dict.fromkeys([*sessions, *family]))]


def _redactor(log: Log, scope: Scope, key: str | bytes | None) -> Redactor:
    redactor = Redactor(key)
    for row in _rows(log.reader, streams_of(log, scope), scope.upto):
        redactor.learn(decode(row["topic"], row["state"]))
    return redactor


def _rows(reads: Reader, streams: Sequence[str], upto: int) -> Iterator[dict[str, Any]]:
    """Yield the rows of streams in the order of the log, a few of each in memory at a time."""
    for row in heapq.merge(*(_of_stream(reads, each) for each in streams), key=itemgetter(_POSITION)):
        if row[_POSITION] <= upto:
            yield dict(zip(STORED, row, strict=True))


def _of_stream(reads: Reader, stream: str) -> Iterator[tuple[Any, ...]]:
    after = -1
    while rows := reads.stored_stream(stream, after, _ALL, _BATCH):
        yield from rows
        after = rows[-1][1]


# JSON lines


class Line(msgspec.Struct):
    """An event in an export. Positions in it, also in the payload, count the export's own events from 1."""

    stream: str
    version: int
    type: str
    time: int
    actor: str
    command: str
    reason: str | None
    id: str
    payload: msgspec.Raw
    metadata: str | None = None


def _jsonl(log: Log, scope: Scope, redactor: Redactor | None) -> Iterator[str]:
    streams = streams_of(log, scope)
    positions = log.reader.positions_of(streams, scope.upto)
    numbers = {position: number for number, position in enumerate(positions, 1)}
    head = {"export": NAME, "version": VERSION, "subject": scope.name, "kind": scope.kind, "events": len(positions)}
    if redactor is not None:
        head |= {"subject": redactor.text(scope.name), "redacted": True}
    yield json.dumps(head)
    for row in _rows(log.reader, streams, scope.upto):
        line = Line(
            row["stream"],
            row["version"],
            row["topic"],
            row["time"],
            row["actor"],
            row["command"],
            row["reason"],
            row["event_id"].hex(),
            msgspec.Raw(_payload(row["topic"], row["state"], numbers)),
            row["metadata"],
        )
        data = msgspec.json.encode(line).decode()
        yield data if redactor is None else json.dumps(redactor.value(json.loads(data)), ensure_ascii=False)


def _payload(topic: str, state: str | bytes, numbers: dict[int, int]) -> bytes:
    """Return a payload as it was stored, but for positions, and for one that is no JSON, which is kept in hex."""
    raw = state if isinstance(state, bytes) else state.encode()
    event = decode(topic, state)
    if isinstance(event, REFERRING):
        return encode(moved(event, numbers))
    try:
        if isinstance(state, str) and b"\n" not in raw and isinstance(json.loads(raw), dict):
            return raw
    except ValueError:
        pass
    return msgspec.json.encode({"$raw": raw.hex(), "text": isinstance(state, str)})


def moved(event: Any, numbers: dict[int, int]) -> Any:
    """Return an event whose positions are those of other events now; what is not among them is no position."""
    match event:
        case e.SessionForked():
            return msgspec.structs.replace(event, position=numbers.get(event.position, 0))
        case e.MessageRewritten():
            return msgspec.structs.replace(event, copy_of=numbers.get(event.copy_of, 0))
        case MessageExtended():
            position, origin = numbers.get(event.position, 0), numbers.get(event.origin, 0)
            return msgspec.structs.replace(event, position=position, origin=origin)
        case e.TranscriptRewritten():
            freed = tuple(numbers[each] for each in event.freed if each in numbers)
            return msgspec.structs.replace(event, freed=freed)
    return event


# Markdown


def _markdown(
    log: Log, subject: str, at: Moment | int | None, zone: tzinfo | None, redactor: Redactor | None
) -> Iterator[str]:
    life = life_of(log, subject, at, zone=zone)
    line, change = life.timeline, str if redactor is None else redactor.text
    yield f"# {_plain(change(line.subject))}"
    yield ""
    yield (
        f"From {shown(line.began)} to {shown(line.ended)}, up to @{line.position}: "
        f"{counted(len(line.legs), 'session')}, {counted(len(line.messages), 'message')}, "
        f"{counted(len(line.turns), 'turn')}."
    )
    for session_id in life.sessions:
        yield ""
        yield f"## Session {_plain(session_id)}"
        live = [each for each in said_in(log.reader, session_id, line.position) if each.live[-1][1] is None]
        for said in live:
            yield ""
            yield from _quoted(said, zone, change)
    yield ""
    yield "## What happened"
    yield ""
    for event in line.marks:
        yield from _told(event, change)


def _quoted(said: Said, zone: tzinfo | None, change: Any) -> Iterator[str]:
    at = moment(said.time, zone)
    yield f"**{_plain(change(said.role)) or 'erased'}**, {at:%Y-%m-%d %H:%M:%S}"
    yield ""
    text = "*erased*" if said.erased else change(said.text)
    for each in text.splitlines() or [""]:
        yield f"> {_plain(each) if not said.erased else each}".rstrip()
    if said.beside:
        yield ">"
        yield f"> `{change(said.beside).replace('`', chr(39))}`"


def _told(event: LifeEvent, change: Any) -> Iterator[str]:
    reason = f", {event.reason}" if event.reason else ""
    who = f"{event.actor}, {event.command}{reason}"
    words = f"{event.sentence} ({who}, @{event.position})"
    yield f"- {event.time:%Y-%m-%d %H:%M:%S}: {_plain(change(words))}"


def _plain(text: str) -> str:
    """Return a text in one line that is no HTML and holds nothing that a terminal acts upon."""
    clean = "".join(each if each.isprintable() or each == "\t" else "\ufffd" for each in text)
    return clean.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
