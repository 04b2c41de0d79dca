"""A chat: the fold of what chat events say of a session (W1)."""

import msgspec
import pytest

from engine.domain import chat_events as c, events as e
from engine.domain.chat import KINDS, Chat, evolve
from engine.domain.encoding import Erased
from engine.domain.registry import Event

USED = Chat("s", pinned=True, archived=True, project_id="p", updated_at=1, input_tokens=3, estimated_cost=0.5)


@pytest.mark.parametrize("kind", sorted(KINDS, key=lambda kind: kind.TOPIC), ids=lambda kind: kind.TOPIC)
def test_every_event_of_a_chat_changes_it(kind: type[Event]) -> None:
    """What nothing folds does not exist."""
    assert [evolve(each, kind.EXAMPLE) for each in (Chat("s"), USED)] != [Chat("s"), USED]


def test_attributes_are_added_to_those_before() -> None:
    chat = evolve(Chat("s"), c.AttributesSet(attributes={"model": "a", "theme": "dark"}))
    chat = evolve(chat, c.AttributesSet(attributes={"model": "b"}))
    assert chat.attributes == {"model": "b", "theme": "dark"}


def test_tokens_and_cost_add_up() -> None:
    used = e.UsageRecorded(session_id="s", input_tokens=2, output_tokens=1, cost_usd=0.25)
    assert evolve(evolve(Chat("s"), used), used) == Chat("s", input_tokens=4, output_tokens=2, estimated_cost=0.5)
    assert evolve(Chat("s"), e.UsageRecorded(session_id="s", input_tokens=2)).estimated_cost is None


def test_a_session_goes_by_the_last_id_it_went_on_under() -> None:
    chat = Chat("s")
    assert chat.id == "s"
    for other in ("t", "u"):
        chat = evolve(chat, c.SessionRotated(session_id=other))
    assert (chat.id, chat.aliases) == ("u", ("t", "u"))


@pytest.mark.parametrize("event", [Erased("session.attributes_set", "0" * 64, 5), e.SessionEnded(end_reason="x")])
def test_other_events_say_nothing_of_a_chat(event: Event | Erased) -> None:
    assert evolve(USED, event) == msgspec.structs.replace(USED)
