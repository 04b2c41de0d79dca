"""A web chat's files: a JSON document per session, beside `_index.json`, and `projects.json` there or above (V18)."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from engine.chat_values import check_chat_id, checked_color, checked_project_name
from engine.domain.entry import SessionEntry
from engine.domain.session_sources import WEBUI
from engine.imports.chat_document import ChatDocument, read_document, timed
from engine.imports.found import FoundProject, FoundSession
from engine.imports.found_message import FoundMessage
from engine.imports.report import ImportReport
from engine.imports.times import micros
from engine.log.errors import ForeignFileError

CHATS = "_index.json"
_PROJECTS = "projects.json"
_SUFFIX = ".json"
_PLACES = "places"


class ChatFolder:
    """Reads a folder of chats, one file in memory at a time. One that cannot be read is reported, the others go on.

    The index is no source: it only tells which files ought to be there. Projects may stand in the folder above.
    """

    def __init__(self, folder: str) -> None:
        self.name = folder
        self._folder = Path(folder)
        self._open: tuple[str, int, ChatDocument] | None = None

    def projects(self, report: ImportReport) -> Iterator[FoundProject]:
        """Yield the projects that sessions are in."""
        path = next((each for each in self._project_files() if each.is_file()), None)
        if path is None:
            return
        try:
            found = _read(path)
            if not isinstance(found, list):
                raise ValueError(f"projects must be a list, not a {type(found).__name__}")  # noqa: TRY301
        except (OSError, ValueError, RecursionError) as error:
            report.skip(path.name, error)
            return
        for each in found:
            try:
                yield _project(each, micros(path.stat().st_mtime))
            except (ValueError, TypeError, KeyError) as error:
                report.skip(f"project {_name_of(each, 'project_id')}", error)

    def _project_files(self) -> list[Path]:
        return [self._folder / _PROJECTS, self._folder.parent / _PROJECTS]

    def sessions(self, report: ImportReport) -> Iterator[FoundSession]:
        """Yield the sessions of all files, by their names."""
        try:
            names = sorted(path.name for path in self._folder.iterdir() if _is_chat(path.name))
        except OSError as error:
            raise ForeignFileError(f"{self._folder} cannot be read as a folder of chats: {error}") from error
        for name in names:
            path = self._folder / name
            try:
                yield self._session(path)
            except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
                report.skip(name, error)
        for missing in sorted(self._listed(report) - set(names)):
            report.skip(missing, "it is in the index, and there is no such file")

    def _listed(self, report: ImportReport) -> set[str]:
        """Return the files that the index names."""
        path = self._folder / CHATS
        if not path.is_file():
            return set()
        try:
            rows = _read(path)
            if not isinstance(rows, list):
                raise ValueError(f"an index must be a list, not a {type(rows).__name__}")  # noqa: TRY301
        except (OSError, ValueError, RecursionError) as error:
            report.skip(CHATS, error)
            return set()
        ids = (each.get("session_id") for each in rows if isinstance(each, dict))
        return {f"{each}{_SUFFIX}" for each in ids if isinstance(each, str)}

    def _session(self, path: Path) -> FoundSession:
        changed = micros(path.stat().st_mtime)
        found = _read(path)
        if not isinstance(found, dict) or not isinstance(found.get("messages", []), list):
            raise ValueError("it is no session: an object with a list of messages")
        named = path.name.removesuffix(_SUFFIX)
        if found.setdefault("session_id", named) != named:
            raise ValueError(f"it says that it is session {found['session_id']!r:.200}")
        chat = read_document(found)
        created_at = changed if chat.created_at is None else chat.created_at
        self._open = (named, created_at, chat)
        return FoundSession(
            session_id=check_chat_id(chat.session_id),
            source=WEBUI,
            created_at=created_at,
            input_tokens=chat.input_tokens,
            output_tokens=chat.output_tokens,
            cost_usd=chat.cost_usd,
            model=chat.attributes.get("model") or None,
            provider=chat.attributes.get("model_provider"),
            counted=_PLACES,
            chat=chat,
        )

    def messages(self, session_id: str, after: int, report: ImportReport) -> Iterator[FoundMessage]:
        """Yield the messages of the session that was given last, behind a place."""
        if self._open is None or self._open[0] != session_id:
            raise ValueError(f"session {session_id!r} is not the one that was read last")
        _, created_at, chat = self._open
        if len(chat.messages) < after:
            why = f"it has {len(chat.messages)} of the {after} messages that came before; none was taken away here"
            report.skip(f"session {session_id!r}", why)
        return timed(chat.messages, created_at, after)

    def lanes(self, report: ImportReport) -> Iterator[SessionEntry]:  # noqa: ARG002 - a web chat has none
        """Yield nothing: a web chat has no lanes."""
        return iter(())

    def close(self) -> None:
        """Let go of the file that was read last."""
        self._open = None


def _is_chat(name: str) -> bool:
    return name.endswith(_SUFFIX) and not name.startswith(("_", ".")) and name != _PROJECTS


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_bytes())
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8: {error}") from error


def _project(found: Any, changed: int) -> FoundProject:
    if not isinstance(found, dict):
        raise ValueError(f"a project must be an object, not a {type(found).__name__}")
    created_at = found.get("created_at")
    return FoundProject(
        check_chat_id(found["project_id"], "project_id"),
        checked_project_name(found["name"]),
        checked_color(found.get("color")),
        changed if created_at is None else micros(created_at),
    )


def _name_of(found: object, key: str) -> str:
    return repr(found.get(key) if isinstance(found, dict) else found)[:200]
