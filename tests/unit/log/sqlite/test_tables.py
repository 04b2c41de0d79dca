"""The file of the views: private, opened again when it was replaced, refused with what heals it."""

import stat

import apsw
import pytest

from engine.log.errors import ClosedLogError, LogError, NewerSchemaError, NotALogError, RefusedError
from engine.log.sqlite.tables import APPLICATION_ID, SQLiteTables


@pytest.fixture
def tables(tmp_path):
    tables = SQLiteTables(tmp_path / "views.db")
    tables.transact(lambda transaction: transaction.define(["CREATE TABLE t (a BIGINT PRIMARY KEY)"]))
    yield tables
    tables.close()


def test_a_command_is_kept_whole_or_not_at_all(tables):
    """V3."""

    def fails(transaction):
        transaction.execute("INSERT INTO t VALUES (1)")
        raise ValueError("on purpose")

    with pytest.raises(ValueError, match="on purpose"):
        tables.transact(fails)
    assert tables.query("SELECT * FROM t") == []


def test_an_attempt_that_fails_leaves_the_rest_standing(tables):
    """V5."""

    def command(transaction):
        transaction.executemany("INSERT INTO t VALUES (?)", [(1,), (2,)])
        with pytest.raises(RefusedError):
            transaction.attempt(lambda: transaction.executemany("INSERT INTO t VALUES (?)", [(3,), (1,)]))

    tables.transact(command)
    assert tables.query("SELECT a FROM t ORDER BY a") == [(1,), (2,)]


def test_the_file_is_private_also_if_it_was_not(tmp_path):
    path = tmp_path / "views.db"
    path.touch(mode=0o666)
    tables = SQLiteTables(path)
    tables.query("SELECT 1")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    tables.close()


@pytest.mark.parametrize(
    ("application_id", "version", "error"),
    [(APPLICATION_ID, 99, NewerSchemaError), (0x1234, 0, NotALogError), (0, 3, NotALogError)],
)
def test_a_file_of_another_version_or_program_is_refused_and_left_alone(tmp_path, application_id, version, error):
    """V5."""
    path = tmp_path / "views.db"
    with apsw.Connection(str(path)) as connection:
        connection.pragma("application_id", application_id)
        connection.pragma("user_version", version)
    connection.close()
    before = path.read_bytes()
    tables = SQLiteTables(path)
    with pytest.raises(error, match="delete the file"):
        tables.query("SELECT 1")
    tables.close()
    assert path.read_bytes() == before


def test_a_folder_that_is_not_there_is_told(tmp_path):
    tables = SQLiteTables(tmp_path / "nowhere" / "views.db")
    with pytest.raises(LogError, match="check that folder and file exist"):
        tables.query("SELECT 1")


def test_closed_tables_say_so(tables):
    tables.close()
    with pytest.raises(ClosedLogError):
        tables.query("SELECT 1")


def test_purging_leaves_no_byte_of_what_was_deleted(tables, tmp_path):
    """V15."""
    tables.transact(lambda transaction: transaction.define(["CREATE TABLE w (words TEXT)"]))
    tables.transact(lambda transaction: transaction.execute("INSERT INTO w VALUES ('very secret words')"))
    tables.transact(lambda transaction: transaction.execute("DELETE FROM w"))
    tables.purge()
    assert not any(b"very secret words" in path.read_bytes() for path in tmp_path.iterdir())
    assert tables.size() > 0


def test_a_number_that_is_the_key_is_the_rows_own(tmp_path):
    """V8: a match of the index is looked up in one tree, not in two."""
    tables = SQLiteTables(tmp_path / "views.db")
    tables.transact(lambda transaction: transaction.define(["CREATE TABLE t (id BIGINT PRIMARY KEY, x TEXT)"]))
    tables.transact(lambda transaction: transaction.execute("INSERT INTO t VALUES (?, 'x')", (-(2**40),)))
    assert tables.query("SELECT rowid, id FROM t") == [(-(2**40), -(2**40))]
    tables.close()
