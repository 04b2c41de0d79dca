"""Events with words, names or ids of people in them, told from those that only say that something happened."""

from collections.abc import Mapping
from typing import Any

from engine.domain import chat_events as c, events as e
from engine.domain.encoding import Content, Erased, Unreadable
from engine.domain.session import ACCIDENTAL, COMPRESSION, DELETED
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
        e.LaneSuspended,
        e.LaneSwitched,
        e.LaneTouched,
        e.NoticesConsumed,
        e.ResumeCleared,
        e.SessionCompressed,
        e.SessionForked,
        e.SessionImported,
        e.TranscriptRestored,
        e.TranscriptRewound,
        e.TurnInterrupted,
        e.TurnRenewed,
        e.UsageRecorded,
    )
)
"""Topics of events that are made of ids, times and numbers. One that is not known here counts as somebody's."""

_WORDS = ACCIDENTAL | {
    COMPRESSION,
    DELETED,
    "daily",
    "expired",
    "idle",
    "missing",
    "restart_interrupted",
    "restart_timeout",
    "resume_pending_expired",
    "session_reset",
    "session_switch",
    "suspended",
}
"""The engine's own reasons. Any other text was given by the host, and may be somebody's words."""

_OF_A_PERSON = ("user_id", "user_id_alt", "user_name", "message_id")


def is_somebodys(event: Content) -> bool:
    """Return True if an event of a lane or a session has something in it that an erasure is for."""
    match event:
        case Erased():
            return False
        case Unreadable():  # nobody knows what it says
            return True
        case e.TurnBegun():
            return event.user_message is not None or bool(event.attachments)
        case e.TurnEnded():
            return event.error is not None
        case e.TranscriptRewritten():
            return bool(event.messages)
        case e.SessionEnded():
            return event.end_reason not in _WORDS
        case e.SessionReopened():
            return event.previous_end_reason is not None and event.previous_end_reason not in _WORDS
        case e.LaneReleased():
            return event.cause not in _WORDS
        case e.ResumeMarked():
            return event.resume_reason not in _WORDS
    return event.topic not in _NOBODYS


def is_message(event: Content) -> bool:
    """Return True for an event that is one message."""
    return event.topic in MESSAGES


def source_of(event: Content) -> Mapping[str, Any] | None:
    """Return where an event says that somebody spoke from."""
    found = getattr(event, "origin", None) or getattr(event, "source", None)
    return found if isinstance(found, Mapping) else None


def nobodys(source: Mapping[str, Any]) -> dict[str, Any]:
    """Return a source without the person: the place alone."""
    return {name: value for name, value in source.items() if name not in _OF_A_PERSON}
