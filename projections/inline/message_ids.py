"""The platforms' message ids: what makes an append idempotent (G47), once per conversation and not once per segment."""

from collections.abc import Iterable, Sequence
from typing import Any, TypeGuard

from engine.domain import events as e
from engine.domain.encoding import Archived, Content, Erased
from engine.domain.session import Session
from engine.log.protocol import Queries
from projections.inline.changes import Change
from projections.inline.sessions import find_session
from projections.inline.states import ask, number
from projections.inline.texts import storable
from projections.inline.transcripts import inherited_ids

TABLES = (
    """CREATE TABLE message_ids (  -- The platforms' message ids: what makes an append idempotent.
    conversation_id TEXT NOT NULL,     -- stays the same when the session is compressed
    message_id      TEXT NOT NULL,     -- the platform's
    copied_at       INTEGER NOT NULL,  -- 0 where it was appended, which is once; the position of one that was rewritten
    session_id      TEXT NOT NULL,     -- whose stream has it
    position        INTEGER NOT NULL,  -- of the event that brought it
    PRIMARY KEY (conversation_id, message_id, copied_at)
)""",
)
KEYS = {"message_ids": "conversation_id, message_id, copied_at"}
NAMES = tuple(KEYS)

_KNOWN = (
    "SELECT position, copied_at FROM message_ids WHERE conversation_id = ? AND message_id = ? ORDER BY position LIMIT 1"
)
_NEW = "INSERT INTO message_ids VALUES (?,?,0,?,?)"
_COPIED = "INSERT INTO message_ids VALUES (?,?,?,?,?) ON CONFLICT (conversation_id, message_id, copied_at) DO NOTHING"
_FREED = "DELETE FROM message_ids WHERE conversation_id = ? AND session_id = ?"
_FEW, _MANY = 8, 500
_FREED_AT = {
    count: f"DELETE FROM message_ids WHERE conversation_id = ? AND position IN ({','.join('?' * count)})"
    for count in (_FEW, _MANY)
}


def has_message(reads: Queries, session: Session, message_id: str) -> bool:
    """Return True if a platform id was ever appended to a session's conversation, or to what it was forked from."""
    wanted, conversation = storable(message_id), _conversation(session)
    current: Session | None = session
    fork: Session | None = None
    while current is not None:
        rows = ask(reads, NAMES[0], _KNOWN, (conversation, wanted))
        if rows and (fork is None or _has(reads, fork, message_id, *rows[0])):
            return True
        origin = _fork_of(reads, current)
        if origin is None or origin.forked_from is None:
            return False
        fork = origin if fork is None or origin.forked_at < fork.forked_at else fork
        current = find_session(reads, origin.parent_session_id or "")
        conversation = origin.forked_from
    return False


def _has(reads: Queries, fork: Session, message_id: str, position: object, copied_at: object) -> bool:
    """Return True if a message of another conversation was recorded before a fork was made from there.

    The messages of a summary share one position: if a fork begins among them, its history says which it has.
    """
    at = number(NAMES[0], message_id, position)
    if at != fork.forked_at or not copied_at:
        return at <= fork.forked_at
    ids = inherited_ids(reads, fork).get(at)
    return ids is None or message_id in ids


def _fork_of(reads: Queries, session: Session) -> Session | None:
    """Return the session that began a conversation, which knows what it was forked from."""
    if session.conversation_id in (session.session_id, ""):
        return session
    return find_session(reads, session.conversation_id)


def changes_of(session: Session, event: Content, position: int) -> Sequence[Change]:
    """Return what an event does to the ids of a session's conversation.

    A rewrite frees the ids of the messages it leaves out: the host said what the history is, and a message
    that is sent again must not vanish (G47a). Compression keeps them all.
    """
    own, conversation = session.session_id, _conversation(session)
    if isinstance(event, e.MessageAppended) or _was(event, e.MessageAppended):
        message_id = event.message_id
        return [] if message_id is None else [(_NEW, (conversation, storable(message_id), own, position))]
    if isinstance(event, e.MessageRewritten) or _was(event, e.MessageRewritten):
        return _copied(conversation, own, position, [event.message_id])
    if isinstance(event, e.TranscriptRewritten):
        freed = [] if event.cause == "compress" else [(_FREED, (conversation, own))]
        given = [message.get("message_id") for message in event.messages]
        return [*freed, *_freed_at(conversation, event.freed), *_copied(conversation, own, position, given)]
    if isinstance(event, Erased) and event.topic == e.TranscriptRewritten.TOPIC:  # what it replaced is still gone
        return [(_FREED, (conversation, own))]
    return []


def _was(event: Content, kind: type[e.MessageAppended] | type[e.MessageRewritten]) -> TypeGuard[Archived]:
    """Return True for a message of some kind that is in an archive: its ids stayed."""
    return isinstance(event, Archived) and event.topic == kind.TOPIC


def _copied(conversation: str, session_id: str, position: int, message_ids: Sequence[object]) -> Sequence[Change]:
    return [
        (_COPIED, (conversation, storable(each), position, session_id, position))
        for each in message_ids
        if isinstance(each, str) and each
    ]


def erasure_of(session: Session, positions: Sequence[int]) -> Sequence[Change]:
    """Return what takes the ids of erased messages out of the table."""
    return _freed_at(_conversation(session), positions)


def _freed_at(conversation: str, positions: Sequence[int]) -> Sequence[Change]:
    count = _FEW if len(positions) <= _FEW else _MANY
    parts = [positions[first : first + count] for first in range(0, len(positions), count)]
    return [(_FREED_AT[count], (conversation, *part, *[0] * (count - len(part)))) for part in parts]


def rows_of(reads: Queries, conversation_id: str) -> list[tuple[Any, ...]]:
    """Return the rows of a conversation."""
    sql = (
        "SELECT conversation_id, message_id, copied_at, session_id, position FROM message_ids WHERE conversation_id = ?"
    )
    return ask(reads, NAMES[0], sql, (conversation_id,))


def rows_again(rows: Iterable[tuple[Any, ...]]) -> list[Change]:
    """Return what puts rows into the table as they are."""
    return [("INSERT INTO message_ids VALUES (?,?,?,?,?)", row) for row in rows]


def removal_of(sessions: Iterable[Session]) -> list[Change]:
    """Return what takes the ids of sessions out of the table, to be folded again."""
    return [(_FREED, (_conversation(session), session.session_id)) for session in sessions]


def _conversation(session: Session) -> str:
    """Return the session's conversation; one whose creation was never recorded is its own."""
    return session.conversation_id or session.session_id
