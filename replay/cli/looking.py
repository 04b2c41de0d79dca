"""`list` and `show`: lanes, sessions with their messages, and single events."""

from collections.abc import Iterable, Iterator
from datetime import UTC
from itertools import islice
from typing import Any

import click
import msgspec

from engine.domain.entry import SessionEntry
from engine.domain.messages import text_of
from engine.domain.times import microseconds, moment
from engine.errors import UnknownSessionError
from engine.log.sqlite.eventlog import EventLog
from engine.reader import SessionInfo, SessionReader
from replay.cli.completion import subject_names
from replay.cli.layout import Column, Item, Line, Lines, Table
from replay.cli.output import Page, page_of
from replay.cli.run import Run, verb
from replay.cli.text import as_json, shown
from replay.errors import UnknownSubjectError
from replay.moments import moment_of
from replay.selecting import Selection, select_events

LANES = Table(
    (
        Column("lane", style="cyan", wide=True, tail=True),
        Column("session_id", "session"),
        Column("updated_at", "last heard", style="green"),
        Column("messages", right=True, rank=2),
        Column("flags", style="yellow", rank=1),
        Column("title", wide=True, rank=3),
    )
)
_FIELDS = (
    *("lane", "session_id", "updated_at", "created_at", "platform", "chat_id", "thread_id", "user_id", "chat_type"),
    *("display_name", "title", "messages", "flags", "input_tokens", "output_tokens", "cost_usd", "model"),
)
AT = click.option("--at", metavar="WHEN", help="As it was then; what was erased since is erased there too.")
"""The option of a verb that can ask the past."""
_WHERE = ("since", "until", "platform", "chat", "thread", "user", "lane", "session")


@verb(
    "list",
    examples=("sessions list --since 2h", "sessions list --platform telegram --at 'yesterday 04:00' -o json"),
    pages=True,
    filters=_WHERE,
)
@AT
def list_lanes(run: Run, at: str | None) -> None:
    """List the lanes, newest first.

    A lane is a place to talk: a chat, a thread, or a person in a group. Each leads to one session; `show` has those
    before it. `--since` and `--until` ask when somebody last wrote there.
    """
    with run.reader(at) as reader:
        list_of(run, reader)


def list_of(run: Run, reader: SessionReader) -> None:
    """Print the lanes of a reader, of now or of a moment."""
    wanted = _wanted(run, reader)
    place = None if run.cursor is None else _place(run.cursor)
    entries = (entry for entry in _entries(reader, place, run.limit) if wanted(entry))
    found = list(islice(entries, None if run.limit is None else run.limit + 1))
    more = run.limit is not None and len(found) > run.limit
    kept = found[: run.limit] if more else found
    items = (lane_item(entry, reader) for entry in kept)
    page = Page(items, _cursor(kept[-1]) if more else None, more)
    run.output.page(page, LANES, "no lane", _FIELDS)
    _say_zone(run, bool(found))


def _say_zone(run: Run, anything: bool) -> None:
    if anything and run.output.form == "text" and run.output.screen.looked_at:
        run.output.say(f"times are of {getattr(run.now.tzinfo, 'key', None) or run.now.tzname()}")


def _wanted(run: Run, reader: SessionReader) -> Any:
    since, until = run.times(reader.log)
    lanes, sessions = set(run.names(reader, "lane")), set(run.names(reader, "session"))
    filters = run.filters

    def wanted(entry: SessionEntry) -> bool:
        origin = entry.origin
        named = {
            "platform": entry.platform and entry.platform.value,
            "chat": origin and origin.chat_id,
            "thread": origin and origin.thread_id,
            "user": origin and origin.user_id,
        }
        return (
            (since is None or entry.updated_at >= since)
            and (until is None or entry.updated_at <= until)
            and (not lanes or entry.session_key in lanes)
            and (not sessions or entry.session_id in sessions)
            and all(not filters[name] or value in filters[name] for name, value in named.items())
        )

    return wanted


def _entries(reader: SessionReader, after: SessionEntry | None, limit: int | None) -> Iterator[SessionEntry]:
    size = 500 if limit is None else min(limit + 1, 500)
    while found := reader.list_sessions(limit=size, after=after):
        yield from found
        after = found[-1]


def _cursor(entry: SessionEntry) -> str:
    return f"{microseconds(entry.updated_at)}/{entry.session_key}"


def _place(cursor: str) -> SessionEntry:
    time, slash, key = cursor.partition("/")
    try:
        at = moment(int(time), UTC)
        return SessionEntry(session_key=key if slash else "", session_id="-", created_at=at, updated_at=at)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{cursor!r} is no cursor of this verb; take the `next_cursor` of its last answer") from error


