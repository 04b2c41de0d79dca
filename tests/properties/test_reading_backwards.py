"""Transcripts read from their end are what they are from their beginning, however they came about (G42, G43, G51)."""

import tempfile
from typing import Any

from hypothesis import given, settings, strategies as st

from engine import SessionStore
from engine.domain.transcript import messages_of
from projections.inline.backwards import Stretch, live_now, newest_first
from projections.inline.sessions import find_session
from projections.inline.transcripts import history_at, report
from tests.gateway.support import source, texts

ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["say", "say", "say", "undo", "restore", "rewrite", "fork", "fork at", "compress", "erase"]),
        st.integers(0, 9),
        st.integers(0, 9),
    ),
    min_size=5,
    max_size=25,
)


class Plain:
    """The live messages of each session, on plain lists of words; an erased message is None."""

    def __init__(self, store: SessionStore) -> None:
        self.store = store
        self.serial = 0
        first = store.get_or_create_session(source()).session_id
        self.live: dict[str, list[str | None]] = {first: []}
        self.undone: dict[str, list[tuple[int, list[str | None]]]] = {first: []}
        self.positions: dict[str, int] = {}
        self.goes_on: dict[str, str] = {}

    def act(self, action: str, which: int, number: int) -> None:
        session_id = list(self.live)[which % len(self.live)]
        live = self.live[session_id]
        getattr(self, action.replace(" ", "_"))(session_id, live, number)

    def word(self) -> str:
        self.serial += 1
        return f"w{self.serial}"

    def say(self, session_id: str, _: list[str | None], __: int) -> None:
        word = self.word()
        (self.positions[word],) = self.store.append_messages(session_id, [{"role": "user", "content": word}])
        while session_id in self.goes_on:
            session_id = self.goes_on[session_id]
        self.live[session_id].append(word)

    def undo(self, session_id: str, live: list[str | None], number: int) -> None:
        keep = self.keep(live, number)
        undone = self.store.rewind_session(session_id, number)
        assert (undone is None) == (keep is None)
        if undone is not None and keep is not None:
            assert undone["target_text"] == live[keep]
            assert undone["rewound_count"] == len(live) - keep
            self.undone[session_id].append((keep, live[keep:]))
            del live[keep:]

    @staticmethod
    def keep(live: list[str | None], turns: int) -> int | None:
        """The n-th message from the end that was not erased: all are a user's."""
        there = [index for index, word in enumerate(live) if word is not None]
        return there[-min(max(turns, 1), len(there))] if there else None

    def restore(self, session_id: str, live: list[str | None], _: int) -> None:
        keep, hidden = self.undone[session_id].pop() if self.undone[session_id] else (0, [])
        assert self.store.restore_rewound(session_id) == len(hidden)
        live[keep:keep] = hidden

    def rewrite(self, session_id: str, _: list[str | None], number: int) -> None:
        words: list[str | None] = [self.word() for _ in range(number % 3)]
        self.store.rewrite_transcript(session_id, [{"role": "user", "content": word} for word in words])
        self.live[session_id], self.undone[session_id] = words, []

    def fork(self, session_id: str, live: list[str | None], _: int) -> None:
        self.begin(self.store.fork_session(session_id), live)

    def fork_at(self, session_id: str, live: list[str | None], number: int) -> None:
        there = [index for index, word in enumerate(live) if word is not None]
        if there:
            index = there[number % len(there)]
            message = {"role": "user", "content": live[index]}
            self.begin(self.store.fork_session(session_id, message), live[: index + 1])

    def compress(self, session_id: str, live: list[str | None], number: int) -> None:
        if self.store.get_session(session_id).end_reason is None:
            word = self.word()
            child = self.store.compress_session(session_id, None, [{"role": "user", "content": word}], covers=number)
            self.goes_on[session_id] = child
            self.begin(child, [word, *live[number:]])

    def erase(self, _: str, __: list[str | None], number: int) -> None:
        words = [word for word in self.positions if word is not None]
        if words:
            word = words[number % len(words)]
            self.store.log.erase([self.positions.pop(word)], actor="operator", reason="asked to")
            for lists in (*self.live.values(), *(hidden for each in self.undone.values() for _, hidden in each)):
                lists[:] = [None if each == word else each for each in lists]

    def begin(self, session_id: str, words: list[str | None]) -> None:
        self.live[session_id], self.undone[session_id] = list(words), []


@given(ACTIONS)
@settings(max_examples=60, deadline=None)
def test_from_the_end_and_from_the_beginning(actions: list[tuple[str, int, int]]) -> None:
    with tempfile.TemporaryDirectory() as folder, SessionStore(folder, synchronous="OFF") as store:
        plain = Plain(store)
        for action in actions:
            plain.act(*action)
            for session_id, live in plain.live.items():
                check(store, session_id, live)


def check(store: SessionStore, session_id: str, live: list[str | None]) -> None:
    head = find_session(store.log.reader, session_id)
    assert head is not None
    words = [word for word in live if word is not None]
    assert texts(store, session_id) == words
    assert head.live == len(live)
    assert len(list(newest_first(store.log.reader, live_now(head), report))) == len(live)
    for skip, most in ((0, None), (1, None), (2, 3)):
        stretch = Stretch(session_id, head.history_from, head.version, skip, most)
        rows = list(newest_first(store.log.reader, stretch, report))[::-1]
        wanted: list[Any] = live[: max(0, len(live) - skip)]
        wanted = wanted if most is None else wanted[-most:] if most <= len(wanted) else wanted
        found = [message["content"] for message in messages_of(rows, report)]
        assert found == [word for word in wanted if word is not None]
    then = history_at(store.log.reader, session_id, store.log.last_position)
    assert (then.history_from, then.version, then.live) == (head.history_from, head.version, head.live)
