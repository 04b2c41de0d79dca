"""`sql` and `when`: questions in SQL, to now, to a moment, and to every moment."""

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import click

from engine.log.protocol import Answer, Bounds
from replay.asking import sql as sql_of, when as when_of
from replay.cli.events import saying
from replay.cli.layout import Column, Item, Line, Lines, Table
from replay.cli.looking import AT, event_items
from replay.cli.output import page_of, skipped_by
from replay.cli.run import Run, verb
from replay.cli.text import shown
from replay.selecting import EventRecord

_MOST = 1 << 40


def _seconds(default: float) -> Callable[[Callable[..., None]], Callable[..., None]]:
    return click.option(
        "--seconds",
        type=click.FloatRange(0, min_open=True),
        default=default,
        show_default=True,
        callback=_bounded,
        help="How long it may run.",
    )


def _bounded(_context: click.Context, _parameter: click.Parameter, seconds: float) -> float:
    if not math.isfinite(seconds):
        raise click.BadParameter(f"{seconds} is no number of seconds")
    return seconds


@verb(
    "sql",
    examples=(
        "sessions sql 'select lane, session_id, updated_at from audit_lanes where suspended'",
        "sessions sql 'select actor, count(*) from audit_resets group by actor' --at 'yesterday 04:00' -o csv",
    ),
    pages=True,
)
@click.argument("query")
@AT
@_seconds(Bounds().seconds)
def sql(run: Run, query: str, at: str | None, seconds: float) -> None:
    """Ask the log, its state tables and the audit views by SQL.

    QUERY is one SELECT, VALUES or WITH in the words of SQLite; what writes is refused, and what takes too long or over
    256 MiB of memory is stopped. Tables: docs/reference/tables.md; views with ready questions: docs/audit.md.
    """
    if not query.strip(" ;\n\t"):
        raise click.UsageError("an empty query asks nothing; say SELECT and what")
    skipped = skipped_by(run.cursor)
    most = _MOST if run.limit is None else skipped + run.limit + 1
    with run.log() as log:
        position = None if at is None else run.moment(log, at).position
        answer = sql_of(log, query, position, bounds=Bounds(seconds=seconds, rows=most))
    names = _names(answer.columns)
    counts = [_counts(answer, number) for number in range(len(names))]
    columns = [Column(name, name, wide=not right, right=right) for name, right in zip(names, counts, strict=True)]
    page = page_of(_rows(answer, names), run.limit, run.cursor)
    run.output.page(page, Table(columns), "no row", names)


def _names(columns: Iterable[str]) -> tuple[str, ...]:
    """Return the names of columns, each once: where several have one name, they are numbered."""
    found: dict[str, None] = {}
    for name in columns:
        number, free = 1, name
        while free in found:
            number += 1
            free = f"{name}_{number}"
        found[free] = None
    return tuple(found)


def _counts(answer: Answer, column: int) -> bool:
    return all(isinstance(row[column], (int, float, type(None))) for row in answer.rows)


def _rows(answer: Answer, names: tuple[str, ...]) -> Iterator[Item]:
    for row in answer.rows:
        yield dict(zip(names, map(_value, row), strict=True))


def _value(value: Any) -> Any:
    return value.hex() if isinstance(value, bytes) else value


@verb(
    "when",
    examples=(
        "sessions when 'select lane from audit_lanes where suspended'",
        "sessions when 'select session_id, title from audit_sessions where messages >= 1000' --seconds 300 -o json",
    ),
)
@click.argument("query")
@_seconds(60.0)
def when(run: Run, query: str, seconds: float) -> None:
    """Find the first moment at which a query gave a row.

    The state tables are folded from the beginning of the log, and QUERY is asked after each event that touches a table
    it reads, so that rows are found too that went again. It may read the views audit_lanes and audit_sessions. The
    answer is that event, and the row.
    """
    with run.log() as log:
        bounds = Bounds(seconds=seconds, rows=1)
        found = when_of(log, query, bounds=bounds, progress=run.progress.tell)
        items: list[Item] = []
        if found is not None:
            row = dict(zip(_names(found.columns), map(_value, found.row), strict=True))
            items = [{**event, "row": row} for event in event_items(run, log, found.position)]
    run.output.page(page_of(items, None, None), Lines(_first), "it never gave a row", _FIELDS)


_FIELDS = ("kind", *EventRecord.__struct_fields__, "row")


def _first(item: Item) -> Iterable[Line]:
    where = item["lane"] or item["session_id"] or item["stream"]
    yield [
        (f"@{item['position']}  ", "dim"),
        (f"{shown(item['time'])}  ", "green"),
        (f"{item['type']}  ", "bold"),
        (f"by {item['actor']} in {item['command']}  ", "dim"),
        (str(where), "cyan"),
    ]
    yield [("  ", ""), (saying(item), "")]
    width = max(map(len, item["row"]), default=0)
    for name, value in item["row"].items():
        yield [(f"  {name:<{width}}  ", "dim"), (shown(value), "yellow")]
