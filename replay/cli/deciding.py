"""`why`: decisions in sentences, with what they saw."""

from collections.abc import Iterable, Iterator

import click
import msgspec

from replay.cli.completion import subject_names
from replay.cli.layout import Item, Line, Lines
from replay.cli.output import page_of
from replay.cli.run import Run, verb
from replay.cli.text import shown
from replay.reasons import Decision, Why, why as why_of

_MOST = 1_000_000
_FIELDS = ("kind", "subject", *Decision.__struct_fields__)


@verb(
    "why",
    examples=("sessions why telegram:dm:4711", "sessions why @1042 -o json"),
    pages=True,
)
@click.argument("what", required=False, shell_complete=subject_names)
@click.option("--at", metavar="WHEN", help="As it was known then.")
def why(run: Run, what: str | None, at: str | None) -> None:
    """Tell which decisions led something to where it is.

    Newest first, each with who, when and the numbers it saw; above them where it stands, and what holds a reset back
    or that the next message brings one. WHAT is a lane or a session, whole or in part, or @123, an event's position.
    """
    with run.reader() as reader:
        if what is None:
            from replay.cli.picker import picked_lane  # Rich, which only a terminal needs

            what = picked_lane(run, reader)
        name = what if what.startswith("@") else run.subject(reader, what).name
        moment = None if at is None else run.moment(reader.log, at)
        found = why_of(reader.log, name, moment, limit=_MOST, zone=run.now.tzinfo)
    run.output.page(page_of(_items(found), run.limit, run.cursor), Lines(_lines), "", _FIELDS)


def _items(found: Why) -> Iterator[Item]:
    here = {"subject": found.subject, "position": found.position, "time": found.time}
    yield {"kind": "answer", **here, "sentence": found.answer}
    if found.reset is not None:
        yield {"kind": "reset", **here, "sentence": found.reset}
    for each in found.decisions:
        yield {"kind": "decision", **msgspec.structs.asdict(each)}


def _lines(item: Item) -> Iterable[Line]:
    if item["kind"] != "decision":
        style = "bold" if item["kind"] == "answer" else "yellow"
        return [[(item["sentence"], style)]]
    by = f"{item['event']} by {item['actor']} in {item['command']}" if item["actor"] else item["event"]
    reason = item["reason"] if item["reason"] and item["reason"] not in item["sentence"] else ""
    return [
        [(f"@{item['position']:<7} ", "dim"), (f"{shown(item['time'])}  ", "green"), (item["sentence"], "")],
        [(f"         {by}{f', {reason!r}' if reason else ''}", "dim")],
    ]
