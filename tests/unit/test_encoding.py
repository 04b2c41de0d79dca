"""Hostile values: whatever a platform sends is stored, and comes back or is marked (G52)."""

import json
import math
from typing import Any

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.domain.encoding import Unreadable, decode, encode
from engine.domain.events import MessageAppended

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
    assert b"nested deeper" in encode(MessageAppended(message={"content": loop}))


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
