"""What can go wrong with a log, in words a host can act on.

Each class is also the matching class of the eventsourcing library, so code written for that library
catches what it expects.
"""

from typing import ClassVar

import apsw
from eventsourcing.persistence import (
    DatabaseError,
    DataError,
    IntegrityError,
    InterfaceError,
    NotSupportedError,
    OperationalError,
    PersistenceError,
    ProgrammingError,
)

from engine.domain.errors import EngineError


class LogError(EngineError, PersistenceError):
    """Something about the event log."""

    code: ClassVar[str] = "log"


class ConflictError(LogError, IntegrityError):
    """Another writer was first: the stream is not at the version this command was decided on."""

    code = "conflict"

    def __init__(self, stream: str, expected: int, actual: int | None) -> None:
        self.stream, self.expected, self.actual = stream, expected, actual
        found = "it has no events" if actual is None else f"it is at version {actual}"
        super().__init__(
            f"stream {stream!r} was expected at version {expected}, but {found}; "
            "read the stream again, decide again and retry"
        )

    def __reduce__(self) -> tuple[type["ConflictError"], tuple[str, int, int | None]]:
        return type(self), (self.stream, self.expected, self.actual)


class TrackingConflictError(LogError, IntegrityError):
    """A projection's position was recorded twice or out of order."""

    code = "tracking_conflict"


class RefusedError(LogError, IntegrityError):
    """The database refused a change that would break the log's rules."""

    code = "refused"


class PayloadTooLargeError(LogError, DataError):
    """An event is larger than the log accepts."""

    code = "payload_too_large"


class InvalidEventError(LogError, DataError):
    """An event's envelope cannot be stored as it is."""

    code = "invalid_event"


class ClosedLogError(LogError, InterfaceError):
    """The log was closed; open it again."""

    code = "closed"


class ForkedLogError(ClosedLogError):
    """The log was opened before a fork and is used in the child."""

    code = "forked"


class NestedCommandError(LogError, ProgrammingError):
    """A command was given inside another's transaction, or a transaction used outside its command."""

    code = "nested"


class ReadOnlyLogError(LogError, OperationalError):
    """The log, its file or its disk can only be read."""

    code = "read_only"


class LockedLogError(LogError, OperationalError):
    """Another process kept the write lock for longer than the bounded wait."""

    code = "locked"


class DiskFullError(LogError, OperationalError):
    """There is no space left; nothing of the command was stored."""

    code = "disk_full"


class StorageError(LogError, OperationalError):
    """The disk or file system reported an error."""

    code = "storage"


class CorruptLogError(LogError, DatabaseError):
    """The file is damaged: what can be read is served, and nothing more is written."""

    code = "corrupt"

    def __init__(self, message: str, position: int | None = None) -> None:
        self.position = position
        super().__init__(message)


class NotALogError(LogError, InterfaceError):
    """The file is not a session log."""

    code = "not_a_log"


class NewerSchemaError(LogError, NotSupportedError):
    """The log was written by a newer version of this package."""

    code = "newer_schema"


class OldSQLiteError(LogError, NotSupportedError):
    """The SQLite library has a known corruption bug."""

    code = "old_sqlite"


def translate(error: apsw.Error, path: str, doing: str) -> LogError:
    """Say what an apsw error means for this log, and what to do about it."""
    said = f"{error} (SQLite code {getattr(error, 'extendedresult', 'unknown')})"
    match error:
        case apsw.FullError():
            return DiskFullError(
                f"no space left while {doing} {path}: nothing was stored; free space and retry: {said}"
            )
        case apsw.BusyError() | apsw.LockedError():
            return LockedLogError(f"{path} is locked by another process while {doing}; retry later: {said}")
        case apsw.NotADBError():
            return NotALogError(f"{path} is not a SQLite file; give the path of a session log: {said}")
        case apsw.CorruptError():
            return CorruptLogError(
                f"{path} is damaged, found while {doing}: nothing more will be written; "
                f"copy the file, then restore a backup or salvage what can be read: {said}"
            )
        case apsw.ReadOnlyError():
            return ReadOnlyLogError(f"cannot write while {doing} {path}: file, folder or disk is read-only: {said}")
        case apsw.ConstraintError():
            return RefusedError(f"the database refused a change while {doing} {path}: {said}")
        case apsw.CantOpenError():
            return StorageError(
                f"cannot open {path} while {doing}: check that folder and file exist and are accessible: {said}"
            )
        case apsw.IOError():
            return StorageError(
                f"I/O error while {doing} {path}: check the disk; the command was not acknowledged: {said}"
            )
        case _:
            return LogError(f"SQLite error while {doing} {path}: {said}")
