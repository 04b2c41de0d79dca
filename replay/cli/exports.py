"""`export`: a lane or a conversation as lines that import back, as Markdown, or as a page."""

from collections.abc import Iterator
from secrets import token_bytes

import click

from replay.cli.completion import subject_names
from replay.cli.files import write_file
from replay.cli.layout import Lines
from replay.cli.looking import AT
from replay.cli.output import FORMATS as ANSWERS
from replay.cli.run import Run, verb
from replay.cli.screen import is_terminal
from replay.cli.text import safe, safe_json
from replay.exporting import FORMATS, Format, export as export_of

_KEY_BYTES = 32


@verb(
    "export",
    examples=(
        "sessions export telegram:dm:4711 --to ada.jsonl",
        "sessions export 20260701_1425 --format markdown --redact | less",
    ),
)
@click.argument("what", shell_complete=subject_names)
@AT
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="jsonl", show_default=True, help="jsonl imports back."
)
@click.option("--redact", is_flag=True, help="Hide ids, names, addresses and numbers; that does not import back.")
@click.option("--to", type=click.Path(), default="-", show_default=True, metavar="FILE", help="Where to; - is stdout.")
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
def export(run: Run, what: str, at: str | None, form: Format, redact: bool, to: str, force: bool) -> None:
    """Export a lane with its sessions, or a session with its conversation.

    jsonl has every event exactly, and `sessions import` makes the same of it in another store; markdown and html are to
    be read. Redaction knows ids and names that were recorded as such: look before you publish. Its hashes are keyed by
    chance: within an export the same person is the same word, and nobody finds a number by trying all.
    """
    if to == "-" and run.output.form != ANSWERS[0]:
        raise click.UsageError("an export has a --format of its own; --output is for what is said of a file, with --to")
    with run.reader() as reader:
        subject = run.subject(reader, what)
        position = None if at is None else run.moment(reader.log, at).position
        key = token_bytes(_KEY_BYTES) if redact else None
        zone = run.now.tzinfo
        lines = export_of(reader.log, subject.name, form, at=position, redact=redact, key=key, zone=zone)
        written = _Written(form, lines, raw=to != "-" or not is_terminal())
        run.progress.stop()
        write_file(to, written, force=force)
    if to != "-":
        item = {"path": to, "subject": subject.name, "format": form, "redacted": redact, "bytes": written.size}
        run.output.one(item, Lines(lambda item: [[(f"wrote {item['path']}, {item['bytes']:,} bytes", "")]]))


class _Written:
    """Lines of an export on their way, and how many bytes they were; to a terminal nothing goes that it acts upon."""

    def __init__(self, form: Format, lines: Iterator[str], *, raw: bool) -> None:
        self._lines = lines
        self._seen = str if raw else safe_json if form == "jsonl" else safe
        self.size = 0

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            text = f"{self._seen(line)}\n"
            self.size += len(text.encode("utf-8", "surrogatepass"))
            yield text
