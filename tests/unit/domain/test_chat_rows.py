"""The row of a chat in a list: last activity and title (W6, W18)."""

import math
from typing import Any

import pytest
from hypothesis import given, strategies as st

from engine.domain.chat_rows import last_message_time, title_from, usable_time

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda each: st.lists(each) | st.dictionaries(st.text(), each),
)


def said(role: str, **times: Any) -> dict[str, Any]:
    return {"role": role, "content": "x", **times}


def part(text: object) -> dict[str, Any]:
    return {"type": "text", "text": text}


@pytest.mark.parametrize(
    ("messages", "time"),
    [
        ([], None),
        ([said("user", timestamp=5), said("assistant", timestamp=7)], 7),
        ([said("assistant", timestamp=7), said("tool", timestamp=9)], 7),
        ([said("user", timestamp=7, _ts=8)], 8),
        ([said("user", timestamp=7, _ts=0)], 7),
        ([said("user", timestamp="7.5")], 7.5),
        ([said("user", timestamp=5), said("user", timestamp=0), said("user", timestamp="soon"), said("user")], 5),
        ([said("user", timestamp=5), said("user", timestamp=True), said("user", timestamp=math.nan)], 5),
        (["not a message", said("user", timestamp=5), None], 5),
    ],
)
def test_last_activity_is_that_of_the_newest_message_with_a_time(messages: list[Any], time: float | None) -> None:
    """W6."""
    assert last_message_time(reversed(messages)) == time


@given(ANYTHING)
def test_no_value_breaks_the_reading_of_times(value: object) -> None:
    """W6."""
    time = usable_time(value)
    assert time is None or (math.isfinite(time) and time > 0)


@pytest.mark.parametrize(
    ("messages", "title"),
    [
        ([], "Untitled"),
        ([said("assistant")], "Untitled"),
        ([{"role": "user", "content": None}, {"role": "user", "content": "  hello  "}], "hello"),
        ([{"role": "user", "content": "a" * 80}], "a" * 64),
        (
            [
                {
                    "role": "user",
                    "content": [{"type": "text", "text": "see"}, {"type": "image"}, {"type": "text", "text": "this"}],
                }
            ],
            "see this",
        ),
        ([{"role": "user"}, {"role": "user", "content": [part(None)]}], "Untitled"),
    ],
)
def test_a_title_is_the_first_words_of_the_user(messages: list[Any], title: str) -> None:
    """W18."""
    assert title_from(messages) == title


def test_a_title_falls_back_to_what_is_given() -> None:
    """W18."""
    assert title_from([], "New chat") == "New chat"


@given(st.lists(ANYTHING | st.fixed_dictionaries({"role": st.just("user"), "content": ANYTHING})))
def test_any_messages_have_a_title(messages: list[Any]) -> None:
    """W18."""
    title = title_from(messages)
    assert 0 < len(title) <= 64
    assert title == title.strip() or len(title) == 64
