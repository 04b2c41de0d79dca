"""`search` and `usage`: questions to the views."""

from collections.abc import Callable
from contextlib import closing
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from engine.domain.events import TurnBegun, UsageRecorded
from engine.domain.times import moment
from engine.domain.transcript import MESSAGES
from engine.log.errors import ReadOnlyLogError
from engine.log.sqlite.eventlog import EventLog
from engine.views import VIEWS_FILE
from projections.inline.projection import check_current
from projections.views.bill import DIMENSIONS
from projections.views.find import Hit, Hits, Order
from replay.cli.failures import FAILURE, NOT_FOUND, Failed
from replay.cli.layout import Column, Table
from replay.cli.output import Page, page_of
from replay.cli.run import Run, verb
from replay.opening import open_views

_HITS = Table(
    (
        Column("position", "@", style="dim", right=True),
        Column("time", style="green"),
        Column("role", style="bold"),
        Column("session_id", "session", style="cyan"),
        Column("snippet", wide=True),
    )
)
_MOST = 500
"""Hits of one question to the view."""
_SEEN = (*MESSAGES, TurnBegun.TOPIC, UsageRecorded.TOPIC)
"""Topics of events without which an answer is another one."""
_GRACE = timedelta(seconds=2)
"""For so long a view may be behind without a word: it is on its way."""
_COUNTS = ("sessions", "messages", "turns", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")


def _one(values: tuple[str, ...], name: str) -> str | None:
    if len(values) > 1:
        raise click.UsageError(f"--{name} can be given once here")
    return values[0] if values else None


@verb(
    "search",
    examples=('sessions search "refund order" --since 3d', "sessions search 'invoice* NOT draft' --role assistant"),
    pages=True,
    filters=("since", "until", "platform", "user", "lane", "session"),
)
@click.argument("words", nargs=-1, required=True)
@click.option("--role", metavar="ROLE", help="Of a role: user, assistant, or tool, which is searched only then.")
@click.option(
    "--order", type=click.Choice(get_args(Order)), default="relevance", show_default=True, help="What comes first."
)
def search(run: Run, words: tuple[str, ...], role: str | None, order: Order) -> None:
    """Find messages by their words.

    Words, "phrases", prefix*, joined by AND, OR and NOT; anything else is searched as plain words. Only live messages:
    what was undone, rewritten or erased is not found. The view is the one that a store follows with or has left.
    """
    with run.reader() as reader:
        since, until = run.times(reader.log)
        asking = partial(
            reader.search,
            " ".join(words),
            platform=_one(run.filters["platform"], "platform"),
            lane=_one(run.names(reader, "lane"), "lane"),
            session_id=_one(run.names(reader, "session"), "session"),
            user_id=_one(run.filters["user"], "user"),
            role=role,
            since=since,
            until=until,
            order=order,
        )
        there = reader.log.last_position > 0  # of an empty store nobody has made a view yet
        if there:
            _look_after(run, reader.log, "search")
        page = _hits(asking, run.limit, run.cursor) if there else Page([])
        run.output.page(page, _HITS, "no message has these words", Hit.__struct_fields__)


def _look_after(run: Run, log: EventLog, name: str) -> None:
    """Say on stderr if a view has not seen all that was said by now; raise Failed where there is none."""
    try:
        check_current(log)
    except ReadOnlyLogError:
        raise Failed(
            "another build of this package made the tables beside the log, and search and usage read them: a gateway "
            "of this one makes them again when it opens the store, and so does `sessions views rebuild --yes`",
            FAILURE,
        ) from None
    file = Path(log.path).with_name(VIEWS_FILE)
    if not file.exists():
        raise Failed(f"there is no {file}; `sessions views rebuild --yes` makes it, and so does a gateway", NOT_FOUND)
    with closing(open_views(log)) as views:
        seen = next(each.position for each in views.status() if each.name == name)
    unseen = next(iter(log.events(seen, None, _SEEN)), None)
    if unseen is not None and run.now - moment(unseen.time, run.now.tzinfo) > _GRACE:
        run.output.say(
            f"{name} has seen the log up to @{seen} of @{log.last_position} and knows nothing of what came later: "
            "a gateway brings it up to date, and so does `sessions views rebuild --yes`"
        )


def _hits(asking: Callable[..., Hits], limit: int | None, cursor: str | None) -> Page:
    """Return so many hits, asking as often as it takes."""
    items: list[dict[str, Any]] = []
    while limit is None or len(items) < limit:
        hits = asking(limit=_MOST if limit is None else min(limit - len(items), _MOST), cursor=cursor)
        items += map(msgspec.structs.asdict, hits.items)
        cursor = hits.next_cursor
        if cursor is None:
            break
    return Page(items, cursor, cursor is not None)


@verb(
    "usage",
    examples=("sessions usage --by day --by platform --since 7d", "sessions usage --by model -o csv"),
    pages=True,
    filters=("since", "until"),
)
@click.option("--by", type=click.Choice(list(DIMENSIONS)), multiple=True, help="What is added up apart; several times.")
def usage(run: Run, by: tuple[str, ...]) -> None:
    """Add up messages, turns, tokens and cost.

    By any of day, platform, user, model, provider, lane and session. Days are of the store's time zone, from that of
    `--since` up to that of `--until`, which is left out.
    """
    with run.reader() as reader:
        since, until = run.times(reader.log)
        if reader.log.last_position:
            _look_after(run, reader.log, "usage")
        rows = reader.usage(by, since=since, until=until) if reader.log.last_position else []
    named = tuple(dict.fromkeys(by))
    fields = (*named, *_COUNTS, "cost_usd")
    items = ({name: getattr(row, name) for name in fields} for row in rows)
    columns = [Column(name, style="cyan", wide=True) for name in named]
    columns += [
        Column(name, name.replace("cache_", "").replace("_tokens", ""), right=True) for name in fields[len(named) :]
    ]
    run.output.page(page_of(items, run.limit, run.cursor), Table(columns), "nothing was used", fields)
