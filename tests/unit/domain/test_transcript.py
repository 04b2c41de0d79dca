"""G49 to G51: a transcript as the fold of its session's events, against a list that does the same slowly."""

from typing import Any

import pytest
from hypothesis import given, strategies as st

from engine.domain import events as e
from engine.domain.encoding import encode, tombstone
from engine.domain.registry import Event
from engine.domain.transcript import (
    BEGINS_HISTORY,
    Backwards,
    Row,
    Transcript,
    as_loaded,
    copied,
    inheritance,
    messages_of,
    objects_of,
)

SECOND = 1_000_000
ERASED = tombstone("0" * 64, 5)


class Reports(list[tuple[int, str]]):
    """Collect what is reported as unreadable."""

    def __call__(self, position: int, error: str) -> None:
        self.append((position, error))


def row(version: int, event: Event) -> Row:
    return version, event.topic, encode(event).decode(), version + 100, version * SECOND


def said(text: Any, message_id: str | None = None) -> e.MessageAppended:
    return e.MessageAppended(message={"role": "user", "content": text}, message_id=message_id)


def fold(*events: Event, inherited: list[Row] | None = None) -> tuple[Transcript, Reports]:
    reports = Reports()
    transcript = Transcript(0, reports)
    transcript.fold([row(version, event) for version, event in enumerate(events, 1)], inherited or [])
    return transcript, reports


def contents(transcript: Transcript) -> list[Any]:
    return [message["content"] for message in messages_of(transcript.live(), Reports())]


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.integers(0, 9)),
        st.tuples(st.just("rewind"), st.integers(0, 5)),
        st.tuples(st.just("restore"), st.just(0)),
        st.tuples(st.just("rewrite"), st.integers(0, 3)),
        st.tuples(st.just("title"), st.just(0)),
    ),
    max_size=25,
)


@given(ACTIONS, st.integers(0, 25))
def test_g49_g50_g51_fold_is_what_a_plain_list_would_be(actions: list[tuple[str, int]], cut: int) -> None:
    """Also in two parts, as a cache that is brought up to date folds it."""
    everything: list[int] = []
    hidden: set[int] = set()
    undone: list[list[int]] = []
    rows: list[Row] = []
    serial = 0
    for version, (action, number) in enumerate(actions, 1):
        live = [index for index in range(len(everything)) if index not in hidden]
        event: Event = e.SessionTitled(title="x")
        if action == "say":
            serial += 1
            event = said(serial)
            everything.append(serial)
        elif action == "rewind":
            keep = min(number, len(live))
            event = e.TranscriptRewound(keep=keep, rewound_count=len(live) - keep, turns_undone=1)
            undone.append(live[keep:])
            hidden.update(live[keep:])
        elif action == "restore":
            event = e.TranscriptRestored(restored_count=len(undone[-1]) if undone else 0)
            if undone:
                hidden.difference_update(undone.pop())
        elif action == "rewrite":
            everything = [-1 - each for each in range(number)]
            hidden, undone = set(), []
            event = e.TranscriptRewritten(messages=[{"role": "user", "content": each} for each in everything])
        rows.append(row(version, event))
    transcript = Transcript(0, Reports())
    transcript.fold(rows[:cut])
    transcript.fold(rows[cut:])
    live = [each for index, each in enumerate(everything) if index not in hidden]
    assert contents(transcript) == live
    assert transcript.version == len(rows)
    history = next((at for at in reversed(range(len(rows))) if rows[at][1] in BEGINS_HISTORY), -1)
    walk = Backwards(skip=cut)
    read = [each for each in reversed(rows[history + 1 :]) if walk.is_live(each)]
    appended = [each for each in live if each > 0]
    assert [found["content"] for found in messages_of(read[::-1], Reports())] == appended[: max(0, len(appended) - cut)]


def test_g50_rewritten_history_begins_with_its_messages_and_ends_with_those_inherited() -> None:
    inherited = [row(1, said("carried"))]
    rewritten = e.TranscriptRewritten(messages=[{"role": "system", "content": "summary"}])
    transcript, _ = fold(rewritten, said("next"), inherited=inherited)
    assert contents(transcript) == ["summary", "carried", "next"]


def test_only_the_first_event_of_a_fold_inherits() -> None:
    rewritten = e.TranscriptRewritten(messages=[])
    transcript, _ = fold(rewritten, rewritten, inherited=[row(1, said("carried"))])
    assert transcript.live() == []


def test_live_messages_are_a_list_of_the_callers_own() -> None:
    transcript, _ = fold(said("a"))
    transcript.live().clear()
    assert contents(transcript) == ["a"]


