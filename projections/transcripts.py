"""Transcripts: a fold of a session's own stream, from its last rewrite on. There is no second copy on disk.

In memory a message is JSON, not objects: small, and every reader gets objects of its own.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, cast

import msgspec

from engine.domain import events as e
from engine.domain.encoding import decode, encode, maybe_marked, tombstone_digest
from engine.domain.session import Session
from engine.domain.transcript import normalised
from projections.inline import NAME as INLINE
from projections.routing import Query
from projections.sessions import PREFIX

logger = logging.getLogger("engine.projections")

_OVERHEAD = 60
_ROWS = (
    "SELECT version, topic, state, position FROM events WHERE stream = ? AND {} "
    f"AND position NOT IN (SELECT position FROM quarantine WHERE projection = '{INLINE}') ORDER BY version"
)


class _Replaced(msgspec.Struct):
    messages: list[msgspec.Raw]


_message = msgspec.json.Decoder(e.MessageAppended).decode
_replaced = msgspec.json.Decoder(_Replaced).decode
_COPY = b'{"type":"' + e.MessageAppended.TOPIC.encode() + b'","message":'
_ERASED = b""


def _copied(topic: str, state: str | bytes) -> list[bytes]:
    """The messages of a rewrite, fork or import, each in the form of an appended one."""
    if maybe_marked(state):
        event = decode(topic, state)
        if not isinstance(event, (e.TranscriptRewritten, e.SessionForked, e.SessionImported)):
            raise TypeError(f"not the payload of a {topic} event")
        return [encode(e.MessageAppended(message=message)) for message in event.messages]
    found = [_COPY + bytes(message) + b"}" for message in _replaced(state).messages]
    for message in found:
        _message(message)
    return found


class Transcript:
    """The messages of a session in the order they were appended, and which of them are hidden."""

    def __init__(self) -> None:
        self.version = 0
        self.erased = 0
        self.size = 0
        self._messages: list[bytes] = []
        self._hidden: set[int] = set()
        self._undone: list[list[int]] = []

    def live(self) -> list[bytes]:
        """The live messages; one that was erased is empty, and keeps its place."""
        if not self._hidden:
            return self._messages.copy()
        return [message for index, message in enumerate(self._messages) if index not in self._hidden]

    def fold(self, rows: Iterable[tuple[int, str, str | bytes, int]]) -> None:
        """Take in events of the stream; one that cannot be read is reported, and the others still count."""
        for version, topic, state, position in rows:
            step = _STEPS.get(topic)
            if step is not None:
                try:
                    step(self, topic, state)
                except (msgspec.MsgspecError, UnicodeError, ValueError, TypeError, KeyError) as error:
                    if tombstone_digest(state) is None:
                        logger.warning("the message at position %d cannot be read and is left out: %s", position, error)
                    elif topic == e.MessageAppended.TOPIC:
                        self._add(_ERASED)
                    elif step is Transcript._replace:
                        self._replace_all([])
            self.version = version

    def _append(self, topic: str, state: str | bytes) -> None:
        kept = state.encode() if isinstance(state, str) else state
        if maybe_marked(kept):
            event = decode(topic, kept)
            if not isinstance(event, e.MessageAppended):
                raise TypeError(f"not the payload of a {topic} event")
            kept = encode(event)
        else:
            _message(kept)
        self._add(kept)

    def _add(self, message: bytes) -> None:
        self._messages.append(message)
        self.size += len(message) + _OVERHEAD

    def _replace(self, topic: str, state: str | bytes) -> None:
        # If they cannot be read, the former history stays, as it does in the head.
        self._replace_all(_copied(topic, state))

    def _replace_all(self, messages: Iterable[bytes]) -> None:
        self._messages, self._hidden, self._undone, self.size = [], set(), [], 0
        self._add_all(messages)

    def _extend(self, topic: str, state: str | bytes) -> None:
        self._add_all(_copied(topic, state))

    def _add_all(self, messages: Iterable[bytes]) -> None:
        for message in messages:
            self._add(message)

    def _rewind(self, topic: str, state: str | bytes) -> None:
        event = decode(topic, state)
        if isinstance(event, e.TranscriptRewound):
            live = [index for index in range(len(self._messages)) if index not in self._hidden]
            self._undone.append(live[event.keep :])
            self._hidden.update(live[event.keep :])

    def _restore(self, _topic: str, _state: str | bytes) -> None:
        if self._undone:
            self._hidden.difference_update(self._undone.pop())


_STEPS = {
    e.MessageAppended.TOPIC: Transcript._append,
    e.TranscriptRewritten.TOPIC: Transcript._replace,
    e.SessionForked.TOPIC: Transcript._replace,
    e.SessionImported.TOPIC: Transcript._extend,
    e.TranscriptRewound.TOPIC: Transcript._rewind,
    e.TranscriptRestored.TOPIC: Transcript._restore,
}


def stored(message: object) -> dict[str, Any]:
    """A message as it comes back when it was appended: to find it among the others."""
    kept, message_id = normalised(message)
    return messages_of([encode(e.MessageAppended(message=kept, message_id=message_id))])[0]


def messages_of(live: Iterable[bytes]) -> list[dict[str, Any]]:
    """Fresh objects of the messages that were not erased, each with its platform id inside."""
    messages = []
    for kept in live:
        if kept:
            if maybe_marked(kept):
                found = cast(e.MessageAppended, decode(e.MessageAppended.TOPIC, kept))
            else:
                found = _message(kept)
            if found.message_id is not None:
                found.message["message_id"] = found.message_id
            messages.append(found.message)
    return messages


def live_inside(query: Query, session: Session) -> list[bytes]:
    """The live messages inside a transaction, which may yet fail: nothing of them is kept in memory."""
    transcript = Transcript()
    from_version = max(session.history_from - 1, 0)
    bounds = (PREFIX + session.session_id, from_version, session.version)
    transcript.fold(query(_ROWS.format("version > ? AND version <= ?"), bounds))
    return transcript.live()


def transcript_at(query: Query, session_id: str, position: int) -> list[dict[str, Any]]:
    """The messages that were live when the log was at a position, whatever happened since."""
    transcript = Transcript()
    transcript.fold(query(_ROWS.format("position <= ?"), (PREFIX + session_id, position)))
    return messages_of(transcript.live())


class Transcripts:
    """Folds of the sessions in use, bounded by the bytes they take; brought up to date by the events since."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._cached: OrderedDict[str, Transcript] = OrderedDict()
        self._mutex = threading.Lock()
        self.size = 0
        self.hits = 0
        self.misses = 0

    def live(self, query: Query, session: Session) -> list[bytes]:
        """The live messages of a session as of its head."""
        stream = PREFIX + session.session_id
        with self._mutex:
            transcript = self._cached.pop(session.session_id, None)
            if transcript is not None:
                self.size -= transcript.size
            if transcript is None or transcript.version > session.version or transcript.erased != session.erased:
                transcript = Transcript()
                transcript.version = max(session.history_from - 1, 0)
                transcript.erased = session.erased
                self.misses += 1
            else:
                self.hits += 1
            if transcript.version < session.version:
                rows = query(
                    _ROWS.format("version > ? AND version <= ?"), (stream, transcript.version, session.version)
                )
                transcript.fold(rows)
                transcript.version = session.version
            self._keep(session.session_id, transcript)
            return transcript.live()

    def _keep(self, session_id: str, transcript: Transcript) -> None:
        self._cached[session_id] = transcript
        self.size += transcript.size
        while self.size > self._limit and self._cached:
            _, oldest = self._cached.popitem(last=False)
            self.size -= oldest.size

    def __len__(self) -> int:
        return len(self._cached)
