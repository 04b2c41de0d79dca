"""The file of the views: tables beside the log that can be deleted at any time and are made again from it."""

import os
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw

from engine.log.errors import (
    ClosedLogError,
    CorruptLogError,
    LockedLogError,
    NewerSchemaError,
    NotALogError,
    UnsafeFileError,
)
from engine.log.mutex import Mutex, check_outside
from engine.log.protocol import TextIndex
from engine.log.sqlite.access import keep_private
from engine.log.sqlite.database import close_connection, keep_for_ever
from engine.log.sqlite.errors import translate
from engine.log.sqlite.locks import Patience
from engine.log.sqlite.text import FTS5Index, vocabulary

T = TypeVar("T")

APPLICATION_ID = 0x53455356
"""Tells the file of the views from any other SQLite file ("SESV")."""
_LAYOUT = 1
_NUMBER_KEY = re.compile(r"\bBIGINT\s+PRIMARY\s+KEY\b")
_IDLE_CONNECTIONS = 4
_HEAL = "delete the file, and the views are made again from the log"


class SQLiteTableTransaction:
    """Changes to the tables under their write lock, all or nothing."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._connection = connection

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query."""
        return self._connection.execute(sql, bindings).fetchall()

    def execute(self, sql: str, bindings: Sequence[Any] = ()) -> None:
        """Run SQL to its end; rows it gives are dropped."""
        self._connection.execute(sql, bindings).fetchall()

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each row of bindings."""
        self._connection.executemany(sql, rows)

    def define(self, statements: Sequence[str]) -> None:
        """Run portable DDL, one statement each. A number as key becomes the row's own: one tree less to look in."""
        for statement in statements:
            self._connection.execute(_NUMBER_KEY.sub("INTEGER PRIMARY KEY", statement))

    def attempt(self, action: Callable[[], T]) -> T:
        """Run an action in a savepoint: if it fails it leaves nothing behind, and the rest still stands."""
        connection = self._connection
        connection.execute("SAVEPOINT attempt")
        try:
            done = action()
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK TO attempt")
                connection.execute("RELEASE attempt")
            if isinstance(error, apsw.ConstraintError):
                raise translate(error, connection.filename, "writing") from error
            raise
        connection.execute("RELEASE attempt")
        return done


