"""The report of an import: counts, and everything that was left out with its reason."""

import msgspec


class Skipped(msgspec.Struct, frozen=True):
    """Something that was not imported, and why."""

    item: str
    reason: str


class ImportReport(msgspec.Struct, kw_only=True):
    """The outcome of an import; a second run of it finds nothing new."""

    source: str
    sessions: int = 0
    messages: int = 0
    lanes: int = 0
    projects: int = 0
    known: int = 0
    """Messages that an earlier run has imported."""
    dry_run: bool = False
    skipped: list[Skipped] = msgspec.field(default_factory=list)

    def skip(self, item: str, reason: object) -> None:
        """Note something that is left out."""
        said = f"{type(reason).__name__}: {reason}" if isinstance(reason, Exception) else str(reason)
        self.skipped.append(Skipped(item, said))
