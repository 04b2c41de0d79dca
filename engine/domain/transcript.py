"""A transcript: the fold of a session's messages, and messages as objects (G49 to G51).

A message in the fold is the row that recorded it, undecoded: (version, topic, payload, position, time). Decoding
happens once, when somebody reads it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

import msgspec
from msgspec.structs import replace

from engine.domain import chat_events as c, events as e
from engine.domain.encoding import Archived, Erased, decode, encode, maybe_marked, tombstone, tombstone_digest
from engine.domain.errors import ArchivedError

Row = tuple[int, str, str | bytes, int, int]
"""Version, topic, payload, position and time of a recorded event."""

Report = Callable[[int, str], None]
"""Is told the position and the error of something that cannot be read and is left out."""

_APPENDED = e.MessageAppended.TOPIC
MESSAGES = frozenset({_APPENDED, e.MessageRewritten.TOPIC})
"""Topics of events that each are one message."""
BEGINS_HISTORY = frozenset({e.TranscriptRewritten.TOPIC, e.SessionForked.TOPIC})
"""Topics of events that replace the history before them."""

LOST: Row = (0, _APPENDED, tombstone("0" * 64, 0), 0, 0)
"""In the place of an inherited message whose history was erased."""

_COPY = '{"message":'
_ROW_BYTES = 200
"""What a row takes in memory beside its payload."""


class Said(msgspec.Struct, gc=False):
    """A message as any event has it that is one."""

    message: dict[str, Any]
    message_id: str | None = None


_read_message = msgspec.json.Decoder(Said).decode


class _History(msgspec.Struct):
    messages: list[msgspec.Raw] = []
    inherited: e.Inherited | None = None


_read_history = msgspec.json.Decoder(_History).decode
_UNREADABLE = (msgspec.MsgspecError, UnicodeError, ValueError, TypeError, KeyError, RecursionError)


class Transcript:
    """The messages of a session in the order they were appended, and what each undo has hidden."""

    def __init__(self, version: int, report: Report) -> None:
        self.version = version
        self._report = report
        self.size = 0
        self._live: list[Row] = []
        self._undone: list[tuple[int, list[Row]]] = []

    def copy(self) -> "Transcript":
        """Return the same as another object, to be folded further."""
        other = Transcript(self.version, self._report)
        other.size, other._live, other._undone = self.size, self._live.copy(), self._undone.copy()
        return other

    def live(self) -> list[Row]:
        """Return the live messages; one that was erased keeps its place."""
        return self._live.copy()

    def fold(self, rows: Sequence[Row], inherited: Sequence[Row] = ()) -> None:
        """Take in events of the stream, in order. `inherited` is what the first of them inherits."""
        if not rows:
            return
        first, topics = 0, [row[1] for row in rows]
        others = len(topics) - topics.count(_APPENDED)
        for at in (
            [at for at, topic in enumerate(topics) if topic != _APPENDED and topic not in MESSAGES] if others else ()
        ):
            self._append(rows[first:at])
            step = _STEPS.get(rows[at][1])
            if step is not None:
                step(self, rows[at], () if at else inherited)
            first = at + 1
        self._append(rows[first:])
        self.version = rows[-1][0]

    def _append(self, messages: Sequence[Row]) -> None:
        self._live += messages
        self.size += _size(messages)

    def _replace(self, row: Row, inherited: Sequence[Row]) -> None:
        try:
            messages = [*copied(row), *inherited]
        except _UNREADABLE as error:
            if tombstone_digest(row[2]) is None:  # the former history stays, as it does in the head
                self._report(row[3], str(error))
                return
            messages = []  # what an erased rewrite replaced does not come back
        self._live, self._undone = messages, []
        self.size = _size(messages)

    def _rewind(self, row: Row, _: Sequence[Row]) -> None:
        event = decode(row[1], row[2])
        if isinstance(event, e.TranscriptRewound):
            keep = max(0, len(self._live) - event.rewound_count)
            self._undone.append((keep, self._live[keep:]))
            del self._live[keep:]

    def _extend(self, row: Row, _: Sequence[Row]) -> None:
        event = decode(row[1], row[2])
        if isinstance(event, c.MessageExtended):
            for place in range(len(self._live) - 1, -1, -1):
                if self._live[place][3] == event.position:
                    before, self._live[place] = self._live[place], extended(self._live[place], [event])
                    self.size += len(self._live[place][2]) - len(before[2])
                    break

    def _restore(self, row: Row, _: Sequence[Row]) -> None:
        """Put back what the last undo hid: before what was appended since, which came later."""
        if self._undone and isinstance(decode(row[1], row[2]), e.TranscriptRestored):
            keep, hidden = self._undone.pop()
            self._live[keep:keep] = hidden


_EXTENDED = c.MessageExtended.TOPIC
_UNDOING = frozenset({e.TranscriptRewound.TOPIC, e.TranscriptRestored.TOPIC})
_STEPS = {
    e.TranscriptRewritten.TOPIC: Transcript._replace,
    e.SessionForked.TOPIC: Transcript._replace,
    e.TranscriptRewound.TOPIC: Transcript._rewind,
    e.TranscriptRestored.TOPIC: Transcript._restore,
    c.MessageExtended.TOPIC: Transcript._extend,
}


def _size(rows: Sequence[Row]) -> int:
    """Return how many bytes rows take in memory, about."""
    return sum(map(len, [row[2] for row in rows])) + _ROW_BYTES * len(rows)


def extended(row: Row, newest_first: Sequence[c.MessageExtended]) -> Row:
    """Return the row of a message with the keys that were added later; an erased one stays erased."""
    event = decode(row[1], row[2])
    if not isinstance(event, (e.MessageAppended, e.MessageRewritten)):
        return row
    message = event.message
    for each in reversed(newest_first):
        message = {**message, **each.added}
    return (*row[:2], encode(replace(event, message=message)).decode(), *row[3:])


class Extensions:
    """The keys that were added to messages, met before the messages when a stream is read from its end."""

    def __init__(self) -> None:
        self._of: dict[int, list[c.MessageExtended]] = {}

    def note(self, row: Row) -> None:
        """Take note of an event that adds keys."""
        event = decode(row[1], row[2]) if row[1] == _EXTENDED else None
        if isinstance(event, c.MessageExtended):
            self._of.setdefault(event.position, []).append(event)

    def applied(self, row: Row) -> Row:
        """Return a message's row with what was added to it."""
        added = self._of.get(row[3])
        return row if added is None else extended(row, added)


