"""V8 to V10: what is live is found, in every script, and what is not live is not."""

import pytest

from engine import Platform, SessionSource, SessionStore
from engine.log.sqlite.tables import SQLiteTables
from projections.views.find import Question, find
from projections.views.runner import ViewRunner
from projections.views.search import Search


@pytest.fixture
def store(tmp_path):
    with SessionStore(tmp_path, synchronous="OFF", views=False) as store:
        yield store


@pytest.fixture
def search(store, tmp_path):
    tables = SQLiteTables(tmp_path / "views.db")
    runner = ViewRunner(store.log, tables, [Search(tables.text)])

    def ask(text, limit=20, cursor=None, **filters):
        while runner.step():
            pass
        return find(tables, store.log.reader, Question(text, **filters), limit, cursor, None)

    yield ask
    runner.stop()


@pytest.fixture
def session_id(store):
    return store.get_or_create_session(SessionSource(Platform.TELEGRAM, "1", user_id="ada")).session_id


def say(store, session_id, *texts, role="user"):
    return store.append_messages(session_id, [{"role": role, "content": text} for text in texts])


def snippets(hits):
    return [hit.snippet for hit in hits.items]


def test_words_phrases_prefixes_and_operators(store, session_id, search):
    """V8."""
    say(store, session_id, "the quick brown fox", "the lazy dog", "brown dogs run quick")
    assert snippets(search('"brown fox"')) == ["the quick **brown** **fox**"]
    assert snippets(search("dog*", order="newest")) == ["brown **dogs** run quick", "the lazy **dog**"]
    assert len(search("quick AND brown").items) == 2
    assert snippets(search("quick NOT dogs")) == ["the **quick** brown fox"]
    assert len(search("fox OR lazy").items) == 2
    assert len(search("(fox OR lazy) AND the").items) == 2


@pytest.mark.parametrize(
    "text",
    [
        "AND",
        "fox AND",
        "(fox",
        "fox)",
        "NOT fox",
        '"fox',
        "fox*)",
        "fox NEAR(",
        "a:fox",
        "^fox",
        "{fox}",
        "-fox",
        "fox + 'x",
    ],
)
def test_what_is_no_valid_question_is_searched_as_plain_words(store, session_id, search, text):
    """V8."""
    say(store, session_id, "a fox and x near", "NOT a fox and x near AND")
    assert search(text).items


@pytest.mark.parametrize("text", ["", "   ", "!!!", '""', "()"])
def test_a_question_without_words_finds_nothing(store, session_id, search, text):
    say(store, session_id, "words")
    assert search(text).items == []


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("Crème brûlée", "creme brulee"),
        ("ÜBERMUT", "ubermut"),
        ("我喜欢北京烤鸭", "北京"),
        ("我喜欢北京烤鸭", "鸭"),
        ("東京タワーに行く", "タワー"),
        ("안녕하세요 세계", "안녕"),
        ("Привет, мир", "привет"),
        ("مرحبا بالعالم", "مرحبا"),
        ("well done 🎉 team", "🎉"),
        ("नमस्ते दुनिया", "नमस्ते"),
        ("สวัสดีชาวโลก", "สวัสดี"),
    ],
)
def test_every_script_is_found(store, session_id, search, words, asked):
    """V9."""
    say(store, session_id, words, "something else")
    assert len(search(asked).items) == 1


def test_text_parts_count_and_tool_output_only_when_it_is_asked_for(store, session_id, search):
    """V9."""
    parts = [{"type": "text", "text": "in a part"}, {"type": "image_url", "image_url": {"url": "part"}}]
    store.append_to_transcript(session_id, {"role": "user", "content": parts})
    say(store, session_id, "the part of a tool", role="tool")
    assert [hit.role for hit in search("part").items] == ["user"]
    assert [hit.role for hit in search("part", role="tool").items] == ["tool"]


def test_undone_rewritten_and_erased_text_is_not_found_and_restored_text_is(store, session_id, search):
    """V8, G51."""
    say(store, session_id, "first word", "second word")
    store.rewind_session(session_id)
    assert snippets(search("word")) == ["first **word**"]
    store.rewind_session(session_id)
    assert search("word").items == []
    store.restore_rewound(session_id)
    assert snippets(search("word")) == ["first **word**"]
    store.restore_rewound(session_id)
    assert len(search("word").items) == 2
    (position,) = say(store, session_id, "third word")
    store.log.erase([position], actor="operator", reason="asked to")
    assert len(search("word").items) == 2
    store.rewrite_transcript(session_id, [{"role": "user", "content": "new word"}])
    assert snippets(search("word")) == ["new **word**"]


def test_undoing_in_a_fork_hides_its_own_messages_before_those_it_inherits(store, session_id, search):
    """V8, G43."""
    say(store, session_id, "one word", "two word")
    fork = store.fork_session(session_id)
    say(store, fork, "three word")
    store.rewind_session(fork, 2)
    say(store, fork, "four word")
    assert snippets(search("word", session_id=fork)) == ["four **word**"]
    store.rewind_session(fork, 2)
    assert search("word", session_id=fork).items == []
    store.restore_rewound(fork)
    assert snippets(search("word", session_id=fork)) == ["four **word**"]
    assert len(search("word", session_id=session_id).items) == 2


def test_filters_and_pages(store, session_id, search):
    """V8."""
    other = store.get_or_create_session(SessionSource(Platform.SLACK, "2", user_id="bob"))
    say(store, session_id, *(f"word {number}" for number in range(5)))
    say(store, other.session_id, "word of bob")
    assert [hit.session_id for hit in search("word", platform="slack").items] == [other.session_id]
    assert len(search("word", user_id="ada").items) == 5
    assert len(search("word", lane=other.session_key).items) == 1
    page = search("word", limit=4, order="newest")
    rest = search("word", limit=4, order="newest", cursor=page.next_cursor)
    positions = [hit.position for hit in [*page.items, *rest.items]]
    assert positions == sorted(positions, reverse=True)
    assert len(positions) == 6
    assert rest.next_cursor is None
    with pytest.raises(ValueError, match="another question"):
        search("other", cursor=page.next_cursor)
    with pytest.raises(ValueError, match="not one that search"):
        search("word", cursor="nonsense")
