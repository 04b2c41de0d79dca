"""The vocabulary: tags that never change, examples, and old rows that still decode."""

import json
import re
from pathlib import Path

import msgspec
import pytest

from engine.domain import catalogue, encoding
from engine.domain.encoding import Unknown, Unreadable, decode, encode
from engine.domain.events import LaneSuspended, MessageAppended
from engine.domain.registry import EVENTS, UPCASTS, Event, event, upcast

FROZEN_TAGS = {
    "lane.advanced",
    "lane.expiry_finalized",
    "lane.model_set",
    "lane.notices_consumed",
    "lane.pruned",
    "lane.released",
    "lane.reset",
    "lane.resume_cleared",
    "lane.resume_marked",
    "lane.routed",
    "lane.suspended",
    "lane.switched",
    "lane.touched",
    "log.erased",
    "log.quarantined",
    "message.appended",
    "project.created",
    "project.deleted",
    "project.recoloured",
    "project.renamed",
    "session.attributes_set",
    "session.compressed",
    "session.created",
    "session.deleted",
    "session.ended",
    "session.forked",
    "session.imported",
    "session.reopened",
    "session.titled",
    "transcript.restored",
    "transcript.rewound",
    "transcript.rewritten",
    "turn.begun",
    "turn.ended",
    "turn.interrupted",
    "usage.recorded",
}
"""Tags stand in logs that exist: one may be added here, none removed or renamed."""


@pytest.fixture
def registry(monkeypatch):
    """Puts the registry back as it was."""
    events, upcasts = dict(EVENTS), dict(UPCASTS)
    yield
    EVENTS.clear()
    EVENTS.update(events)
    UPCASTS.clear()
    UPCASTS.update(upcasts)


def test_no_tag_was_removed_or_renamed():
    assert set(EVENTS) | set(UPCASTS) >= FROZEN_TAGS


@pytest.mark.parametrize("tag", sorted(EVENTS))
class TestEachEvent:
    def test_has_a_short_tag_of_its_own(self, tag):
        cls = EVENTS[tag]
        assert cls.__struct_config__.tag == tag
        assert cls.__dict__["TOPIC"] == tag
        assert len(tag) <= 32
        assert tag.isascii()
        assert [other for other in EVENTS.values() if tag == other.TOPIC] == [cls]

    def test_example_survives_json(self, tag):
        example = EVENTS[tag].EXAMPLE
        payload = encode(example)
        assert type(example) is EVENTS[tag]
        assert example.topic == tag
        assert json.loads(payload)["type"] == tag
        assert decode(tag, payload) == example
        assert decode(tag, payload.decode()) == example

    def test_is_frozen(self, tag):
        cls = EVENTS[tag]
        assert cls.__struct_config__.frozen
        for field in msgspec.structs.fields(cls):
            with pytest.raises(AttributeError):
                setattr(cls.EXAMPLE, field.name, None)

    def test_stands_in_the_documentation(self, tag):
        page = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
        assert f"| `{tag}`" in page


def test_the_documentation_is_current():
    page = (Path(__file__).parents[2] / "docs" / "events.md").read_text()
    assert page == catalogue.page(), "run `make docs`"


def test_what_is_said_to_be_written_by_nobody_is() -> None:
    code = "".join(
        path.read_text().replace("class ", "class_") for path in (Path(__file__).parents[2] / "engine").rglob("*.py")
    )
    made = {tag for tag, cls in EVENTS.items() if re.search(rf"\b{cls.__name__}\(", code)}
    assert EVENTS.keys() - made - {"log.quarantined"} == catalogue.NOT_WRITTEN


def test_a_field_added_with_a_default_decodes_old_rows(registry, monkeypatch):
    old = b'{"type":"test.grown","name":"a"}'

    @event(name="a")
    class Grown(Event, tag="test.grown"):
        name: str
        colour: str = "grey"

    monkeypatch.setattr(encoding, "_union", msgspec.json.Decoder(LaneSuspended | Grown))
    assert decode("test.grown", old) == Grown(name="a", colour="grey")


def test_a_field_of_a_newer_version_is_passed_over():
    payload = b'{"type":"lane.suspended","session_id":"s","added_later":1}'
    assert decode("lane.suspended", payload) == LaneSuspended(session_id="s")


def test_retired_tags_are_upcast_step_by_step(registry):
    upcast("message.v0")(lambda old: {"type": "message.v1", "body": old["text"]})
    upcast("message.v1")(lambda old: {"type": "message.appended", "message": {"content": old["body"]}})
    assert decode("message.v0", b'{"type":"message.v0","text":"hi"}') == MessageAppended(message={"content": "hi"})
    assert decode("message.v1", b'{"type":"message.v1","body":"hi"}') == MessageAppended(message={"content": "hi"})


def test_an_upcast_that_fails_leaves_the_payload_unreadable(registry):
    upcast("message.v0")(lambda old: {"type": "message.appended", "message": old["missing"]})
    assert isinstance(decode("message.v0", b'{"type":"message.v0"}'), Unreadable)


def test_an_unknown_tag_is_kept_with_its_content():
    payload = b'{"type":"from.the.future","a":[1,{"b":null}]}'
    assert decode("from.the.future", payload) == Unknown(
        "from.the.future", {"type": "from.the.future", "a": [1, {"b": None}]}
    )


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b"null", b"\xff", b'{"type":"lane.suspended"}'])
def test_an_unreadable_payload_is_kept_as_it_is(payload):
    content = decode("lane.suspended", payload)
    assert isinstance(content, Unreadable)
    assert content.topic == "lane.suspended"
    assert content.raw == payload
    assert content.error


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
