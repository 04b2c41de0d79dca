"""G46, G47, G49b and G51: what is kept of a message, its platform id, its words, and where an undo cuts."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from engine.domain.messages import appended, normalised, platform_id, same_message, text_of, undo_point, whole

REASONING = ["reasoning", "reasoning_content", "reasoning_details", "codex_reasoning_items", "codex_message_items"]


@pytest.mark.parametrize(
    ("given", "role"), [({}, "unknown"), ({"role": None}, "unknown"), ({"role": ""}, ""), ({"role": 5}, "5")]
)
def test_g46_missing_role_is_unknown_and_any_other_becomes_text(given: dict[str, Any], role: str) -> None:
    kept, message_id = normalised(given)
    assert (kept, message_id) == ({"role": role}, None)


@pytest.mark.parametrize("content", ["text", "", None, [{"type": "text", "text": "x"}], {"a": 1}, 5, [None]])
def test_g46_content_may_be_anything(content: Any) -> None:
    assert normalised({"role": "user", "content": content})[0] == {"role": "user", "content": content}


def test_g46_every_key_is_kept_unknown_ones_too_and_a_key_becomes_text() -> None:
    message = {"role": "tool", "tool_name": "ls", "tool_calls": [], "tool_call_id": "1", "observed": True, "later": {}}
    assert normalised({**message, 7: "seven"})[0] == {**message, "7": "seven"}


@pytest.mark.parametrize("name", REASONING)
def test_g46_reasoning_belongs_to_the_assistant_alone(name: str) -> None:
    assert normalised({"role": "assistant", name: "x"})[0] == {"role": "assistant", name: "x"}
    assert normalised({"role": "user", name: "x"})[0] == {"role": "user"}
    assert normalised({name: "x"})[0] == {"role": "unknown"}


@pytest.mark.parametrize("bad", [None, "text", 5, [("role", "user")], b"{}"])
def test_g46_message_that_is_no_dict_is_refused(bad: Any) -> None:
    with pytest.raises(ValueError, match="a message must be a dict"):
        appended(bad)


def test_g46_callers_message_is_not_changed() -> None:
    message = {"role": None, "message_id": "m", "reasoning": "x"}
    appended(message)
    assert message == {"role": None, "message_id": "m", "reasoning": "x"}


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ({"platform_message_id": "a"}, "a"),
        ({"message_id": "b"}, "b"),
        ({"platform_message_id": "a", "message_id": "b"}, "a"),
        ({"platform_message_id": "", "message_id": "b"}, "b"),
        ({"platform_message_id": None, "message_id": 17}, "17"),
        ({"message_id": 0}, "0"),
        ({"message_id": ""}, None),
        ({"id": "x"}, None),
        ({}, None),
    ],
)
def test_g47_platform_id_is_text_and_the_platforms_own_comes_first(given: dict[str, Any], found: str | None) -> None:
    assert platform_id(given) == found
    event = appended(given)
    assert event.message_id == found
    assert "message_id" not in event.message
    assert "platform_message_id" not in event.message


@pytest.mark.parametrize("bad", [True, False, 1.5, [], {}, b"m"])
@pytest.mark.parametrize("name", ["platform_message_id", "message_id"])
def test_g47_id_of_another_type_is_refused_by_its_name(name: str, bad: Any) -> None:
    with pytest.raises(ValueError, match=rf"^{name} must be"):
        platform_id({name: bad})


def test_g50_message_of_a_rewritten_history_has_its_id_inside() -> None:
    assert whole({"content": "x", "platform_message_id": 5}) == {"role": "unknown", "content": "x", "message_id": "5"}
    assert whole({"role": "user"}) == {"role": "user"}


def test_g49b_message_is_the_same_with_and_without_the_time_that_reading_adds() -> None:
    said = {"role": "user", "content": "x"}
    loaded = {**said, "timestamp": 5.0}
    assert same_message(said, loaded)
    assert same_message(loaded, said)
    assert same_message(loaded, loaded)
    assert not same_message(loaded, {**said, "timestamp": 6.0})
    assert not same_message(said, {**loaded, "content": "y"})


ROLES = st.lists(st.sampled_from(["user", "assistant", "tool", "system", None]), max_size=12)


@pytest.mark.parametrize(
    ("roles", "turns", "point"),
    [
        (["user", "assistant", "user", "assistant"], 1, (2, 1)),
        (["user", "assistant", "user", "assistant"], 2, (4, 2)),
        (["system", "user"], 99, (1, 1)),
        (["user"], 0, (1, 1)),
        (["user"], -5, (1, 1)),
        (["assistant", None], 1, None),
        ([], 1, None),
    ],
)
def test_g51_undo_cuts_at_the_nth_last_user_message(roles: Any, turns: int, point: Any) -> None:
    found = undo_point([{"role": role} for role in reversed(roles)], turns)
    assert (None if found is None else found[:2]) == point


@given(ROLES, st.integers(-3, 20))
def test_g51_undo_always_cuts_at_a_user_message_and_takes_as_many_turns_as_it_says(roles: Any, turns: int) -> None:
    messages = [None if role is None else {"role": role} for role in roles]
    newest_first = iter(reversed(messages))
    point = undo_point(newest_first, turns)
    if point is None:
        assert "user" not in roles
        return
    keep = len(roles) - point.hidden
    assert roles[keep] == "user"
    assert point.target is messages[keep]
    assert roles[keep:].count("user") == point.turns <= max(turns, 1)
    if point.turns == max(turns, 1):
        assert len(list(newest_first)) == keep, "what stands before it is not read"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("hello", "hello"),
        ("", ""),
        (None, ""),
        (5, ""),
        ({"type": "text", "text": "c"}, "c"),
        ({"type": "image", "text": "caption"}, ""),
        ([{"type": "text", "text": "a"}, {"type": "image_url"}, "b", {"type": "text", "text": ""}, None], "a\nb"),
        ([{"type": "text", "text": 5}], ""),
        ([], ""),
    ],
)
def test_g51_words_of_a_content_are_its_text_parts(content: Any, words: str) -> None:
    assert text_of(content) == words
