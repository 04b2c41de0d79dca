"""The full-text index of SQLite: questions in its language, no copy of the text, nothing left of what is deleted."""

import apsw
import pytest

from engine.log.protocol import Term
from engine.log.sqlite.text import FTS5Index, vocabulary


@pytest.fixture
def index():
    connection = apsw.Connection(":memory:")
    text = FTS5Index()
    for statement in (text.ddl("found"), *text.settings("found")):
        connection.execute(statement)
    yield text, connection
    connection.close()


def numbers(index, *terms):
    text, connection = index
    return [number for number, _ in connection.execute(text.matching("found"), (text.question(terms),))]


def test_words_are_found_by_number_and_not_after_they_were_deleted(index):
    """V8, V10."""
    text, connection = index
    connection.execute(text.insert("found"), (7, "the quick brown fox"))
    connection.execute(text.insert("found"), (-8, "the lazy dog"))
    assert numbers(index, Term("words", ("the",))) == [-8, 7]
    assert numbers(index, Term("words", ("quick", "brown"))) == [7]
    assert numbers(index, Term("words", ("la",), True)) == [-8]
    connection.execute(text.delete("found"), (7,))
    assert numbers(index, Term("words", ("quick",))) == []


def test_terms_are_spelled_in_the_language_of_the_index():
    """V8."""
    terms = [Term("open"), Term("words", ('say "it"',)), Term("or"), Term("words", ("b", "c"), True), Term("close")]
    assert FTS5Index().question([*terms, Term("not"), Term("words", ("d",))]) == '( "say ""it""" OR "b c"* ) NOT "d"'
    assert FTS5Index().question([Term("words", ("a",)), Term("and"), Term("words", ("b",))]) == '"a" AND "b"'


def test_the_words_of_an_index_can_be_read(index):
    """V7."""
    text, connection = index
    connection.execute(text.insert("found"), (7, "Ärger ärger"))
    for statement in vocabulary("found"):
        connection.execute(statement)
    assert connection.execute("SELECT * FROM vocabulary").fetchall() == [(7, "arger", 0), (7, "arger", 1)]
