"""The states of streams as they were at a position, folded from their own events; messages are counted, not read."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from operator import itemgetter
from typing import Any, cast

from engine.domain.encoding import Unreadable, decode_many
from engine.domain.streams import LOG, SESSION
from engine.domain.transcript import MESSAGES
from engine.log.protocol import Queries, Reader, Undecoded
from projections.inline.fold import Fold

_WINDOW = 20_000
_COUNTED = sorted(MESSAGES)
_topic, _state, _position = itemgetter(2), itemgetter(3), itemgetter(4)


class _Nothing:
    """Reads of tables in which nothing is: every state begins with the first event of its stream."""

    def query(self, _sql: str, _bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return []


def fold_streams(reads: Queries, versions: Mapping[str, int], position: int, bad: Mapping[int, str]) -> Fold:
    """Return the states that some streams had at a position, when each had the version given.

    `bad` are the events in quarantine with their errors: they say nothing.
    """
    rows: list[Undecoded] = []
    for stream, version in versions.items():
        found = reads.payloads(stream, -1, version, until_position=position, without=_COUNTED)
        rows += [(stream, *row) for row in found]
    rows += _bad_messages(reads, versions, position, bad)
    rows.sort(key=_position)
    return _folded([rows], versions, bad)


def fold_all(reads: Reader, position: int, bad: Mapping[int, str]) -> Fold:
    """Return the states that all streams had at a position."""
    versions = reads.versions_at(position)
    aside = _bad_messages(reads, versions, position, bad)
    parts = (
        sorted(
            chain(reads.undecoded(first, last, _COUNTED), [each for each in aside if first < each[4] <= last]),
            key=_position,
        )
        for first, last in ((each, min(each + _WINDOW, position)) for each in range(0, position, _WINDOW))
    )
    return _folded(parts, versions, bad)


def _bad_messages(
    reads: Queries, versions: Mapping[str, int], position: int, bad: Mapping[int, str]
) -> list[Undecoded]:
    """Return the messages in quarantine, which are not to be counted."""
    found = reads.recorded_at([at for at in bad if at <= position]) if bad else []
    return [
        (each.stream, each.version, each.event.topic, "{}", each.position, each.time)
        for each in found
        if each.stream in versions and each.event.topic in MESSAGES
    ]


def _folded(parts: Iterable[list[Undecoded]], versions: Mapping[str, int], bad: Mapping[int, str]) -> Fold:
    fold = Fold(cast(Queries, _Nothing()))
    own = len(SESSION)
    for rows in parts:
        contents = decode_many(list(map(_topic, rows)), list(map(_state, rows)))
        for (stream, version, topic, _, position, time), content in zip(rows, contents, strict=True):
            if stream == LOG:
                continue
            if position in bad:
                content = Unreadable(topic, b"", bad[position])
            if stream.startswith(SESSION):
                fold.pass_messages(stream[own:], version - 1)
            fold.replay(stream, content, time, version, position)
    for stream, version in versions.items():
        if stream.startswith(SESSION):
            fold.pass_messages(stream[own:], version)
    return fold
