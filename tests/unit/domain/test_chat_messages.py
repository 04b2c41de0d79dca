"""A chat's messages as its client gave them (W8)."""

from engine.domain.chat_messages import said
from engine.domain.encoding import encode, tombstone
from engine.domain.events import MessageAppended
from engine.domain.transcript import Row


def row(text: str) -> Row:
    return 1, "message.appended", text, 5, 7_000_000


def test_messages_come_back_as_they_were_given_and_erased_ones_keep_their_place() -> None:
    problems: list[int] = []
    rows = [
        row(encode(MessageAppended(message={"role": "user", "x": None})).decode()),
        row(encode(MessageAppended(message={"role": "user"}, message_id="7")).decode()),
        row(tombstone("0" * 64, 1)),
        row("nonsense"),
    ]
    left = {"role": "unknown", "content": "", "_erased": True}
    assert said(rows, lambda at, _: problems.append(at)) == [
        {"role": "user", "x": None},
        {"role": "user", "message_id": "7"},
        left,
        left,
    ]
    assert problems == [5]
