"""A message as it was found in a source."""

from typing import Any

import msgspec


class FoundMessage(msgspec.Struct, frozen=True):
    """A message of a source: its row there, when it was said, and whether it is still part of the history."""

    row: int
    time: int
    message: dict[str, Any]
    state: str = "live"
    """`live`, `undone` by the user, or `compacted` into a summary that follows."""
