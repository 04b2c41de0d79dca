"""Turns as blocks: each begins when the one before it has ended, in the session that its lane leads to by then."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from engine import AsyncSessionStore, SessionSource, SessionStore, TurnInProgressError, TurnLostError, events
from tests.gateway.support import source as source_of

HELLO = {"role": "user", "content": "hello"}
ADA = source_of()


def outcomes(store: SessionStore) -> list[tuple[str, str | None]]:
    ended = [each.event for each in store.log.events(topics=["turn.ended"])]
    return [(event.outcome, event.error) for event in ended if isinstance(event, events.TurnEnded)]


def in_a_thread(call: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(call()))
    thread.start()
    return thread, found


def test_a_turn_waits_for_the_one_before_it_and_is_routed_again(store: SessionStore) -> None:
    """G36, regression 12: what it was routed to first was reset while it waited."""
    begun = threading.Event()

    def second() -> str:
        begun.set()
        with store.turn(ADA) as turn:
            turn.append(HELLO)
            return turn.session_id

    with store.turn(ADA) as first:
        thread, found = in_a_thread(second)
        assert begun.wait(300)
        assert first.append(HELLO) is not None
        reset = store.reset_session(first.session_key)
        assert reset is not None
        assert found == []
    thread.join(300)
    assert found == [reset.session_id] != [first.session_id]
    assert [len(store.load_transcript(each)) for each in (first.session_id, reset.session_id)] == [1, 1]


def test_a_task_waits_too_and_is_routed_again(store: SessionStore) -> None:
    """G36, regression 12, for AsyncTurn."""

    async def second(awaitable: AsyncSessionStore) -> str:
        async with awaitable.turn(ADA) as turn:
            return turn.session_id

    async def both() -> tuple[str, str]:
        async with AsyncSessionStore(store) as awaitable:
            async with awaitable.turn(ADA) as first:
                waiting = asyncio.ensure_future(second(awaitable))
                await asyncio.sleep(0.01)
                reset = await awaitable.reset_session(first.session_key)
                assert reset is not None
                assert not waiting.done()
            return await waiting, reset.session_id

    got, expected = asyncio.run(both())
    assert got == expected


@pytest.mark.parametrize("wait", [0, 0.02])
def test_who_will_not_wait_longer_is_refused_with_who_has_the_turn(store: SessionStore, wait: float) -> None:
    def second() -> BaseException | None:
        try:
            with store.turn(ADA, wait=wait):
                return None
        except TurnInProgressError as error:
            return error

    with store.turn(ADA):
        thread, found = in_a_thread(second)
        thread.join(300)
    assert isinstance(found[0], TurnInProgressError)
    with store.turn(ADA, wait=wait):
        pass


def test_a_turn_ends_or_fails_with_its_block(store: SessionStore) -> None:
    with store.turn(ADA) as turn:
        turn.append(HELLO)
    with pytest.raises(RuntimeError), store.turn(ADA):
        raise RuntimeError("the model said no")
    assert outcomes(store) == [("finished", None), ("failed", "RuntimeError: the model said no")]


def test_a_turn_renews_itself_for_as_long_as_its_block_runs(store: SessionStore) -> None:
    renewed = threading.Event()
    renew = store.runner.renewals._renew
    store.runner.renewals._renew = lambda *lease: (renew(*lease), renewed.set())[0]
    with store.turn(ADA, lease_seconds=0.3) as turn:
        assert renewed.wait(300)
        turn.append(HELLO)
    assert [each.event.topic for each in store.log.events() if each.event.topic.startswith("turn.")][:2] == [
        "turn.begun",
        "turn.renewed",
    ]


def test_every_write_of_a_turn_that_lost_its_lease_is_refused(
    store: SessionStore, open_store: Callable[..., SessionStore], clock: Any, source: Callable[..., SessionSource]
) -> None:
    """Regression 12: a worker that lost its lease cannot write after the one that took over."""
    with store.turn(source()) as lost:
        lost.append(HELLO)
        before = store.load_transcript(lost.session_id)
        clock.advance(minutes=11)
        with open_store(actor="another worker").turn(source()) as turn:
            for write in (
                lambda: lost.append(HELLO),
                lambda: lost.append_messages([HELLO]),
                lost.retry,
                lambda: store.rewrite_transcript(lost.session_id, [], turn=lost.token),
                lambda: store.compress_session(lost.session_id, turn=lost.token),
            ):
                with pytest.raises(TurnLostError, match=lost.token):
                    write()
            assert store.load_transcript(lost.session_id) == before
            assert turn.append(HELLO) is not None


def test_a_turn_has_its_facts_inside_its_block_alone(store: SessionStore) -> None:
    turn = store.turn(ADA)
    for fact in ("entry", "session_key", "session_id", "token"):
        with pytest.raises(ValueError, match="inside its block"):
            getattr(turn, fact)
