"""The library's Application over a log of envelopes."""

from engine.log import EventLog
from engine.log.library import LogApplication
from tests.unit.log.samples import said, texts


def test_envelopes_of_a_log_are_the_applications_events(path):
    with EventLog(path) as log:
        log.append([said("a"), said("b")])
    application = LogApplication(env={"SQLITE_DBNAME": str(path)})
    assert texts(application.events.get("s")) == ["a", "b"]
    assert [notification.id for notification in application.notification_log.select(1, 10)] == [1, 2]
    application.close()
