"""A run of a verb: the store it was pointed at, what it was asked for, and its output."""

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from inspect import cleandoc
from typing import Any

import click

from engine.clock import local_now
from engine.domain.times import microseconds
from engine.log.errors import ReadOnlyLogError
from engine.log.sqlite.eventlog import EventLog
from engine.reader import SessionReader
from engine.store import SessionStore
from replay.cli.failures import FAILURE, INTERRUPTED, OK, Failed, failure_of, leave_quietly
from replay.cli.options import MOMENTS, shared
from replay.cli.output import Output
from replay.cli.progress import Bar
from replay.cli.screen import answers
from replay.moments import Moment, moment_of
from replay.opening import open_log, open_reader, open_store
from replay.past import as_of
from replay.selecting import Selection
from replay.subjects import Subject, subject_of

_SHARED = ("store", "output", "color", "limit", "everything", "cursor", "dry_run", "yes")


class Run:
    """Everything that verbs share: where, how much of what, and how to print it."""

    def __init__(self, where: str, chosen: dict[str, Any], progress: Bar) -> None:
        self.where = where
        self.progress = progress
        self.output = Output(chosen["output"], chosen["color"], progress.stop)
        self.limit: int | None = None if chosen.get("everything") else chosen.get("limit")
        self.cursor: str | None = chosen.get("cursor")
        self.dry_run: bool = bool(chosen.get("dry_run"))
        self.yes: bool = bool(chosen.get("yes"))
        self.filters: dict[str, Any] = {}
        self.now: datetime = local_now()

    @contextmanager
    def log(self) -> Iterator[EventLog]:
        """Open the log of the store, read-only."""
        with open_log(self.where) as log:
            yield log

    @contextmanager
    def reader(self, at: str | None = None) -> Iterator[SessionReader]:
        """Open the store to be asked, read-only: as it is, or as it was at a moment.

        Where the state tables were made by another version of this package, the log is folded in memory instead.
        """
        present = self._present() if at is None else None
        if present is not None:
            with present:
                yield present
            return
        with open_log(self.where) as log:
            position = log.last_position if at is None else self.moment(log, at).position
            with as_of(log, position) as past:
                yield past

    def _present(self) -> SessionReader | None:
        try:
            return open_reader(self.where)
        except ReadOnlyLogError:
            return None

    @contextmanager
    def store(self, *, create: bool = False) -> Iterator[SessionStore]:
        """Open the store for writing, with the settings that it ran with last; the actor is `sessions`.

        A dry run makes no views, and does not bring them up to date either.
        """
        with open_store(self.where, create=create, views=not self.dry_run) as store:
            yield store

    def moment(self, log: EventLog, text: str, word: str = "as of") -> Moment:
        """Return the moment that somebody named, and say which that is, with its zone."""
        found = moment_of(log, text, self.now)
        self.output.note(f"{word} {found}")
        return found

    def _bound(self, log: EventLog, name: str) -> Moment | None:
        text = self.filters.get(name)
        return None if text is None else self.moment(log, text, name)

    def positions(self, log: EventLog) -> tuple[int, int | None]:
        """Return the position after which and that up to which `--since` and `--until` ask, both included."""
        since, until = (self._bound(log, name) for name in MOMENTS)
        after = 0
        if since is not None:
            exact = self.filters["since"].strip().startswith("@")
            after = max(since.position - 1, 0) if exact else log.position_at(microseconds(since.time) - 1)
        return after, None if until is None else until.position

    def times(self, log: EventLog) -> tuple[datetime | None, datetime | None]:
        """Return the times of `--since` and `--until`."""
        since, until = (self._bound(log, name) for name in MOMENTS)
        return None if since is None else since.time, None if until is None else until.time

    def subject(self, reader: SessionReader, text: str, *kinds: str) -> Subject:
        """Return the lane or session that somebody named."""
        return subject_of(reader, text, kinds or ("lane", "session"))

    def names(self, reader: SessionReader, kind: str) -> tuple[str, ...]:
        """Return the whole names of the lanes or sessions that a filter asks for."""
        return tuple(self.subject(reader, text, kind).name for text in self.filters.get(kind, ()))

    def selection(self, log: EventLog, reader: SessionReader | None) -> Selection:
        """Return the part of the log that the filters ask for; without a reader names must be whole."""
        after, upto = self.positions(log)
        lanes, sessions = (
            tuple(self.filters.get(kind, ())) if reader is None else self.names(reader, kind)
            for kind in ("lane", "session")
        )
        return Selection(
            after=after,
            upto=upto,
            platforms=self.filters.get("platform", ()),
            chats=self.filters.get("chat", ()),
            threads=self.filters.get("thread", ()),
            users=self.filters.get("user", ()),
            lanes=lanes,
            sessions=sessions,
            types=self.filters.get("type", ()),
            actors=self.filters.get("actor", ()),
        )

    def part_of(self, log: EventLog) -> Selection:
        """Return the part of the log that the filters ask for; names are looked up if there are any."""
        if not (self.filters.get("lane") or self.filters.get("session")):
            return self.selection(log, None)
        with self.reader() as reader:
            return self.selection(log, reader)

    def confirm(self, question: str) -> None:
        """Ask before something is written; raise Failed where nobody can be asked and `--yes` was not given (R6)."""
        if self.yes:
            return
        if not answers():
            raise Failed("nobody can be asked here; say --yes to do it, or --dry-run to see what would be done", 2)
        self.progress.stop()
        try:
            agreed = click.confirm(question, err=True)
        except click.Abort:
            raise Failed("nothing was done", INTERRUPTED) from None
        if not agreed:
            raise Failed("nothing was done", FAILURE)
        self.progress.start()


def verb(
    name: str,
    *,
    examples: tuple[str, str],
    pages: bool = False,
    filters: tuple[str, ...] = (),
    writes: bool = False,
    within: click.Group | None = None,
) -> Callable[[Callable[..., int | None]], click.Command]:
    """Make a function a verb: with the options that it shares with others, and failures told as such.

    The function gets a Run and its own options, and returns the exit code if it is not 0.
    """

    def decorate(function: Callable[..., int | None]) -> click.Command:
        def call(**given: Any) -> None:
            context = click.get_current_context()
            where = given["store"] or context.obj or os.environ.get("SESSION_STORE") or "."
            _finish(lambda: _run(function, where, given, filters))

        told = cleandoc(function.__doc__ or "")
        shown = "\n".join(f"  $ {example}" for example in examples)
        own = list(reversed(getattr(function, "__click_params__", [])))
        params = [*own, *shared(pages=pages, filters=filters, writes=writes)]
        command = click.Command(name, callback=call, params=params, help=f"{told}\n\n\b\nExamples:\n{shown}")
        if within is not None:
            within.add_command(command)
        return command

    return decorate


def _run(
    function: Callable[..., int | None], where: str, given: dict[str, Any], filters: tuple[str, ...]
) -> int | None:
    progress = Bar(click.get_current_context().info_name or "")
    run = Run(where, given, progress)
    run.filters |= {name: given.pop(name) for name in filters}
    progress.start()
    try:
        return function(run, **{name: value for name, value in given.items() if name not in _SHARED})
    finally:
        progress.stop()


def _finish(work: Callable[[], int | None]) -> None:
    """Run a verb to its end: a reader that went away is no failure, and any other is told in words."""
    try:
        code = work() or OK
        sys.stdout.flush()
    except BrokenPipeError:
        leave_quietly()
        return
    except (Exception, KeyboardInterrupt) as error:
        failure = failure_of(error)
        if failure is None:
            raise
        raise failure from error
    if code:
        raise SystemExit(code)
