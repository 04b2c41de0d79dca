"""Lineage: which sessions are one row in the list of chats, and what that row says (W11 to W13)."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from engine.domain.chat import Chat, is_draft
from engine.domain.chat_rows import fields_of, row_of
from engine.domain.lineage import Chain, Segment, chain_of, lineage_keys
from engine.domain.session import Session
from engine.domain.session_sources import WEBUI, is_cron_session, normalize_source

GONE, SHOWN, HIDDEN = 0, 1, 2
"""Places of a row: in no list, in every list, or only in that of the hidden ones."""
_DEFAULT_PROFILE = "default"
_NAMES = ("parent_session_id", "_lineage_root_id", "_lineage_tip_id", "_parent_lineage_root_id")


class Line(msgspec.Struct, omit_defaults=True):
    """A session as its events make it, with the times of what was said last (W6).

    `timed` is False while no message of it can have given itself a time.
    """

    head: Session
    chat: Chat
    recorded_at: int = 0
    said_at: float | None = None
    timed: bool = False

    @property
    def parent(self) -> str | None:
        """Return the session it came from."""
        known = self.chat.attributes
        if "parent_session_id" in known:
            return known["parent_session_id"] or None
        return None if self.head.relation == "copy" else self.head.parent_session_id

    @property
    def ids(self) -> tuple[str, ...]:
        """Return every id that it went by; the last is the present one."""
        return self.head.session_id, *self.chat.aliases

    @property
    def source(self) -> str | None:
        """Return the program it came from."""
        told = self.chat.attributes.get("source_tag") or (self.head.source or {}).get("platform")
        return str(told) if told else None

    def fields(self) -> dict[str, Any]:
        """Return its fields as a web client sees them."""
        return fields_of(self.head, self.chat, self.recorded_at)

    def row(self) -> dict[str, Any]:
        """Return its row in a list, as if it were alone."""
        fields = self.fields()
        row = row_of(fields, self.head.live, fields["updated_at"] if self.said_at is None else self.said_at)
        row["profile"] = row["profile"] or _DEFAULT_PROFILE
        source = self.source
        if row["session_source"] is None and source is not None and source != WEBUI:
            told = normalize_source(source)
            if told.session_source != WEBUI:
                row |= {"session_source": told.session_source, "source_label": row["source_label"] or told.source_label}
        return row

    @property
    def is_cron(self) -> bool:
        """Return True for the session of a scheduled job."""
        source = self.source
        return any(is_cron_session(each, source) for each in self.ids)


class Shown(NamedTuple):
    """A row of the list, and where it stands."""

    session_id: str
    place: int
    pinned: int
    activity: float
    row: dict[str, Any] | None


def alone(line: Line) -> Shown:
    """Return the row of a session that came from no other, and that no other came from."""
    row = line.row()
    place = HIDDEN if line.is_cron or is_draft(line.head, line.chat) else SHOWN
    return Shown(line.chat.id, place, int(line.chat.pinned), row["last_message_at"], row)


def gone(session_id: str) -> Shown:
    """Return what stands in the place of a row that is in no list."""
    return Shown(session_id, GONE, 0, 0.0, None)


class Lineage:
    """Chains among sessions. `find` gives one by any of its ids, `children` those that came from one of several."""

    def __init__(self, find: Callable[[str], Line | None], children: Callable[[Iterable[str]], Iterable[Line]]) -> None:
        self._find = find
        self._children = children

    def chain(self, line: Line) -> Chain:
        """Return the chain of a session that was not deleted."""
        return chain_of(self._segment(line), self._segment_with, self._segments_after)

    def shown(self, chain: Chain) -> list[Shown]:
        """Return the row of a chain, which is that of its tip, and that the others are in no list."""
        tip = self._known(chain.tip.session_id)
        head = self._known(chain.head.session_id)
        lines = [self._known(each.session_id) for each in chain.segments]
        row = tip.row()
        if len(lines) > 1:
            row.pop("parent_session_id", None)
            row["title"] = head.row()["title"] if head.head.title else row["title"]
            row["created_at"] = head.head.created_at / 1e6
        keys = lineage_keys(chain, self._segment_with, self._told)
        row |= {name: self._name(value) if name in _NAMES else value for name, value in keys.items()}
        hidden = head.is_cron or tip.is_cron or all(is_draft(each.head, each.chat) for each in lines)
        shown = Shown(tip.chat.id, HIDDEN if hidden else SHOWN, int(tip.chat.pinned), row["last_message_at"], row)
        return [shown, *(gone(each.chat.id) for each in lines if each is not tip)]

    def branches(self, chain: Chain) -> Iterator[Line]:
        """Yield the sessions that branched off a chain or work for it: their rows name it."""
        own = {each.session_id for each in chain.segments}
        for each in chain.segments:
            yield from (
                child for child in self._children(self._known(each.session_id).ids) if child.head.session_id not in own
            )

    def _known(self, session_id: str) -> Line:
        found = self._find(session_id)
        if found is None:
            raise LookupError(f"session {session_id!r} is in a chain, and in no table")
        return found

    def _segment_with(self, session_id: str) -> Segment | None:
        found = self._find(session_id)
        return None if found is None or found.head.deleted else self._segment(found)

    def _segments_after(self, session_id: str) -> list[Segment]:
        found = self._find(session_id)
        children = () if found is None else self._children(found.ids)
        return [self._segment(each) for each in children if not each.head.deleted]

    def _segment(self, line: Line) -> Segment:
        head, parent = line.head, line.parent
        named = None if parent is None else self._find(parent)
        updated = line.chat.updated_at or max(head.created_at, line.recorded_at)
        return Segment(
            head.session_id,
            parent if named is None else named.head.session_id,
            head.created_at / 1e6,
            None if head.ended_at is None else head.ended_at / 1e6,
            head.end_reason,
            head.relation,
            head.live,
            updated / 1e6 if line.said_at is None else line.said_at,
        )

    def _told(self, session_id: str) -> tuple[str | None, str | None]:
        found = self._find(session_id)
        return (None, None) if found is None else (found.row()["title"], found.source)

    def _name(self, session_id: str) -> str:
        found = self._find(session_id)
        return session_id if found is None else found.chat.id
