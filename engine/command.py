"""Commands as values: what is to be done, with arguments that were checked when the command was made."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from engine.log.protocol import Queries

T = TypeVar("T")


class Command(msgspec.Struct, Generic[T], frozen=True):
    """One atomic change of a store.

    `decide` gets the command's work, reads states from it and lets events happen; it may be run again when
    nothing of it was kept. `grouped` says that it looks at nothing but heads, turns and platform ids, so that
    neighbours of a batch may be decided on one state and written together.
    """

    name: str
    decide: Callable[..., T]
    arguments: tuple[Any, ...] = ()
    grouped: bool = False


class Sweep(msgspec.Struct, frozen=True):
    """A change of many things that do not depend on one another, in parts that each hold the write lock briefly.

    `find` reads what may have to change, while the write lock is free; `change` gets a part of it, looks again, and
    returns how many it changed. A crash in between leaves the parts before it done; the same sweep again does the rest.
    """

    name: str
    find: Callable[[Queries, int], Sequence[Any]]
    change: Callable[..., int]
