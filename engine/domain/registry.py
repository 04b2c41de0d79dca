"""The one place where an event class gets its tag, its example and its way into the union."""

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import msgspec


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type"):
    """An immutable fact. Who, when and why are in its envelope; what happened is here.

    Every field added after an event's first release needs a default, so that old rows still decode. A
    breaking change is a new tag: the old tag is registered again with `upcast`, which turns the old
    payload into the new one.
    """

    TOPIC: ClassVar[str]
    EXAMPLE: ClassVar["Event"]

    @property
    def topic(self) -> str:
        return self.TOPIC


E = TypeVar("E", bound=Event)
Upcast = Callable[[dict[str, Any]], dict[str, Any]]

EVENTS: dict[str, type[Event]] = {}
UPCASTS: dict[str, Upcast] = {}


def event(**example: Any) -> Callable[[type[E]], type[E]]:
    """Register an event class under its msgspec tag, with an example that documents and tests it.

    The topic is written into the class's own `__dict__`: the eventsourcing library looks it up with
    getattr and would otherwise give a subclass the topic of its parent.
    """

    def register(cls: type[E]) -> type[E]:
        tag = cls.__struct_config__.tag
        if not isinstance(tag, str):
            raise TypeError(f"{cls.__name__} needs a text tag: class {cls.__name__}(Event, tag='…')")
        if tag in EVENTS or tag in UPCASTS:
            raise TypeError(f"tag {tag!r} of {cls.__name__} is taken; tags are never reused")
        cls.TOPIC = tag
        cls.EXAMPLE = cls(**example)
        EVENTS[tag] = cls
        return cls

    return register


def upcast(old_tag: str) -> Callable[[Upcast], Upcast]:
    """Register how a payload with a retired tag becomes one with a current tag."""

    def register(function: Upcast) -> Upcast:
        if old_tag in EVENTS or old_tag in UPCASTS:
            raise TypeError(f"tag {old_tag!r} is taken; tags are never reused")
        UPCASTS[old_tag] = function
        return function

    return register
