"""The vocabulary of a chat is part of the whole one."""

from typing import get_args

from engine.domain import chat_events
from engine.domain.events import AnyEvent
from engine.domain.registry import EVENTS, Event


def test_every_event_of_a_chat_is_in_the_vocabulary() -> None:
    own = {each for each in vars(chat_events).values() if isinstance(each, type) and issubclass(each, Event)} - {Event}
    assert own
    assert own <= set(get_args(AnyEvent))
    assert own <= set(EVENTS.values())
