"""Reads that mean the same inside a transaction, on the reader and on a watch."""

import pytest

from engine.domain.events import LaneSuspended
from engine.log import Envelope
from tests.unit.log.samples import said, texts


@pytest.fixture(params=["transaction", "reader", "watch"])
def ask(request, log):
    """Ask one of the three a question: `ask(lambda queries: …)`."""
    log.append([said("a", "s", 1), said("b", "t", 1), said("c", "s", 2)])
    log.append([Envelope("u", 1, LaneSuspended(session_id="x")), said("d", "s", 3, time=7, actor="ada", reason="r")])
    if request.param == "transaction":
        return log.transact
    queries = log.reader if request.param == "reader" else log.watch()
    return lambda question: question(queries)


def test_payloads_are_those_of_a_stream_by_version(ask):
    found = ask(lambda queries: queries.payloads("s"))
    assert [(version, topic, position) for version, topic, _, position, _ in found] == [
        (1, "message.appended", 1),
        (2, "message.appended", 3),
        (3, "message.appended", 5),
    ]
    assert '"d"' in found[2][2]
    assert found[2][4] == 7


def test_payloads_are_bounded_by_version_and_by_position(ask):
    def versions(*bounds, **named):
        return [row[0] for row in ask(lambda queries: queries.payloads("s", *bounds, **named))]

    assert versions(1) == [2, 3]
    assert versions(1, 2) == [2]
    assert versions(until_position=4) == [1, 2]
    assert versions(0, 1, until_position=4) == [1]
    assert ask(lambda queries: queries.payloads("nobody")) == []


def test_changed_streams_leaves_out_ignored_topics_and_names_each_stream_once(ask):
    def changed(*question):
        return sorted(ask(lambda queries: queries.changed_streams(*question)))

    assert changed(0, 5) == ["s", "t", "u"]
    assert changed(2, 3) == ["s"]
    assert changed(0, 5, ["message.appended"]) == ["u"]
    assert changed(5, 5) == []


def test_recorded_gives_whole_envelopes_by_position(ask, log):
    assert ask(lambda queries: queries.recorded(1, 3)) == list(log.events(after=1, upto=3))
    assert ask(lambda queries: queries.recorded(0, 5)) == list(log.events())
    assert ask(lambda queries: queries.recorded(5, 9)) == []


def test_recorded_at_gives_the_events_of_some_positions(ask):
    found = ask(lambda queries: queries.recorded_at([5, 1, 99]))
    assert [envelope.position for envelope in found] == [1, 5]
    assert texts(found) == ["a", "d"]
    assert (found[1].stream, found[1].actor, found[1].reason) == ("s", "ada", "r")
    assert ask(lambda queries: queries.recorded_at([])) == []


def test_positions_of_are_those_of_all_named_streams(ask):
    assert ask(lambda queries: queries.positions_of(["u", "s", "nobody"], 4)) == [1, 3, 4]
    assert ask(lambda queries: queries.positions_of([], 9)) == []


def test_a_query_reads_other_tables(ask):
    assert ask(lambda queries: queries.query("SELECT count(*) FROM log WHERE stream = ?", ("s",))) == [(3,)]


def test_the_last_position_is_that_of_the_newest_event(log):
    watch = log.watch()
    assert (log.reader.last_position(), watch.last_position()) == (0, 0)
    log.append([said(), said()])
    assert (log.reader.last_position(), watch.last_position()) == (2, 2)
    assert log.transact(lambda transaction: transaction.position) == 2


def test_a_transaction_reads_what_it_has_just_appended_under_a_new_name(log):
    def command(transaction):
        transaction.append([said("new", "fresh", 1, actor="somebody")])
        return transaction.recorded(0, 1), transaction.positions_of(["fresh"], 9), transaction.changed_streams(0, 1)

    recorded, positions, changed = log.transact(command)
    assert (recorded[0].stream, recorded[0].actor, positions, changed) == ("fresh", "somebody", [1], ["fresh"])
