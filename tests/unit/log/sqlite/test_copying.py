"""A copy of the beginning of a log; what is made of one is in tests/replay/test_restoring.py."""

import pytest

from engine.log import EventLog
from engine.log.errors import ClosedLogError
from tests.unit.log.samples import said, texts


def test_a_copy_up_to_a_position_has_the_same_rows_and_hashes(log, tmp_path):
    """R20."""
    log.append([said(f"{number}", stream=f"s{number % 2}") for number in range(4)])
    log.append([said("late", time=1), said("4")])
    heads = [log.head(position) for position in range(7)]
    for position in range(7):
        log.copy_until(part := tmp_path / f"{position}.db", position)
        with EventLog(part, read_only=True) as copy:
            assert copy.verify(published=heads[: position + 1]).ok
            assert list(copy.events()) == list(log.events(upto=position))
            assert copy.head() == heads[position]
            assert copy.reader.log_id() == log.reader.log_id()


def test_a_copy_goes_on_as_the_log_did(log, tmp_path):
    """R20: the same rows after the same rows have the same hashes."""
    log.append([said("one", time=5), said("two", stream="t", time=6), said("three", time=7)])
    log.copy_until(tmp_path / "copy.db", 1)
    with EventLog(tmp_path / "copy.db", synchronous="OFF") as copy:
        copy.append([said("two", stream="t", time=6), said("three", time=7)])
        assert copy.head() == log.head()


def test_an_erased_payload_is_not_in_a_copy_of_what_was_before(log, tmp_path):
    """R20, V15."""
    log.append([said("secret"), said("other")])
    log.erase([1], actor="ada", reason="asked to")
    log.copy_until(tmp_path / "copy.db", 2)
    with EventLog(tmp_path / "copy.db", read_only=True) as copy:
        assert texts(list(copy.events())[1:]) == ["other"]
        assert b"secret" not in (tmp_path / "copy.db").read_bytes()


def test_copying_tells_how_far_it_is(log, tmp_path):
    """R7."""
    log.append([said() for _ in range(5001)])
    seen: list[tuple[int, int]] = []
    log.copy_until(tmp_path / "copy.db", 5001, lambda done, total: seen.append((done, total)))
    assert seen == [(0, 5001), (5000, 5001)]


def test_a_closed_log_is_not_copied(path, tmp_path):
    with EventLog(path) as log:
        log.append([said()])
    with pytest.raises(ClosedLogError):
        log.copy_until(tmp_path / "copy.db", 1)
