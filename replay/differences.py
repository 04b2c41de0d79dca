"""Differences between two moments: lanes, sessions and projects, and messages that came and went (R10)."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from engine.domain import events as e
from engine.domain.chat_events import MessageExtended, SessionDeleted
from engine.domain.encoding import encode
from engine.domain.session import Session
from engine.domain.streams import SESSION, session_stream
from engine.domain.transcript import MESSAGES, Row
from engine.log.sqlite.eventlog import EventLog
from projections.inline.fold import Fold
from projections.inline.past import quarantined_at
from projections.inline.single import transcript_at
from projections.inline.streams_at import fold_streams
from projections.inline.transcripts import report
from replay.past import check_position
from replay.said import told
from replay.selecting import Selection, stream_filter

_HISTORY = frozenset(
    each.TOPIC
    for each in (
        e.TranscriptRewritten,
        e.SessionForked,
        e.TranscriptRewound,
        e.TranscriptRestored,
        e.MessageRewritten,
        MessageExtended,
        SessionDeleted,
    )
)
"""Topics that do more to a transcript than to add a message at its end."""
_OWN = frozenset({"version", "lane_id", "key", "session_id", "chosen_at", "history_from", "undone_at", "project_id"})
"""Fields that say where something stands in the log, or which thing it is."""

State = Mapping[str, Any]


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that is different at a later moment."""

    kind: str
    """lane, session, project or message."""
    id: str
    """A lane's key, a session's or project's id, or `<session>@<position>` of a message."""
    change: str
    """added, gone, changed, or of a message hidden."""
    field: str | None = None
    """Which of its fields changed."""
    before: Any = None
    """How it was: a field's value, all fields of what is gone, or a message that is hidden."""
    after: Any = None
    """How it is: a field's value, all fields of what was added, or a message that came."""


def diff(log: EventLog, a: int, b: int, selection: Selection | None = None) -> Iterator[Change]:
    """Yield what changed from one position to another, either of which may be the later.

    Times are UTC microseconds, as the log has them. A selection leaves what is of its platforms, chats, threads,
    people, lanes and sessions; of a session also the lanes that lead to it. Costs what the streams that changed in
    between have.
    """
    check_position(log, a)
    check_position(log, b)
    return _changes(log, a, b, Selection() if selection is None else selection)


def _changes(log: EventLog, a: int, b: int, selection: Selection) -> Iterator[Change]:
    reads, low, high = log.reader, min(a, b), max(a, b)
    bad = quarantined_at(log, high)
    wanted = stream_filter(log, selection)
    since = {stream: first for stream, first in reads.streams_since(low, high).items() if wanted(stream)}
    then = {stream: first - 1 for stream, first in since.items() if first > 1}
    ends = {stream: reads.version_at(stream, high) or 0 for stream in since}
    folds = {low: fold_streams(reads, then, low, bad), high: fold_streams(reads, ends, high, bad)}
    before, after = folds[a], folds[b]
    yield from _compared("lane", *_leading_to(selection.sessions, lanes_of(before), lanes_of(after)))
    yield from _compared("session", sessions_of(before), sessions_of(after))
    yield from _compared("project", projects_of(before), projects_of(after))
    topics = reads.topics_since(low, high, (e.LaneTouched.TOPIC,))
    for stream in since:
        if stream.startswith(SESSION):
            session_id = stream.removeprefix(SESSION)
            was, now = before.changed_heads.get(session_id), after.changed_heads.get(session_id)
            if was is not None and now is not None and a < b and _HISTORY.isdisjoint(topics.get(stream, ())):
                yield from _appended(log, was, now, bad)
            else:
                yield from _messages(log, session_id, was, now)


def _leading_to(sessions: tuple[str, ...], *moments: Mapping[str, State]) -> list[Mapping[str, State]]:
    """Return the lanes that lead to some sessions at one of the moments, or all if none are asked for."""
    keys = {key for lanes in moments for key, lane in lanes.items() if not sessions or lane["session_id"] in sessions}
    return [{key: lane for key, lane in lanes.items() if key in keys} for lanes in moments]


def lanes_of(fold: Fold) -> dict[str, State]:
    """Return the lanes that lead somewhere, by key, with what is said of them."""
    found = (fold.lane_with_id(lane_id) for lane_id in fold.changed_lanes)
    return {
        lane.key: {"session_id": lane.session_id, **_fields(lane)}
        for lane in found
        if lane is not None and lane.key and lane.session_id is not None
    }


def sessions_of(fold: Fold) -> dict[str, State]:
    """Return the sessions by id, with what is said of them and of the chats they are."""
    return {
        session_id: {**_fields(fold.chat(session_id)), "project_id": fold.chat(session_id).project_id, **_fields(head)}
        for session_id, head in fold.changed_heads.items()
    }


def projects_of(fold: Fold) -> dict[str, State]:
    """Return the projects by id, with what is said of them."""
    return {each.project_id: _fields(each) for each in fold.changed_projects.values() if not each.deleted}


def _fields(state: msgspec.Struct) -> dict[str, Any]:
    return {name: getattr(state, name) for name in state.__struct_fields__ if name not in _OWN}


def _compared(kind: str, before: Mapping[str, State], after: Mapping[str, State]) -> Iterator[Change]:
    for each in sorted(before.keys() | after.keys()):
        was, now = before.get(each), after.get(each)
        if was is None:
            yield Change(kind=kind, id=each, change="added", after=now)
        elif now is None:
            yield Change(kind=kind, id=each, change="gone", before=was)
        else:
            for name in was:
                if was[name] != now[name]:
                    yield Change(kind=kind, id=each, change="changed", field=name, before=was[name], after=now[name])


def _appended(log: EventLog, before: Session, after: Session, bad: Mapping[int, str]) -> Iterator[Change]:
    """Yield the messages of a session to which nothing was done but adding some."""
    rows = log.reader.payloads(session_stream(after.session_id), before.version, after.version)
    some = [row for row in rows if row[1] in MESSAGES and row[3] not in bad]
    yield from (_message("added", after.session_id, row, message) for row, message in _readable(some))


def _messages(log: EventLog, session_id: str, before: Session | None, after: Session | None) -> Iterator[Change]:
    """Yield the messages that are live at one of the moments alone."""
    was, now = (_live(log, head) for head in (before, after))
    there = Counter(key for key, _, _ in was)
    there.subtract(key for key, _, _ in now)
    for key, row, message in was:
        if there[key] > 0:
            there[key] -= 1
            yield _message("hidden", session_id, row, message)
    added = []
    for key, row, message in reversed(now):  # of equal ones the latest are new
        if there[key] < 0:
            there[key] += 1
            added.append(_message("added", session_id, row, message))
    yield from reversed(added)


def _live(log: EventLog, head: Session | None) -> list[tuple[bytes, Row, dict[str, Any]]]:
    rows = [] if head is None or head.deleted else transcript_at(log.reader, head, report)
    return [(b"%d %b" % (row[3], encode(_Said(message))), row, message) for row, message in _readable(rows)]


class _Said(msgspec.Struct):
    message: dict[str, Any]


def _readable(rows: list[Row]) -> Iterator[tuple[Row, dict[str, Any]]]:
    for row, message in zip(rows, told(rows), strict=True):
        if message is not None:
            yield row, message


def _message(change: str, session_id: str, row: Row, message: dict[str, Any]) -> Change:
    given: dict[str, Any] = {"before" if change == "hidden" else "after": message}
    return Change(kind="message", id=f"{session_id}@{row[3]}", change=change, **given)
