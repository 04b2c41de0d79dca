"""Differences between two moments (R10), step by step (R15)."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from engine import ArchivedError, SessionCatalog, SessionStore
from engine.domain.encoding import archived_digest
from engine.domain.transcript import Row, objects_of
from projections.inline.past import quarantined_at
from projections.inline.sessions import find_session
from projections.inline.single import transcript_at
from projections.inline.streams_at import fold_streams
from replay import BadMomentError, Change, PastReader, as_of, diff, step
from replay.differences import lanes_of, projects_of, sessions_of
from tests.gateway.support import FakeClock, say, source

Everything = dict[tuple[str, str], Any]


def state_at(store: SessionStore, position: int) -> Everything:
    """Everything of the state that a diff speaks of, from a fold of all streams."""
    log = store.log
    versions = {each: log.reader.version_at(each, position) for each in log.reader.streams_since(0, position)}
    there = {stream: version for stream, version in versions.items() if version is not None}
    fold = fold_streams(log.reader, there, position, quarantined_at(log, position))
    kinds = {"lane": lanes_of(fold), "session": sessions_of(fold), "project": projects_of(fold)}
    found: Everything = {(kind, each): dict(state) for kind, states in kinds.items() for each, state in states.items()}
    with as_of(log, position) as past:
        said: Counter[str] = Counter()
        for session_id in kinds["session"]:
            for at, message in said_in(past, session_id):
                said[f"{session_id}@{at} {message!r}"] += 1
    found["messages", ""] = said
    return found


def said_in(past: PastReader, session_id: str) -> list[tuple[int, Any]]:
    """The messages of a session with their positions; one that is in an archive by its digest."""
    try:
        return [(row.position, row.message) for row in past.recorded_messages(session_id)]
    except ArchivedError:
        head = find_session(past.reads, session_id)
        rows = [] if head is None or head.deleted else transcript_at(past.log.reader, head, _unheard)
        told = [(row[3], as_diff_tells(row)) for row in rows]
        return [(at, message) for at, message in told if message is not None]


def as_diff_tells(row: Row) -> dict[str, Any] | None:
    digest = archived_digest(row[2])
    if digest is not None:
        return {"archived": True, "digest": digest.hex()}
    return objects_of([row], _unheard)[0]


def _unheard(*_: object) -> None:
    """Pass over what cannot be read: it is told elsewhere."""


def applied(state: Everything, changes: Iterator[Change]) -> Everything:
    """The state after changes."""
    after = {key: Counter(value) if key[0] == "messages" else dict(value) for key, value in state.items()}
    for each in changes:
        key = each.kind, each.id
        match each.kind, each.change:
            case "message", change:
                message = each.after if change == "added" else each.before
                after["messages", ""][f"{each.id} {message!r}"] += 1 if change == "added" else -1
            case _, "added":
                assert key not in after
                after[key] = dict(each.after)
            case _, "gone":
                assert after.pop(key) == each.before
            case _, "changed":
                assert after[key][each.field] == each.before
                after[key][each.field] = each.after
    after["messages", ""] = +after["messages", ""]
    return after


def test_a_diff_applied_to_the_first_moment_gives_the_second(lived: SessionStore) -> None:
    """R10: any two moments, in both directions."""
    last = lived.log.last_position
    states = {position: state_at(lived, position) for position in range(0, last + 1, 9)}
    for a in states:
        for b in (*list(states)[:: 1 + a % 3], a):
            assert applied(states[a], diff(lived.log, a, b)) == states[b], (a, b)


def test_what_changed_is_told_by_field(store: SessionStore, clock: FakeClock) -> None:
    """R10: lanes and sessions added, gone and changed, messages added and hidden."""
    first = store.get_or_create_session(source())
    say(store, first.session_id, "one", "two")
    a = store.log.last_position
    clock.advance(minutes=1)
    second = store.reset_session(first.session_key)
    say(store, first.session_id, "late")
    store.rewind_session(first.session_id)
    other = store.get_or_create_session(source("other"))
    changes = list(diff(store.log, a, store.log.last_position))
    told = {(each.kind, each.id, each.change, each.field) for each in changes}
    key = first.session_key
    assert ("lane", other.session_key, "added", None) in told
    assert ("lane", key, "changed", "session_id") in told
    assert ("session", second.session_id, "added", None) in told
    assert ("session", first.session_id, "changed", "end_reason") in told
    [moved] = [each for each in changes if each.id == key and each.field == "session_id"]
    assert (moved.before, moved.after) == (first.session_id, second.session_id)
    assert [each for each in changes if each.kind == "message"] == []  # it came and went
    [late] = [each.position for each in store.log.events() if "late" in repr(each.event)]
    [hidden] = [each for each in diff(store.log, late, store.log.last_position) if each.kind == "message"]
    assert (hidden.change, hidden.before["content"]) == ("hidden", "late")
    clock.advance(days=100)
    store.prune_old_entries(90)
    gone = [each.id for each in diff(store.log, a, store.log.last_position) if each.change == "gone"]
    assert gone == [key]
    assert msgspec.json.decode(msgspec.json.encode(moved))["field"] == "session_id"


def test_messages_are_told_in_the_order_of_the_transcript(store: SessionStore) -> None:
    """R10."""
    entry = store.get_or_create_session(source())
    say(store, entry.session_id, "one", "two", "two")
    store.rewind_session(entry.session_id)
    say(store, entry.session_id, "three")
    found = [each for each in diff(store.log, 0, store.log.last_position) if each.kind == "message"]
    assert [each.after["content"] for each in found] == ["one", "two", "three"]


def test_each_step_says_what_it_changed(store: SessionStore) -> None:
    """R15: forwards and backwards."""
    entry = store.get_or_create_session(source())
    say(store, entry.session_id, "hello")
    last = store.log.last_position
    position, seen = 0, []
    while (taken := step(store.log, position)) is not None:
        assert taken.event.position == taken.position == position + 1
        assert taken.changes == tuple(diff(store.log, position, taken.position))
        position = taken.position
        seen.append(taken)
    assert position == last
    assert [each.change for each in seen[-1].changes if each.kind == "message"] == ["added"]
    while (back := step(store.log, position, backwards=True)) is not None:
        assert (back.event, back.changes) == (seen[position - 1].event, seen[position - 1].changes)
        position = back.position
    assert position == 0


@pytest.mark.parametrize(("a", "b"), [(0, 10**6), (-1, 0)])
def test_a_moment_that_is_none_is_refused(store: SessionStore, a: int, b: int) -> None:
    with pytest.raises(BadMomentError):
        diff(store.log, a, b)


def test_the_messages_of_a_session_that_is_deleted_are_hidden(store: SessionStore) -> None:
    """R10, W9: no reader shows them any more; going back they come again."""
    entry = store.get_or_create_session(source())
    say(store, entry.session_id, "one")
    there = store.log.last_position
    SessionCatalog(store).delete_session(entry.session_id)
    last = store.log.last_position
    for a, b, change in ((there, last, "hidden"), (last, there, "added")):
        assert [each.change for each in diff(store.log, a, b) if each.kind == "message"] == [change]
    assert [each for each in diff(store.log, 0, last) if each.kind == "message"] == []


def test_messages_in_an_archive_are_told_by_their_digest(store: SessionStore, clock: FakeClock, tmp_path: Path) -> None:
    """R10, V16: an archive keeps nobody from asking what changed; the same digest stands in the row."""
    entry = store.get_or_create_session(source())
    say(store, entry.session_id, "one", "two")
    there = store.log.last_position
    store.end_session(entry.session_id, "idle")
    store.set_expiry_finalized(entry.session_key)
    clock.advance(days=1)
    assert store.archive(timedelta(hours=1), tmp_path / "old.archive").messages == 2
    last = store.log.last_position
    found = [each for each in diff(store.log, 0, last) if each.kind == "message"]
    assert [(each.change, each.after["archived"], len(each.after["digest"])) for each in found] == [
        ("added", True, 64)
    ] * 2
    assert [each for each in diff(store.log, there, last) if each.kind == "message"] == []
    taken = step(store.log, there - 1)
    assert taken is not None
    assert [each.kind for each in taken.changes if each.kind == "message"] == ["message"]
    store.restore(tmp_path / "old.archive")
    found = [each for each in diff(store.log, 0, last) if each.kind == "message"]
    assert [each.after["content"] for each in found] == ["one", "two"]
