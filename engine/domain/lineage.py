"""Chains of sessions: which go on for one another, and are one row in a list of chats (W12)."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from engine.domain.session import COMPRESSION

_GOES_ON_AFTER = frozenset({COMPRESSION, "cli_close"})
_FORK = "fork"


class Segment(NamedTuple):
    """A session as a part of a chain. Times are epoch seconds, or None where nobody knows."""

    session_id: str
    parent_id: str | None = None
    started_at: float | None = None
    ended_at: float | None = None
    end_reason: str | None = None
    relation: str | None = None
    messages: int = 0
    active_at: float = 0.0


class Chain(NamedTuple):
    """Sessions that are one conversation: the first, the one to go on with, and all of them from the first on."""

    head: Segment
    tip: Segment
    segments: tuple[Segment, ...]


Find = Callable[[str], Segment | None]
Children = Callable[[str], Iterable[Segment]]


def continues(parent: Segment, child: Segment) -> bool:
    """Return True if a child goes on for its parent; else it is a branch, or works for it."""
    if parent.end_reason not in _GOES_ON_AFTER or child.relation == _FORK:
        return False
    return parent.ended_at is None or child.started_at is None or child.started_at >= parent.ended_at


def chain_of(segment: Segment, find: Find, children: Children) -> Chain:
    """Return the chain that a session is of. Parents that are missing end it, and circles are cut."""
    head = head_of(segment, find)
    depths = {head.session_id: 0}
    segments = [head]
    for each in segments:
        for child in children(each.session_id):
            if child.session_id not in depths and continues(each, child):
                depths[child.session_id] = depths[each.session_id] + 1
                segments.append(child)
    spoken = [each for each in segments if each.messages] or segments
    tip = max(spoken, key=lambda each: (each.active_at, depths[each.session_id], each.session_id))
    return Chain(head, tip, tuple(segments))


def head_of(segment: Segment, find: Find) -> Segment:
    """Return the first session of a chain; of a circle, the one that began first."""
    walked = {segment.session_id: segment}
    while (parent := continued(segment, find)) is not None:
        if parent.session_id in walked:
            ids = list(walked)
            circle = [walked[each] for each in ids[ids.index(parent.session_id) :]]
            return min(circle, key=lambda each: (each.started_at or 0.0, each.session_id))
        walked[parent.session_id] = segment = parent
    return segment


def continued(segment: Segment, find: Find) -> Segment | None:
    """Return the session that this one goes on for; None if it begins a chain."""
    parent = None if segment.parent_id is None else find(segment.parent_id)
    return parent if parent is not None and continues(parent, segment) else None


def lineage_keys(chain: Chain, find: Find, told: Callable[[str], tuple[str | None, str | None]]) -> dict[str, Any]:
    """Return what a row says about its chain: its ends, and which session it branched off or works for.

    `told` gives title and source of a session.
    """
    head = chain.head
    keys: dict[str, Any] = {}
    if len(chain.segments) > 1:
        keys |= {
            "_lineage_root_id": head.session_id,
            "_lineage_tip_id": chain.tip.session_id,
            "_compression_segment_count": len(chain.segments),
        }
    parent = None if head.parent_id is None else find(head.parent_id)
    if head.parent_id is not None and head.parent_id not in {each.session_id for each in chain.segments}:
        keys |= {"parent_session_id": head.parent_id, "relationship_type": "child_session"}
        if parent is not None:
            title, source = told(parent.session_id)
            root = head_of(parent, find).session_id
            keys |= {"parent_title": title, "parent_source": source, "_parent_lineage_root_id": root}
    return keys
