"""Errors of questions about a log: each docstring says what happened, then what to do."""

from typing import ClassVar

from engine.domain.errors import EngineError


class ReplayError(EngineError):
    """A question about a log that cannot be answered.

    Read the message.
    """

    code: ClassVar[str] = "replay"


class NoStoreError(ReplayError, LookupError):
    """There is no store at the place that was named.

    Name a folder with a `sessions.db`, or such a file.
    """

    code = "no_store"


class UnsupportedStoreError(ReplayError):
    """The store is of a kind that cannot be opened yet, or cannot answer this question.

    Read the message.
    """

    code = "unsupported_store"


class BadMomentError(ReplayError, ValueError):
    """A moment was named in a way that cannot be understood, or lies beyond the end of the log.

    Write it as the message says.
    """

    code = "bad_moment"


class UnknownSubjectError(ReplayError, LookupError):
    """No lane, session or position of this name was in the log at that moment.

    Take names from `list_sessions()` of the same moment.
    """

    code = "unknown_subject"

    def __init__(self, message: str, candidates: tuple[str, ...] = ()) -> None:
        self.candidates = candidates
        super().__init__(message)


class AmbiguousSubjectError(ReplayError, ValueError):
    """Several lanes or sessions may be meant; `candidates` has their names.

    Write more of the name.
    """

    code = "ambiguous"

    def __init__(self, message: str, candidates: tuple[str, ...] = ()) -> None:
        self.candidates = candidates
        super().__init__(message)


class BadExportError(ReplayError, ValueError):
    """This is no export that imports back: something else, a redacted one, or one that was cut off.

    Export again, as jsonl and without redaction.
    """

    code = "bad_export"


class ExportConflictError(ReplayError):
    """The store has a lane, a session or a title of the export already; nothing was imported.

    Import into another store, or do what the message says.
    """

    code = "export_conflict"
