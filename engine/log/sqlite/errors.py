"""Errors of apsw in the log's own words, with what to do about them."""

import apsw

from engine.log.errors import (
    CorruptLogError,
    DiskFullError,
    LockedLogError,
    LogError,
    NotALogError,
    ReadOnlyLogError,
    RefusedError,
    StorageError,
)


def translate(error: apsw.Error, path: str, doing: str) -> LogError:
    """Return the log's own error for an apsw error."""
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
