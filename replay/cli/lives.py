"""`timeline`: a life as a picture, in the terminal or as a page."""

import click
import msgspec

from replay.cli.completion import subject_names
from replay.cli.files import write_file
from replay.cli.layout import Lines
from replay.cli.output import page_of
from replay.cli.run import Run, verb
from replay.lives import LifeEvent, timeline as timeline_of
from replay.pages import timeline_html
from replay.pictures import NARROWEST, timeline_lines

_OF_A_PIPE = 100


@verb(
    "timeline",
    examples=("sessions timeline telegram:dm:4711", "sessions timeline 4711 --at 'yesterday 18:00' --html life.html"),
    pages=True,
)
@click.argument("what", required=False, shell_complete=subject_names)
@click.option("--at", metavar="WHEN", help="Up to then.")
@click.option(
    "--html", "to", type=click.Path(), metavar="FILE", help="As a page with a slider through time; - is stdout."
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def timeline(run: Run, what: str | None, at: str | None, to: str | None, force: bool) -> None:
    """Draw the life of a lane or a conversation.

    Created, resets, compressions, turns, crashes, restarts and changes of policy, with silence to scale, and below it
    the same in words. The other forms have every event of it, messages too.
    """
    with run.reader() as reader:
        if what is None:
            from replay.cli.picker import picked_lane  # Rich, which only a terminal needs

            what = picked_lane(run, reader)
        name = run.subject(reader, what).name
        moment = None if at is None else run.moment(reader.log, at)
        if to is not None:
            text = timeline_html(reader.log, name, moment, zone=run.now.tzinfo)
            write_file(to, [text], force=force)
            if to != "-":
                run.output.say(f"wrote {to}")
            return
        found = timeline_of(reader.log, name, moment, zone=run.now.tzinfo)
    output = run.output
    if output.form == "text":
        width = max(output.screen.width, NARROWEST) if output.screen.looked_at else _OF_A_PIPE
        lines = timeline_lines(found, width)
        output.stream([{}], Lines(lambda _: lines))
        return
    items = map(msgspec.structs.asdict, found.events)
    output.page(page_of(items, run.limit, run.cursor), Lines(lambda _: []), "", LifeEvent.__struct_fields__)
