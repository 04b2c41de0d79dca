"""The answer of an erasure: what was erased, and what stays and why (V15)."""

import msgspec


class Left(msgspec.Struct, frozen=True):
    """Something that stays: what it is, why, and the positions of the events that have it."""

    what: str
    why: str
    positions: tuple[int, ...] = ()


class ErasureReport(msgspec.Struct, frozen=True, kw_only=True):
    """The result of an erasure, or with `dry_run` of looking. `sessions` are those of which something goes."""

    events: int
    messages: int
    sessions: tuple[str, ...]
    lanes: int
    positions: tuple[int, ...]
    left: tuple[Left, ...]
    dry_run: bool
    archives: tuple[str, ...] = ()
    """The archives that were written anew without what was erased."""
    purged: bool = False
