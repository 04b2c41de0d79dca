"""The rule of what is kept of the user's text when a turn ends (W16, W17)."""

import math

import pytest

from engine.domain.chat import Chat
from engine.domain.chat_turns import error_message, keeps_text, user_message, whole_seconds

CHAT = Chat("s", stream_id="s1", started_at=100.7, pending_message="hello", visible=2)


@pytest.mark.parametrize(
    ("time", "whole"), [(100.7, 100), (1, 1), (0.5, None), (0, None), (-1, None), (None, None), (math.nan, None)]
)
def test_a_start_counts_in_whole_seconds(time: float | None, whole: int | None) -> None:
    """W17."""
    assert whole_seconds(time) == whole


def test_a_message_without_a_time_of_its_own_counts_by_its_place() -> None:
    """W16."""
    assert keeps_text(CHAT, [(2, {"role": "user", "content": "hello"})])
    assert not keeps_text(CHAT, [(1, {"role": "user", "content": "hello"})])
    assert keeps_text(CHAT, [(1, {"role": "user", "content": "hello", "timestamp": 100})])


@pytest.mark.parametrize("nothing", [None, "", "  "])
def test_there_is_nothing_to_keep_of_an_empty_text(nothing: str | None) -> None:
    """W16."""
    assert keeps_text(Chat("s", stream_id="s1", pending_message=nothing), [])


def test_what_is_added_says_what_it_is() -> None:
    """W16, W17."""
    assert user_message(CHAT, 100, _recovered=True) == {
        "role": "user",
        "content": "hello",
        "timestamp": 100,
        "_recovered": True,
    }
    assert error_message("broken", 7) == {"role": "assistant", "content": "broken", "timestamp": 7, "_error": True}
