"""A session: its head as its events make it, and the rules of ending, claiming and following compression.

The head is everything about a session but its messages: small, and enough to decide with.
"""

from collections.abc import Callable
from typing import Any

import msgspec

from engine.domain import chat_events as c, events as e
from engine.domain.encoding import Archived, Content, Erased
from engine.domain.registry import Event

ACCIDENTAL = frozenset({"agent_close", "ws_orphan_reap"})
"""Ends nobody asked for: such a session may be recovered, and a deliberate reason replaces the accidental one."""

COMPRESSION = "compression"
DELETED = "deleted"
ERASED = "erased"
"""The reason of an end whose own reason was erased: it does not come back, whatever that was."""
_NO_PROFILE = "main"
_TEXTS = frozenset((str, type(None)))
_encode = msgspec.json.encode
_replace = msgspec.structs.replace


class Imported(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The state of an import from one source: the last row that came, and what tokens, cost and end were there."""

    row: int = 0
    seen: dict[str, Any] | None = None


class Session(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The head of a session.

    `live` counts the messages that are neither undone nor rewritten away. `undone_at` is the version of the last undo
    that can be restored; that event names the one before it. `history_from` is the version at which the present
    history begins. A fork knows which conversation it came from, and the position of the last message it took from
    there. An imported session knows how far it was imported, by source. `gone` is one that was deleted from its agent's
    database.
    """

    session_id: str
    version: int = 0
    conversation_id: str = ""
    family_id: str = ""
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
    undone_at: int = 0
    history_from: int = 0
    forked_from: str | None = None
    forked_at: int = 0
    imported: dict[str, Imported] = {}
    deleted: bool = False
    gone: bool = False

    @property
    def recoverable(self) -> bool:
        """Return True if a lane that leads nowhere may be led here again (G27)."""
        return self.live > 0 and (self.end_reason is None or self.end_reason in ACCIDENTAL)

    @property
    def compressed_into(self) -> str | None:
        """Return the session that goes on for this one (G20)."""
        return self.child_session_id if self.end_reason == COMPRESSION else None

    @property
    def peer(self) -> str | None:
        """Return who and where, without the lane's key: platform, user, chat, chat type, thread and profile."""
        return None if self.source is None or self.lane is None else peer_of(self.source, profile_of(self.lane))


def profile_of(lane: str) -> str:
    """Return the profile that a lane's key names."""
    return lane.split(":", 2)[1] if lane.count(":") > 1 else ""


def peer_of(source: dict[str, Any], profile: str) -> str:
    """Return the second thing recovery looks for (G27): the person and place, in a profile, which is never crossed.

    The user is whoever the lane's key would name: people whom only `user_id_alt` tells apart are not the same. Lanes of
    no profile have "main" in their keys, so that a profile of this name is told by the source (G17b).
    """
    if profile == _NO_PROFILE and source.get("profile") != _NO_PROFILE:
        profile = ""
    get = source.get
    parts = get("platform"), get("user_id_alt") or get("user_id"), get("chat_id"), get("chat_type"), get("thread_id")
    try:
        if _TEXTS.issuperset(map(type, parts)):
            return _encode([profile, *[part or None for part in parts]]).decode()
    except UnicodeEncodeError:
        pass  # a lone surrogate, which is escaped
    return _encode([profile, *map(_text, parts)]).decode()


def _text(value: object) -> str | None:
    if value is None or value == "":  # hosts write what is not there either way
        return None
    return str(value).encode("utf-8", "backslashreplace").decode()


# Evolve: one small function per event


def _created(session: Session, event: e.SessionCreated, time: int) -> Session:
    return _replace(
        session,
        conversation_id=event.conversation_id,
        family_id=event.family_id or event.conversation_id,
        lane=event.lane,
        source=event.source,
        created_at=time,
        parent_session_id=event.parent_session_id,
        relation=event.relation,
    )


def _ended(session: Session, event: e.SessionEnded, time: int) -> Session:
    return _replace(session, end_reason=event.end_reason, ended_at=time)


def _reopened(session: Session, _event: e.SessionReopened, _time: int) -> Session:
    return _replace(session, end_reason=None, ended_at=None)


def _claimed(session: Session, event: e.SessionClaimed, _time: int) -> Session:
    return _replace(session, lane=event.lane, source=session.source if event.source is None else event.source)


def _compressed(session: Session, event: e.SessionCompressed, time: int) -> Session:
    return _replace(session, end_reason=COMPRESSION, ended_at=time, child_session_id=event.child_session_id)


def _appended(session: Session, _event: Content, _time: int) -> Session:
    return _replace(session, live=session.live + 1)


def _history(session: Session, live: int) -> Session:
    # `version` is still that of the event before: the history begins with this one, the next.
    return _replace(session, live=live, undone_at=0, history_from=session.version + 1)


def _rewritten(session: Session, event: e.TranscriptRewritten, _time: int) -> Session:
    inherited = 0 if event.inherited is None else len(event.inherited)
    after = _history(session, len(event.messages) + inherited)
    # What a fork took from elsewhere is no longer its history: those platform ids are free here (G47a).
    return _replace(after, forked_from=None, forked_at=0) if event.cause == "rewrite" else after


def _forked(session: Session, event: e.SessionForked, _time: int) -> Session:
    forked = _replace(session, forked_from=event.conversation_id, forked_at=event.position)
    return _history(forked, len(event.inherited))


def _rewound(session: Session, event: e.TranscriptRewound, _time: int) -> Session:
    return _replace(session, live=max(0, session.live - event.rewound_count), undone_at=session.version + 1)


def _restored(session: Session, event: e.TranscriptRestored, _time: int) -> Session:
    return _replace(session, live=session.live + event.restored_count, undone_at=event.before)


def _imported(session: Session, event: e.SessionImported, _time: int) -> Session:
    before = session.imported.get(event.source, Imported())
    seen = before.seen if event.seen is None else event.seen
    return _replace(session, imported={**session.imported, event.source: Imported(event.row, seen)})


def _titled(session: Session, event: e.SessionTitled, _time: int) -> Session:
    return _replace(session, title=event.title, title_is_auto=event.auto)


def _deleted(session: Session, _event: c.SessionDeleted, time: int) -> Session:
    """End a session for good and give its title free."""
    return _replace(session, deleted=True, title=None, title_is_auto=False, end_reason=DELETED, ended_at=time)


def _gone(session: Session, _event: c.AgentSessionDeleted, time: int) -> Session:
    """Remember that an agent's session was deleted there; one that was never here is a deleted one here too."""
    if session.version:
        return _replace(session, gone=True)
    own = session.session_id
    deleted = _deleted(session, c.SessionDeleted(), time)
    return _replace(deleted, gone=True, conversation_id=own, family_id=own, created_at=time)


def _erased(session: Session, event: Erased, time: int) -> Session:
    """Keep what is left of an event without its payload: that it was there, and when."""
    match event.topic:
        case e.SessionCreated.TOPIC:
            own = session.session_id
            return _replace(session, conversation_id=own, family_id=own, created_at=time)
        case (
            e.MessageAppended.TOPIC | e.MessageRewritten.TOPIC
        ):  # it keeps its place, so that what counts places still counts right
            return _appended(session, event, time)
        case e.TranscriptRewritten.TOPIC | e.SessionForked.TOPIC:  # what it replaced does not come back
            return _history(session, 0)
        case e.SessionEnded.TOPIC:
            return _replace(session, end_reason=ERASED, ended_at=time)
        case e.SessionReopened.TOPIC:
            return _replace(session, end_reason=None, ended_at=None)
    return session


_EVOLVE: dict[type, Callable[[Session, Any, int], Session]] = {
    e.SessionCreated: _created,
    e.SessionEnded: _ended,
    e.SessionReopened: _reopened,
    e.SessionClaimed: _claimed,
    e.SessionCompressed: _compressed,
    e.SessionForked: _forked,
    e.MessageAppended: _appended,
    e.MessageRewritten: _appended,
    e.TranscriptRewritten: _rewritten,
    e.TranscriptRewound: _rewound,
    e.TranscriptRestored: _restored,
    e.SessionTitled: _titled,
    e.SessionImported: _imported,
    c.SessionDeleted: _deleted,
    c.AgentSessionDeleted: _gone,
    Erased: _erased,
    Archived: _appended,
}


def evolve(session: Session, event: Content, time: int, version: int) -> Session:
    """Return the head after an event; one that says nothing about it moves only its version."""
    step = _EVOLVE.get(type(event))
    changed = session if step is None else step(session, event, time)
    return _replace(changed, version=version)


def with_messages(head: Session, version: int, others: int = 0) -> Session:
    """Return the head at a version: nothing is between but messages, and `others` events that say nothing about it."""
    return _replace(head, live=head.live + version - head.version - others, version=version)


# Rules


def ending(session: Session, reason: str) -> e.SessionEnded | None:
    """Return the end of a session: the first reason wins, unless a deliberate one replaces an accidental one (G44)."""
    if session.end_reason is None or (session.end_reason in ACCIDENTAL and reason not in ACCIDENTAL):
        return e.SessionEnded(end_reason=reason)
    return None


def claiming(session: Session, lane: str, source: dict[str, Any] | None) -> list[Event]:
    """Return what makes a session live and the lane's own; nothing if it is both already."""
    events: list[Event] = []
    if session.end_reason is not None:
        events.append(e.SessionReopened(previous_end_reason=session.end_reason))
    if session.lane != lane or (source is not None and session.peer != peer_of(source, profile_of(lane))):
        events.append(e.SessionClaimed(lane=lane, source=source))
    return events


def live_tip(session: Session, find: Callable[[str], Session | None]) -> Session:
    """Return the session that goes on for a compressed one (G20); itself, if it was not compressed."""
    seen = {session.session_id}
    while (into := session.compressed_into) is not None and into not in seen:
        seen.add(into)
        session = find(into) or session
    return session
