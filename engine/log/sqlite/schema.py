"""The tables of a log, the rules the database itself keeps, and how an older file becomes a current one."""

import os
from collections.abc import Callable
from typing import Any

import apsw

from engine.log.chain import digest
from engine.log.errors import NewerSchemaError, NotALogError

APPLICATION_ID = 0x53455346
"""Tells a session log from any other SQLite file ("SESF")."""

_UNRELEASED_ID = 0x53455345

EVENT_ID = "coalesce(event_id, substr(hash, 1, 16)) AS event_id"

_TOMBSTONE = f'{{"$erased":"{"[0-9a-f]" * 64}","at":[-0-9]*}}'

_VERSION_1 = f"""
CREATE TABLE meta ( -- What is true of the whole log.
    key   TEXT PRIMARY KEY,
    value ANY NOT NULL           -- of `log_id`: 16 random bytes, from which the first hash is made
) STRICT, WITHOUT ROWID;

CREATE TABLE names ( -- Every stream, actor and command once; rows hold their ids.
    id   INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE
) STRICT;

CREATE TABLE events ( -- One row for each event, with its envelope.
    position INTEGER PRIMARY KEY, -- in the whole log, in the order of the commits
    stream   INTEGER NOT NULL,   -- names.id
    version  INTEGER NOT NULL,   -- counts the events of the stream
    topic    TEXT NOT NULL,      -- the event's tag
    time     INTEGER NOT NULL,   -- UTC, microseconds
    actor    INTEGER NOT NULL,   -- names.id
    command  INTEGER NOT NULL,   -- names.id
    reason   TEXT,               -- why, in words
    event_id BLOB,               -- a UUID the caller gave; else the first 16 bytes of the hash
    metadata TEXT,               -- reserved
    state    ANY NOT NULL,       -- JSON text; a blob only when a foreign mapper compresses or encrypts
    hash     BLOB NOT NULL,      -- of this row and the hash before it
    UNIQUE (stream, version)
) STRICT;

-- Between two of these positions time never falls, so a time is found by binary search, without an index that
-- every append would pay for.
CREATE TABLE clock_steps ( -- Positions at which the clock went back.
    position INTEGER PRIMARY KEY
) STRICT;

CREATE TABLE tracking ( -- How far projections of other applications have come; used by `engine.log.library` alone.
    application_name TEXT PRIMARY KEY,
    notification_id  INTEGER NOT NULL -- the last position it has used
) STRICT, WITHOUT ROWID;

CREATE TABLE snapshots ( -- Snapshots of the eventsourcing library's aggregates; used by `engine.log.library` alone.
    stream  TEXT NOT NULL,
    version INTEGER NOT NULL,    -- of the last event in it
    topic   TEXT NOT NULL,       -- the class it is made of
    state   ANY NOT NULL,        -- as the library's mapper wrote it
    PRIMARY KEY (stream, version)
) STRICT, WITHOUT ROWID;

CREATE VIEW log AS -- The events with their names, for people with any SQLite client.
SELECT position, streams.name AS stream, version, topic, time, actors.name AS actor, commands.name AS command,
       reason, {EVENT_ID}, metadata, state, hash
FROM events
LEFT JOIN names AS streams ON streams.id = events.stream
LEFT JOIN names AS actors ON actors.id = events.actor
LEFT JOIN names AS commands ON commands.id = events.command;

CREATE TRIGGER names_are_new BEFORE INSERT ON names
WHEN EXISTS (SELECT 1 FROM names WHERE id = NEW.id) OR EXISTS (SELECT 1 FROM names WHERE name = NEW.name)
BEGIN SELECT RAISE(ABORT, 'a name is added once and never replaced'); END;

CREATE TRIGGER names_are_immutable BEFORE UPDATE ON names
BEGIN SELECT RAISE(ABORT, 'names never change: events refer to them'); END;

CREATE TRIGGER names_are_kept BEFORE DELETE ON names
BEGIN SELECT RAISE(ABORT, 'names are never deleted: events refer to them'); END;

-- A stream starts at version 1, or at 0 for those who count so, and goes on without a gap.
CREATE TRIGGER events_follow_each_other BEFORE INSERT ON events
WHEN NEW.position IS NOT coalesce((SELECT max(position) FROM events), 0) + 1
  OR NEW.version IS NOT coalesce(
        (SELECT max(version) + 1 FROM events WHERE stream = NEW.stream), NEW.version <> 0)
BEGIN SELECT RAISE(ABORT, 'events follow each other without a gap, in the log and in each stream'); END;

CREATE TRIGGER events_are_immutable BEFORE UPDATE ON events
WHEN NEW.position IS NOT OLD.position OR NEW.stream IS NOT OLD.stream OR NEW.version IS NOT OLD.version
  OR NEW.topic IS NOT OLD.topic OR NEW.time IS NOT OLD.time OR NEW.actor IS NOT OLD.actor
  OR NEW.command IS NOT OLD.command OR NEW.reason IS NOT OLD.reason OR NEW.event_id IS NOT OLD.event_id
  OR NEW.metadata IS NOT OLD.metadata OR NEW.hash IS NOT OLD.hash
  OR typeof(NEW.state) <> 'text' OR NEW.state NOT GLOB '{_TOMBSTONE}' OR length(NEW.state) > 103
  OR OLD.state GLOB '{_TOMBSTONE}'
BEGIN SELECT RAISE(ABORT, 'events are immutable; only erasure to a tombstone changes a payload'); END;

CREATE TRIGGER events_are_kept BEFORE DELETE ON events
BEGIN SELECT RAISE(ABORT, 'events are never deleted'); END;
"""


