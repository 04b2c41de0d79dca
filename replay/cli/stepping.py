"""`at WHEN --step`: one event back or forth with the change it made, on a terminal by the arrow keys (R15)."""

import os
from collections.abc import Iterable, Iterator
from functools import partial

from engine.log.sqlite.eventlog import EventLog
from replay.cli.changes import item_of, lines_of
from replay.cli.events import saying
from replay.cli.layout import Item, Line, Lines
from replay.cli.looking import event_items
from replay.cli.output import Page
from replay.cli.run import Run
from replay.cli.screen import answers
from replay.cli.text import safe, shown
from replay.selecting import EventRecord
from replay.steps import step

_FIELDS = ("kind", *EventRecord.__struct_fields__, "changes")
_ARROWS = {"previous": "← ", "next": "→ "}
_SHOWN = 30
"""Changes of a step that a screen shows; the answer has all."""


def steps_of(run: Run, log: EventLog, position: int) -> None:
    """Print the event before a position, which is its own, and the one behind it; on a terminal go on by arrow keys."""
    if run.output.form == "text" and run.output.screen.looked_at and answers():
        position = _walked(run, log, position)
    items = list(_steps(run, log, position))
    run.output.page(Page(items), Lines(partial(_lines, most=None)), "the log is empty", _FIELDS)


def _steps(run: Run, log: EventLog, position: int) -> Iterator[Item]:
    for kind in ("previous", "next"):
        taken = step(log, position, backwards=kind == "previous")
        if taken is not None:
            changes = [item_of(each, run.now.tzinfo) for each in taken.changes]
            for event in event_items(run, log, taken.event.position):
                yield {**event, "kind": kind, "changes": changes}


def _lines(item: Item, most: int | None) -> Iterable[Line]:
    where = item["lane"] or item["session_id"] or item["stream"]
    yield [
        (_ARROWS[item["kind"]], "bold"),
        (f"@{item['position']}  ", "dim"),
        (f"{shown(item['time'])}  ", "green"),
        (f"{item['type']}  ", "bold"),
        (f"by {item['actor']} in {item['command']}  ", "dim"),
        (str(where), "cyan"),
    ]
    yield [("    ", ""), (saying(item), "")]
    changes = item["changes"]
    for change in changes[:most]:
        for line in lines_of(change):
            yield [("    ", ""), *line]
    if not changes:
        yield [("    ", ""), ("no lane, session, project or message changed", "dim")]
    if most is not None and len(changes) > most:
        yield [("    ", ""), (f"and {len(changes) - most} more", "dim")]


def _walked(run: Run, log: EventLog, position: int) -> int:
    """Let somebody walk along the log; return where they stopped."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.text import Text

    from replay.cli.keys import NAMES, keys

    def there(position: int) -> Group:
        lines: list[Line] = [[(f"at @{position} of @{log.last_position}", "bold")]]
        lines += [line for item in _steps(run, log, position) for line in _lines(item, _SHOWN)]
        lines.append([("← → one event, Enter to leave", "dim italic")])
        texts = [Text.assemble(*((safe(text, "\t"), style) for text, style in line)) for line in lines]
        for text in texts:
            text.no_wrap, text.overflow = True, "ellipsis"
        return Group(*texts)

    run.progress.stop()
    console = Console(stderr=True, color_system=None if os.environ.get("NO_COLOR") else "auto", highlight=False)
    with keys() as pressed, Live(console=console, transient=True, auto_refresh=False) as live:
        while True:
            live.update(there(position), refresh=True)
            match NAMES.get(key := next(pressed), key):
                case "left" | "up":
                    position = max(position - 1, 0)
                case "right" | "down":
                    position = min(position + 1, log.last_position)
                case "take" | "leave" | "q":
                    return position
