"""Locks that know their owner, and waiting without one."""

import threading

import pytest

from engine.log.errors import NestedCommandError
from engine.log.mutex import Flag, Mutex, Waiters, check_outside


def in_thread(function):
    found = []
    thread = threading.Thread(target=lambda: found.append(function()))
    thread.start()
    thread.join(300)
    return found[0]


def test_a_mutex_is_not_taken_twice_by_its_thread():
    mutex = Mutex()
    with mutex.once():
        with pytest.raises(NestedCommandError, match="wait for itself"):
            mutex.once()
        with pytest.raises(NestedCommandError):
            check_outside(Mutex(), mutex)
    with mutex.once():
        assert mutex.is_mine()
    assert not mutex.is_mine()
    check_outside(mutex)


def test_a_mutex_keeps_others_out():
    mutex = Mutex()
    with mutex.once():
        assert not in_thread(mutex.is_mine)
        assert not in_thread(lambda: mutex.once().acquire(blocking=False))


def test_who_waits_goes_on_when_it_is_said():
    waiters, said = Waiters(), []
    threads = [threading.Thread(target=waiters.wait, args=(None, lambda: said)) for _ in range(5)]
    for thread in threads:
        thread.start()
    while len(waiters) < 5:
        threading.Event().wait(0.001)
    said.append("now")
    waiters.wake()
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()
    assert len(waiters) == 0


def test_nobody_waits_for_what_was_said_or_too_long():
    waiters = Waiters()
    assert waiters.wait(None, lambda: True)
    assert not waiters.wait(0.001, lambda: False)
    assert not waiters.wait(-1.0, lambda: False)
    waiters.wake()
    assert len(waiters) == 0


def test_a_flag_is_like_an_event():
    flag = Flag()
    assert not flag.is_set()
    assert not flag.wait(0.001)
    waiting = threading.Thread(target=flag.wait)
    waiting.start()
    flag.set()
    waiting.join(300)
    assert not waiting.is_alive()
    assert flag.wait()
    flag.clear()
    assert not flag.wait(0)
