"""Importing into a store: reads a source, in batches that can be cut off and run again (V18, V19)."""

import logging
import os
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from engine.commands import imports
from engine.domain.errors import EngineError
from engine.imports.agent_db import AgentDatabase
from engine.imports.found import FoundMessage, FoundSession, ImportSource
from engine.imports.index_file import INDEX, IndexFolder
from engine.imports.report import ImportReport
from engine.log.errors import ForeignFileError
from engine.log.protocol import Queries
from engine.runner import Runner
from projections.inline.lanes import find_lane
from projections.inline.sessions import find_session

logger = logging.getLogger("engine.store")

_BATCH = 200
ImportProgress = Callable[[ImportReport], None]
"""Told after each batch how far an import is."""


def open_source(path: str | os.PathLike[str]) -> ImportSource:
    """Return the source at a path: an agent's `state.db`, or a folder with `sessions.json`."""
    place = Path(path)
    if place.is_dir() and (place / INDEX).is_file():
        return IndexFolder(str(place))
    if place.is_dir() and (place / "state.db").is_file():
        return AgentDatabase(str(place / "state.db"))
    if place.is_dir():
        raise ForeignFileError(f"{path} has neither {INDEX} nor state.db; give a folder or a file to import from")
    return AgentDatabase(str(place))


class Importer:
    """Imports one source into a store. What an earlier run imported is found again and left as it is."""

    def __init__(self, runner: Runner, reads: Queries, source: ImportSource, progress: ImportProgress | None) -> None:
        self._run = runner.run
        self._reads = reads
        self._source = source
        self._progress = progress
        self.report = ImportReport(source=source.name)

    def run(self, *, dry_run: bool) -> ImportReport:
        """Import everything; with `dry_run` say what would be."""
        self.report.dry_run = dry_run
        try:
            for session in self._source.sessions(self.report):
                if dry_run:
                    self._look(session)
                else:
                    self._import(session)
            if dry_run:
                self._look_at_lanes()
            else:
                self._finish()
        finally:
            self._source.close()
        return self.report

    def _look(self, session: FoundSession) -> None:
        try:
            imports.begin_import(session)
        except ValueError as error:
            self.report.skip(f"session {session.session_id!r}", error)
            return
        known = find_session(self._reads, session.session_id)
        self.report.sessions += known is None
        after = 0 if known is None else known.imported_row
        self.report.messages += sum(1 for _ in self._source.messages(session.session_id, after, self.report))
        self._tell()

    def _look_at_lanes(self) -> None:
        for entry in self._source.lanes(self.report):
            lane = find_lane(self._reads, entry.session_key)
            self.report.lanes += lane is None or lane.session_id is None

    def _tell(self) -> None:
        if self._progress is not None:
            self._progress(self.report)

    def _import(self, session: FoundSession) -> None:
        report = self.report
        try:
            before = self._run(imports.begin_import(session))
            report.sessions += not before.known
            for batch in self._batches(session, before.row):
                new = self._run(imports.import_messages(session.session_id, batch, session.source))
                report.messages += new
                report.known += len(batch) - new
                self._tell()
            self._run(imports.end_import(session))
            self._tell()
        except (EngineError, ValueError) as error:
            if isinstance(error, ForeignFileError):
                raise
            report.skip(f"session {session.session_id!r}", error)

    def _batches(self, session: FoundSession, after: int) -> Iterator[list[FoundMessage]]:
        messages = self._source.messages(session.session_id, after, self.report)
        while batch := list(islice(messages, _BATCH)):
            yield batch

    def _finish(self) -> None:
        report = self.report
        for entry in self._source.lanes(report):
            report.lanes += self._run(imports.import_lane(entry))
        if report.sessions or report.messages or report.lanes:
            self._run(imports.say_imported(report.source, report.sessions, report.messages, len(report.skipped)))
        for each in report.skipped:
            logger.warning("import of %s left out %s: %s", report.source, each.item, each.reason)
        logger.info(
            "imported %d sessions, %d messages and %d lanes from %s",
            *(report.sessions, report.messages, report.lanes, report.source),
        )
