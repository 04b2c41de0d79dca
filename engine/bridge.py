"""The sessions in an agent's own database, listed and read where they are (W21)."""

import heapq
import json
import logging
import math
import os
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from engine.domain.chat_rows import ROW
from engine.domain.lineage import Chain, Segment, chain_of, lineage_keys
from engine.domain.session_sources import WEBUI, is_cron_session, normalize_source
from engine.imports.agent_db import cost_of, count_of, message_of
from engine.log.errors import ForeignFileError
from engine.log.sqlite.agent import AgentFile, BriefSession

logger = logging.getLogger("engine.store")

_NEWEST = 200
_JOBS = Path("cron", "jobs.json")

T = TypeVar("T")
Row = dict[str, Any]
FilePath = str | os.PathLike[str]


class HostRow(NamedTuple):
    """A host's own part of a row: where it works, its profile, and the project that timers' sessions are in."""

    workspace: str
    profile: str | None
    cron_project: Callable[[], str | None]


Gone = Callable[[Sequence[str]], Collection[str]]
"""Tells which of many sessions were deleted here."""


def cli_sessions(db_path: FilePath, gone: Gone, host: HostRow) -> list[Row]:
    """Return the rows of the newest 200 conversations, but those of the web chat itself and those deleted here.

    A file that is missing has none; one that cannot be read is named in a warning.
    """
    return _asked(db_path, lambda file: _Listing(file, gone, host).rows(), [])


def cli_lineage(db_path: FilePath, session_ids: Iterable[str]) -> dict[str, Row]:
    """Return the lineage of those sessions that have one there, found by key: the rest of the file is not read."""

    def read(file: AgentFile) -> dict[str, Row]:
        def find(session_id: str) -> Segment | None:
            brief = file.brief_of(session_id)
            return None if brief is None else _segment(brief)

        def children(session_id: str) -> list[Segment]:
            return [_segment(each) for each in file.brief_children_of(session_id)]

        def told(session_id: str) -> tuple[str | None, str | None]:
            brief = file.brief_of(session_id)
            return (None, None) if brief is None else (_text(brief.title), _text(brief.source))

        found = {session_id: find(session_id) for session_id in session_ids}
        keys = {
            session_id: lineage_keys(chain_of(segment, find, children), find, told)
            for session_id, segment in found.items()
            if segment is not None
        }
        return {session_id: each for session_id, each in keys.items() if each}

    return _asked(db_path, read, {})


def cli_messages(db_path: FilePath, session_id: str) -> list[Row]:
    """Return the live messages of a session in the order of their rows, each with its `_row_id`."""

    def read(file: AgentFile) -> list[Row]:
        found = []
        for row in file.messages(session_id, 0):
            try:
                if row.get("active", 1):
                    found.append(message_of(row) | {"timestamp": row["timestamp"], "_row_id": row["id"]})
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                logger.warning("message %s of session %r in %s is left out: %s", row["id"], session_id, db_path, error)
        return found

    return _asked(db_path, read, [])


def has_session(db_path: FilePath, session_id: str) -> bool:
    """Return True if a session has a row there."""
    return _asked(db_path, lambda file: file.brief_of(session_id) is not None, False)


def _asked(db_path: FilePath, read: Callable[[AgentFile], T], nothing: T) -> T:
    """Return what a file says; nothing of one that is missing, or that cannot be read, which is a warning."""
    try:
        if not Path(db_path).exists():
            return nothing
        with closing(AgentFile(db_path)) as file:
            return read(file)
    except (ForeignFileError, OSError) as error:
        logger.warning("the sessions in %s are left out: %s", db_path, error)
        return nothing


