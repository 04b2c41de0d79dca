"""`stats`, `health` and `path`: the store as a whole."""

from collections.abc import Iterable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec

from engine.health import health_of
from engine.views import VIEWS_FILE
from replay.cli.failures import INTEGRITY
from replay.cli.layout import Column, Item, Line, Lines, Records
from replay.cli.output import page_of
from replay.cli.run import Run, verb
from replay.cli.text import shown, size
from replay.opening import open_views
from replay.statistics import Figures, Statistics, statistics

_STATES = {"read-only": "ok"}
"""It is this command that reads only."""
_HEADS = {"total": "in all", "type": "by type of event", "session": "largest sessions", "day": "by day"}


@verb(
    "stats",
    examples=("sessions stats", "sessions stats --since 30d -o csv"),
    pages=True,
    filters=("since", "until"),
)
def stats(run: Run) -> None:
    """Count events, sessions and bytes, and how they grow.

    In all, by type of event, by day, and of the ten largest sessions. Bytes are those of what the events say.
    """
    with run.log() as log:
        after, upto = run.positions(log)
        found = statistics(log, after, upto, zone=run.now.tzinfo, progress=run.progress.tell)
        on_disk = sum(
            Path(f"{log.path}{end}").stat().st_size for end in ("", "-wal") if Path(f"{log.path}{end}").exists()
        )
    page = page_of(_items(found, on_disk), run.limit, run.cursor)
    kinds: set[str] = set()
    run.output.page(
        page, Lines(lambda item: _lines(item, kinds)), "", ("kind", "name", *Figures.__struct_fields__, "bytes_on_disk")
    )


def _items(found: Statistics, on_disk: int) -> Iterator[Item]:
    yield {"kind": "total", "name": "log", **msgspec.structs.asdict(found.total), "bytes_on_disk": on_disk}
    parts: tuple[tuple[str, Iterable[tuple[object, Figures]]], ...] = (
        ("type", found.types.items()),
        ("session", found.largest.items()),
        ("day", found.days.items()),
    )
    for kind, figures in parts:
        for name, each in figures:
            yield {"kind": kind, "name": str(name), **msgspec.structs.asdict(each)}


def _lines(item: Item, kinds: set[str]) -> Iterator[Line]:
    """Return a line of figures, below the heading of its kind."""
    kind = item["kind"]
    if kind not in kinds:
        if kinds:
            yield []
        kinds.add(kind)
        yield [(f"{_HEADS[kind]:<34}", "bold"), (f"{'events':>10}{'messages':>10}{'sessions':>10}{'bytes':>11}", "dim")]
    name = item["name"] if kind != "total" else f"log, {size(item['bytes_on_disk'])} on disk"
    counts = f"{item['events']:>10}{item['messages'] or '':>10}{item['sessions'] or '':>10}{size(item['bytes']):>11}"
    yield [(f"  {shown(name):<32}", "cyan"), (counts, "")]


@verb("health", examples=("sessions health", "sessions health -o json | jq .items[0].state"))
def health(run: Run) -> int | None:
    """Tell how the store is, and what needs care.

    From outside: counters of the process that writes it are in its own `health()`. Ends with 4 if something is damaged
    or quarantined, else with 0.
    """
    with run.log() as log, closing(open_views(log)) as views:
        found = health_of(log, views.status() if Path(log.path).with_name(VIEWS_FILE).exists() else [])
    item = {name: value for name, value in msgspec.to_builtins(found).items() if value not in (0, 0.0, None)}
    item |= {"position": found.position, "behind": found.position - found.projection_position}
    item |= {"quarantined_events": found.quarantined_events, "state": _STATES.get(found.state, found.state)}
    columns = [Column(name) for name in item if name != "views"]
    columns += [Column("", f"view {view['name']}", of=partial(_told_of, view)) for view in item.get("views", ())]
    run.output.one(item, Records(columns))
    sound = item["state"] == "ok" and not found.quarantined_events and found.damaged_wal is None
    return None if sound and not any(view.error for view in found.views) else INTEGRITY


def _told_of(view: Item, _: Item) -> str:
    told = f"at @{view['position']}, {view['lag_events']} events behind"
    return f"{told}; {view['error']}" if view["error"] else told


@verb("path", examples=("sessions path", "ls -l $(sessions path)*"))
def path(run: Run) -> None:
    """Print where the store is.

    The file of the log, as text; the other forms also have the folder and the file of the views.
    """
    with run.log() as log:
        file = Path(log.path).resolve()
    views = file.parent / VIEWS_FILE
    item = {"path": str(file), "folder": str(file.parent), "views": str(views) if views.exists() else None}
    run.output.one(item, Lines(lambda each: [[(each["path"], "")]]))
