"""A chat: the fold of what chat events say of a session (W1)."""

import msgspec
import pytest

from engine.domain import chat_events as c, events as e
from engine.domain.chat import KINDS, Chat, evolve, is_draft, says_something
from engine.domain.encoding import Erased
from engine.domain.registry import Event
from engine.domain.session import Session

USED = Chat(
    "s",
    context_from=3,
    tool_calls_from=4,
    stream_id="t-1",
    started_at=5.0,
    pinned=True,
    archived=True,
    project_id="p",
    updated_at=1,
    input_tokens=3,
    estimated_cost=0.5,
)


@pytest.mark.parametrize("kind", sorted(KINDS, key=lambda kind: kind.TOPIC), ids=lambda kind: kind.TOPIC)
def test_every_event_of_a_chat_changes_it(kind: type[Event]) -> None:
    """An event that nothing folds does not exist."""
    example = kind.EXAMPLE
    if isinstance(example, e.TurnBegun):
        example = e.TurnBegun(token="t-1", conversation_id="s", started_at=7.0)
    assert says_something(example)
    assert [evolve(each, example, 7) for each in (Chat("s"), USED)] != [Chat("s"), USED]


def test_a_gateways_turn_says_nothing_of_a_chat() -> None:
    """W16: it has no start that a host has given."""
    assert not says_something(e.TurnBegun.EXAMPLE)
    assert evolve(USED, e.TurnBegun(token="t-2", conversation_id="s"), 7) == USED
    assert evolve(USED, e.TurnEnded(token="t-2"), 7) == USED


def test_a_turn_is_over_also_when_its_end_was_erased() -> None:
    """V15, W16."""
    chat = evolve(USED, Erased("turn.ended", "0" * 64, 5), 9)
    assert (chat.stream_id, chat.started_at) == (None, None)


def test_a_draft_is_nobodys_yet() -> None:
    """W3."""
    assert is_draft(Session("s"), Chat("s", pinned=True))
    for session in (Session("s", title="x"), Session("s", live=1), Session("s", lane="agent:main:telegram:dm:1")):
        assert not is_draft(session, Chat("s"))
    assert not is_draft(Session("s"), USED)


def test_attributes_are_added_to_those_before() -> None:
    chat = evolve(Chat("s"), c.AttributesSet(attributes={"model": "a", "theme": "dark"}), 1)
    chat = evolve(chat, c.AttributesSet(attributes={"model": "b"}), 2)
    assert chat.attributes == {"model": "b", "theme": "dark"}


def test_tokens_and_cost_add_up() -> None:
    used = e.UsageRecorded(session_id="s", input_tokens=2, output_tokens=1, cost_usd=0.25)
    assert evolve(evolve(Chat("s"), used, 1), used, 2) == Chat("s", input_tokens=4, output_tokens=2, estimated_cost=0.5)
    assert evolve(Chat("s"), e.UsageRecorded(session_id="s", input_tokens=2), 1).estimated_cost is None


def test_a_session_goes_by_the_last_id_it_went_on_under() -> None:
    chat = Chat("s")
    assert chat.id == "s"
    for other in ("t", "u"):
        chat = evolve(chat, c.SessionRotated(session_id=other), 1)
    assert (chat.id, chat.aliases) == ("u", ("t", "u"))


@pytest.mark.parametrize("event", [Erased("session.attributes_set", "0" * 64, 5), e.SessionEnded(end_reason="x")])
def test_other_events_say_nothing_of_a_chat(event: Event | Erased) -> None:
    assert evolve(USED, event, 9) == msgspec.structs.replace(USED)


def test_a_list_is_folded_from_where_nothing_was_kept_and_an_emptied_one_from_nowhere() -> None:
    """W8: reading a context costs what stands in it."""
    said = [{"role": "user"}]
    chat = evolve(Chat("s"), c.ContextReplaced(messages=said), 5)
    chat = evolve(chat, c.ContextReplaced(keep=1, messages=said), 6)
    assert chat.context_from == 5
    assert evolve(chat, c.ContextReplaced(keep=1), 7).context_from == 5
    assert evolve(chat, c.ContextReplaced(messages=said), 7).context_from == 7
    assert evolve(chat, c.ContextReplaced(), 7).context_from == 0
    chat = evolve(chat, c.ToolCallsReplaced(tool_calls=[1]), 8)
    assert (chat.context_from, chat.tool_calls_from) == (5, 8)


def test_what_an_erased_list_had_replaced_does_not_come_back() -> None:
    """W9, V15."""
    chat = evolve(USED, Erased("session.context_replaced", "0" * 64, 5), 9)
    assert (chat.context_from, chat.tool_calls_from) == (9, 4)
    assert evolve(chat, Erased("session.tool_calls_replaced", "0" * 64, 5), 10).tool_calls_from == 10
