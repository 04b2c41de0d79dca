"""The findings of a verb in the format that was asked for: text, JSON, JSON lines or CSV (R2)."""

import csv
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, Literal, NamedTuple

import click

from replay.cli.layout import Item, Layout, Lines, write
from replay.cli.screen import Colour, Screen, screen
from replay.cli.text import as_json, safe, shown

Format = Literal["text", "json", "jsonl", "csv"]
FORMATS: tuple[Format, ...] = ("text", "json", "jsonl", "csv")
LIMIT, MOST = 100, 10**9
"""Items of an answer: so many if nothing is said, and the most that `--limit` takes; `--all` has no bound."""


class Page(NamedTuple):
    """Items of an answer, the cursor that asks for those behind them, and whether there are more."""

    items: Iterable[Item]
    next_cursor: str | None = None
    truncated: bool = False


class Output:
    """Prints data on stdout, and everything else on stderr."""

    def __init__(self, form: Format, colour: Colour, begin: Callable[[], object] = bool) -> None:
        """Take the form, and what to call before anything is printed."""
        self.form = form
        self.screen: Screen = screen(colour)
        self._begin = begin
        self._notes: list[str] = []

    def note(self, text: str) -> None:
        """Say something on stderr before the text of an answer; a program that reads the answer needs none of it."""
        if self.form == "text" and text not in self._notes:
            self._notes.append(text)

    def page(self, page: Page, layout: Layout, empty: str, fields: Sequence[str] = ()) -> None:
        """Print a page of items; `empty` is said on stderr when there are none, `fields` are the head of CSV."""
        items, any_at_all = _peeked(page.items)
        self._start()
        if self.form == "json":
            self._json(items, page)
        else:
            self.stream(items, layout, fields)
        if not any_at_all:
            self.say(empty)
        elif page.truncated and self.form != "json":
            more = f"--cursor {page.next_cursor}, --limit or --all" if page.next_cursor else "--limit or --all"
            self.say(f"there are more: {more}")

    def stream(self, items: Iterable[Item], layout: Layout, fields: Sequence[str] = (), *, head: bool = True) -> None:
        """Print items, and see to it that they are seen at once; those that follow others need no head."""
        self._start()
        match self.form:
            case "csv":
                self._csv(items, fields, head=head)
            case "text":
                write(items, layout, self.screen, self.write)
            case _:
                for item in items:
                    self.write(as_json(item) + "\n")
        sys.stdout.flush()

    def one(self, item: Item, layout: Layout) -> None:
        """Print an answer that is one item."""
        self.page(Page([item]), layout, "", list(item))

    def write(self, text: str) -> None:
        """Write to stdout."""
        sys.stdout.write(text)

    def say(self, text: str) -> None:
        """Say something on stderr, where it is no data."""
        self._start()
        click.echo(safe(text), err=True)

    def _start(self) -> None:
        self._begin()
        notes, self._notes = self._notes, []
        for note in notes:
            click.echo(safe(note), err=True)

    def _json(self, items: Iterable[Item], page: Page) -> None:
        self.write('{"items": [')
        between = "\n  "
        for item in items:
            self.write(between + as_json(item))
            between = ",\n  "
        end = "\n" if between[0] == "," else ""
        cursor, truncated = as_json(page.next_cursor), as_json(page.truncated)
        self.write(f'{end}], "next_cursor": {cursor}, "truncated": {truncated}}}\n')

    def _csv(self, items: Iterable[Item], fields: Sequence[str], *, head: bool) -> None:
        rows = list(items) if not fields else items
        names = list(fields) or list(dict.fromkeys(name for item in rows for name in item))
        table = csv.writer(sys.stdout, lineterminator="\n")
        if head and names:
            table.writerow(names)
        table.writerows([_field(item.get(name)) for name in names] for item in rows)


def _field(value: Any) -> Any:
    """Return a field of CSV: exact, but for characters that a terminal would act upon."""
    if isinstance(value, str):
        return safe(value)
    if isinstance(value, (dict, list, tuple)):
        return as_json(value)
    if isinstance(value, datetime):
        return value.isoformat()
    return str(value).lower() if isinstance(value, bool) else value


def page_of(items: Iterable[Item], limit: int | None, cursor: str | None) -> Page:
    """Return a page of an answer that is always in the same order; the cursor is how many came before."""
    skipped = skipped_by(cursor)
    rest = islice(items, skipped, None)
    if limit is None:
        return Page(rest)
    found = list(islice(rest, limit + 1))
    more = len(found) > limit
    return Page(found[:limit], str(skipped + limit) if more else None, more)


def skipped_by(cursor: str | None) -> int:
    """Return how many items came before those that a cursor of such an answer asks for."""
    if cursor is None:
        return 0
    if not (cursor.isascii() and cursor.isdigit() and len(cursor) < 12):
        raise ValueError(f"{cursor!r} is no cursor of this verb; take the `next_cursor` of its last answer")
    return int(cursor)


def _peeked(items: Iterable[Item]) -> tuple[Iterator[Item], bool]:
    rest = iter(items)
    first = list(islice(rest, 1))
    return (item for part in (first, rest) for item in part), bool(first)


def facts(*pairs: tuple[str, object]) -> Lines:
    """Return a layout for an answer that is one item: these names and values, whatever is empty left out."""
    width = max(len(name) for name, _ in pairs)
    kept = [(name, shown(value)) for name, value in pairs]
    return Lines(lambda _: [[(f"{name:<{width}}  ", "dim"), (value, "")] for name, value in kept if value])
