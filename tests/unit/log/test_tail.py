"""Waiting for the log to grow."""

import threading

from engine.log.tail import Tail


def test_waiting_keeps_no_commit_waiting():
    asked, answer = threading.Event(), threading.Event()

    def last_position():
        asked.set()
        answer.wait(300)
        return 0

    tail = Tail(last_position)
    waiting = threading.Thread(target=tail.wait_beyond, args=(0, 10, bool))
    waiting.start()
    assert asked.wait(300)
    publishing = threading.Thread(target=tail.publish, args=(1,))
    publishing.start()
    publishing.join(300)
    assert not publishing.is_alive()
    answer.set()
    waiting.join(300)
    assert not waiting.is_alive()


def test_waiting_ends_when_it_is_stopped_or_times_out():
    tail = Tail(lambda: 0)
    assert not tail.wait_beyond(0, 0.01, lambda: False)
    assert not tail.wait_beyond(0, None, lambda: True)


def test_a_commit_of_another_process_is_found_by_polling():
    positions = iter([0, 0, 5])
    assert Tail(lambda: next(positions)).wait_beyond(4, 10, bool)
