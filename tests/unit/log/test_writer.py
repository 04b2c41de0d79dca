"""Commands: one at a time, or many in one commit."""

import asyncio
import threading

import pytest

from engine.log.errors import ConflictError, NestedCommandError
from tests.unit.log.samples import said, texts


def test_a_command_may_not_give_another(log):
    with pytest.raises(NestedCommandError):
        log.transact(lambda transaction: log.append([said()]))
    assert log.append([said()]) == [1]


def test_a_command_may_not_close_its_log(log):
    with pytest.raises(NestedCommandError, match="closed"):
        log.transact(lambda transaction: log.close())
    assert log.append([said()]) == [1]


class Batch:
    """Commands that queue while the write lock is taken, so that the writer finds all of them at once."""

    def __init__(self, log):
        self.log = log
        self.calls = []

    def together(self, transaction, commands):
        self.calls.append(len(commands))
        return [command(transaction) for command in commands]

    def run(self, commands, together):
        async def main():
            entered, leave = threading.Event(), threading.Event()

            def hold(transaction):
                entered.set()
                leave.wait(300)

            holding = self.log.transact_async(hold)
            await asyncio.to_thread(entered.wait, 30)
            given = [self.log.transact_async(command, together=together) for command in commands]
            leave.set()
            await holding
            return await asyncio.gather(*given, return_exceptions=True)

        return asyncio.run(main())


def test_neighbours_of_the_same_kind_run_as_one_call(log):
    batch = Batch(log)
    appends = [lambda transaction, n=n: transaction.append([said(str(n))]) for n in range(5)]
    assert batch.run(appends, batch.together) == [[n] for n in range(1, 6)]
    assert batch.calls == [5]


def test_commands_of_a_call_that_raises_run_one_by_one_each_with_its_own_answer(log):
    batch = Batch(log)
    commands = [
        lambda transaction: transaction.append([said("a", version=1)]),
        lambda transaction: transaction.append([said("b", version=9)]),
        lambda transaction: transaction.append([said("c", version=2)]),
    ]
    first, second, third = batch.run(commands, batch.together)
    assert (first, third) == ([1], [2])
    assert isinstance(second, ConflictError)
    assert batch.calls == [3]
    assert texts(log.events()) == ["a", "c"]


def test_commands_that_were_not_given_together_are_never_joined(log):
    batch = Batch(log)
    commands = [lambda transaction: transaction.append([said()])] * 3
    assert batch.run(commands, None) == [[1], [2], [3]]
    assert batch.calls == []


def test_a_lone_command_is_called_by_itself(log):
    batch = Batch(log)
    assert log.transact(lambda transaction: transaction.append([said()]), together=batch.together) == [1]
    assert batch.calls == []
