"""G50: a message that is given back in another history is known by where it was recorded first."""

from typing import Any

import pytest

from engine.domain.encoding import encode, tombstone
from engine.domain.events import MessageAppended, MessageRewritten
from engine.domain.messages import appended
from engine.domain.rewriting import FormerHistory
from engine.domain.transcript import Row, messages_of

SECOND = 1_000_000


def row(position: int, message: dict[str, Any], copy_of: int = 0) -> Row:
    event = appended(message)
    if copy_of:
        event = MessageRewritten(message=event.message, message_id=event.message_id, copy_of=copy_of)
    return 1, event.topic, encode(event).decode(), position, position * SECOND


def loaded(*rows: Row) -> list[dict[str, Any]]:
    return messages_of(rows, lambda *_: None)


def origins(former: FormerHistory, *messages: dict[str, Any]) -> list[int]:
    return [0 if place is None else place.origin for place in former.recognised([appended(each) for each in messages])]


HELLO = row(3, {"role": "user", "content": "hello", "message_id": "m1"})
ANSWER = row(4, {"role": "assistant", "content": "hi", "timestamp": 7.5})
HOSTILE = row(5, {"role": "user", "content": "a\ud800", "n": 2**70, "x": float("inf")})


@pytest.mark.parametrize("known", [HELLO, ANSWER, HOSTILE])
def test_g50_what_was_loaded_is_recognised(known: Row) -> None:
    (message,) = loaded(known)
    for given in (message, dict(reversed(message.items())), {k: v for k, v in message.items() if k != "timestamp"}):
        assert origins(FormerHistory([known], ()), given) == [known[3]]


def test_g50_a_changed_message_is_a_new_one() -> None:
    (message,) = loaded(HELLO)
    former = FormerHistory([HELLO, ANSWER], ())
    for change in ({"content": "Hello"}, {"role": "system"}, {"message_id": "m2"}, {"timestamp": 99.0}, {"new": 1}):
        assert origins(former, message | change) == [0]
    assert origins(former, message) == [3]


def test_g50_each_place_is_taken_once_in_order() -> None:
    rows = [row(at, {"role": "user", "content": "again"}) for at in (3, 4)]
    message = {"role": "user", "content": "again"}
    assert origins(FormerHistory(rows, ()), message, message, message) == [3, 4, 0]


def test_g50_a_copy_of_a_copy_is_one_of_the_first() -> None:
    again = row(9, {"role": "user", "content": "hello"}, copy_of=3)
    assert origins(FormerHistory([again], ()), {"role": "user", "content": "hello"}) == [3]


def test_what_was_erased_or_is_damaged_is_nobodys() -> None:
    rows: list[Row] = [
        (1, MessageAppended.TOPIC, tombstone("0" * 64, 5), 3, 1),
        (2, MessageAppended.TOPIC, "{broken", 4, 1),
    ]
    assert origins(FormerHistory(rows, ()), {"role": "user", "content": ""}) == [0]


def test_g47a_inherited_messages_that_are_left_out_give_up_their_ids() -> None:
    former = FormerHistory(
        [HELLO, ANSWER, row(9, {"role": "user", "content": "x", "message_id": "m9"}, copy_of=2)], (3, 9)
    )
    places = former.recognised([appended(each) for each in loaded(HELLO)])
    assert former.left_out(places) == (9,)
    assert former.left_out([]) == (3, 9)
