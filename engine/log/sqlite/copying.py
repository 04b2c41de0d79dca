"""A copy of the beginning of a log: the same rows with the same hashes, up to a position (R20)."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import apsw

from engine.log.errors import CorruptLogError
from engine.log.protocol import Progress
from engine.log.sqlite import schema
from engine.log.sqlite.database import Database, close_connection

_NAMES = """SELECT id, name FROM names WHERE id IN (
    SELECT stream FROM events WHERE position <= ?1 UNION SELECT actor FROM events WHERE position <= ?1
    UNION SELECT command FROM events WHERE position <= ?1)"""
_EVENTS = (
    "SELECT position, stream, version, topic, time, actor, command, reason, event_id, metadata, state, hash "
    "FROM events WHERE position <= ?1 ORDER BY position"
)
_TOLD = 5_000
_STEPS = "SELECT position FROM clock_steps WHERE position <= ?1"


def copy_until(database: Database, part: Path, position: int, progress: Progress | None = None) -> None:
    """Fill an empty file with the rows of a log up to a position, and with its id, from which the hashes begin.

    What is kept beside the events is left out: state tables are made again from them. A payload that was erased or
    archived since stays so; the event that says it is behind the position, and is for the caller to add.
    """
    source = database.reader()
    target = apsw.Connection(str(part))
    try:
        schema.migrate(target, str(part))
        target.pragma("synchronous", "OFF")  # whoever gives the file its name syncs it first
        source.execute("BEGIN")
        log_id = source.execute("SELECT value FROM meta WHERE key = 'log_id'").get
        if not isinstance(log_id, bytes):
            raise CorruptLogError(f"{database.path} has no id of its own, from which its hashes begin; salvage it")
        with target:
            target.execute("UPDATE meta SET value = ? WHERE key = 'log_id'", (log_id,))
            for select, insert in (
                (_NAMES, "INSERT INTO names VALUES (?,?)"),
                (_EVENTS, f"INSERT INTO events VALUES (?{',?' * 11})"),
                (_STEPS, "INSERT INTO clock_steps VALUES (?)"),
            ):
                rows: Iterable[Any] = source.execute(select, (position,))
                if select == _EVENTS and progress is not None:
                    rows = _counted(rows, position, progress)
                target.executemany(insert, rows)
    except apsw.Error as error:
        raise database.explain(error, "copying") from error
    finally:
        close_connection(target)
        close_connection(source)


def _counted(rows: Iterable[Any], total: int, progress: Progress) -> Iterator[Any]:
    for number, row in enumerate(rows):
        if number % _TOLD == 0:
            progress(number, total)
        yield row
