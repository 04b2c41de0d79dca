"""The way of a message through the code."""

import sys
from collections.abc import Callable

import pytest

import engine.log.sqlite.transaction as rows
from engine import SessionSource, SessionStore

HOPS = 8


def test_a_message_takes_at_most_eight_hops_from_the_store_to_its_row(
    store: SessionStore, source: Callable[[], SessionSource], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader can follow it: each hop is one function that calls the next."""
    ways: list[list[str]] = []
    link, session_id = rows.link, store.get_or_create_session(source()).session_id

    def linked(*arguments: object) -> bytes:
        way, frame = [], sys._getframe(1)
        while frame is not None and frame.f_code.co_name != "append_to_transcript":
            way.append(frame.f_code.co_name)
            frame = frame.f_back
        ways.append(way[::-1])
        return link(*arguments)

    monkeypatch.setattr(rows, "link", linked)
    store.append_to_transcript(session_id, {"role": "user", "content": "hello"})
    ((*hops, last),) = ways
    assert last == "_bindings"  # gives the INSERT what it binds
    assert len(hops) <= HOPS, f"the row of a message is {len(hops)} hops away: {' → '.join(hops)}"
