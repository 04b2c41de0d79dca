"""Erasing costs what is erased, and leaves the tables that a fold of the log would make."""

import random

import pytest

from engine import SessionStore
from engine.domain import events as e
from engine.log import EventLog
from engine.log.envelope import NEXT_VERSION, Envelope
from tests.gateway.effort import watched
from tests.gateway.support import say, since, source, tables, texts
from tests.gateway.test_explanations import everything


def erase(store: SessionStore, *positions: int) -> list[int]:
    return store.log.erase(positions, actor="operator", reason="asked to")


def session(store: SessionStore, chat: str, count: int) -> tuple[str, list[int]]:
    session_id = store.get_or_create_session(source(chat)).session_id
    said = [{"role": "user", "content": f"m{n}", "message_id": f"{chat}-{n}"} for n in range(count)]
    return session_id, store.append_messages(session_id, said)


@pytest.mark.parametrize("kind", ["a message", "an edge of the session"])
def test_erasing_does_not_read_the_session(store, kind):
    """In a session of a million messages it held the write lock for 1.7 s: every event was folded again."""

    def cost(count: int) -> int:
        session_id, positions = session(store, str(count), count)
        store.set_session_title(session_id, f"named {count}")
        wanted = positions[count // 2] if kind == "a message" else store.log.last_position
        with watched(store) as effort:
            assert erase(store, wanted) == [wanted]
        assert store.get_session(session_id).message_count == count
        return effort.rows

    cost(10)  # the store says that it was opened
    assert cost(50) == cost(3000) < 20


def test_many_messages_are_erased_in_parts(store):
    session_id, positions = session(store, "1", 1200)
    with watched(store) as effort:
        assert erase(store, *positions) == positions
    assert max(section.rows for section in effort.sections) < 500 * 3
    assert texts(store, session_id) == []
    assert store.get_session(session_id).message_count == 1200
    assert store.verify().ok


@pytest.mark.parametrize("seed", range(6))
def test_whatever_is_erased_in_whatever_order_the_tables_are_the_fold_of_the_log(open_store, clock, seed):
    """Rewrites, undos, forks and what is in quarantine included."""
    chance = random.Random(seed)
    store = open_store()
    everything(store, clock, source)
    session_id, _ = session(store, "more", 8)
    store.rewind_session(session_id, 3)
    loaded = store.load_transcript(session_id)
    store.rewrite_transcript(session_id, [*loaded[2:], {"role": "user", "content": "new", "message_id": "new"}])
    store.restore_rewound(session_id)
    fork = store.fork_session(session_id)
    store.rewrite_transcript(fork, store.load_transcript(fork)[1:])
    child = store.compress_session(
        session_id, None, [{"role": "system", "content": "sum", "message_id": "s"}], covers=2
    )
    store.rewrite_transcript(child, [*store.load_transcript(child)[1:], {"role": "user", "content": "x"}])
    with EventLog(store.log.path) as log:
        broken = e.MessageAppended(message={"role": "user", "content": "secret"})
        log.append([Envelope(f"session:{child}", NEXT_VERSION, broken)])
        log.append([Envelope(f"session:{child}", NEXT_VERSION, e.MessageAppended(message={}, message_id="more-3"))] * 2)
        at = log.last_position - 2
    say(store, child, "after what is broken")
    positions = [event.position for event in since(store, 0) if event.event.topic not in ("log.erased", "store.opened")]
    chance.shuffle(positions)
    while positions:
        count = chance.choice([1, 1, 2, 5])
        erase(store, *positions[:count])
        found = store.verify()
        assert found.ok, (found, positions[:count], at)
        del positions[:count]
    before = tables(store)
    store.rebuild()
    assert tables(store) == before
