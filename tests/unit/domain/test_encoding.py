"""Hostile values: whatever a platform sends is stored, and comes back or is marked (G52)."""

import json
import math
from typing import Any

import apsw
import pytest
from hypothesis import given, settings, strategies as st

from engine.domain.encoding import (
    Archived,
    Unreadable,
    archive_marker,
    archived_digest,
    decode,
    encode,
    tombstone,
    tombstone_digest,
)
from engine.domain.events import MessageAppended, MessageRewritten
from engine.domain.registry import UPCASTS

any_text = st.text(st.characters(exclude_categories=()), max_size=8)
markers = st.sampled_from(["$text", "$float", "$int", "$pairs", "$dict", "$repr", "$erased", "type"])
keys = any_text | markers
scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([2**63, 2**64, -(2**70), 10**4000, -(10**4000), 1 << 4096])
    | st.floats(allow_nan=True, allow_infinity=True)
    | any_text
    | st.sampled_from(["\0", "a\0b", "\ud800", "\udfff\ud800", "nan", "null", '"$text"'])
)
json_like = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4), max_leaves=20
)

connection = apsw.Connection(":memory:")


def same(left: Any, right: Any) -> bool:
    if isinstance(left, float) and isinstance(right, float):
        return left == right or (math.isnan(left) and math.isnan(right))
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    return type(left) is type(right) and left == right


def round_trip(value: Any) -> Any:
    payload = encode(MessageAppended(message={"role": "user", "content": value}))
    assert isinstance(json.loads(payload), dict)
    assert connection.execute("SELECT json_valid(?)", (payload.decode(),)).get == 1
    content = decode("message.appended", payload)
    assert isinstance(content, MessageAppended), content
    return content.message["content"]


@settings(max_examples=400, deadline=None)
@given(json_like)
def test_every_json_like_value_comes_back_as_it_was(value):
    assert same(round_trip(value), value)


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(keys, json_like, max_size=3))
def test_the_message_itself_may_look_like_a_marker(message):
    content = decode("message.appended", encode(MessageAppended(message=message)))
    assert isinstance(content, MessageAppended), content
    assert same(content.message, message)


@pytest.mark.parametrize(
    "value",
    [
        "a\ud800b",
        {"\ud800": {"\udfff": "\ud800"}},
        "\0",
        {"a\0b": 1},
        math.nan,
        [math.inf, -math.inf, None],
        10**5000,
        -(10**5000),
        2**64,
        {"$text": "\\ud800"},
        {"$float": math.nan},
        {"$dict": {"$dict": {}}},
        {"$pairs": [["a", 1]]},
        {"$repr": "x"},
        {"$int": None},
        {"$erased": "00", "at": 1},
    ],
    ids=lambda value: type(value).__name__,
)
def test_known_hostile_values_come_back(value):
    assert same(round_trip(value), value)


class Odd:
    def __repr__(self) -> str:
        return "odd \ud800"


class Broken:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


@pytest.mark.parametrize(
    "value", [Odd(), Broken(), object(), len, 1j, range(3), Exception("x"), Odd], ids=lambda value: type(value).__name__
)
def test_objects_json_has_no_word_for_are_marked(value):
    assert set(round_trip(value)) == {"$repr"}
    assert set(round_trip([{"deep": value}])[0]["deep"]) == {"$repr"}


@pytest.mark.parametrize("depth", [50, 150, 1000, 100_000])
@pytest.mark.parametrize("wrap", [lambda inner: [inner], lambda inner: {"a": inner}], ids=["list", "dict"])
def test_deep_nesting_is_stored_or_marked(depth, wrap):
    value: Any = "core"
    for _ in range(depth):
        value = wrap(value)
    payload = encode(MessageAppended(message={"content": value}))
    content = decode("message.appended", payload)
    assert not isinstance(content, Unreadable), content.error
    assert depth > 150 or content.message["content"] == value


