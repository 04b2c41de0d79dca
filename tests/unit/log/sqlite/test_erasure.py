"""Erasing in parts: each is recorded, bounded by events and by bytes, and checked before anything is erased."""

import pytest

from engine.domain.encoding import Erased
from engine.domain.events import ContentErased
from engine.log.errors import InvalidEventError
from engine.log.sqlite import erasure
from tests.unit.log.samples import said


def recorded(log):
    return [each.event.positions for each in log.events() if isinstance(each.event, ContentErased)]


def erased(log):
    return [each.position for each in log.events() if isinstance(each.event, Erased)]


def test_many_events_are_erased_some_at_a_time(log, monkeypatch):
    monkeypatch.setattr(erasure, "_EVENTS", 3)
    log.append([said(str(n)) for n in range(8)])
    assert log.erase([8, 1, 2, 3, 4, 5, 6, 7, 7], actor="ada", reason="asked") == [1, 2, 3, 4, 5, 6, 7, 8]
    assert recorded(log) == [[1, 2, 3], [4, 5, 6], [7, 8]]
    assert log.verify().ok


def test_large_payloads_are_erased_fewer_at_a_time(log, monkeypatch):
    monkeypatch.setattr(erasure, "_BYTES", 1000)
    log.append([said("x" * 600) for _ in range(5)])
    log.erase([1, 2, 3, 4, 5], actor="ada", reason="asked")
    assert recorded(log) == [[1, 2], [3, 4], [5]]


def test_a_stop_leaves_the_first_parts_erased_and_the_same_call_erases_the_rest(log, monkeypatch):
    monkeypatch.setattr(erasure, "_EVENTS", 2)
    log.append([said(str(n)) for n in range(6)])
    done = erasure.Part.__call__
    calls = []

    def stopping(part, transaction):
        calls.append(part)
        result = done(part, transaction)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return result

    with monkeypatch.context() as patch:
        patch.setattr(erasure.Part, "__call__", stopping)
        with pytest.raises(KeyboardInterrupt):
            log.erase([1, 2, 3, 4, 5, 6], actor="ada", reason="asked")
    assert erased(log) == [1, 2]
    assert recorded(log) == [[1, 2]]
    assert log.erase([1, 2, 3, 4, 5, 6], actor="ada", reason="asked") == [3, 4, 5, 6]
    assert log.verify().erased == 6


@pytest.mark.parametrize("bad", [9, 0, -1, True, "1"])
def test_nothing_is_erased_if_one_of_the_positions_cannot_be(log, bad):
    log.append([said(str(n)) for n in range(3)])
    with pytest.raises(InvalidEventError):
        log.erase([1, 2, bad], actor="ada", reason="asked")
    assert erased(log) == []


def test_purging_leaves_no_byte_of_the_old_content(log, path):
    log.append([said("a secret word", stream=f"s{n}") for n in range(50)])
    log.erase(list(range(1, 51)), actor="ada", reason="asked")
    assert log.purge()
    for name in (path, path.with_name("log.db-wal")):
        assert b"secret" not in name.read_bytes()


def test_purging_says_when_a_reader_is_in_the_way(log, path):
    log.append([said("a secret word")])
    watch = log.watch()
    with watch._lock:
        watch._connection.execute("BEGIN")
        watch._connection.execute("SELECT count(*) FROM events").fetchall()
        log.erase([1], actor="ada", reason="asked")
        assert not log.purge()
        assert b"secret" in path.with_name("log.db-wal").read_bytes()
        watch._connection.execute("ROLLBACK")
    assert log.purge()
    assert path.with_name("log.db-wal").read_bytes() == b""
