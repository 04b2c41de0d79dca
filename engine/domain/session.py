"""A session: its head as its events make it, and the rules of ending, recovering, compressing and naming.

The head is everything about a session but its messages: small, and enough to decide with.
"""

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from engine.domain import events as e
from engine.domain.encoding import Content, Erased

ACCIDENTAL = frozenset({"agent_close", "ws_orphan_reap"})
"""Ends nobody asked for: such a session may be recovered, and a deliberate reason replaces the accidental one."""

COMPRESSION = "compression"
_NUMBERED = re.compile(r"^(.*?) #([2-9]|[1-9][0-9]{1,17})$", re.DOTALL)


class Session(msgspec.Struct, frozen=True, omit_defaults=True):
    """The head of a session. `live` counts the messages that are neither undone nor rewritten away.

    `erased` counts the events whose payload is gone.
    """

    session_id: str
    version: int = 0
    conversation_id: str = ""
    lane: str | None = None
    source: dict[str, Any] | None = None
    created_at: int = 0
    ended_at: int | None = None
    end_reason: str | None = None
    parent_session_id: str | None = None
    relation: str = "root"
    child_session_id: str | None = None
    title: str | None = None
    title_is_auto: bool = False
    live: int = 0
    hidden: tuple[int, ...] = ()
    history_from: int = 0
    deleted: bool = False
    erased: int = 0

    @property
    def recoverable(self) -> bool:
        """Whether a lane that leads nowhere may be led here again (G27)."""
        open_ended = self.end_reason is None or self.end_reason in ACCIDENTAL
        return self.live > 0 and open_ended and not self.deleted

    @property
    def compressed_into(self) -> str | None:
        """The session that goes on for this one (G20)."""
        return self.child_session_id if self.end_reason == COMPRESSION else None

    @property
    def peer(self) -> str | None:
        """Who and where, without the lane's key: platform, user, chat, chat type, thread and profile."""
        return None if self.source is None or self.lane is None else peer_of(self.source, self.lane)


def peer_of(source: dict[str, Any], lane: str) -> str:
    """The second thing recovery looks for (G27). The profile is the key's, so it is never crossed.

    The user is whoever the lane's key would name: people whom only `user_id_alt` tells apart are not the same.
    """
    profile = lane.split(":", 2)[1] if lane.count(":") > 1 else ""
    user = source.get("user_id_alt") or source.get("user_id")
    parts = source.get("platform"), user, source.get("chat_id"), source.get("chat_type"), source.get("thread_id")
    return msgspec.json.encode([profile, *map(_text, parts)]).decode()


def _text(value: object) -> str | None:
    if value is None or (isinstance(value, str) and value.isascii()):
        return value
    return str(value).encode("utf-8", "backslashreplace").decode()


# Evolve


def _created(session: Session, event: e.SessionCreated, time: int) -> Session:
    return msgspec.structs.replace(
        session,
        conversation_id=event.conversation_id,
        lane=event.lane,
        source=event.source,
        created_at=time,
        parent_session_id=event.parent_session_id,
        relation=event.relation,
        title=event.title,
        title_is_auto=event.title is not None,
    )


def _ended(session: Session, event: e.SessionEnded, time: int) -> Session:
    return msgspec.structs.replace(session, end_reason=event.end_reason, ended_at=time)


def _reopened(session: Session, event: e.SessionReopened, _time: int) -> Session:
    lane = session.lane if event.lane is None else event.lane
    source = session.source if event.source is None else event.source
    return msgspec.structs.replace(session, end_reason=None, ended_at=None, lane=lane, source=source)


def _compressed(session: Session, event: e.SessionCompressed, time: int) -> Session:
    return msgspec.structs.replace(
        session, end_reason=COMPRESSION, ended_at=time, child_session_id=event.child_session_id
    )


def _appended(session: Session, _event: Content, _time: int) -> Session:
    return msgspec.structs.replace(session, live=session.live + 1)


def _imported(session: Session, event: e.SessionImported, _time: int) -> Session:
    return msgspec.structs.replace(session, live=session.live + len(event.messages))


def _rewritten(session: Session, event: e.TranscriptRewritten | e.SessionForked, _time: int) -> Session:
    # `version` is still that of the event before: this one is the next.
    return msgspec.structs.replace(session, live=len(event.messages), hidden=(), history_from=session.version + 1)