def test_a_value_that_contains_itself_is_marked():
    loop: list[Any] = []
    loop.append(loop)
    assert round_trip(loop) == [{"$repr": "what contains it"}]


def test_a_value_that_contains_itself_many_times_is_marked_in_no_time():
    wide: dict[str, Any] = {"x": []}
    wide["x"] += [wide] * 10
    assert round_trip(wide) == {"x": [{"$repr": "what contains it"}] * 10}


def test_a_deep_value_with_a_null_is_stored():
    value: Any = None
    for _ in range(900):
        value = [value]
    assert not isinstance(decode("message.appended", encode(MessageAppended(message={"c": value}))), Unreadable)


@pytest.mark.parametrize(
    ("value", "stored"), [((1, 2), [1, 2]), ({1: "a"}, {"1": "a"}), (b"\xff", "/w=="), (frozenset({1}), [1])]
)
def test_what_json_has_another_word_for_becomes_that(value, stored):
    assert round_trip(value) == stored


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=40) | st.text(max_size=40), any_text)
def test_decoding_never_raises(payload, topic):
    decode(topic, payload)
    decode("message.appended", payload)


@pytest.mark.parametrize("state", [5, 1.5, None, b"\xff"])
def test_a_state_of_any_type_decodes(state):
    assert isinstance(decode("message.appended", state), Unreadable)


@pytest.mark.parametrize(
    "upcast",
    [lambda old: old, lambda old: {"x": 1}, lambda old: None, lambda old: old.missing, lambda old: 1 // 0],
    ids=["keeps its tag", "drops its tag", "returns nothing", "has no such attribute", "divides by zero"],
)
def test_a_broken_upcast_makes_its_events_unreadable_and_stops_nothing(monkeypatch, upcast):
    monkeypatch.setitem(UPCASTS, "old.tag", upcast)
    assert isinstance(decode("old.tag", b'{"type":"old.tag"}'), Unreadable)


def test_upcasts_that_lead_to_each_other_end(monkeypatch):
    monkeypatch.setitem(UPCASTS, "old.a", lambda old: {**old, "type": "old.b"})
    monkeypatch.setitem(UPCASTS, "old.b", lambda old: {**old, "type": "old.a"})
    assert isinstance(decode("old.a", b'{"type":"old.a"}'), Unreadable)


def test_a_tombstone_has_one_exact_form():
    digest = "0f" * 32
    assert tombstone_digest(tombstone(digest, 17)) == bytes.fromhex(digest)
    for state in (
        '{"$erased":"zz"}',
        '{"$erased":"' + digest,
        tombstone(digest, 17) + " ",
        tombstone(digest[:-1], 17),
        tombstone(digest, "17"),
        tombstone("z" * 64, 17),
    ):
        assert tombstone_digest(state) is None
        assert isinstance(decode("message.appended", state), Unreadable)


@settings(max_examples=100, deadline=None)
@given(st.none() | any_text.filter(bool), st.integers(0, 2**62))
def test_the_marker_of_an_archived_message_keeps_its_ids_and_its_digest(message_id, copy_of):
    """V16: tables that are made again from it say the same."""
    event = MessageRewritten(message={"content": "words"}, message_id=message_id, copy_of=copy_of)
    payload, digest = encode(event).decode(), "0f" * 32
    marker = archive_marker(payload, digest, 17)
    assert decode(event.TOPIC, marker) == Archived(event.TOPIC, digest, 17, message_id, copy_of)
    assert archived_digest(marker) == bytes.fromhex(digest)
    assert tombstone_digest(marker) is None
    assert "words" not in marker
    with pytest.raises(ValueError, match="already"):
        archive_marker(marker, digest, 17)


@pytest.mark.parametrize("state", ['{"$archived":"zz","at":1}', '{"$archived":"' + "0f" * 32, "{}", b"\xff"])
def test_what_only_looks_like_a_marker_is_none(state):
    """V16."""
    assert archived_digest(state) is None
    assert not isinstance(decode("message.appended", state), Archived)
