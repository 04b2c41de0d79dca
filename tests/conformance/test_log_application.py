"""The library's application and projections, following a log of envelopes."""

import pytest
from eventsourcing.dispatch import singledispatchmethod
from eventsourcing.persistence import StoredEvent
from eventsourcing.projection import EventSourcedProjection, EventSourcedProjectionRunner, Projection, ProjectionRunner
from eventsourcing.utils import get_topic

from engine.domain.events import LaneSuspended, MessageAppended
from engine.log import EventLog
from engine.log.envelope import Envelope
from engine.log.errors import InvalidEventError
from engine.log.library import LogApplication
from engine.log.library.recorders import ApswApplicationRecorder, ApswTrackingRecorder, track


def said(text, version, stream="s", **columns):
    return Envelope(stream, version, MessageAppended(message={"content": text}), **columns)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "log.db")


def test_topics_are_the_short_tags():
    assert get_topic(MessageAppended) == "message.appended"


def test_events_of_the_log_are_in_the_notification_log(path):
    with EventLog(path) as log, LogApplication(env={"SQLITE_DBNAME": path}) as app:
        log.append([said("a", 1), said("b", 2)])
        found = app.notification_log.select(start=1, limit=10)
        assert [(n.id, n.originator_id, n.originator_version, n.topic) for n in found] == [
            (1, "s", 1, "message.appended"),
            (2, "s", 2, "message.appended"),
        ]
        [first, _] = map(app.mapper.to_domain_event, found)
        assert first == next(log.events())


def test_events_put_through_the_application_keep_their_envelope(path):
    with LogApplication(env={"SQLITE_DBNAME": path}) as app:
        app.events.put([said("a", 1, time=17, actor="ada", command="say", reason="why")])
        [read] = app.events.get("s")
        assert (read.time, read.actor, read.command, read.reason) == (17, "ada", "say", "why")
        with EventLog(path) as log:
            [stored] = log.events()
            assert (stored.time, stored.actor, stored.command, stored.reason) == (17, "ada", "say", "why")
            assert log.verify().ok


def test_the_logs_own_events_are_read_by_an_application_that_counts_in_uuids(path):
    with EventLog(path) as log:
        log.append([said("a", 1)])
        log.erase([1], actor="ada", reason="asked")
        found = ApswApplicationRecorder(log, "uuid").select_notifications(1, 10)
        assert [notification.originator_id for notification in found] == ["s", "log"]


@pytest.mark.parametrize(
    "stored",
    [StoredEvent("s", 1, "foreign", b'{"$erased":"hello"}'), StoredEvent("s", -1, "foreign", b"{}")],
    ids=["a payload like a tombstone", "a negative version"],
)
def test_a_foreign_event_that_would_be_taken_for_something_else_is_refused(path, stored):
    with EventLog(path) as log:
        with pytest.raises(InvalidEventError):
            ApswApplicationRecorder(log, "text").insert_events([stored])
        assert log.last_position == 0
        assert log.verify().ok


class Texts(ApswTrackingRecorder):
    """A view: the texts said, with the tracking in the same transaction."""

    def __init__(self, log, id_type="text"):
        super().__init__(log, id_type)
        log.transact(lambda transaction: transaction.execute("CREATE TABLE IF NOT EXISTS texts (text TEXT)"))

    def add(self, text, tracking):
        def command(transaction):
            transaction.execute("INSERT INTO texts VALUES (?)", (text,))
            track(transaction, tracking)

        self.log.transact(command)

    def all(self):
        return [text for (text,) in self.log.query("SELECT text FROM texts ORDER BY rowid")]


class TextsProjection(Projection[Texts]):
    name = "texts"
    topics = (get_topic(MessageAppended),)

    def process_event(self, envelope, tracking):
        assert isinstance(envelope.event, MessageAppended)
        self.view.add(envelope.event.message["content"], tracking)


def test_a_projection_follows_the_log_and_other_writers_of_the_file(path):
    env = {
        "SQLITE_DBNAME": path,
        "TEXTS_SQLITE_DBNAME": f"{path}-texts",
        "TEXTS_PERSISTENCE_MODULE": "engine.log.library",
    }
    with (
        EventLog(path) as other,
        ProjectionRunner(
            application_class=LogApplication, projection_class=TextsProjection, view_class=Texts, env=env
        ) as runner,
    ):
        runner.app.events.put([said("a", 1)])
        other.append([Envelope("lane", 1, LaneSuspended(session_id="x")), said("b", 2)])
        runner.wait(3)
        view = runner.projection.view
        assert view.all() == ["a", "b"]
    view.log.close()


class Counted(EventSourcedProjection[str]):
    name = "counted"
    topics = (get_topic(MessageAppended),)
    env = LogApplication.env
    construct_mapper = LogApplication.construct_mapper

    @singledispatchmethod
    def policy(self, domain_event, processing_event):
        processing_event.collect_events(said(f"seen {domain_event.stream}", domain_event.version, "seen"))


def test_an_event_sourced_projection_follows_the_log(path):
    env = {"SQLITE_DBNAME": path, "COUNTED_SQLITE_DBNAME": f"{path}-counted"}
    with (
        EventLog(path) as other,
        EventSourcedProjectionRunner(application_class=LogApplication, projection_class=Counted, env=env) as runner,
    ):
        runner.app.events.put([said("a", 1)])
        other.append([said("b", 2)])
        runner.wait(2)
        assert [e.event.message["content"] for e in runner.projection.events.get("seen")] == ["seen s", "seen s"]
