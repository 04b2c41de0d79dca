"""A subscription misses nothing, and has no thread of its own."""

import threading

from engine.domain.events import LaneSuspended
from engine.log import Envelope
from engine.log.library.recorders import ApswApplicationRecorder
from tests.unit.log.samples import said


def test_what_is_there_comes_first_and_then_what_is_appended(log):
    log.append([said(), said()])
    with ApswApplicationRecorder(log, "text").subscribe(gt=1) as subscription:
        assert next(subscription).id == 2
        later = threading.Timer(0.05, log.append, [[said()]])
        later.start()
        assert next(subscription).id == 3
        later.join()


def test_only_the_topics_asked_for_come(log):
    log.append([said(), Envelope("u", 1, LaneSuspended(session_id="x")), said()])
    with ApswApplicationRecorder(log, "text").subscribe(topics=["lane.suspended"]) as subscription:
        assert next(subscription).id == 2


def test_stopping_ends_the_iteration_of_another_thread(log):
    subscription = ApswApplicationRecorder(log, "text").subscribe()
    seen = []
    thread = threading.Thread(target=lambda: seen.extend(subscription))
    thread.start()
    subscription.stop()
    thread.join(300)
    assert not thread.is_alive()
    assert seen == []
