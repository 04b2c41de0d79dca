"""The SQLite log offers what the protocol promises, with nothing of apsw in its answers."""

import inspect

import pytest

from engine.log import RefusedError, protocol
from tests.unit.log.samples import said


def promised(kind):
    names = {name for base in kind.__mro__ for name in [*vars(base), *getattr(base, "__annotations__", ())]}
    return {name for name in names if not name.startswith("_")}


def test_the_log_and_what_it_hands_out_have_every_promised_name(log):
    log.append([said()])
    log.transact(lambda transaction: check(transaction, protocol.Transaction))
    check(log, protocol.Log)
    check(log.reader, protocol.Reader)
    check(log.watch(), protocol.Watch)


def check(thing, kind):
    assert promised(kind)
    for name in promised(kind):
        found, wanted = inspect.getattr_static(thing, name), inspect.getattr_static(kind, name, None)
        assert found is not None, name
        if inspect.isfunction(wanted):
            expected = list(inspect.signature(wanted).parameters)
            assert list(inspect.signature(getattr(type(thing), name)).parameters)[: len(expected)] == expected, name


def test_no_apsw_type_leaves_a_transaction(log):
    def command(transaction):
        assert transaction.execute("CREATE TABLE t (x)") is None
        assert transaction.executemany("INSERT INTO t VALUES (?)", [(1,), (2,)]) is None
        return transaction.query("SELECT x FROM t ORDER BY x")

    assert log.transact(command) == [(1,), (2,)]


@pytest.mark.parametrize("call", ["execute", "query", "executemany"])
def test_what_a_transaction_raises_is_an_error_of_the_log(log, call):
    def command(transaction):
        transaction.execute("CREATE TABLE t (x INTEGER PRIMARY KEY)")
        transaction.execute("INSERT INTO t VALUES (1)")
        with pytest.raises(RefusedError):
            getattr(transaction, call)("INSERT INTO t VALUES (1)", [()] if call == "executemany" else ())

    log.transact(command)
    assert log.health().storage_errors == 1
