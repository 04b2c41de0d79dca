"""One hierarchy for everything that can go wrong, each kind with a code that logs and hosts can match."""

from typing import ClassVar


class EngineError(Exception):
    """The base of every error this project raises on purpose.

    Read the message.
    """

    code: ClassVar[str] = "engine"