def _rewound(session: Session, event: e.TranscriptRewound, _time: int) -> Session:
    return msgspec.structs.replace(session, live=event.keep, hidden=(*session.hidden, event.rewound_count))


def _restored(session: Session, event: e.TranscriptRestored, _time: int) -> Session:
    return msgspec.structs.replace(session, live=session.live + event.restored_count, hidden=session.hidden[:-1])


def _titled(session: Session, event: e.SessionTitled, _time: int) -> Session:
    return msgspec.structs.replace(session, title=event.title, title_is_auto=event.auto)


def _deleted(session: Session, _event: e.SessionDeleted, time: int) -> Session:
    return msgspec.structs.replace(session, deleted=True, end_reason="deleted", ended_at=time)


_EVOLVE: dict[type, Callable[[Session, Any, int], Session]] = {
    e.SessionCreated: _created,
    e.SessionEnded: _ended,
    e.SessionReopened: _reopened,
    e.SessionCompressed: _compressed,
    e.SessionForked: _rewritten,
    e.MessageAppended: _appended,
    e.SessionImported: _imported,
    e.TranscriptRewritten: _rewritten,
    e.TranscriptRewound: _rewound,
    e.TranscriptRestored: _restored,
    e.SessionTitled: _titled,
    e.SessionDeleted: _deleted,
}


def _erased(session: Session, event: Erased, time: int) -> Session:
    """What is left of an event without its payload: that it was there, and when."""
    step = _WITHOUT_PAYLOAD.get(event.topic)
    changed = session if step is None else step(session, time)
    return msgspec.structs.replace(changed, erased=session.erased + 1)


def _emptied(session: Session, _time: int) -> Session:
    return msgspec.structs.replace(session, live=0, hidden=(), history_from=session.version + 1)


_WITHOUT_PAYLOAD: dict[str, Callable[[Session, int], Session]] = {
    e.SessionCreated.TOPIC: lambda session, time: msgspec.structs.replace(
        session, conversation_id=session.session_id, created_at=time
    ),
    # It keeps its place, so that what counts places still counts right.
    e.MessageAppended.TOPIC: lambda session, _: msgspec.structs.replace(session, live=session.live + 1),
    # What it took the place of does not come back.
    e.TranscriptRewritten.TOPIC: _emptied,
    e.SessionForked.TOPIC: _emptied,
}
_EVOLVE[Erased] = _erased


def evolve(session: Session, event: Content, time: int, version: int) -> Session:
    """The head after an event."""
    step = _EVOLVE.get(type(event))
    changed = session if step is None else step(session, event, time)
    return msgspec.structs.replace(changed, version=version)


# Rules


def ending(session: Session, reason: str) -> e.SessionEnded | None:
    """End a session: the first reason wins, unless a deliberate one replaces an accidental one (G44)."""
    if session.end_reason is None or (session.end_reason in ACCIDENTAL and reason not in ACCIDENTAL):
        return e.SessionEnded(end_reason=reason)
    return None


def claiming(session: Session, lane: str, source: dict[str, Any] | None) -> e.SessionReopened | None:
    """Make a session live for a lane; None if it is already both."""
    moved = session.lane != lane or (source is not None and session.peer != peer_of(source, lane))
    if session.end_reason is None and not moved:
        return None
    return e.SessionReopened(
        previous_end_reason=session.end_reason, lane=lane if moved else None, source=source if moved else None
    )


def live_tip(session: Session, find: Callable[[str], Session | None]) -> Session:
    """The session that goes on for a compressed one (G20); itself, if it was not compressed."""
    seen = {session.session_id}
    while (into := session.compressed_into) is not None and into not in seen:
        seen.add(into)
        session = find(into) or session
    return session


def next_title(title: str, taken: Iterable[str], own: str | None = None) -> str:
    """A title nobody else has: itself, or its name with the next number; a number of one's `own` stays (G44)."""
    others = set(taken)
    if title not in others:
        return title
    name = base_title(title)
    if own is not None and own not in others and base_title(own) == name:
        return own
    numbers = [1, *(int(found[2]) for other in others if (found := _NUMBERED.match(other)) and found[1] == name)]
    return f"{name} #{max(numbers) + 1}"


def base_title(title: str) -> str:
    """A title without its number."""
    found = _NUMBERED.match(title)
    return found[1] if found else title
