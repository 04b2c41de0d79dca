"""Opening the file: folder and permissions, checks, durability settings, read-only fallbacks."""

import ctypes
import logging
import os
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import apsw

from engine.log import schema
from engine.log.errors import (
    ForkedLogError,
    LockedLogError,
    LogError,
    NotALogError,
    OldSQLiteError,
    StorageError,
    translate,
)
from engine.log.locks import Patience, holder

logger = logging.getLogger("engine.log")

MINIMUM_SQLITE = (3, 51, 3)
"""Older versions can corrupt a file when a WAL reset meets a checkpoint of another connection."""

SYNCHRONOUS = ("OFF", "NORMAL", "FULL", "EXTRA")


def check_sqlite(version: str) -> None:
    """Refuse a SQLite library with the WAL-reset corruption bug."""
    if tuple(int(part) for part in version.split(".")[:3]) < MINIMUM_SQLITE:
        raise OldSQLiteError(
            f"SQLite {version} can corrupt a log (WAL-reset bug); install apsw 3.51.3.0 or newer, "
            "which brings its own SQLite"
        )


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable: a file's own fsync does not."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_inherited: set[tuple[int, int]] = set()
"""Device and inode of the logs that were open when this process was forked.

SQLite keeps one record per file and process of the locks it holds. A forked child inherits the record but
not the locks, so a connection the child makes to such a file believes in locks that are not there, and two
writers can overwrite each other. Measured: acknowledged events lost.
"""


def close_connection(connection: apsw.Connection) -> None:
    """Close; only the last checkpoint can fail here, and what was acknowledged is in the WAL and stays."""
    name = connection.filename
    try:
        connection.close()
    except apsw.Error as error:
        logger.warning("closing %s left the WAL behind: %s", name, error)


def keep_for_ever(connection: apsw.Connection) -> None:
    """Never let an inherited connection be closed, not even when the interpreter ends.

    Closing rolls back what the parent's threads were writing at the moment of the fork, and does so in the
    index of the WAL, which is memory the two processes share. Measured: acknowledged events lost.
    """
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


class Database:
    """One log file: makes connections to it that all have the same settings."""

    def __init__(
        self, path: str | os.PathLike[str], *, synchronous: str, busy_timeout: float, read_only: bool, vfs: str | None
    ) -> None:
        check_sqlite(apsw.sqlite_lib_version())
        if synchronous not in SYNCHRONOUS:
            raise ValueError(f"synchronous must be one of {', '.join(SYNCHRONOUS)}, not {synchronous!r}")
        if str(path).startswith(":memory:") or not str(path):
            raise NotALogError(f"a log is a file that outlives the process; {str(path)!r} is not a path")
        self.path = str(Path(path).absolute())
        self.read_only = read_only
        self._synchronous = synchronous
        self._busy_timeout = busy_timeout
        self._vfs = vfs
        self._immutable = False

    def abandon_after_fork(self) -> ForkedLogError:
        """In the child of a fork: from now on this file is the parent's alone; the error that says so."""
        with suppress(OSError):
            found = os.stat(self.path)  # noqa: PTH116 - path is text
            _inherited.add((found.st_dev, found.st_ino))
        return self._forked()

    def _forked(self) -> ForkedLogError:
        return ForkedLogError(
            f"{self.path} was open when this process was forked, and SQLite cannot be used across a fork; "
            "start the process with spawn or exec, or open the log only after the fork"
        )

    def prepare(self) -> apsw.Connection | None:
        """Create the file if need be, check it, bring it to the current schema; a connection to write with."""
        try:
            path = Path(self.path)
            if _inherited and path.exists() and (path.stat().st_dev, path.stat().st_ino) in _inherited:
                raise self._forked()
            if self.read_only:
                self._open_read_only()
                return None
            fresh = self._create_file()
            connection = self._connect(apsw.SQLITE_OPEN_READWRITE)
            try:
                if fresh or schema.check(connection, self.path) < schema.current_version():
                    connection.pragma("synchronous", "EXTRA")
                    schema.migrate(connection, self.path)
                self._use_wal(connection)
                connection.pragma("synchronous", self._synchronous)
                if fresh:
                    sync_folder(Path(self.path).parent)
            except BaseException:
                close_connection(connection)
                raise
            return connection
        except apsw.Error as error:
            raise self.explain(error, "opening") from error
        except OSError as error:
            raise StorageError(f"cannot open {self.path}: {error}") from error

    def reader(self) -> apsw.Connection:
        """Another connection, which can only read."""
        try:
            connection = self._connect(apsw.SQLITE_OPEN_READONLY if self.read_only else apsw.SQLITE_OPEN_READWRITE)
            connection.pragma("query_only", True)
            return connection
        except apsw.Error as error:
            raise self.explain(error, "opening") from error

    def explain(self, error: apsw.Error, doing: str, waited: float | None = None) -> LogError:
        """Translate an error, naming whoever holds the lock."""
        if isinstance(error, apsw.BusyError):
            held = f"for the {waited:.1f} s" if waited is not None else f"for the {self._busy_timeout:g} s"
            return LockedLogError(
                f"{self.path} stayed locked while {doing}: {holder(self.path)} held the write lock {held} "
                "this command waited; end or speed up that process, then retry"
            )
        return translate(error, self.path, doing)

    def _create_file(self) -> bool:
        path = Path(self.path)
        missing = [folder for folder in (path.parent, *path.parent.parents) if not folder.exists()]
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in missing:
            sync_folder(folder.parent)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            return path.stat().st_size == 0
        return True

    def _connect(self, flags: int) -> apsw.Connection:
        name = self.path
        if self._immutable:
            name, flags = f"file:{quote(self.path)}?immutable=1", flags | apsw.SQLITE_OPEN_URI
        connection = apsw.Connection(name, flags=flags, vfs=self._vfs)
        connection.set_busy_handler(Patience(self._busy_timeout))
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.pragma("cell_size_check", True)
        connection.pragma("temp_store", "memory")
        return connection

    def _use_wal(self, connection: apsw.Connection) -> None:
        """Switch to WAL, waiting for a process that is just creating the file: SQLite does not wait here."""
        deadline = time.monotonic() + self._busy_timeout
        while True:
            try:
                mode = connection.pragma("journal_mode", "wal")
                break
            except apsw.BusyError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.005)
        if mode != "wal":
            raise StorageError(f"{self.path} cannot use write-ahead logging (got {mode!r}); use a local file system")

    def _open_read_only(self) -> None:
        if not Path(self.path).exists():
            raise NotALogError(f"{self.path} does not exist; opening read-only does not create a log")
        try:
            self._check_reading()
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            wal = Path(f"{self.path}-wal")
            if wal.exists() and wal.stat().st_size:
                raise
            # A closed log on a read-only medium: no WAL, and no place to put its index.
            self._immutable = True
            self._check_reading()

    def _check_reading(self) -> None:
        connection = self._connect(apsw.SQLITE_OPEN_READONLY)
        try:
            version = schema.check(connection, self.path)
        finally:
            close_connection(connection)
        if version < schema.current_version():
            raise NotALogError(
                f"{self.path} is empty or has an old schema (version {version}); "
                "open it once for writing to create or migrate it"
            )
