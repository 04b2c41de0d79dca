"""Commands on a session's messages (G46 to G51)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

from engine.command import Command
from engine.domain import events as e
from engine.domain.keys import check_session_id
from engine.domain.messages import UndoPoint, appended, text_of, undo_point
from engine.domain.rewriting import FormerHistory
from engine.domain.session import Session
from engine.domain.transcript import objects_of
from engine.log.protocol import Queries
from engine.validation import checked_list
from engine.work import Work
from projections.inline.backwards import live_now, newest_first
from projections.inline.sessions import find_tip
from projections.inline.transcripts import inherited_ids, report, undo_of


def append_to_transcript(session_id: str, message: Mapping[str, Any], turn: str | None) -> Command[int | None]:
    event = appended(message)
    return Command("append_to_transcript", _append_one, (check_session_id(session_id), event, turn), grouped=True)


def _append_one(work: Work, session_id: str, message: e.MessageAppended, turn: str | None) -> int | None:
    return _append(work, _writable(work, session_id, turn), message)[1]


def append_messages(session_id: str, messages: Sequence[Mapping[str, Any]], turn: str | None) -> Command[list[int]]:
    events = [appended(message) for message in checked_list(messages)]
    return Command("append_messages", _append_all, (check_session_id(session_id), events, turn), grouped=True)


def _append_all(work: Work, session_id: str, messages: list[e.MessageAppended], turn: str | None) -> list[int]:
    session = _writable(work, session_id, turn)
    positions = []
    for message in messages:
        session, position = _append(work, session, message)
        if position is not None:
            positions.append(position)
    return positions


def _writable(work: Work, session_id: str, turn: str | None) -> Session:
    """Return where a message goes: after a compression, where the conversation goes on (G42)."""
    session = find_tip(work.transaction, work.known(session_id), work.session)
    work.check_turn(turn, session)
    return session


def _append(work: Work, session: Session, message: e.MessageAppended) -> tuple[Session, int | None]:
    """Append a message, unless its platform id is known already (G47); return its position."""
    if message.message_id is not None and not work.reserve_message_id(session, message.message_id):
        return session, None
    return work.on_session(session, message), work.position


def rewrite_transcript(session_id: str, messages: Sequence[Mapping[str, Any]], turn: str | None) -> Command[bool]:
    events = [appended(message) for message in checked_list(messages)]
    return Command("rewrite_transcript", _rewrite, (check_session_id(session_id), events, turn))


def _rewrite(work: Work, session_id: str, messages: list[e.MessageAppended], turn: str | None) -> bool:
    """Make another history live; the former one stays in the log (G50).

    A message that stood in the former one says where it was recorded first, so that erasing it erases it here too.
    """
    session = work.known(session_id)
    work.check_turn(turn, session)
    rewrite(work, session, messages)
    return True


def rewrite(work: Work, session: Session, messages: list[e.MessageAppended]) -> Session:
    """Make another history of a session live; return its head."""
    key = "history", session.session_id, session.version, session.live
    former = work.look(key, partial(_former, session))
    places = former.recognised(messages)
    why = "rewritten by the host"
    session = work.on_session(session, e.TranscriptRewritten(freed=former.left_out(places)), why)
    for message, place in zip(messages, places, strict=True):
        origin = 0 if place is None else place.origin
        again = e.MessageRewritten(message=message.message, message_id=message.message_id, copy_of=origin)
        session = work.on_session(session, again, why)
    return session


def _former(session: Session, reads: Queries, budget: int | None) -> FormerHistory:
    live = list(newest_first(reads, live_now(session), report, budget))
    return FormerHistory(reversed(live), [at for at, ids in inherited_ids(reads, session).items() if ids])


Cause = Literal["undo", "retry", "truncate"]


def rewind_session(
    session_id: str, n: int, cause: Cause = "undo", turn: str | None = None
) -> Command[dict[str, Any] | None]:
    if isinstance(n, bool) or not isinstance(n, int):
        raise ValueError(f"n must be a number of turns, not {n!r}")
    return Command("rewind_session", _rewind, (check_session_id(session_id), n, cause, turn))


def _rewind(work: Work, session_id: str, turns: int, cause: Cause, turn: str | None) -> dict[str, Any] | None:
    """Hide everything from the n-th last user message on (G51)."""
    session = work.session(session_id)
    if session is None:
        return None
    work.check_turn(turn, session)
    key = "undo", session_id, session.version, session.live, turns
    point = work.look(key, partial(_undo_point, session, turns))
    if point is None:
        return None
    event = e.TranscriptRewound(
        keep=session.live - point.hidden,
        rewound_count=point.hidden,
        turns_undone=point.turns,
        cause=cause,
        before=session.undone_at,
    )
    work.on_session(session, event, f"{point.turns} turn(s) undone by the host")
    return {
        "rewound_count": point.hidden,
        "turns_undone": point.turns,
        "target_text": text_of(point.target.get("content")),
        "target_message": dict(point.target),
    }


def _undo_point(session: Session, turns: int, reads: Queries, budget: int | None) -> UndoPoint | None:
    """Find where an undo cuts, reading the transcript from its end."""
    rows = newest_first(reads, live_now(session), report, budget)
    return undo_point((objects_of([row], report)[0] for row in rows), turns)


def restore_rewound(session_id: str) -> Command[int]:
    return Command("restore_rewound", _restore, (check_session_id(session_id),))


def _restore(work: Work, session_id: str) -> int:
    """Undo the last undo; return how many messages are live again."""
    session = work.known(session_id)
    undo = undo_of(work.transaction, session)
    if undo is None:
        return 0
    event = e.TranscriptRestored(restored_count=undo.rewound_count, before=undo.before)
    work.on_session(session, event, "undo undone by the host")
    return undo.rewound_count
