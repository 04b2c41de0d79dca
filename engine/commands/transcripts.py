"""What a host does to a session's messages (G46 to G51)."""

from typing import Any, cast

from engine.domain import events as e
from engine.domain.session import live_tip
from engine.domain.transcript import text_of, undo_point
from engine.work import FIRST_POSITION, POSITIONS, Work, grouped
from projections.transcripts import messages_of


@grouped
def append(work: Work, session_id: str, messages: list[e.MessageAppended]) -> list[int]:
    """Append messages. A platform id that is known already adds nothing (G47).

    A session that was compressed meanwhile goes on in its child: there the message will be seen (G42).
    """
    session = live_tip(work.known(session_id), work.session)
    for message in messages:
        if message.message_id is None or work.is_new(session.session_id, message.message_id):
            session = work.on_session(session, message)
    return cast("list[int]", POSITIONS)


@grouped
def append_one(work: Work, session_id: str, message: e.MessageAppended) -> int | None:
    append(work, session_id, [message])
    return cast("int | None", FIRST_POSITION)


def rewrite(work: Work, session_id: str, messages: list[dict[str, Any]]) -> bool:
    """Make another history live; the former one stays in the log (G50)."""
    work.on_session(work.known(session_id), e.TranscriptRewritten(messages=messages), "rewritten by the host")
    return True


def rewind(work: Work, session_id: str, turns: int) -> dict[str, Any] | None:
    """Hide everything from the n-th last user message on (G51)."""
    session = work.known(session_id)
    live = work.live(session)
    found = iter(messages_of(live))
    messages: list[dict[str, Any]] = [next(found) if each else {} for each in live]
    point = undo_point([message.get("role") for message in messages], turns)
    if point is None:
        return None
    keep, undone = point
    hidden = len(messages) - keep
    event = e.TranscriptRewound(keep=keep, rewound_count=hidden, turns_undone=undone)
    work.on_session(session, event, f"{undone} turn(s) undone by the host")
    return {
        "rewound_count": hidden,
        "turns_undone": undone,
        "target_text": text_of(messages[keep].get("content")),
    }


def restore(work: Work, session_id: str) -> int:
    """Undo the last undo; how many messages are live again."""
    session = work.known(session_id)
    if not session.hidden:
        return 0
    count = session.hidden[-1]
    work.on_session(session, e.TranscriptRestored(restored_count=count), "undo undone by the host")
    return count
