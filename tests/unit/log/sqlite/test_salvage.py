"""Reading what is left of a damaged log (R19); the new log that is made of it is in tests/replay/test_salvaging.py."""

import apsw
import pytest

from engine.log import EventLog
from engine.log.errors import CorruptLogError
from tests.unit.log.samples import said


@pytest.fixture
def big(path):
    """A log of several pages."""
    with EventLog(path, synchronous="OFF") as log:
        for part in range(0, 600, 30):
            numbers = range(part, part + 30)
            log.append([said(f"{number} {'x' * 200}", stream=f"s{number % 3}", time=number + 1) for number in numbers])
    return path


def salvaged(path):
    """Return the rows, and whether the end is known."""
    with EventLog(path, damaged=True) as log:
        found = log.salvaged()
        rows = list(found.rows)
        assert [each.position for each in rows] == list(range(1, found.last + 1))
        return rows, found.end_known


def change(path, sql):
    connection = apsw.Connection(str(path))
    for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'trigger'").fetchall():
        connection.execute(f"DROP TRIGGER {name}")
    connection.execute(sql)
    connection.close()


def page_of(path, position):
    """Return where in the file the page begins that holds a row."""
    with EventLog(path, read_only=True) as log:
        (payload,) = (row[-1] for row in log.reader.stored_at([position]))
    where = path.read_bytes().index(payload.encode())
    return where - where % 4096


def test_a_sound_log_is_read_whole(big):
    rows, end_known = salvaged(big)
    assert end_known
    assert len(rows) == 600
    assert all(each.problem is None and each.checked for each in rows)
    with EventLog(big, read_only=True) as log:
        assert [(each.row.stream, each.row.version, each.row.event_id) for each in rows] == [
            (each.stream, each.version, each.event_id) for each in log.events()
        ]


def test_a_payload_that_was_changed_is_told_and_the_next_row_is_held_to_its_own_hash(path):
    with EventLog(path) as log:
        log.append([said("one"), said("two"), said("three")])
    change(path, "UPDATE events SET state = replace(state, 'two', 'TWO') WHERE position = 2")
    one, two, three = salvaged(path)[0]
    assert (one.problem, three.problem, three.checked) == (None, None, True)
    assert "does not match its hash" in two.problem
    assert "TWO" in two.row.state


def test_a_stored_hash_that_is_damaged_takes_no_row_along(path):
    """The hash that is computed for the row leads to the next one: the row is as it was."""
    with EventLog(path) as log:
        log.append([said("one"), said("two"), said("three")])
    change(path, "UPDATE events SET hash = zeroblob(32) WHERE position = 2")
    assert [each.problem for each in salvaged(path)[0]] == [None, None, None]
    change(path, "UPDATE events SET hash = zeroblob(32) WHERE position = 3")
    assert [each.problem is None for each in salvaged(path)[0]] == [True, False, False]


@pytest.mark.parametrize(
    ("sql", "problem"),
    [
        ("DELETE FROM events WHERE position = 2", "the row is missing"),
        ("DELETE FROM names WHERE name = 'here'", "the name with id"),
        ("UPDATE events SET state = 7 WHERE position = 2", "of other types"),
        ("UPDATE names SET name = 'a' || char(0) WHERE name = 'here'", "NUL"),
    ],
)
def test_a_row_that_cannot_be_written_again_is_told_and_what_follows_it_cannot_be_checked(path, sql, problem):
    with EventLog(path) as log:
        log.append([said("one"), said("two", stream="here"), said("three"), said("four")])
    change(path, sql)
    one, two, three, four = salvaged(path)[0]
    assert (one.problem, two.row, three.problem, four.problem) == (None, None, None, None)
    assert problem in two.problem
    assert [each.checked for each in (one, three, four)] == [True, False, True]


def test_without_the_id_of_the_log_its_first_row_cannot_be_checked(path):
    with EventLog(path) as log:
        log.append([said("one"), said("two")])
    change(path, "DELETE FROM meta")
    assert [(each.problem, each.checked) for each in salvaged(path)[0]] == [(None, False), (None, True)]


def test_the_rows_of_a_page_that_cannot_be_read_are_lost_and_no_others(big):
    page = page_of(big, 300)
    with big.open("r+b") as file:
        file.seek(page)
        file.write(b"\xff" * 4096)
    rows, end_known = salvaged(big)
    lost = [each.position for each in rows if each.row is None]
    assert end_known
    assert 300 in lost
    assert lost == list(range(lost[0], lost[-1] + 1))
    assert len(lost) < 60


@pytest.mark.parametrize("page", [None, 1])
def test_a_file_that_was_cut_off_is_read_as_far_as_it_goes(big, page):
    """R19: SQLite itself reads nothing of it."""
    whole = big.read_bytes()
    big.write_bytes(whole[: len(whole) // 2 if page is None else len(whole) - 4096])
    with pytest.raises(CorruptLogError), EventLog(big, read_only=True):
        pass
    rows, end_known = salvaged(big)
    there = [each for each in rows if each.row is not None]
    assert len(there) > 200
    assert all(each.problem is None for each in there)
    if page is None:
        assert not end_known


def test_an_end_that_no_file_of_this_size_can_have_is_not_believed(path):
    with EventLog(path) as log:
        log.append([said("one"), said("two")])
    change(path, f"UPDATE events SET position = {1 << 60} WHERE position = 2")
    rows, _ = salvaged(path)
    assert [each.problem for each in rows] == [None]


def test_a_log_without_events_has_none(path):
    with EventLog(path):
        pass
    assert salvaged(path) == ([], True)
