"""`diff`: what changed between two moments."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import tzinfo
from typing import Any

import click
import msgspec

from engine.domain.messages import text_of
from engine.domain.times import moment
from replay.cli.layout import Item, Line, Lines
from replay.cli.output import page_of
from replay.cli.run import Run, verb
from replay.cli.text import as_json, in_one_line, shown
from replay.differences import Change, diff as diff_of

_TIMES = frozenset({"created_at", "updated_at", "ended_at", "last_resume_marked_at"})
_SIGNS = {"added": ("+ ", "green"), "gone": ("- ", "red"), "hidden": ("- ", "red"), "changed": ("~ ", "yellow")}


@verb(
    "diff",
    examples=("sessions diff 'yesterday 18:00' 'today 09:00'", "sessions diff 2h now --lane telegram:dm:4711 -o json"),
    pages=True,
    filters=("platform", "chat", "thread", "user", "lane", "session"),
)
@click.argument("a", metavar="WHEN")
@click.argument("b", metavar="WHEN")
def diff(run: Run, a: str, b: str) -> None:
    """Tell what changed between two moments.

    Lanes, sessions and projects that were added, are gone or changed, field by field, and messages that were added or
    hidden. The second moment may be the earlier one.
    """
    with run.log() as log:
        first, second = run.moment(log, a, "from").position, run.moment(log, b, "to").position
        selection = run.part_of(log)
        items = (item_of(each, run.now.tzinfo) for each in diff_of(log, first, second, selection))
        run.output.page(
            page_of(items, run.limit, run.cursor), Lines(lines_of), "nothing changed", Change.__struct_fields__
        )


def item_of(change: Change, zone: tzinfo | None) -> Item:
    """Return a change as an item, its times in a zone."""
    found = {name: getattr(change, name) for name in Change.__struct_fields__}
    for name in ("before", "after"):
        value = msgspec.to_builtins(found[name])
        if change.field in _TIMES:
            value = _time(value, zone)
        elif change.kind != "message" and isinstance(value, dict) and change.field is None:
            value = {field: _time(each, zone) if field in _TIMES else each for field, each in value.items()}
        found[name] = value
    return found


def _time(value: Any, zone: tzinfo | None) -> Any:
    return moment(value, zone) if isinstance(value, int) and value else None


def lines_of(item: Item) -> Iterable[Line]:
    """Return a change as a line."""
    sign, style = _SIGNS[item["change"]]
    yield [(sign, style), (f"{item['kind']} ", "bold"), (f"{item['id']}  ", "cyan"), *_told(item)]


def _told(item: Item) -> Iterator[tuple[str, str]]:
    before, after = item["before"], item["after"]
    if item["change"] == "changed":
        yield f"{item['field']}: ", "dim"
        yield f"{_value(before)} → {_value(after)}", ""
    elif item["kind"] == "message":
        said = before if item["change"] == "hidden" else after
        yield f"{said.get('role') or 'archived'}: ", "bold"
        yield in_one_line(text_of(said.get("content")) or as_json(said)), ""
    elif item["change"] == "added":
        yield "  ".join(f"{name}={shown(value)}" for name, value in after.items() if _says_something(value)), ""


def _value(value: Any) -> str:
    return shown(value) or ("none" if value is None or isinstance(value, (Mapping, list, tuple)) else "''")


def _says_something(value: Any) -> bool:
    return value not in (None, "", 0, (), [], {})
