"""`events`: what the log recorded, bounded or followed."""

from collections.abc import Iterable
from itertools import islice

import click
import msgspec

from engine.domain.messages import text_of
from engine.log.sqlite.eventlog import EventLog
from replay.cli.layout import Column, Item, Line, Lines, Table
from replay.cli.output import Page
from replay.cli.run import Run, verb
from replay.cli.text import as_json, in_one_line, shown
from replay.selecting import EventRecord, Selection, select_events

_FIELDS = EventRecord.__struct_fields__
_ALL = ("since", "until", "platform", "chat", "thread", "user", "lane", "session", "type", "actor")
_BEFORE, _AFTER = "before:", "after:"
_WAIT_SECONDS = 1.0


def _where(item: Item) -> str:
    return str(item["lane"] or item["session_id"] or item["stream"])


def saying(item: Item) -> str:
    """Return what an event says in one line: its reason, and its payload."""
    payload = dict(item["payload"])
    message = payload.pop("message", None)
    parts = [str(item["reason"])] if item["reason"] else []
    if isinstance(message, dict):
        parts.append(f"{message.get('role')}: {text_of(message.get('content')) or as_json(message)}")
    parts += [f"{name}={shown(value)}" for name, value in payload.items() if value not in (None, "", [], {})]
    return in_one_line("  ".join(parts))


EVENTS = Table(
    (
        Column("position", "@", style="dim", right=True),
        Column("time", style="green"),
        Column("type", style="bold"),
        Column("actor", rank=1),
        Column("", "lane or session", style="cyan", wide=True, tail=True, of=_where),
        Column("", "what it says", wide=True, of=saying),
    )
)


@verb(
    "events",
    examples=("sessions events --type lane.reset --since yesterday", "sessions events --lane 4711 --follow"),
    pages=True,
    filters=_ALL,
)
@click.option("-f", "--follow", is_flag=True, help="Go on with what is recorded from now on, until Ctrl-C.")
def events(run: Run, follow: bool) -> None:
    """List what the log recorded, or follow it.

    In the order of the log. Without `--since` these are the newest events, and the cursor leads to those before them;
    with it they begin there, and the cursor leads on.
    """
    with run.log() as log:
        selection = run.part_of(log)
        if follow:
            _follow(run, log, selection)
            return
        page = _page(run, log, selection)
        run.output.page(page, EVENTS, "no event", (*_FIELDS,))


def _page(run: Run, log: EventLog, selection: Selection) -> Page:
    cursor, zone = run.cursor or "", run.now.tzinfo
    if cursor.startswith(_BEFORE):
        selection = msgspec.structs.replace(selection, upto=_place(cursor, _BEFORE) - 1)
    elif cursor:
        selection = msgspec.structs.replace(selection, after=_place(cursor, _AFTER))
    newest = cursor.startswith(_BEFORE) or not (cursor or run.filters["since"] or run.limit is None)
    records = select_events(log, selection, zone, backwards=newest)
    if run.limit is None:
        return Page(map(msgspec.structs.asdict, records))
    found = list(islice(records, run.limit + 1))
    more, kept = len(found) > run.limit, found[: run.limit]
    last = kept[-1].position if kept else 0
    if newest:
        kept.reverse()
    cursor = f"{_BEFORE if newest else _AFTER}{last}"
    return Page([msgspec.structs.asdict(each) for each in kept], cursor if more else None, more)


def _place(cursor: str, kind: str) -> int:
    number = cursor.removeprefix(kind)
    if not (cursor.startswith(kind) and number.isascii() and number.isdigit() and len(number) < 19):
        raise ValueError(f"{cursor!r} is no cursor of this verb; take the `next_cursor` of its last answer")
    return int(number)


def _follow(run: Run, log: EventLog, selection: Selection) -> None:
    """Print the newest events, then each that is recorded, until somebody ends it."""
    if run.output.form == "json":
        raise click.UsageError("what is followed never ends, as JSON has to; take --output jsonl")
    before = log.last_position
    first = _page(run, log, msgspec.structs.replace(selection, upto=before))
    run.output.stream(first.items, Lines(_line), _FIELDS)
    while selection.upto is None or before < selection.upto:
        if log.wait(before, _WAIT_SECONDS):
            last = log.last_position
            part = msgspec.structs.replace(selection, after=before, upto=last)
            found = map(msgspec.structs.asdict, select_events(log, part, run.now.tzinfo))
            run.output.stream(found, Lines(_line), _FIELDS, head=False)
            before = last


def _line(item: Item) -> Iterable[Line]:
    """Return an event as a line whose columns stand still, whatever follows."""
    yield [
        (f"@{item['position']:<8} ", "dim"),
        (f"{shown(item['time'])}  ", "green"),
        (f"{item['type']:<22} ", "bold"),
        (f"{_where(item)}  ", "cyan"),
        (saying(item), ""),
    ]