class SQLiteTables:
    """Tables in a SQLite file of their own, opened when first used, and again when the file was replaced.

    Commits survive a crash of the process. A power cut may take the last of them: they are derived.
    """

    def __init__(self, path: str | os.PathLike[str], busy_timeout: float = 5.0, *, read_only: bool = False) -> None:
        self.path = str(path)
        self._read_only = read_only
        self.text: TextIndex = FTS5Index()
        self._in_memory = self.path == ":memory:"
        self._patience = busy_timeout
        self._writing: apsw.Connection | None = None
        self._place: tuple[int, int] | None = None
        self._idle: deque[tuple[apsw.Connection, tuple[int, int] | None]] = deque()
        self._mutex = Mutex()
        self._closed = False
        self._moments: dict[int, apsw.Connection] = {}

    def query(self, sql: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Return all rows of a query on what is committed."""
        return self._rows(sql, bindings)

    def _rows(self, sql: str, bindings: Sequence[Any]) -> list[tuple[Any, ...]]:
        if self._in_memory:
            with self._mutex.once():
                return self._told(lambda: self._writer().execute(sql, bindings).fetchall(), "reading")
        return self._told(lambda: self._read(sql, bindings), "reading")

    def defined(self, table: str) -> bool:
        """Return True if a table is there."""
        return bool(self._rows("SELECT 1 FROM sqlite_schema WHERE name = ?", (table,)))

    @contextmanager
    def one_moment(self) -> Iterator[None]:
        """Answer this thread's queries as of one moment while the block runs, whatever is written meanwhile."""
        if self._in_memory or not self.defined("views"):
            yield  # nobody else writes there, or nothing was written yet
            return
        connection = self._told(self._reading, "reading")
        try:
            connection.execute("BEGIN")
            self._moments[threading.get_ident()] = connection
            yield
        finally:
            self._moments.pop(threading.get_ident(), None)
            close_connection(connection)

    def _of_the_moment(self) -> apsw.Connection | None:
        return self._moments.get(threading.get_ident())

    def query_words(self, index: str, sql: str) -> list[tuple[Any, ...]]:
        """Return all rows of a query that may read `vocabulary`: (number, word, place) of all that is in an index."""
        return self._told(lambda: self._read_words(index, sql), "reading")

    def _read_words(self, index: str, sql: str) -> list[tuple[Any, ...]]:
        given = self._of_the_moment()
        with self._mutex.once():
            own = given is None and not self._in_memory
            connection = given or (self._connect(apsw.SQLITE_OPEN_READONLY) if own else self._writer())
            try:
                for statement in vocabulary(index):
                    connection.execute(statement)
                return connection.execute(sql).fetchall()
            finally:
                if own:
                    close_connection(connection)

    def transact(self, command: Callable[[SQLiteTableTransaction], T]) -> T:
        """Run a command under the write lock of the tables, all or nothing."""
        with self._mutex.once():
            return self._told(lambda: self._write(command), "writing")

    def _write(self, command: Callable[[SQLiteTableTransaction], T]) -> T:
        connection = self._writer()
        connection.execute("BEGIN IMMEDIATE")
        try:
            done = command(SQLiteTableTransaction(connection))
            connection.execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return done

    def _read(self, sql: str, bindings: Sequence[Any]) -> list[tuple[Any, ...]]:
        of_the_moment = self._of_the_moment()
        if of_the_moment is not None:
            return of_the_moment.execute(sql, bindings).fetchall()
        here = self._found()
        if here is None and self._read_only:
            raise NotALogError(f"there is no {self.path}; a SessionStore that is opened on its folder makes it")
        if not self._read_only and (self._writing is None or here is None):
            with self._mutex.once():
                self._writer()
            here = self._found()
        connection, place = self._idle.popleft() if self._idle else (None, None)
        if connection is None or place != here:
            if connection is not None:
                close_connection(connection)
            connection = self._reading()
        try:
            return connection.execute(sql, bindings).fetchall()
        finally:
            if self._closed or len(self._idle) >= _IDLE_CONNECTIONS:
                close_connection(connection)
            else:
                self._idle.append((connection, here))

    def _reading(self) -> apsw.Connection:
        connection = self._connect(apsw.SQLITE_OPEN_READONLY)
        if self._read_only:
            try:
                self._check_layout(connection)
            except BaseException:
                close_connection(connection)
                raise
        return connection

    def _told(self, action: Callable[[], T], doing: str) -> T:
        """Return what an action gives; say of an error that the file can be deleted where that heals it."""
        if self._closed:
            raise ClosedLogError("the views are closed; open the store again to use them")
        try:
            return action()
        except apsw.Error as error:
            told = translate(error, self.path, doing)
            if isinstance(told, CorruptLogError):
                told = CorruptLogError(f"{self.path} is damaged; {_HEAL}: {error}")
            elif isinstance(told, NotALogError):
                told = NotALogError(f"{self.path} is not a SQLite file; {_HEAL}: {error}")
            if not isinstance(told, LockedLogError):
                self._let_go()
            raise told from error

    def _writer(self) -> apsw.Connection:
        if self._writing is not None and not self._in_memory and self._found() != self._place:
            self._let_go()
        if self._writing is None:
            self._writing = self._open()
            self._place = self._found()
        return self._writing

    def _open(self) -> apsw.Connection:
        if not self._in_memory:
            try:
                os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
            except FileExistsError:
                try:
                    keep_private(self.path)
                except (
                    UnsafeFileError,
                    OSError,
                ) as error:  # what people said would be written into somebody else's file
                    raise apsw.CantOpenError(str(error)) from error
            except OSError as error:
                raise apsw.CantOpenError(str(error)) from error
        connection = self._connect(apsw.SQLITE_OPEN_READWRITE)
        try:
            self._check(connection)
            connection.pragma("journal_mode", "wal")
            connection.pragma("synchronous", "NORMAL")
            connection.pragma("secure_delete", True)
        except BaseException:
            close_connection(connection)
            raise
        return connection

    def _check(self, connection: apsw.Connection) -> None:
        """Refuse what is no file of views of this layout; make a file that is empty one."""
        named = connection.pragma("application_id") or connection.pragma("user_version")
        if named or connection.execute("SELECT count(*) FROM sqlite_schema").get:
            self._check_layout(connection)
            return
        connection.execute("BEGIN IMMEDIATE")
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", _LAYOUT)
        connection.execute("COMMIT")

    def _check_layout(self, connection: apsw.Connection) -> None:
        application_id, layout = connection.pragma("application_id"), connection.pragma("user_version")
        if application_id != APPLICATION_ID:
            raise NotALogError(f"{self.path} is another program's database; move it away, or {_HEAL}")
        if layout > _LAYOUT:
            raise NewerSchemaError(f"{self.path} was made by a newer version of session-engine; upgrade, or {_HEAL}")
        if layout < _LAYOUT:
            raise NotALogError(f"{self.path} was made by an older version of session-engine; {_HEAL}")

    def _connect(self, flags: int) -> apsw.Connection:
        connection = apsw.Connection(self.path, flags=flags)
        connection.set_busy_handler(Patience(self._patience))
        connection.config(apsw.SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0)
        connection.config(apsw.SQLITE_DBCONFIG_DEFENSIVE, 1)
        connection.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # as for the log: no statement is compiled twice
        connection.pragma("temp_store", "memory")
        return connection

    def _found(self) -> tuple[int, int] | None:
        try:
            found = os.stat(self.path)  # noqa: PTH116 - path is text
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def size(self) -> int:
        """Return the bytes that the file and its WAL take."""
        files = (Path(f"{self.path}{end}") for end in ("", "-wal"))
        return sum(file.stat().st_size for file in files if file.exists())

    def purge(self) -> None:
        """Rewrite the file so that no byte of a deleted row is left in it or in its WAL."""
        with self._mutex.once():
            self._told(self._vacuum, "purging")

    def _vacuum(self) -> None:
        connection = self._writer()
        connection.execute("VACUUM")
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _let_go(self) -> None:
        """Close the connections, the writing one last: it empties the WAL. The next use opens the file anew."""
        with self._mutex.lock:
            while self._idle:
                close_connection(self._idle.popleft()[0])
            writing, self._writing = self._writing, None
            if writing is not None:
                close_connection(writing)

    def check_outside(self) -> None:
        """Raise NestedCommandError if this thread is inside the tables."""
        check_outside(self._mutex)

    def close(self) -> None:
        """Close the connections for good."""
        with self._mutex.once():
            self._closed = True
            self._let_go()

    def abandon_after_fork(self) -> None:
        """Give up the connections in the child of a fork, without closing or locking anything."""
        self._closed = True
        for connection in [self._writing, *(connection for connection, _ in self._idle)]:
            if connection is not None:
                keep_for_ever(connection)
        self._mutex = Mutex()
