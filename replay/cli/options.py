"""The options that verbs share: the store, the output, pages, moments and filters (R1, R2, R3)."""

from typing import Any

import click

from replay.cli.completion import lane_names, session_names, store_values
from replay.cli.output import FORMATS, LIMIT, MOST

WHEN = "2026-07-01 04:00, 2h, 3d ago, yesterday 04:00, now or @123, a position"

SHARED = [
    click.Option(["--store"], metavar="PATH", help="The store: a folder with sessions.db, or that file."),
    click.Option(
        ["-o", "--output"],
        type=click.Choice(FORMATS),
        default="text",
        show_default=True,
        help="The form of the answer.",
    ),
    click.Option(
        ["--color"],
        type=click.Choice(["auto", "always", "never"]),
        default="auto",
        show_default=True,
        help="Colours; auto looks at the terminal, NO_COLOR and FORCE_COLOR.",
    ),
]
"""The options of every verb."""
_PAGES = [
    click.Option(
        ["--limit"], type=click.IntRange(1, MOST), default=LIMIT, show_default=True, help="The most items to print."
    ),
    click.Option(["--all", "everything"], is_flag=True, help="Print all items."),
    click.Option(["--cursor"], metavar="CURSOR", help="Go on behind an earlier answer, with its next_cursor."),
]
_WRITES = [
    click.Option(["--dry-run"], is_flag=True, help="Only tell what would be done."),
    click.Option(["--yes"], is_flag=True, help="Do it without asking; needed where nobody can be asked."),
]
_FILTERS: dict[str, tuple[str, str, Any]] = {
    "since": ("WHEN", f"From then on: {WHEN}.", None),
    "until": ("WHEN", "Up to then.", None),
    "platform": ("NAME", "On a platform, like telegram; may be given several times, as the others.", store_values),
    "chat": ("ID", "In a chat.", store_values),
    "thread": ("ID", "In a thread.", store_values),
    "user": ("ID", "Of a person.", store_values),
    "lane": ("KEY", "Of a lane: its key, its beginning or a part of it.", lane_names),
    "session": ("ID", "Of a session: its id, its beginning or a part of it.", session_names),
    "type": ("TYPE", "Of a type of event, like lane.reset.", store_values),
    "actor": ("NAME", "Done by an actor.", store_values),
}
MOMENTS = ("since", "until")


def shared(*, pages: bool, filters: tuple[str, ...], writes: bool) -> list[click.Parameter]:
    """Return the options that a verb shares with others, in the order of its help."""
    return [*map(_filter, filters), *(_PAGES if pages else ()), *(_WRITES if writes else ()), *SHARED]


def _filter(name: str) -> click.Option:
    metavar, told, complete = _FILTERS[name]
    return click.Option(
        [f"--{name}"], metavar=metavar, multiple=name not in MOMENTS, help=told, shell_complete=complete
    )
