"""The vocabulary: tags that never change, examples, and old rows that still decode."""

import ast
import json
import re
from pathlib import Path

import msgspec
import pytest

from engine.domain.encoding import Unknown, Unreadable, decode, encode
from engine.domain.events import LaneSuspended
from engine.domain.registry import EVENTS, UPCASTS

ROOT = Path(__file__).parents[3]
FROZEN_TAGS = {
    "lane.advanced",
    "lane.expiry_finalized",
    "lane.identified",
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
    "log.archived",
    "log.erased",
    "log.imported",
    "log.lost",
    "log.quarantined",
    "log.restored",
    "log.salvaged",
    "message.appended",
    "message.extended",
    "project.created",
    "project.deleted",
    "project.recolored",
    "project.renamed",
    "session.archived",
    "session.attributes_set",
    "session.claimed",
    "session.compressed",
    "session.context_replaced",
    "session.created",
    "session.deleted",
    "session.deleted_at_agent",
    "session.ended",
    "session.forked",
    "session.moved",
    "session.pending_replaced",
    "session.pinned",
    "session.reopened",
    "session.rotated",
    "session.rows_imported",
    "session.titled",
    "session.tool_calls_replaced",
    "session.touched",
    "session.usage_carried",
    "store.closed",
    "store.healed",
    "store.opened",
    "store.restored",
    "transcript.restored",
    "transcript.rewound",
    "transcript.rewritten",
    "turn.begun",
    "turn.ended",
    "turn.interrupted",
    "turn.renewed",
    "usage.recorded",
}
"""Tags stand in logs that exist: one may be added here, none removed or renamed."""


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
        assert "type" not in json.loads(payload)
        assert decode(tag, payload) == example
        assert decode(tag, payload.decode()) == example

    def test_is_frozen(self, tag):
        cls = EVENTS[tag]
        assert cls.__struct_config__.frozen
        for field in msgspec.structs.fields(cls):
            with pytest.raises(AttributeError):
                setattr(cls.EXAMPLE, field.name, None)


def test_every_event_is_written_by_something() -> None:
    rooms = ("engine", "projections", "replay")
    code = "".join(path.read_text() for room in rooms for path in (ROOT / room).rglob("*.py"))
    written = {tag for tag, cls in EVENTS.items() if re.search(rf"(?<!class )\b{cls.__name__}\(", code)}
    assert set(EVENTS) - written == set()


def looked_for(tree: ast.AST) -> set[str]:
    """Return the names that code tells events apart by: keys of a dict, cases, kinds of isinstance, tags."""
    found: list[ast.AST | None] = []
    for node in ast.walk(tree):
        match node:
            case ast.Dict(keys=keys):
                found += keys
            case ast.MatchClass(cls=kind) | ast.Attribute(value=kind, attr="TOPIC"):
                found.append(kind)
            case ast.Call(func=ast.Name(id="isinstance"), args=[_, kinds]):
                found += ast.walk(kinds)
    return {getattr(each, "attr", None) or getattr(each, "id", "") for each in found}


def test_every_event_is_folded_or_read_by_something() -> None:
    rooms = ("engine", "projections", "replay")
    trees = (ast.parse(path.read_text()) for room in rooms for path in (ROOT / room).rglob("*.py"))
    names = set().union(*map(looked_for, trees))
    assert {cls.__name__ for cls in EVENTS.values()} - names == set()


def test_a_field_of_a_newer_version_is_passed_over():
    payload = b'{"type":"lane.suspended","session_id":"s","added_later":1}'
    assert decode("lane.suspended", payload) == LaneSuspended(session_id="s")


def test_the_topic_beside_the_payload_decides_and_a_type_in_it_must_agree():
    assert decode("lane.suspended", b'{"type":"lane.suspended","session_id":"s"}') == LaneSuspended(session_id="s")
    assert isinstance(decode("lane.suspended", b'{"type":"lane.switched","session_id":"s"}'), Unreadable)


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
