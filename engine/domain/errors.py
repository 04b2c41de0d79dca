"""One hierarchy for everything that can go wrong, each kind with a code that logs and hosts can match."""

from typing import ClassVar


class EngineError(Exception):
    """The base of every error this project raises on purpose.

    Read the message.
    """

    code: ClassVar[str] = "engine"


class ArchivedError(EngineError, LookupError):
    """A message that is asked for is in an archive, not in the log.

    Restore the archive that the message names.
    """

    code = "archived"

    def __init__(self, position: int, archive: str | None = None) -> None:
        self.position, self.archive = position, archive
        where = "an archive, which a log.archived event names" if archive is None else archive
        super().__init__(
            f"the message at position {position} is in {where}, not in the log; restore() of that file brings it back"
        )

    def __reduce__(self) -> tuple[type["ArchivedError"], tuple[int, str | None]]:
        return type(self), (self.position, self.archive)