class _Listing:
    """Makes the rows of one file: each session is read in short, and those that are shown in full."""

    def __init__(self, file: AgentFile, gone: Gone, host: HostRow) -> None:
        self._file = file
        self._host = host
        self._briefs = {each.id: each for each in file.brief() if isinstance(each.id, str)}
        for session_id in gone(list(self._briefs)):
            del self._briefs[session_id]
        self._segments = {session_id: _segment(brief) for session_id, brief in self._briefs.items()}
        self._children: dict[str, list[Segment]] = {}
        for each in self._segments.values():
            if each.parent_id is not None:
                self._children.setdefault(each.parent_id, []).append(each)
        self._jobs: dict[str, str] | None = None

    def rows(self) -> list[Row]:
        """Return the rows, the one last active first."""
        newest = heapq.nlargest(_NEWEST, self._chains(), key=lambda chain: (chain.tip.active_at, chain.tip.session_id))
        return [self._row(chain) for chain in newest]

    def _chains(self) -> Iterable[Chain]:
        seen: set[str] = set()
        for each in self._segments.values():
            if each.session_id not in seen:
                chain = chain_of(each, self._segments.get, lambda parent: self._children.get(parent, ()))
                seen.update(segment.session_id for segment in chain.segments)
                if normalize_source(self._briefs[chain.tip.session_id].source).session_source != WEBUI:
                    yield chain

    def _row(self, chain: Chain) -> Row:
        tip = self._file.session(chain.tip.session_id) or {}
        source = _text(self._briefs[chain.head.session_id].source) or _text(tip.get("source")) or "cli"
        is_cron = is_cron_session(chain.head.session_id, source)
        row: Row = dict.fromkeys(ROW) | {
            "session_id": chain.tip.session_id,
            "title": self._title(chain, source),
            "workspace": self._host.workspace,
            "model": _text(tip.get("model")),
            "model_provider": _text(tip.get("billing_provider")),
            "message_count": self._count(chain.tip.session_id),
            "created_at": chain.head.started_at,
            "updated_at": chain.tip.active_at,
            "last_message_at": chain.tip.active_at,
            "project_id": self._host.cron_project() if is_cron else None,
            "profile": _text(tip.get("profile_name")) or self._host.profile,
            "input_tokens": count_of(tip, "input_tokens"),
            "output_tokens": count_of(tip, "output_tokens"),
            "estimated_cost": cost_of(tip),
            "source_tag": source,
        }
        row |= dict.fromkeys(("pinned", "archived", "is_streaming"), False) | {"is_cli_session": True}
        return row | normalize_source(source)._asdict() | lineage_keys(chain, self._segments.get, self._told)

    def _title(self, chain: Chain, source: str) -> str:
        titles = (_text(self._briefs[each.session_id].title) for each in (chain.head, chain.tip))
        named = next(filter(None, titles), None) or self._job_of(chain.head.session_id)
        return named or f"{normalize_source(source).source_label} Session"

    def _job_of(self, session_id: str) -> str | None:
        """Return the name of the job whose timer began a session."""
        if not is_cron_session(session_id):
            return None
        if self._jobs is None:
            self._jobs = _jobs_beside(Path(self._file.path))
        rest = session_id.partition("_")[2]
        found = [job for job in self._jobs if rest == job or rest.startswith(f"{job}_")]
        return self._jobs[max(found, key=len)] if found else None

    def _count(self, session_id: str) -> int:
        stored = _number(self._briefs[session_id].message_count)
        return int(stored) if stored else self._file.count_messages(session_id)

    def _told(self, session_id: str) -> tuple[str | None, str | None]:
        brief = self._briefs.get(session_id)
        return (None, None) if brief is None else (_text(brief.title), _text(brief.source))


def _segment(brief: BriefSession) -> Segment:
    started, spoken = _number(brief.started_at), _number(brief.last_spoken)
    return Segment(
        brief.id,
        _text(brief.parent_session_id),
        started,
        _number(brief.ended_at),
        _text(brief.end_reason),
        messages=int(_number(brief.message_count) or (spoken is not None)),
        active_at=spoken or started or 0.0,
    )


def _jobs_beside(path: Path) -> dict[str, str]:
    """Return the names of timers' jobs by their ids, from the file that the agent keeps beside its database."""
    try:
        found = json.loads((path.parent / _JOBS).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        logger.warning("%s has no names of jobs: %s", path.parent / _JOBS, error)
        return {}
    jobs = found.get("jobs") if isinstance(found, dict) else found
    named = [each for each in jobs if isinstance(each, Mapping)] if isinstance(jobs, list) else []
    return {each["id"]: each["name"] for each in named if _text(each.get("id")) and _text(each.get("name"))}


def _number(value: object) -> float | None:
    """Return a number that can be compared; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
