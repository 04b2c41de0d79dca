"""Transcripts: a fold of a session's own stream, from its last rewrite on. There is no second copy on disk.

In memory a message is its JSON, not its objects: small, and every reader gets objects of its own.
"""

import logging
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from engine.domain import events as e
from engine.domain.encoding import decode, mark, restore, tombstone_digest
from engine.domain.session import Session
from projections.routing import Query
from projections.sessions import PREFIX

logger = logging.getLogger("engine.projections")

_encode = msgspec.json.encode
_decode_list = msgspec.json.Decoder(list[dict[str, Any]]).decode
_OVERHEAD = 60
_MARKED = b'{"$'
_ROWS = "SELECT version, topic, state, position FROM events WHERE stream = ? AND {} ORDER BY version"


class _Appended(msgspec.Struct):
    message: msgspec.Raw
    message_id: str | None = None


class _Replaced(msgspec.Struct):
    messages: list[msgspec.Raw]


_appended = msgspec.json.Decoder(_Appended).decode
_replaced = msgspec.json.Decoder(_Replaced).decode


def _object(message: bytes) -> bytes:
    if not message.startswith(b"{"):
        raise TypeError("a message must be a JSON object")
    return message


def _copied(state: str | bytes) -> list[bytes]:
    return [_object(bytes(message)) for message in _replaced(state).messages]


_ERASED = b""


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
        try:
            found = _appended(state)
            raw = bytes(found.message)
            if found.message_id is not None:
                if raw.startswith(_MARKED):
                    raise msgspec.ValidationError("the message is marked as a whole")  # noqa: TRY301 - one slow path
                raw = raw[:-1] + b',"message_id":' + _encode(found.message_id) + b"}"
        except msgspec.ValidationError:  # the id or the keys are marked text
            event = decode(topic, state)
            if not isinstance(event, e.MessageAppended):
                raise
            raw = _encode(mark({**event.message, "message_id": event.message_id}))
        self._add(_object(raw))

    def _add(self, message: bytes) -> None:
        self._messages.append(message)
        self.size += len(message) + _OVERHEAD

    def _replace(self, _topic: str, state: str | bytes) -> None:
        self._replace_all(_copied(state))  # if they cannot be read, the former history stays, as it does in the head

    def _replace_all(self, messages: Iterable[bytes]) -> None:
        self._messages, self._hidden, self._undone, self.size = [], set(), [], 0
        self._add_all(messages)

    def _extend(self, _topic: str, state: str | bytes) -> None:
        self._add_all(_copied(state))

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


def messages_of(live: Sequence[bytes]) -> list[dict[str, Any]]:
    """Fresh objects of the messages that were not erased."""
    joined = b"[" + b",".join(filter(None, live)) + b"]"
    found = _decode_list(joined)
    return [restore(message) for message in found] if b'"$' in joined else found


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
