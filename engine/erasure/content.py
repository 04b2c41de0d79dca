"""Events with words, names or ids of people in them, told from those that only say that something happened."""

from collections.abc import Mapping
from typing import Any

from engine.domain import chat_events as c, events as e
from engine.domain.encoding import Content, Erased
from engine.domain.transcript import MESSAGES

_NOBODYS = frozenset(
    kind.TOPIC
    for kind in (
        c.AgentSessionDeleted,
        c.ProjectDeleted,
        c.SessionArchived,
        c.SessionDeleted,
        c.SessionMoved,
        c.SessionPinned,
        c.SessionTouched,
        c.UsageCarried,
        e.ExpiryFinalized,
        e.LaneAdvanced,
        e.LanePruned,
        e.LaneReleased,
        e.LaneSuspended,
        e.LaneSwitched,
        e.LaneTouched,
        e.NoticesConsumed,
        e.ResumeCleared,
        e.ResumeMarked,
        e.SessionCompressed,
        e.SessionEnded,
        e.SessionForked,
        e.SessionImported,
        e.SessionReopened,
        e.TranscriptRestored,
        e.TranscriptRewound,
        e.TurnInterrupted,
        e.TurnRenewed,
        e.UsageRecorded,
    )
)
"""Topics of events that are made of ids, times and numbers. One that is not known here counts as somebody's."""

_SENDERS = ("user_id", "sender_id", "author_id", "from_id", "user_id_alt")
_OF_A_PERSON = ("user_id", "user_id_alt", "user_name", "message_id")


def is_somebodys(event: Content) -> bool:
    """Return True if an event of a lane or a session has something in it that an erasure is for."""
    match event:
        case Erased():
            return False
        case e.TurnBegun():
            return event.user_message is not None or bool(event.attachments)
        case e.TurnEnded():
            return event.error is not None
        case e.TranscriptRewritten():
            return bool(event.messages)
    return event.topic not in _NOBODYS


def is_message(event: Content) -> bool:
    """Return True for an event that is one message."""
    return event.topic in MESSAGES


def source_of(event: Content) -> Mapping[str, Any] | None:
    """Return where an event says that somebody spoke from."""
    found = getattr(event, "origin", None) or getattr(event, "source", None)
    return found if isinstance(found, Mapping) else None


def is_theirs(source: Mapping[str, Any], user_id: str, platform: str | None) -> bool:
    """Return True if a source is a person's."""
    known = user_id in (source.get("user_id"), source.get("user_id_alt"))
    return known and platform in (None, source.get("platform"))


def says_it_is_theirs(message: Mapping[str, Any], user_id: str) -> bool:
    """Return True for a message of a session that several share which names the person as its sender."""
    return any(message.get(name) == user_id for name in _SENDERS)


def nobodys(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a source without the person: the place alone."""
    return {name: value for name, value in source.items() if name not in _OF_A_PERSON}
