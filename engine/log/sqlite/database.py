"""The file: folder and permissions, checks, durability settings, read-only fallbacks, and its write-ahead log."""

import ctypes
import logging
import os
import time
from pathlib import Path
from urllib.parse import quote

import apsw

from engine.log.errors import (
    ForkedLogError,
    LockedLogError,
    LogError,
    NotALogError,
    OldSQLiteError,
    StorageError,
)
from engine.log.sqlite import schema
from engine.log.sqlite.access import check_beside, check_way, keep_private
from engine.log.sqlite.errors import translate
from engine.log.sqlite.locks import Patience, holder
from engine.log.sqlite.place import Place, identity
from engine.log.sqlite.wal import keep_aside, lost_commits

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
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: str,
        busy_timeout: float,
        read_only: bool,
        vfs: str | None,
        damaged: bool = False,
    ) -> None:
        check_sqlite(apsw.sqlite_lib_version())
        if synchronous not in SYNCHRONOUS:
            raise ValueError(f"synchronous must be one of {', '.join(SYNCHRONOUS)}, not {synchronous!r}")
        if str(path).startswith(":memory:") or not str(path):
            raise NotALogError(f"a log is a file that outlives the process; {str(path)!r} is not a path")
        if Path(path).is_dir():
            raise NotALogError(f"{path} is a folder; a store's log is {Path(path) / 'sessions.db'}")
        self.path = str(Path(path).absolute())
        self.read_only = read_only or damaged
        self._cut_off = damaged
        self.synchronous = synchronous
        self._busy_timeout = busy_timeout
        self._vfs = vfs
        self._immutable = False
        self.place: Place | None = None
        self.damaged_wal: str | None = None

    def abandon_after_fork(self) -> ForkedLogError:
        """Leave this file to the parent of a fork; return the error that says so in the child."""
        if self.place is not None:
            _inherited.add(self.place.database)
        return self._forked()

    def _forked(self) -> ForkedLogError:
        return ForkedLogError(
            f"{self.path} was open when this process was forked, and SQLite cannot be used across a fork; "
            "start the process with spawn or exec, or open the log only after the fork"
        )

    def prepare(self) -> apsw.Connection | None:
        """Create the file if need be, check it, bring it to the current schema; return a connection to write with."""
        try:
            return self._prepare()
        except BaseException as error:
            self.close()
            if isinstance(error, apsw.Error):
                raise self.explain(error, "opening") from error
            if isinstance(error, OSError):
                raise StorageError(f"cannot open {self.path}: {error}") from error
            raise

    def _prepare(self) -> apsw.Connection | None:
        if _inherited and Path(self.path).exists() and identity(self.path) in _inherited:
            raise self._forked()
        if self.read_only:
            self._open_read_only()
            self.place = Place(self.path)
            return None
        check_way(Path(self.path))
        fresh = self._create_file()
        keep_private(self.path)
        self.place = Place(self.path)
        connection = self._connect(apsw.SQLITE_OPEN_READWRITE)
        try:
            version = 0 if fresh else schema.check(connection, self.path)
            self._look_at_wal(connection)
            if version < schema.current_version():
                connection.pragma("synchronous", "EXTRA")
                schema.migrate(connection, self.path)
            self._use_wal(connection)
            connection.pragma("synchronous", self.synchronous)
            connection.execute("SELECT 1 FROM sqlite_schema").fetchall()  # a first read makes the WAL and its index
            self.place.remember_wal()
            if fresh:
                sync_folder(Path(self.path).parent)
        except BaseException:
            close_connection(connection)
            raise
        return connection

    def check_place(self) -> None:
        """Raise if a name no longer leads to the file that was opened: what is written would be lost."""
        lost = {} if self.place is None else self.place.lost()
        for name, fate in lost.items():
            what = "what was acknowledged is in it, and " if name.endswith("-wal") else ""
            raise StorageError(
                f"{name} {fate} while the log was open: {what}nothing more is written; put it back, or close the log "
                "in every process that has it open, and then open it again where it is now"
            )

    def is_in_place(self) -> bool:
        """Return True if every name leads to the file that was opened."""
        return self.place is None or not self.place.lost()

    @property
    def only_wal_is_lost(self) -> bool:
        """Return True if the database and the index of the WAL are in place and the WAL is not."""
        return self.place is not None and set(self.place.lost()) == {self.place.wal}

    def wal_bytes(self) -> int:
        """Return the size of the WAL, which is beside the file itself, not beside a link to it."""
        wal = Path(f"{Path(self.path).resolve()}-wal")
        return wal.stat().st_size if wal.exists() else 0

    def reader(self) -> apsw.Connection:
        """Return another connection, which can only read, for one thread at a time.

        SQLite need not lock it for each value it gives, which would be a fifth of the time of reading a transcript.
        """
        self.check_place()
        try:
            return self._connect(apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_NOMUTEX)
        except apsw.Error as error:
            raise self.explain(error, "opening") from error

    def close(self) -> None:
        """Let go of the folder; the connections are closed by whoever has them."""
        place, self.place = self.place, None
        if place is not None:
            place.close()

    def explain(self, error: apsw.Error, doing: str, waited: float | None = None) -> LogError:
        """Translate an error, naming whoever holds the lock."""
        if getattr(error, "extendedresult", 0) == apsw.SQLITE_BUSY_SNAPSHOT:
            return LockedLogError(
                f"{self.path} cannot be written while {doing}: a cursor of an earlier command still reads an older "
                "state; read every cursor to its end inside its command, or use transaction.query()"
            )
        if doing == "opening" and getattr(error, "extendedresult", 0) == apsw.SQLITE_IOERR_SHORT_READ:
            return self._wal_is_another()
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
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, not self._cut_off)
        if self._cut_off:  # else SQLite reads nothing of a file that is shorter than it should be
            connection.pragma("writable_schema", True)
        # Else a statement with an ORDER BY or a LEFT JOIN is compiled again for each value that is bound to it.
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        connection.pragma("cell_size_check", True)
        connection.pragma("temp_store", "memory")
        if flags & apsw.SQLITE_OPEN_READWRITE:
            # Always, not only while erasing: else a page that is split keeps bytes nobody can erase later.
            connection.pragma("secure_delete", True)
            harmless = apsw.SQLITE_INNOCUOUS  # a trigger uses it
            connection.create_scalar_function(
                "payload_digest", schema.payload_digest, 1, deterministic=True, flags=harmless
            )
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

    def _look_at_wal(self, connection: apsw.Connection) -> None:
        """Keep a WAL aside of which SQLite leaves out commits; raise if it is not the one that others write to."""
        page_size = connection.pragma("page_size")

        def count() -> int:
            frames, _ = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
            return max(frames, 0)

        if self.wal_bytes() < count() * page_size:
            raise self._wal_is_another()
        file = str(Path(self.path).resolve())
        wal = f"{file}-wal"
        lost = lost_commits(wal, file, page_size, count)
        if lost:
            self.damaged_wal = wal if self.read_only else keep_aside(wal)
            logger.error(
                "%s is damaged: at least %d commits behind the damage are lost, which were acknowledged if synchronous "
                "was FULL; the WAL as it was found is %s; verify(published=…) tells how much is missing",
                wal,
                lost,
                self.damaged_wal,
            )

    def _wal_is_another(self) -> StorageError:
        return StorageError(
            f"{self.path}-wal is not the one that other processes write to: it was removed or replaced while they have "
            "the log open; close the log in every process, then open it again"
        )

    def _open_read_only(self) -> None:
        if not Path(self.path).exists():
            raise NotALogError(f"{self.path} does not exist; opening read-only does not create a log")
        check_beside(self.path)
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
            if not self._immutable:
                self._look_at_wal(connection)
        finally:
            close_connection(connection)
        if version < schema.current_version():
            raise NotALogError(
                f"{self.path} is empty or has an old schema (version {version}); "
                "open it once for writing to create or migrate it"
            )
