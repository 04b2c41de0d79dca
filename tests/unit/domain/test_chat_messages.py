"""A chat's messages as its client gave them (W8)."""

import math
from typing import Any

from hypothesis import given, strategies as st

from engine.domain.chat_events import ContextReplaced, ToolCallsReplaced
from engine.domain.chat_messages import folded, kept, replacing, said, same, turns_in, without_turns
from engine.domain.encoding import Erased, encode, tombstone
from engine.domain.events import MessageAppended
from engine.domain.transcript import Row

WORDS = st.sampled_from("abc")


def row(text: str) -> Row:
    return 1, "message.appended", text, 5, 7_000_000


def test_messages_come_back_as_they_were_given_and_erased_ones_keep_their_place() -> None:
    problems: list[int] = []
    rows = [
        row(encode(MessageAppended(message={"role": "user", "x": None})).decode()),
        row(encode(MessageAppended(message={"role": "user"}, message_id="7")).decode()),
        row(tombstone("0" * 64, 1)),
        row("nonsense"),
    ]
    left = {"role": "unknown", "content": "", "_erased": True}
    assert said(rows, lambda at, _: problems.append(at)) == [
        {"role": "user", "x": None},
        {"role": "user", "message_id": "7"},
        left,
        left,
    ]
    assert problems == [5]


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


@given(st.lists(WORDS), st.lists(WORDS))
def test_a_list_is_what_was_kept_and_what_came_after(before: list[str], after: list[str]) -> None:
    """W8: the least is stored, and nothing if nothing changed."""
    change = replacing(before, after)
    if change is None:
        assert before == after
    else:
        keep, new = change
        assert before[:keep] + new == after
        assert keep == len(before) or keep == len(after) or before[keep] != after[keep]


@given(st.lists(st.lists(WORDS), min_size=1))
def test_the_fold_of_replacements_is_the_last_list(lists: list[list[str]]) -> None:
    """W8."""
    events: list[ToolCallsReplaced] = []
    before: list[str] = []
    for each in lists:
        change = replacing(before, each)
        events += [] if change is None else [ToolCallsReplaced(keep=change[0], tool_calls=change[1])]
        before = each
    assert folded(events) == lists[-1]


def test_what_stood_on_an_erased_list_does_not_come_back() -> None:
    """V15: until the whole of it is given again."""
    erased = Erased("session.context_replaced", "0" * 64, 5)
    first, on_top = ContextReplaced(messages=[user("a")]), ContextReplaced(keep=1, messages=[user("b")])
    assert folded([first, on_top]) == [user("a"), user("b")]
    assert folded([erased, on_top]) == folded([first, erased, on_top]) == []
    assert folded([first, erased, first, on_top]) == [user("a"), user("b")]


def test_values_are_compared_as_they_are_stored() -> None:
    """W8."""
    assert same(math.nan, math.nan)
    assert same({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert not same(1, True)
    assert kept({1: (1, 2), "x": None}) == {"1": [1, 2], "x": None}


@given(st.lists(st.sampled_from(["user", "assistant", "tool"])), st.integers(0, 5))
def test_turns_are_taken_off_a_context_from_its_end(roles: list[str], turns: int) -> None:
    """W9: all of them at the most, and what stands before the first stays."""
    context = [{"role": role} for role in roles]
    stays = without_turns(context, turns)
    assert turns_in(context[stays:]) == min(turns, turns_in(context))
    assert stays == len(context) or context[stays]["role"] == "user"