def test_size_in_memory_follows_the_payloads() -> None:
    transcript, _ = fold(said("a" * 1000))
    assert 1000 < transcript.size < 2000
    transcript.fold([row(2, e.TranscriptRewritten(messages=[]))])
    assert transcript.size == 0


def test_unreadable_rewrite_is_reported_and_keeps_the_former_history() -> None:
    transcript, reports = fold(said("kept"))
    transcript.fold([(2, e.TranscriptRewritten.TOPIC, "{broken", 102, 2)])
    assert contents(transcript) == ["kept"]
    assert [position for position, _ in reports] == [102]


def test_erased_rewrite_does_not_bring_back_what_it_replaced() -> None:
    transcript, reports = fold(said("replaced"))
    transcript.fold([(2, e.TranscriptRewritten.TOPIC, ERASED, 102, 2)])
    assert (transcript.live(), reports) == ([], [])


def test_g51_erased_message_keeps_its_place_and_an_undo_still_counts_right() -> None:
    transcript, _ = fold(said("a"), said("b"), said("c"))
    transcript = Transcript(0, Reports())
    rows = [row(1, said("a")), (2, "message.appended", ERASED, 102, 2), row(3, said("c"))]
    transcript.fold([*rows, row(4, e.TranscriptRewound(keep=2, rewound_count=1, turns_undone=1))])
    assert len(transcript.live()) == 2
    assert contents(transcript) == ["a"]


@pytest.mark.parametrize("topic", ["message.appended", "session.created"])
def test_ordinary_history_inherits_nothing(topic: str) -> None:
    assert inheritance((1, topic, '{"message":{}}', 1, 1)) is None


def test_g43_history_that_begins_with_a_fork_or_a_rewrite_says_what_it_inherits() -> None:
    taken = e.Inherited("s0", 3, 12, 1, 4)
    assert len(taken) == 3
    for event in (
        e.SessionForked(inherited=taken, conversation_id="c"),
        e.TranscriptRewritten(messages=[], inherited=taken),
    ):
        assert inheritance(row(1, event)) == taken
    assert inheritance(row(1, e.TranscriptRewritten(messages=[]))) is None
    assert inheritance((1, e.SessionForked.TOPIC, ERASED, 1, 1)) is None


def test_copied_messages_stand_where_their_history_was_rewritten() -> None:
    messages = [{"role": "user", "content": "a"}, {"role": "user", "content": "b\ud800"}]
    for count in (1, 2):
        rows = copied(row(7, e.TranscriptRewritten(messages=messages[:count])))
        assert [(version, topic, position, time) for version, topic, _, position, time in rows] == [
            (7, "message.appended", 107, 7 * SECOND)
        ] * count
        assert [found["content"] for found in messages_of(rows, Reports())] == ["a", "b\ud800"][:count]


def test_g49_g49b_message_has_its_platform_id_and_a_time() -> None:
    own = e.MessageAppended(message={"role": "user", "content": "c", "timestamp": 5})
    rows = [row(1, said("a", "m1")), row(2, said("b\ud800")), row(3, own)]
    expected = [
        {"role": "user", "content": "a", "message_id": "m1", "timestamp": 1.0},
        {"role": "user", "content": "b\ud800", "timestamp": 2.0},
        {"role": "user", "content": "c", "timestamp": 5},
    ]
    assert messages_of(rows, Reports()) == expected
    assert messages_of([rows[0], rows[2]], Reports()) == [expected[0], expected[2]]
    nothing = e.MessageAppended(message={"role": "user", "timestamp": None})
    assert messages_of([row(4, nothing)], Reports()) == [{"role": "user", "timestamp": 4.0}]


def test_one_bad_message_is_reported_and_the_others_are_served() -> None:
    reports = Reports()
    rows = [row(1, said("a")), (2, "message.appended", '{"message":', 102, 2), (3, "message.appended", ERASED, 103, 3)]
    assert [message["content"] for message in messages_of(rows, reports)] == ["a"]
    assert [position for position, _ in reports] == [102]
    assert [message is None for message in objects_of(rows, reports)] == [False, True, True]


def test_g19_every_reader_gets_objects_of_its_own() -> None:
    rows = [row(1, said([{"type": "text", "text": "x"}]))]
    messages_of(rows, Reports())[0]["content"][0]["text"] = "changed"
    assert messages_of(rows, Reports())[0]["content"][0]["text"] == "x"


@pytest.mark.parametrize("content", ["x", ("a", "b"), {"$text": "x"}, "a\ud800", float("inf"), None])
def test_g43_message_is_found_as_it_comes_back(content: Any) -> None:
    event = said(content, "m")
    [loaded] = messages_of([row(1, event)], Reports())
    assert {**as_loaded(event), "timestamp": 1.0} == loaded
    assert "message_id" not in as_loaded(said(content))
