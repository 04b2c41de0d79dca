"""The way of a message through the code."""

import sys
from collections.abc import Callable

import apsw
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


def test_no_statement_is_compiled_again_for_other_values(
    store: SessionStore, source: Callable[..., SessionSource]
) -> None:
    """SQLite looks at what is bound to some statements while it compiles them, unless it is told not to."""
    compiled: list[tuple[object, ...]] = []

    def note(*what: object) -> int:
        compiled.append(what)
        return apsw.SQLITE_OK

    def work(number: int) -> None:
        entry = store.get_or_create_session(source(str(number)))
        for role in ("user", "assistant"):
            message = {"role": role, "content": "hello", "message_id": f"{role}-{number}"}
            store.append_to_transcript(entry.session_id, message)
        store.end_turn(store.begin_turn(entry.session_key))
        store.update_session(entry.session_key, 5, input_tokens=2)
        store.rewind_session(entry.session_id)
        store.restore_rewound(entry.session_id)
        store.set_session_title(entry.session_id, f"title {number}")
        store.fork_session(entry.session_id)
        store.reset_session(entry.session_key)
        store.get_or_create_session(source(str(number)), touch=False)

    for connection in (store.log._backend.connection, store._cache._watch._connection):
        connection.authorizer = note  # is asked when a statement is compiled
    for number in range(3):
        work(number)
    assert compiled
    compiled.clear()
    work(3)
    assert compiled == []
