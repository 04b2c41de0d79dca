"""The registry: one tag for one event class, for good, and how retired tags are read."""

import msgspec
import pytest

from engine.domain import encoding
from engine.domain.encoding import Unreadable, decode
from engine.domain.events import LaneSuspended, MessageAppended
from engine.domain.registry import EVENTS, UPCASTS, Event, event, upcast


@pytest.fixture
def registry(monkeypatch):
    """Puts the registry back as it was."""
    events, upcasts = dict(EVENTS), dict(UPCASTS)
    yield
    EVENTS.clear()
    EVENTS.update(events)
    UPCASTS.clear()
    UPCASTS.update(upcasts)


def test_a_field_added_with_a_default_decodes_old_rows(registry, monkeypatch):
    old = b'{"name":"a"}'

    @event(name="a")
    class Grown(Event, tag="test.grown"):
        name: str
        colour: str = "grey"

    monkeypatch.setitem(encoding._DECODERS, "test.grown", msgspec.json.Decoder(Grown).decode)
    assert decode("test.grown", old) == Grown(name="a", colour="grey")


def test_retired_tags_are_upcast_step_by_step(registry):
    upcast("message.v0")(lambda old: {"type": "message.v1", "body": old["text"]})
    upcast("message.v1")(lambda old: {"type": "message.appended", "message": {"content": old["body"]}})
    assert decode("message.v0", b'{"type":"message.v0","text":"hi"}') == MessageAppended(message={"content": "hi"})
    assert decode("message.v1", b'{"type":"message.v1","body":"hi"}') == MessageAppended(message={"content": "hi"})


def test_an_upcast_that_fails_leaves_the_payload_unreadable(registry):
    upcast("message.v0")(lambda old: {"type": "message.appended", "message": old["missing"]})
    assert isinstance(decode("message.v0", b'{"type":"message.v0"}'), Unreadable)


def test_a_tag_is_not_given_twice(registry):
    class Again(Event, tag="lane.suspended"):
        pass

    with pytest.raises(TypeError, match="taken"):
        event()(Again)
    with pytest.raises(TypeError, match="taken"):
        upcast("lane.suspended")(dict)
    upcast("test.retired")(dict)
    with pytest.raises(TypeError, match="taken"):
        upcast("test.retired")(dict)
    assert EVENTS["lane.suspended"] is LaneSuspended


def test_an_event_without_a_tag_is_refused(registry):
    class Untagged(Event, tag=7):
        pass

    with pytest.raises(TypeError, match="text tag"):
        event()(Untagged)
