"""The actor of commands and their reason: set for the commands inside a block, per task."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

from engine.validation import checked_name


class Acting(NamedTuple):
    """The actor of commands, and the reason that takes the place of their own."""

    actor: str
    reason: str | None


_acting: ContextVar[Acting | None] = ContextVar("session_engine_acting", default=None)


@contextmanager
def acting(actor: str, reason: str | None = None) -> Iterator[None]:
    """Set the actor and the reason that the log records for the commands inside the block.

    Without it they are the store's actor and each command's own reason. It holds for the current task or thread
    and for what it starts, so concurrent tasks do not see each other's.
    """
    given = Acting(checked_name("actor", actor), None if reason is None else checked_name("reason", reason))
    token = _acting.set(given)
    try:
        yield
    finally:
        _acting.reset(token)


def acting_now() -> Acting | None:
    """Return the actor and reason of the innermost block, if there is one."""
    return _acting.get()
