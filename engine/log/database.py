"""The file: folder and permissions, checks, durability settings, read-only fallbacks, and its write-ahead log."""

import ctypes
import logging
import os
import time
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

_LONGEST_CHECKPOINT_WAIT = 0.2

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
        self._place: tuple[int, int] | None = None

    def abandon_after_fork(self) -> ForkedLogError:
        """In the child of a fork: from now on this file is the parent's alone; the error that says so."""
        if self._place is not None:
            _inherited.add(self._place)
        return self._forked()

    def _forked(self) -> ForkedLogError:
        return ForkedLogError(
            f"{self.path} was open when this process was forked, and SQLite cannot be used across a fork; "
            "start the process with spawn or exec, or open the log only after the fork"
        )

    def prepare(self) -> apsw.Connection | None:
        """Create the file if need be, check it, bring it to the current schema; a connection to write with."""
        try:
            if _inherited and Path(self.path).exists() and self._found() in _inherited:
                raise self._forked()
            if self.read_only:
                self._open_read_only()
                self._place = self._found()
                return None
            fresh = self._create_file()
            self._place = self._found()
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

    def check_place(self) -> None:
        """Raise if the path no longer leads to the file that was opened: what is written would be lost."""
        try:
            found = self._found()
        except OSError as error:
            raise StorageError(
                f"{self.path} was deleted or moved while it was open, and nothing more is written to it; "
                f"put it back, or close the log and open it where it is now: {error}"
            ) from error
        if found != self._place:
            raise StorageError(
                f"{self.path} was replaced by another file while it was open, and nothing more is written to the "
                "one that was opened; close the log and open it again"
            )

    def _found(self) -> tuple[int, int]:
        found = os.stat(self.path)  # noqa: PTH116 - path is text
        return found.st_dev, found.st_ino

    def wal_bytes(self) -> int:
        """The size of the WAL, which is beside the file itself, not beside a link to it."""
        wal = Path(f"{Path(self.path).resolve()}-wal")
        return wal.stat().st_size if wal.exists() else 0

    def reader(self) -> apsw.Connection:
        """Another connection, which can only read."""
        self.check_place()
        try:
            return self._connect(apsw.SQLITE_OPEN_READONLY)
        except apsw.Error as error:
            raise self.explain(error, "opening") from error

    def explain(self, error: apsw.Error, doing: str, waited: float | None = None) -> LogError:
        """Translate an error, naming whoever holds the lock."""
        if getattr(error, "extendedresult", 0) == apsw.SQLITE_BUSY_SNAPSHOT:
            return LockedLogError(
                f"{self.path} cannot be written while {doing}: a cursor of an earlier command still reads an older "
                "state; read every cursor to its end inside its command, or use transaction.query()"
            )
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
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
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
        if flags & apsw.SQLITE_OPEN_READWRITE:
            # Always, not only while erasing: else a page that is split keeps bytes nobody can erase later.
            connection.pragma("secure_delete", True)
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
            if self.wal_bytes():
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


class Checkpointer:
    """Moves the WAL into the file between two commits, when nothing of this process can join it."""

    def __init__(self, connection: apsw.Connection, patience: Patience, pages: int) -> None:
        self._connection = connection
        self._patience = patience
        self._every = self._at = pages
        self._pages = 0
        self.due = False
        self.emptying = False
        self.count = 0
        connection.set_wal_hook(self._note)

    def _note(self, _connection: apsw.Connection, _name: str, pages: int) -> int:
        if pages < self._pages:
            self._at = self._every  # the WAL began again, here or in another process
        self._pages = pages
        if pages >= self._at:
            self.due = True
        return apsw.SQLITE_OK

    def run(self) -> None:
        """Make the checkpoint that is due, or empty the WAL if that was asked for.

        Usually PASSIVE, which waits for nobody, is enough for the next commit to begin the WAL again. When
        readers or other writing processes have kept it from that four times over, RESTART holds them off
        for a moment.
        """
        insist = self._pages >= 4 * self._every
        if self.emptying:
            done = self.empty()
        elif insist:
            done = self._moved_all(apsw.SQLITE_CHECKPOINT_RESTART, _LONGEST_CHECKPOINT_WAIT)
        else:
            done = self._moved_all(apsw.SQLITE_CHECKPOINT_PASSIVE, 0.0)
        if insist and not done:
            logger.warning("the WAL has %d pages, and another connection keeps it from shrinking", self._pages)
        self._at = self._pages + self._every
        self.due = False

    def empty(self, wait: float = _LONGEST_CHECKPOINT_WAIT) -> bool:
        """Drop the WAL's content; False, and to be tried again, if a reader still needs it."""
        self.emptying = not self._moved_all(apsw.SQLITE_CHECKPOINT_TRUNCATE, wait)
        return not self.emptying

    def _moved_all(self, mode: int, wait: float) -> bool:
        """Try for a moment, while commands wait; False if another connection is in the way for longer."""
        deadline = time.monotonic() + wait
        usual, self._patience.seconds = self._patience.seconds, wait
        try:
            while True:
                try:
                    in_wal, moved = self._connection.wal_checkpoint(mode=mode)
                except apsw.BusyError:  # at once, whatever the patience, while another checkpoint runs
                    if time.monotonic() >= deadline:
                        return False
                    time.sleep(0.001)
                else:
                    self.count += 1
                    return moved >= in_wal
        except apsw.Error as error:
            logger.warning("checkpoint failed; the WAL grows until one succeeds: %s", error)
            return False
        finally:
            self._patience.seconds = usual