class Backwards:
    """Tells which messages of a stream are live, reading it from its end.

    `skip` are the live messages at the end that are not asked for. A restore and the undo it takes back cancel out;
    any other undo hides as many messages before it as it says.
    """

    def __init__(self, skip: int = 0) -> None:
        self.skip = skip
        self._restored = 0

    def is_live(self, row: Row) -> bool:
        """Return True for a live message that is not skipped; take note of undos and restores."""
        if row[1] in MESSAGES:
            if not self.skip:
                return True
            self.skip -= 1
        elif row[1] in _UNDOING:
            event = decode(row[1], row[2])
            if isinstance(event, e.TranscriptRestored):
                self._restored += 1
            elif isinstance(event, e.TranscriptRewound):
                if self._restored:
                    self._restored -= 1
                else:
                    self.skip += event.rewound_count
        return False


def inheritance(row: Row) -> e.Inherited | None:
    """Return what the history that begins with an event inherits."""
    if row[1] not in BEGINS_HISTORY:
        return None
    try:
        return _read_history(row[2]).inherited
    except _UNREADABLE:
        return None


def copied_if_readable(row: Row, report: Report) -> list[Row]:
    """Return the messages inside a rewritten history; none of one that was erased, or cannot be read."""
    try:
        return copied(row)
    except _UNREADABLE as error:
        if tombstone_digest(row[2]) is None:
            report(row[3], str(error))
        return []


def copied(row: Row) -> list[Row]:
    """Return the messages inside a rewritten history, each as if it had been appended there and then."""
    version, topic, state, position, time = row
    if maybe_marked(state):
        event = decode(topic, state)
        if not isinstance(event, (e.TranscriptRewritten, e.SessionForked)):
            raise TypeError(f"not the payload of a {topic} event")
        messages = event.messages if isinstance(event, e.TranscriptRewritten) else []
        texts = [encode(e.MessageAppended(message=message)).decode() for message in messages]
    else:
        texts = [f"{_COPY}{bytes(message).decode()}}}" for message in _read_history(state).messages]
    return [(version, _APPENDED, text, position, time) for text in texts]


def messages_of(rows: Sequence[Row], report: Report) -> list[dict[str, Any]]:
    """Return fresh objects of the messages that were not erased, each with its platform id and its time (G49b).

    One that cannot be read is reported and left out, and the others are served.
    """
    plain = _plain(rows)
    if plain is not None:
        return plain
    return [message for message in objects_of(rows, report) if message is not None]


def objects_of(rows: Sequence[Row], report: Report) -> list[dict[str, Any] | None]:
    """Like `messages_of`, with None in the place of a message that was erased or cannot be read."""
    return _completed([_decoded_one(row, report) for row in rows], rows)


def _plain(rows: Sequence[Row]) -> list[dict[str, Any]] | None:
    """Decode messages quickly; None if one of them is marked, erased or broken."""
    try:
        states = cast(list[str], [row[2] for row in rows])
        if not maybe_marked("".join(states)):  # a blob makes it a TypeError
            return cast(list[dict[str, Any]], _completed(map(_read_message, states), rows))
    except _UNREADABLE:
        pass  # found one by one
    return None


def _completed(events: Iterable[Said | None], rows: Sequence[Row]) -> list[dict[str, Any] | None]:
    """Return messages with their platform ids, and with the recorded time where they have none of their own."""
    found: list[dict[str, Any] | None] = []
    for event, row in zip(events, rows, strict=True):
        if event is None:
            found.append(None)
            continue
        message = event.message
        if event.message_id is not None:
            message["message_id"] = event.message_id
        if "timestamp" not in message or message["timestamp"] is None:
            message["timestamp"] = row[4] / 1e6
        found.append(message)
    return found


def _decoded_one(row: Row, report: Report) -> Said | None:
    found = decode(row[1], row[2])
    if isinstance(found, (e.MessageAppended, e.MessageRewritten)):
        return Said(found.message, found.message_id)
    if isinstance(found, Archived):
        raise ArchivedError(row[3])
    if not isinstance(found, Erased):
        report(row[3], getattr(found, "error", "not a message"))
    return None


def as_loaded(event: e.MessageAppended) -> dict[str, Any]:
    """Return a message as it comes back when it was appended: to find it among the others."""
    found = decode(_APPENDED, encode(event))
    message = cast(e.MessageAppended, found).message
    return message if event.message_id is None else {**message, "message_id": event.message_id}
