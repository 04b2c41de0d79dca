"""Another program's SQLite file is read page by page, and nothing is written beside it."""

import sqlite3

import pytest

from engine.log.errors import ForeignFileError
from engine.log.sqlite.foreign import ForeignFile


@pytest.fixture
def path(tmp_path):
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute('CREATE TABLE "odd ""name" (id INTEGER PRIMARY KEY, words TEXT)')
        connection.executemany('INSERT INTO "odd ""name" (words) VALUES (?)', [(f"w{n}",) for n in range(1200)])
    connection.close()
    return tmp_path / "other.db"


def test_rows_come_in_pages_and_in_order(path):
    """V18: constant memory."""
    file = ForeignFile(path)
    rows = list(file.rows('odd "name', ["id", "words"], "id", after=700))
    assert [row["id"] for row in rows] == list(range(701, 1201))
    assert len(list(file.rows('odd "name', ["id"], "id"))) == 1200
    found = file.rows('odd "name', ["id", "words"], "id", where="words = ?", bindings=("w5",))
    assert [row["words"] for row in found] == ["w5"]
    assert file.columns('odd "name') == ["id", "words"]
    assert file.columns("nothing") == []
    file.close()


def test_nothing_is_written(path):
    """V18."""
    file = ForeignFile(path)
    with pytest.raises(ForeignFileError, match="cannot be read"):
        file.query('DELETE FROM "odd ""name"')
    file.close()
    assert [each.name for each in path.parent.iterdir()] == ["other.db"]


def test_a_text_that_is_no_utf8_comes_as_bytes_and_hides_no_other_row(path):
    """V18: a damaged row."""
    with sqlite3.connect(path) as connection:
        connection.execute('UPDATE "odd ""name" SET words = CAST(x\'ff61\' AS TEXT) WHERE id = 7')
    connection.close()
    file = ForeignFile(path)
    rows = {row["id"]: row["words"] for row in file.rows('odd "name', ["id", "words"], "id")}
    file.close()
    assert len(rows) == 1200
    assert (rows[6], rows[7], rows[8]) == ("w5", b"\xffa", "w7")
