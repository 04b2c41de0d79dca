"""A fingerprint of what the state tables are made by, so that a changed fold is noticed without bumping a number."""

from collections.abc import Iterable
from functools import cache
from hashlib import blake2b
from pathlib import Path
from types import ModuleType

from engine.domain import (
    chat,
    chat_events,
    encoding,
    events,
    lane,
    lane_entry,
    messages,
    project,
    registry,
    session,
    titles,
    turn,
)
from engine.version import package_version
from projections.inline import chats, copies, fold, lanes, message_ids, projects, sessions, texts, turns

MODULES: tuple[ModuleType, ...] = (
    chat,
    chat_events,
    encoding,
    events,
    lane,
    lane_entry,
    messages,
    project,
    registry,
    session,
    titles,
    turn,
    chats,
    copies,
    fold,
    lanes,
    message_ids,
    projects,
    sessions,
    texts,
    turns,
)
"""Everything that decides what a row says."""


@cache
def fingerprint() -> str:
    """Return a digest of the source of these modules; it takes a fraction of a millisecond, once per process."""
    return digest_of(MODULES)


def digest_of(modules: Iterable[ModuleType]) -> str:
    """Return a digest of the source of modules."""
    digest = blake2b(digest_size=16)
    for module in modules:
        digest.update(_source(module))
    return digest.hexdigest()


def _source(module: ModuleType) -> bytes:
    try:
        return Path(getattr(module, "__file__", None) or "").read_bytes()
    except OSError:  # installed without source files: the loader may still have it, else the package's version counts
        try:
            text = getattr(getattr(module, "__loader__", None), "get_source", lambda _: None)(module.__name__)
        except ImportError:  # typed at a prompt
            text = None
        return (package_version() if text is None else str(text)).encode()
