"""G47a: rewriting a transcript frees the platform ids of what it leaves out, also of what it had inherited."""

import pytest


def message(number: int) -> dict[str, object]:
    return {"role": "user", "content": f"words {number}", "message_id": f"p{number}"}


@pytest.fixture
def session_id(store, source):
    session_id = store.get_or_create_session(source()).session_id
    store.append_messages(session_id, [message(number) for number in range(1, 4)])
    return session_id


def known(store, session_id):
    return {number for number in range(1, 5) if store.has_platform_message_id(session_id, f"p{number}")}


def test_a_rewrite_frees_the_ids_it_leaves_out_and_the_message_can_be_sent_again(store, session_id):
    """G47a."""
    store.rewrite_transcript(session_id, [message(2)])
    assert known(store, session_id) == {2}
    assert store.append_to_transcript(session_id, message(1)) is not None
    assert store.append_to_transcript(session_id, message(2)) is None


def test_compression_undo_and_restart_keep_the_ids(store, session_id, open_store):
    """G47a."""
    store.rewind_session(session_id)
    child = store.compress_session(session_id, None, [{"role": "system", "content": "so far"}])
    store.close()
    assert known(open_store(), child) == {1, 2, 3}


def test_rewriting_a_compressed_child_frees_what_was_carried_and_left_out_but_not_what_the_summary_stands_for(
    store, session_id
):
    """G47a."""
    child = store.compress_session(session_id, None, [{"role": "system", "content": "so far"}], covers=1)
    store.rewrite_transcript(child, [message(3)])
    assert known(store, child) == {1, 3}
    before = store.log.query("SELECT conversation_id, message_id, session_id FROM message_ids ORDER BY 1, 2")
    store.rebuild()
    assert store.log.query("SELECT conversation_id, message_id, session_id FROM message_ids ORDER BY 1, 2") == before


def test_rewriting_a_fork_frees_the_ids_it_came_with_and_leaves_the_original_alone(store, session_id):
    """G47a."""
    fork = store.fork_session(session_id)
    assert known(store, fork) == {1, 2, 3}
    store.rewrite_transcript(fork, [message(2)])
    assert known(store, fork) == {2}
    assert known(store, session_id) == {1, 2, 3}


def test_erasing_in_an_earlier_segment_leaves_freed_ids_free(store, session_id):
    """G47a: the tables after an erasure are what a fresh fold of the log makes."""
    child = store.compress_session(session_id, None, [{"role": "system", "content": "so far"}], covers=1)
    store.rewrite_transcript(child, [message(3)])
    first = store.log.query("SELECT position FROM log WHERE topic = 'message.appended' ORDER BY 1 LIMIT 1")[0][0]
    store.log.erase([first], actor="operator", reason="asked to")
    assert known(store, child) == {3}
    before = store.log.query("SELECT * FROM message_ids ORDER BY 1, 2")
    store.rebuild()
    assert store.log.query("SELECT * FROM message_ids ORDER BY 1, 2") == before


def test_a_fork_within_a_summary_knows_the_ids_up_to_where_it_was_made(store, session_id):
    """G43, G47: the messages of a summary are recorded by one event; a fork has some of them, a fork of it fewer."""
    child = store.compress_session(session_id, None, [message(4), message(5), message(6)])
    fork = store.fork_session(child, at="p5")
    again = store.fork_session(fork, at="p4")
    assert [store.has_platform_message_id(fork, f"p{n}") for n in range(1, 7)] == [True] * 5 + [False]
    assert [store.has_platform_message_id(again, f"p{n}") for n in range(1, 7)] == [True] * 4 + [False] * 2
    assert store.append_to_transcript(fork, message(6)) is not None
    assert store.append_to_transcript(again, message(4)) is None
    assert store.has_platform_message_id(store.fork_session(child), "p6")


def test_a_fork_of_a_compressed_session_knows_what_its_conversation_knew_then(store, source):
    """G43, G47: it is made right after a summary that its own history has nothing of."""
    closed = store.get_or_create_session(source()).session_id
    store.get_or_create_session(source(), force_new=True)
    store.compress_session(closed, None, [message(4)])
    assert store.has_platform_message_id(store.fork_session(closed), "p4")


def test_a_rewritten_parent_leaves_its_child_the_ids_that_the_summary_has(store, session_id):
    """G47a: what is still said in the conversation is known."""
    child = store.compress_session(session_id, None, [message(2)])
    store.rewrite_transcript(session_id, [])
    assert known(store, child) == {2}
