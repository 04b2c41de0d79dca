"""`import` and `erase`: verbs that write to the store."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import msgspec

from engine.acting import acting
from engine.imports.report import ImportReport
from engine.store import SessionStore
from replay.cli.completion import subject_names
from replay.cli.layout import Item, Line, Lines
from replay.cli.run import Run, verb
from replay.cli.text import shown
from replay.importing import ImportedExport, import_export, is_export
from replay.opening import ACTOR, has_store, open_store
from replay.words import counted


@verb(
    "import",
    examples=("sessions import ~/.hermes/state.db --dry-run", "sessions --store data import ada.jsonl --yes"),
    writes=True,
)
@click.argument("source", type=click.Path())
@click.option("--reason", metavar="TEXT", help="Recorded with the import.")
def import_(run: Run, source: str, reason: str | None) -> None:
    """Import the sessions of another program, or an export.

    SOURCE is an agent's state.db, a folder with sessions.json and transcripts, a web chat's folder with _index.json, or
    what `sessions export` wrote as jsonl. It is only read. Running it again adds what is new of a program; an export
    comes whole, and once. A folder without a store gets one.
    """
    if not run.dry_run:
        run.confirm(f"import {source} into the store at {run.where}?")
    there = has_store(run.where)
    report: ImportedExport | ImportReport | None = None
    if run.dry_run or not there:  # what cannot be imported leaves no empty store behind
        with _tried_in(run, there=there) as store:
            report = _brought_in(run, store, source, dry_run=True)
    if not run.dry_run:
        with run.store(create=True) as store, acting(ACTOR, reason):
            report = _brought_in(run, store, source, dry_run=False)
    item = {"source": source, **msgspec.to_builtins(report)}
    run.output.one(item, Lines(lambda item: _imported(item)))


@contextmanager
def _tried_in(run: Run, *, there: bool) -> Iterator[SessionStore]:
    """Open the store for a dry run, or one that goes away again where none is."""
    if there:
        with run.store() as store:
            yield store
        return
    with TemporaryDirectory() as folder, open_store(folder, create=True, views=False) as store:
        yield store


def _brought_in(run: Run, store: SessionStore, source: str, *, dry_run: bool) -> ImportedExport | ImportReport:
    if not is_export(source):
        return store.import_from(source, dry_run=dry_run, progress=partial(_tell, run))
    with Path(source).open(encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
        return import_export(store, lines, dry_run=dry_run)


def _tell(run: Run, report: ImportReport) -> None:
    run.progress.tell(report.messages + report.known, 0)


def _imported(item: Item) -> list[Line]:
    names = ("source", "subject", "sessions", "messages", "lanes", "projects", "events", "known", "erased")
    said: list[Line] = [[(f"{name:<10}", "dim"), (shown(item[name]), "")] for name in names if name in item]
    left = item.get("skipped", ())
    said += [[("left out  ", "yellow"), (f"{each['item']}: {each['reason']}", "")] for each in left]
    return [*said, [("dry run: nothing was written", "bold")]] if item["dry_run"] else said


@verb(
    "erase",
    examples=(
        "sessions erase --user 42 --reason 'request 2026-044' --dry-run",
        "sessions erase 20260701_142530_1a2b3c4d --reason 'request 2026-044' --purge --yes",
    ),
    writes=True,
)
@click.argument("what", required=False, shell_complete=subject_names)
@click.option("--user", metavar="ID", help="A person: their lanes whole, and of shared ones what is theirs.")
@click.option("--platform", metavar="NAME", help="With --user: the one where the id is that person's.")
@click.option("--reason", metavar="TEXT", required=True, help="Recorded with it. Put nothing of the person into it.")
@click.option("--request", metavar="TEXT", help="Recorded with it, say the number of the request.")
@click.option("--purge", is_flag=True, help="Leave no byte of it in any file; commands of others wait meanwhile.")
def erase(
    run: Run, what: str | None, user: str | None, platform: str | None, reason: str, request: str | None, purge: bool
) -> None:
    """Erase a session, a lane or a person, and report what stays.

    WHAT is a lane or a session. Copies go along: in rewritten histories, forks and summaries. The hash chain stays
    valid. What cannot be told to be the person's stays, and the report says so.
    """
    if (what is None) == (user is None):
        raise click.UsageError("name either a lane or session, or a person with --user")
    with run.reader() as reader:
        subject = None if what is None else run.subject(reader, what)
    named = {} if subject is None else {"lane" if subject.kind == "lane" else "session_id": subject.name}
    about = f"everything of user {user}" if subject is None else f"{subject.kind} {subject.name}"
    if not run.dry_run:
        run.confirm(f"erase {about} from {run.where}? It cannot be undone")
    with run.store() as store, acting(ACTOR, reason):
        report = store.erase(
            **named,  # type: ignore[arg-type]
            user_id=user,
            platform=platform,
            reason=reason,
            request=request,
            dry_run=run.dry_run,
            purge=purge,
        )
    run.output.one(msgspec.to_builtins(report), Lines(_erased))


def _erased(item: Item) -> list[Line]:
    verb = "would be erased" if item["dry_run"] else "erased"
    said: list[Line] = [
        [(f"{counted(item['events'], 'event')}, {counted(item['messages'], 'message')} {verb}", "bold")]
    ]
    said.append([("sessions  ", "dim"), (" ".join(item["sessions"]) or "none", "")])
    for each in item["left"]:
        where = f" ({len(each['positions'])} events)" if each["positions"] else ""
        said.append([("stays     ", "yellow"), (f"{each['what']}: {each['why']}{where}", "")])
    if item["purged"]:
        said.append([("no byte of it is left in the files", "")])
    return said