def _create(connection: apsw.Connection) -> None:
    connection.execute(_VERSION_1)
    connection.execute("INSERT INTO meta VALUES ('log_id', ?)", (os.urandom(16),))


_ARCHIVED = f'{{"$archived":"{"[0-9a-f]" * 64}","at":[-0-9]*}}'

_VERSION_2 = f"""
-- A payload may give way to its tombstone, that of a message to the marker of an archive, and a marker to the very
-- payload it stands for. `payload_digest` is a function of the connections that write.
CREATE TRIGGER events_are_immutable BEFORE UPDATE ON events
WHEN NEW.position IS NOT OLD.position OR NEW.stream IS NOT OLD.stream OR NEW.version IS NOT OLD.version
  OR NEW.topic IS NOT OLD.topic OR NEW.time IS NOT OLD.time OR NEW.actor IS NOT OLD.actor
  OR NEW.command IS NOT OLD.command OR NEW.reason IS NOT OLD.reason OR NEW.event_id IS NOT OLD.event_id
  OR NEW.metadata IS NOT OLD.metadata OR NEW.hash IS NOT OLD.hash
  OR typeof(NEW.state) <> 'text'
  OR NOT CASE
    WHEN OLD.state GLOB '{_TOMBSTONE}' THEN 0
    WHEN NEW.state GLOB '{_TOMBSTONE}' THEN length(NEW.state) <= 103
      AND (OLD.state NOT GLOB '{_ARCHIVED}' OR substr(NEW.state, 13, 64) = substr(OLD.state, 15, 64))
    WHEN OLD.state GLOB '{_ARCHIVED}' THEN payload_digest(NEW.state) = substr(OLD.state, 15, 64)
    ELSE NEW.state GLOB '{_ARCHIVED}' AND OLD.topic IN ('message.appended', 'message.rewritten')
      AND substr(NEW.state, 15, 64) = payload_digest(OLD.state)
      AND NEW.state -> '$.message_id' IS OLD.state -> '$.message_id'
      AND NEW.state -> '$.copy_of' IS OLD.state -> '$.copy_of'
      AND length(NEW.state) <= 160 + coalesce(length(OLD.state -> '$.message_id'), 0)
  END
BEGIN SELECT RAISE(ABORT, 'events are immutable; only erasure and archives change a payload'); END;
"""


def _allow_archives(connection: apsw.Connection) -> None:
    connection.execute("DROP TRIGGER events_are_immutable")
    connection.execute(_VERSION_2)


MIGRATIONS: list[Callable[[apsw.Connection], None]] = [_create, _allow_archives]
"""Entry n takes a file from schema version n to n + 1; a new file starts at 0."""


def payload_digest(*payloads: Any) -> str:
    """Return the digest of a payload, for the trigger that guards it."""
    (payload,) = payloads
    return digest(payload.encode() if isinstance(payload, str) else payload).hex()


def table_definition(statement: str) -> str:
    """Return a projection's portable DDL as this backend runs it: tables become STRICT and WITHOUT ROWID."""
    sql = statement.strip().rstrip(";")
    return f"{sql} STRICT, WITHOUT ROWID" if sql.upper().startswith("CREATE TABLE") else sql


_IDENTITY = """
SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
       EXISTS (SELECT 1 FROM sqlite_schema)"""
"""In one statement, which sees one state: another process may just be making the file."""


def current_version() -> int:
    return len(MIGRATIONS)


def check(connection: apsw.Connection, path: str) -> int:
    """Return the file's schema version, 0 if it is empty; refuse other programs' files and newer schemas."""
    found: tuple[Any, ...] = connection.pragma("application_id"), connection.pragma("user_version"), None
    if not found[0]:
        (found,) = connection.execute(_IDENTITY).fetchall()
    application_id, version, has_tables = found
    if application_id == APPLICATION_ID:
        if version > current_version():
            raise NewerSchemaError(
                f"{path} has schema version {version}, this package knows up to {current_version()}; "
                "upgrade session-engine to open it"
            )
        return int(version)
    if application_id == _UNRELEASED_ID:
        raise NotALogError(
            f"{path} was made by an unreleased version of session-engine, whose rows this version does not read; "
            "move it away and start a new log, or open it with the version that made it"
        )
    if application_id or version or has_tables:
        raise NotALogError(
            f"{path} is another program's database (application_id {application_id:#x}); "
            "give the path of a session log or of a file that does not exist yet"
        )
    return 0


def migrate(connection: apsw.Connection, path: str) -> None:
    """Bring the file to the current schema in one transaction, or leave it as it was."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for migration in MIGRATIONS[check(connection, path) :]:
            migration(connection)
        connection.pragma("application_id", APPLICATION_ID)
        connection.pragma("user_version", current_version())
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
