"""The backend the writer drives: begin, commit, roll back and checkpoint on the one writing connection."""

import logging
from collections.abc import Callable
from typing import TypeVar

import apsw

from engine.log.errors import LogError, StorageError
from engine.log.protocol import Transaction
from engine.log.sqlite.checkpointer import Checkpointer
from engine.log.sqlite.database import Database, close_connection
from engine.log.sqlite.locks import Patience
from engine.log.sqlite.transaction import SQLiteTransaction

logger = logging.getLogger("engine.log")

T = TypeVar("T")


class SQLiteBackend:
    """The writing connection of a log; used by one thread at a time."""

    def __init__(
        self,
        connection: apsw.Connection,
        database: Database,
        make_transaction: Callable[[apsw.Connection, Callable[[apsw.Error], LogError]], SQLiteTransaction],
        *,
        busy_timeout: float,
        checkpoint_pages: int,
    ) -> None:
        self.connection = connection
        self.storage_errors = 0
        self._database = database
        # Who has chosen OFF has chosen speed: there the look every tenth of a second must do.
        self._place = None if database.synchronous == "OFF" else database.place
        self._rescued = False
        self._closed = False
        self._execute = connection.execute
        self._transaction = make_transaction(connection, self._explain)
        self.attempt = self._transaction.attempt
        patience = Patience(busy_timeout)
        connection.set_busy_handler(patience)
        self.checkpointer = Checkpointer(connection, patience, checkpoint_pages, database.is_in_place)

    def check_place(self) -> None:
        """Raise if what is written would no longer be found."""
        try:
            self._database.check_place()
        except StorageError:
            if not self._rescued and self._database.only_wal_is_lost:
                self._rescue()
            raise
        self._rescued = False

    def _rescue(self) -> None:
        """Move into the file what is in a WAL that has lost its name, while this process still has it open."""
        self._rescued = True
        if self.checkpointer.move_all():
            logger.error("the WAL of %s was taken away; its content was moved into the file", self._database.path)
        else:
            logger.error("the WAL of %s was taken away, with commits that are not in the file", self._database.path)

    def begin(self) -> Transaction:
        """Take the write lock; return the transaction, which sees what any process has committed."""
        if self.connection.in_transaction:  # an interrupt came before the last one was rolled back
            self.roll_back()
        self._execute("BEGIN IMMEDIATE")
        self._transaction.begin()
        return self._transaction

    def commit(self) -> int:
        """Make durable what was done; return the position of the newest event."""
        transaction = self._transaction
        if transaction.unfinished is not None:
            transaction.check_whole()
        self._execute("COMMIT")
        place = self._place
        if place is not None and place.may_have_changed():
            self.check_place()
        transaction.committed()
        return transaction.position

    def roll_back(self) -> None:
        """Undo what was done since `begin`. A failure is logged: SQLite rolls back when the file is next opened."""
        self._transaction.undone()
        try:
            if self.connection.in_transaction:
                self._execute("ROLLBACK")
        except apsw.Error:
            logger.exception("rolling back failed too")

    def purge(self) -> bool:
        """Write the whole file anew and empty the WAL; return False while a reader keeps it from being emptied.

        `secure_delete` overwrites what is deleted, but where SQLite moves rows from page to page, copies of them can
        stay in the unused part of a page, and outlive the rows.
        """
        self.connection.pragma("temp_store", "file")  # as large as what is kept, and nothing else is in it
        try:
            self._execute("VACUUM")
        finally:
            self.connection.pragma("temp_store", "memory")
        return self.checkpointer.empty()

    @property
    def active(self) -> bool:
        """Return True if the transaction still stands; some storage errors end it."""
        return self.connection.in_transaction

    def explain(self, error: BaseException, waited: float | None) -> BaseException:
        """Return the log's own error for one of the database; any other error as it is."""
        return self._explain(error, waited) if isinstance(error, apsw.Error) else error

    def _explain(self, error: apsw.Error, waited: float | None = None) -> LogError:
        self.storage_errors += 1
        return self._database.explain(error, "writing", waited)

    def close(self) -> None:
        """Close the connection; without a last checkpoint if others may have a new WAL or a new index of it."""
        if self._closed:
            return
        if not (self._database.is_in_place() or self._database.only_wal_is_lost):
            self.connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        close_connection(self.connection)
        self._closed = True
