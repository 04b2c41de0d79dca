"""Reading a session as a web client sees it: whole, or without its messages (W1, W4)."""

from collections.abc import Callable
from typing import TypeVar

from engine.archived import saying_where
from engine.chat_session import ChatSession, ChatSummary
from engine.chat_values import is_chat_id
from engine.domain.chat import Chat
from engine.domain.chat_messages import said
from engine.domain.chat_rows import fields_of
from engine.domain.session import Session
from engine.errors import UnknownSessionError
from engine.log.protocol import Queries
from engine.reader import SessionReader
from projections.inline.chat_lists import context_of, tool_calls_of
from projections.inline.chats import find_chat
from projections.inline.last_said import last_said
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
            **fields_of(head, chat, rows[-1][4] if rows else 0),
        )

    def _summary(self, head: Session, chat: Chat) -> ChatSummary:
        newest = last_said(self._reads, head)
        fields = fields_of(head, chat, newest.recorded_at)
        last = fields["updated_at"] if newest.time is None else newest.time
        return ChatSummary(message_count=head.live, last_message_at=last, **fields)