def lane_item(entry: SessionEntry, reader: SessionReader) -> dict[str, Any]:
    """Return a lane as an item."""
    origin = entry.origin
    try:
        session = reader.get_session(entry.session_id)
    except UnknownSessionError:
        session = None
    flags = ("suspended", "resume_pending", "was_auto_reset", "is_fresh_reset", "expiry_finalized")
    return {
        "lane": entry.session_key,
        "session_id": entry.session_id,
        "updated_at": entry.updated_at,
        "created_at": entry.created_at,
        "platform": entry.platform and entry.platform.value,
        "chat_id": origin and origin.chat_id,
        "thread_id": origin and origin.thread_id,
        "user_id": origin and origin.user_id,
        "chat_type": entry.chat_type,
        "display_name": entry.display_name,
        "title": session and session.title,
        "messages": session and session.message_count,
        "flags": " ".join(name for name in flags if getattr(entry, name)),
        "input_tokens": entry.input_tokens,
        "output_tokens": entry.output_tokens,
        "cost_usd": entry.estimated_cost_usd,
        "model": (entry.model_override or {}).get("model"),
    }


# show


@verb(
    "show",
    examples=("sessions show telegram:dm:4711", "sessions show 20260701_1425 --at 2h --output jsonl"),
    pages=True,
)
@click.argument("what", required=False, shell_complete=subject_names)
@AT
def show(run: Run, what: str | None, at: str | None) -> None:
    """Show a lane, a session with its messages, or an event.

    WHAT is a lane's key or a session's id, its beginning or a part of it, or @123, an event's position. Without it a
    terminal offers a list to choose from.
    """
    with run.reader(at) as reader:
        if what is None:
            from replay.cli.picker import picked_lane  # Rich, which only a terminal needs

            what = picked_lane(run, reader)
        at_position = _position(run, reader.log, what) if what.startswith("@") else None
        items = _items(run, reader, what) if at_position is None else event_items(run, reader.log, at_position)
        page = page_of(items, run.limit, run.cursor)
        run.output.page(page, Lines(lines_of), "nothing there")


def _position(run: Run, log: EventLog, what: str) -> int:
    position = moment_of(log, what, run.now).position
    if position == 0:
        raise UnknownSubjectError("there is no event @0: the first one is @1")
    return position


def event_items(run: Run, log: EventLog, position: int) -> Iterator[Item]:
    """Yield the event at a position."""
    for record in select_events(log, Selection(after=position - 1, upto=position), run.now.tzinfo):
        yield {"kind": "event", **msgspec.structs.asdict(record)}


def _items(run: Run, reader: SessionReader, what: str) -> Iterator[Item]:
    subject = run.subject(reader, what)
    if subject.kind == "session":
        yield session_item(reader.get_session(subject.name))
        yield from message_items(reader, subject.name)
        return
    entry = reader.peek_entry(subject.name)
    yield {"kind": "lane", "lane": subject.name} if entry is None else {"kind": "lane", **lane_item(entry, reader)}
    yield from map(session_item, reader.sessions_of(subject.name))


def message_items(reader: SessionReader, session_id: str) -> Iterator[Item]:
    """Yield the live messages of a session."""
    for each in reader.recorded_messages(session_id):
        yield {"kind": "message", "position": each.position, "time": each.time, **_said(each.message)}


def _said(message: dict[str, Any]) -> dict[str, Any]:
    return {"role": message.get("role"), "text": text_of(message.get("content")), "message": message}


def session_item(session: SessionInfo) -> dict[str, Any]:
    """Return a session as an item."""
    found = msgspec.structs.asdict(session)
    return {"kind": "session", "lane": found.pop("session_key"), **found}


_HIDDEN = {"kind", "payload", "input_tokens", "output_tokens", "cost_usd"}


def lines_of(item: Item) -> Iterable[Line]:
    """Return an item of a lane, a session, a message or an event as lines."""
    if item["kind"] == "message":
        role = str(item["role"])
        yield [
            (f"@{item['position']}  ", "dim"),
            (f"{shown(item['time'])}  ", "green"),
            (role, "bold cyan" if role == "user" else "bold"),
        ]
        for line in str(item["text"] or as_json(item["message"])).splitlines():
            yield [("    ", ""), (line, "")]
        return
    told = {name: shown(value) for name, value in item.items() if name not in _HIDDEN}
    head = {"lane": "lane", "session": "session_id", "event": "type"}[item["kind"]]
    yield [(f"{item['kind']} ", "bold"), (told.pop(head, ""), "bold cyan")]
    width = max(map(len, told))
    for name, value in told.items():
        if value and not (item["kind"] == "session" and name == "lane" and value == ""):
            yield [(f"  {name.replace('_', ' '):<{width}}  ", "dim"), (value, "")]
    for name, value in item.get("payload", {}).items():
        yield [(f"  {name:<{width}}  ", "dim"), (shown(value), "yellow")]
