"""The backend that the writer drives: a transaction begins, and is committed or undone."""

import apsw

from engine.log import RefusedError
from tests.unit.log.samples import said


def test_a_commit_gives_the_position_of_the_newest_event(log):
    backend = log._backend
    backend.begin().append([said(), said()])
    assert backend.active
    assert backend.commit() == 2
    assert not backend.active


def test_what_is_rolled_back_is_gone_and_the_next_transaction_begins_where_it_was(log):
    backend = log._backend
    log.append([said()])
    backend.begin().append([said()])
    backend.roll_back()
    assert log.last_position == 1
    assert backend.begin().append([said()]) == [2]
    backend.commit()
    assert log.verify().ok


def test_a_transaction_that_an_interrupt_left_open_is_rolled_back_first(log):
    backend = log._backend
    backend.begin().append([said("left open")])
    assert backend.begin().append([said("next")]) == [1]
    backend.commit()
    assert [e.event.message["content"] for e in log.events()] == ["next"]


def test_errors_of_the_database_are_counted_and_others_pass(log):
    backend = log._backend
    mine = RuntimeError("mine")
    assert backend.explain(mine, None) is mine
    assert isinstance(backend.explain(apsw.ConstraintError("theirs"), None), RefusedError)
    assert log.health().storage_errors == 1
