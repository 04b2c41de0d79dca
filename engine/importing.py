"""Importing into a store: reads a source, in batches that can be cut off and run again (V18, V19)."""

import logging
import os
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from engine.commands import chat_imports, imports
from engine.domain.streams import project_stream
from engine.errors import SessionError
from engine.imports.agent_db import AgentDatabase
from engine.imports.chat_folder import CHATS, ChatFolder
from engine.imports.found import FoundSession, ImportSource
from engine.imports.found_message import FoundMessage
from engine.imports.index_file import INDEX, IndexFolder
from engine.imports.report import ImportReport
from engine.log.errors import ForeignFileError, InvalidEventError, PayloadTooLargeError
from engine.log.protocol import Reader
from engine.runner import Runner
from projections.inline.lanes import find_lane
from projections.inline.sessions import find_session

logger = logging.getLogger("engine.store")

_BATCH = 200
_UNUSABLE = (ValueError, InvalidEventError, PayloadTooLargeError)
ImportProgress = Callable[[ImportReport], None]
"""Told after each batch how far an import is."""


def open_source(path: str | os.PathLike[str]) -> ImportSource:
    """Return the source at a path: an agent's database, or the folder or index of an older gateway or a web chat."""
    place = Path(path)
    if place.name in (INDEX, CHATS):
        place = place.parent
    if (place / CHATS).is_file():
        return ChatFolder(str(place))
    if place.is_dir() and (place / INDEX).is_file():
        return IndexFolder(str(place))
    if place.is_dir() and (place / "state.db").is_file():
        return AgentDatabase(str(place / "state.db"))
    if (place / "sessions" / CHATS).is_file():
        return ChatFolder(str(place / "sessions"))
    if place.is_dir():
        raise ForeignFileError(
            f"{path} has neither {INDEX} nor {CHATS} nor state.db; give a folder or a file to import from"
        )
    return AgentDatabase(str(place))


class Importer:
    """Imports one source into a store. What an earlier run imported is found again and left as it is."""

    def __init__(self, runner: Runner, reads: Reader, source: ImportSource, progress: ImportProgress | None) -> None:
        self._run = runner.run
        self._reads = reads
        self._source = source
        self._progress = progress
        self.report = ImportReport(source=source.name)

    def run(self, *, dry_run: bool) -> ImportReport:
        """Import everything; with `dry_run` say what would be."""
        self.report.dry_run = dry_run
        try:
            projects = self._projects(dry_run=dry_run)
            for session in self._source.sessions(self.report):
                if dry_run:
                    self._look(session)
                else:
                    self._import(session, projects)
            if dry_run:
                self._look_at_lanes()
            else:
                self._finish()
        finally:
            self._source.close()
        return self.report

    def _projects(self, *, dry_run: bool) -> dict[str, str]:
        """Import the projects; return the id that each has here."""
        here: dict[str, str] = {}
        for each in self._source.projects(self.report):
            is_new = self._reads.version_at(project_stream(each.project_id), self._reads.last_position()) is None
            here[each.project_id] = each.project_id if dry_run else self._run(chat_imports.import_project(each))
            self.report.projects += is_new and here[each.project_id] == each.project_id
        return here

    def _look(self, session: FoundSession) -> None:
        try:
            imports.begin_import(session)
            before = imports.imported_before(find_session(self._reads, session.session_id), session)
        except (SessionError, ValueError) as error:
            self.report.skip(f"session {session.session_id!r}", error)
            return
        self.report.sessions += not before.known
        try:
            self.report.messages += sum(1 for _ in self._source.messages(session.session_id, before.row, self.report))
        except ForeignFileError as error:
            self._pass_over(session, error)
        self._tell()

    def _look_at_lanes(self) -> None:
        for entry in self._source.lanes(self.report):
            lane = find_lane(self._reads, entry.session_key)
            self.report.lanes += lane is None or lane.session_id is None

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self.report)

    def _import(self, session: FoundSession, projects: Mapping[str, str]) -> None:
        try:
            before = self._run(imports.begin_import(session))
            self.report.sessions += not before.known
            for batch in self._batches(session, before.row):
                self._append(session, batch)
                self._tell()
            project_id = None if session.chat is None else session.chat.project_id
            self._run(imports.end_import(session, projects.get(project_id or "", project_id)))
            self._tell()
        except ForeignFileError as error:
            self._pass_over(session, error)
        except (*_UNUSABLE, SessionError) as error:
            self.report.skip(f"session {session.session_id!r}", error)

    def _append(self, session: FoundSession, batch: list[FoundMessage]) -> None:
        """Append messages together; one that the log cannot keep costs the others nothing."""
        try:
            new = self._run(imports.import_messages(session, batch))
        except _UNUSABLE as error:
            if len(batch) == 1:
                self.report.skip(f"message {batch[0].row} of session {session.session_id!r}", error)
            else:
                for each in batch:
                    self._append(session, [each])
            return
        self.report.messages += new
        self.report.known += len(batch) - new

    def _pass_over(self, session: FoundSession, error: ForeignFileError) -> None:
        """Go on behind a session whose pages are damaged; a file that is locked or gone ends the import."""
        if not error.damaged:
            raise error
        self.report.skip(f"the rest of session {session.session_id!r}", error)

    def _batches(self, session: FoundSession, after: int) -> Iterator[list[FoundMessage]]:
        messages = self._source.messages(session.session_id, after, self.report)
        while batch := list(islice(messages, _BATCH)):
            yield batch

    def _finish(self) -> None:
        report = self.report
        for entry in self._source.lanes(report):
            report.lanes += self._run(imports.import_lane(entry))
        if report.sessions or report.messages or report.lanes or report.projects:
            self._run(imports.say_imported(report.source, report.sessions, report.messages, len(report.skipped)))
        for each in report.skipped:
            logger.warning("import of %s left out %s: %s", report.source, each.item, each.reason)
        logger.info(
            "imported %d sessions, %d messages and %d lanes from %s",
            *(report.sessions, report.messages, report.lanes, report.source),
        )
