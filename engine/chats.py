"""Reading a session as a web client sees it: whole, or without its messages (W1, W4)."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from engine.archived import saying_where
from engine.chat_session import ChatSession, ChatSummary
from engine.chat_values import ATTRIBUTES, is_chat_id
from engine.domain.chat import Chat
from engine.domain.chat_messages import said
from engine.domain.chat_rows import UNTITLED, last_message_time
from engine.domain.errors import ArchivedError
from engine.domain.session import Session
from engine.domain.transcript import Row
from engine.errors import UnknownSessionError
from engine.log.protocol import Queries
from engine.reader import SessionReader
from projections.inline.backwards import live_now, newest_first
from projections.inline.chat_lists import context_of, tool_calls_of
from projections.inline.chats import find_chat
from projections.inline.sessions import find_session
from projections.inline.transcripts import report

T = TypeVar("T")
_TRIES = 5


class ChatReader:
    """Reads the sessions of a store for a web client. It writes nothing."""

    def __init__(self, reader: SessionReader) -> None:
        self._reader = reader
        self._reads: Queries = reader.log.reader

    def whole(self, session_id: str) -> ChatSession:
        """Return a session with its messages, tool calls and context."""
        return self._steady(session_id, self._whole)

    def summary(self, session_id: str) -> ChatSummary:
        """Return a session without its messages."""
        return self._steady(session_id, self._summary)

    def id_of(self, session_id: str) -> str:
        """Return the id that a session goes by now."""
        return find_chat(self._reads, self._head(session_id).session_id).id

    def _steady(self, session_id: str, read: Callable[[Session, Chat], T]) -> T:
        """Read a session at one version, as far as others who write let it be."""
        head = self._head(session_id)
        for _ in range(_TRIES):
            found = read(head, find_chat(self._reads, head.session_id))
            before, head = head, self._head(session_id)
            if head.version == before.version:
                return found
        return read(head, find_chat(self._reads, head.session_id))

    def _head(self, session_id: str) -> Session:
        head = find_session(self._reads, session_id) if is_chat_id(session_id) else None
        if head is None or head.deleted:
            raise UnknownSessionError(session_id)
        return head

    def _whole(self, head: Session, chat: Chat) -> ChatSession:
        rows = self._reader.live_rows(head.session_id)
        with saying_where(self._reads):
            messages = said(rows, report)
        return ChatSession(
            messages=messages,
            context_messages=context_of(self._reads, chat, head.version),
            tool_calls=tool_calls_of(self._reads, chat, head.version),
            **fields_of(head, chat, rows[-1] if rows else None),
        )

    def _summary(self, head: Session, chat: Chat) -> ChatSummary:
        rows = partial(newest_first, self._reads, live_now(head), report)
        newest = next(iter(rows()), None) if head.live else None
        fields = fields_of(head, chat, newest)
        time = last_message_time(_messages(rows())) if head.live else None
        return ChatSummary(
            message_count=head.live, last_message_at=fields["updated_at"] if time is None else time, **fields
        )


def _messages(rows: Iterator[Row]) -> Iterator[object]:
    with suppress(ArchivedError):  # they are listed as before, with what is known of them
        for row in rows:
            yield said([row], report)[0]


def fields_of(head: Session, chat: Chat, newest: Row | None) -> dict[str, Any]:
    """Return what a whole session and a summary have in common. Times are epoch seconds.

    A session that no client has touched was updated with its newest message, or when it was created if that is later.
    """
    known: Mapping[str, Any] = chat.attributes
    recorded = head.created_at if newest is None else max(head.created_at, newest[4])
    fields = {name: value for name, value in known.items() if name in ATTRIBUTES and value is not None}
    if "parent_session_id" not in known and head.relation != "copy":
        fields["parent_session_id"] = head.parent_session_id
    return {
        **fields,
        "session_id": chat.id,
        "title": head.title or UNTITLED,
        "created_at": head.created_at / 1e6,
        "updated_at": (chat.updated_at or recorded) / 1e6,
        "pinned": chat.pinned,
        "archived": chat.archived,
        "project_id": chat.project_id,
        "input_tokens": chat.input_tokens,
        "output_tokens": chat.output_tokens,
        "estimated_cost": chat.estimated_cost,
        "active_stream_id": chat.stream_id,
        "pending_user_message": chat.pending_message,
        "pending_attachments": list(chat.pending_attachments),
        "pending_started_at": chat.started_at,
        "version": head.version,
        "extra": {name: value for name, value in known.items() if name not in ATTRIBUTES},
    }
