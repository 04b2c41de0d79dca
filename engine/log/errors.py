"""Errors of a log, in words a host can act on: each docstring says what happened, then what to do.

Each class is also the matching class of the eventsourcing library, so code written for that library
catches what it expects.
"""

from typing import ClassVar

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
    """An error of the event log or of its database that has no class of its own.

    Read the message.
    """

    code: ClassVar[str] = "log"


class ConflictError(LogError, IntegrityError):
    """Another writer was first: the stream is not at the version the append was decided on; nothing was stored.

    Read the stream, decide and append again.
    """

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
    """A projection's position was recorded twice or out of order: another runner was faster.

    Go on from `max_tracking_id`.
    """

    code = "tracking_conflict"


class RefusedError(LogError, IntegrityError):
    """A trigger or constraint of the database refused a change that would break the log's rules.

    Do not change events by SQL.
    """

    code = "refused"


class PayloadTooLargeError(LogError, DataError):
    """An event is larger than the log accepts, 16 MiB by default.

    Store the content elsewhere and append a reference to it.
    """

    code = "payload_too_large"


class InvalidEventError(LogError, DataError):
    """A part of an event's envelope, or of an erasure, cannot be stored.

    Correct what the message names.
    """

    code = "invalid_event"


class ClosedLogError(LogError, InterfaceError):
    """The log was closed; the command was not written.

    Open it again.
    """

    code = "closed"


class ForkedLogError(ClosedLogError):
    """The log was opened before a fork and is used in the child.

    Start processes with spawn, or open the log after the fork.
    """

    code = "forked"


class NestedCommandError(LogError, ProgrammingError):
    """A command was given inside another's transaction, or a transaction used outside its command.

    Use the transaction the command was given.
    """

    code = "nested"


class ReadOnlyLogError(LogError, OperationalError):
    """The log was opened read-only, or its file, folder or disk cannot be written.

    Open it for writing, or correct the permissions.
    """

    code = "read_only"


class LockedLogError(LogError, OperationalError):
    """Another process kept the write lock for longer than the bounded wait.

    End or speed up the process that the message names, then retry.
    """

    code = "locked"


class DiskFullError(LogError, OperationalError):
    """There is no space left; nothing of the command was stored.

    Free space and retry: the log needs no reopening.
    """

    code = "disk_full"


class StorageError(LogError, OperationalError):
    """The disk or file system reported an error; the command was not acknowledged.

    Check the disk, and read what is stored before trying again.
    """

    code = "storage"


class CorruptLogError(LogError, DatabaseError):
    """The file is damaged: what can be read is served, and nothing more is written.

    Copy the file, then restore a backup or salvage what can be read; `position` says which event, if known.
    """

    code = "corrupt"

    def __init__(self, message: str, position: int | None = None) -> None:
        self.position = position
        super().__init__(message)


class CorruptStateError(CorruptLogError):
    """A row of a state table cannot be used. The log itself is not concerned, and everything else goes on.

    Call SessionStore.rebuild(): it makes the state tables again from the log.
    """

    code = "corrupt_state"

    def __init__(self, table: str, key: str, problem: object) -> None:
        self.table, self.key, self.problem = table, key, str(problem)
        super().__init__(
            f"the row of {key[:200]!r} in the state table {table} cannot be used, the log itself is not concerned; "
            f"call rebuild() on the store, which makes the state tables again from the log: {self.problem[:500]}"
        )

    def __reduce__(self) -> tuple[type["CorruptStateError"], tuple[str, str, str]]:
        return type(self), (self.table, self.key, self.problem)


class NotALogError(LogError, InterfaceError):
    """The file is not a session log: not a SQLite file, another program's database, or no file to read.

    Give the path of a log.
    """

    code = "not_a_log"


class NewerSchemaError(LogError, NotSupportedError):
    """The log was written by a newer version of this package.

    Upgrade session-engine.
    """

    code = "newer_schema"


class ReplacedTablesError(LogError, NotSupportedError):
    """Another build of this package, which a later process runs, has rebuilt the store's tables for itself.

    Restart this process with that build.
    """

    code = "replaced_tables"


class OldSQLiteError(LogError, NotSupportedError):
    """The SQLite library is older than 3.51.3 and has a known corruption bug.

    Upgrade apsw, which brings its own SQLite.
    """

    code = "old_sqlite"


class ForeignFileError(LogError, DataError):
    """A file to import from cannot be read as what it is said to be; nothing was taken from it.

    Do what the message says.
    """

    code = "foreign_file"
    damaged = False
    """True if a part of the file is damaged: the rest may still be read."""


class ArchiveError(LogError, DataError):
    """An archive cannot be used: it is cut, changed, of another log or of a newer version; nothing was taken from it.

    Do what the message says.
    """

    code = "archive"


class UnsafeQueryError(LogError, ProgrammingError):
    """A query was not run, or stopped: it writes, is none, or took too long or too much memory; nothing was changed.

    Correct it as the message says, ask for less, or give it wider bounds.
    """

    code = "unsafe_query"


class UnsafeFileError(LogError, OperationalError):
    """Another user owns a file of the log, or may put another one in its place.

    Take that right away, as the message says, or use another folder.
    """

    code = "unsafe_file"


SAYS_NOTHING = (DiskFullError, LockedLogError, ReadOnlyLogError, StorageError)
"""Errors of the disk or of a lock, which say nothing about what is stored: to try again is to find out."""
