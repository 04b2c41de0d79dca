"""`at`: the past, exactly as it was."""

from collections.abc import Iterator

import click

from engine.reader import SessionReader
from replay.cli.completion import lane_names, session_names
from replay.cli.layout import Item, Lines
from replay.cli.looking import lane_item, lines_of, list_of, message_items, session_item
from replay.cli.output import page_of
from replay.cli.run import Run, verb
from replay.cli.stepping import steps_of


@verb(
    "at",
    examples=("sessions at 'yesterday 04:00'", "sessions at @1042 --step"),
    pages=True,
    filters=("since", "until", "platform", "chat", "thread", "user"),
)
@click.argument("when", required=False)
@click.option(
    "--lane", metavar="KEY", help="One lane: its key, its beginning or a part of it.", shell_complete=lane_names
)
@click.option("--session", metavar="ID", help="One session.", shell_complete=session_names)
@click.option(
    "--transcript", metavar="ID", help="The messages that were live in a session.", shell_complete=session_names
)
@click.option("--step", "stepping", is_flag=True, help="The event of that moment and the next, and what each changed.")
def at(
    run: Run, when: str | None, lane: str | None, session: str | None, transcript: str | None, stepping: bool
) -> None:
    """Show lanes, a session or a transcript as they were at a moment.

    All lanes, if no one thing is asked for; filters are for these. What was erased since is erased in the past too.
    With --step a terminal goes on from there, event by event, with the arrow keys.
    """
    asked = (lane is not None) + (session is not None) + (transcript is not None) + stepping
    if asked > 1:
        raise click.UsageError("ask for one of --lane, --session, --transcript and --step")
    if asked and any(run.filters.values()):
        raise click.UsageError("filters are for the list of all lanes; leave them out here")
    if when is None:
        with run.log() as log:
            from replay.cli.picker import picked_moment  # Rich, which only a terminal needs

            when = picked_moment(run, log)
    if stepping:
        with run.log() as log:
            steps_of(run, log, run.moment(log, when).position)
        return
    run.filters |= {"lane": (), "session": ()}
    with run.reader(when) as reader:
        if lane is None and session is None and transcript is None:
            list_of(run, reader)
            return
        page = page_of(_items(run, reader, lane, session, transcript), run.limit, run.cursor)
        run.output.page(page, Lines(lines_of), "nothing was there")


def _items(
    run: Run, reader: SessionReader, lane: str | None, session: str | None, transcript: str | None
) -> Iterator[Item]:
    if lane is not None:
        key = run.subject(reader, lane, "lane").name
        entry = reader.peek_entry(key)
        yield {"kind": "lane", "lane": key} if entry is None else {"kind": "lane", **lane_item(entry, reader)}
    if session is not None:
        yield session_item(reader.get_session(run.subject(reader, session, "session").name))
    if transcript is not None:
        yield from message_items(reader, run.subject(reader, transcript, "session").name)
