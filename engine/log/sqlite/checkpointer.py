"""Checkpoints: when the WAL moves into the file, and how it is emptied after an erasure."""

import logging
import time
from collections.abc import Callable

import apsw

from engine.log.sqlite.locks import Patience

logger = logging.getLogger("engine.log")

_LONGEST_CHECKPOINT_WAIT = 0.2


class Checkpointer:
    """Moves the WAL into the file between two commits, when nothing of this process can join it."""

    def __init__(
        self, connection: apsw.Connection, patience: Patience, pages: int, in_place: Callable[[], bool]
    ) -> None:
        self._connection = connection
        self._patience = patience
        self._in_place = in_place
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

    def move_all(self) -> bool:
        """Move a WAL that has lost its name into the file; return False if something of it is not there then."""
        return self._moves_all(apsw.SQLITE_CHECKPOINT_FULL, _LONGEST_CHECKPOINT_WAIT)

    def _moved_all(self, mode: int, wait: float) -> bool:
        """Move what can be moved; nothing if the files are not in place: others may have made new ones."""
        return self._in_place() and self._moves_all(mode, wait)

    def _moves_all(self, mode: int, wait: float) -> bool:
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
