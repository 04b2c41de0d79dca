"""A turn whose beginning was erased is over: its token is gone, and a fresh fold of the log knows of no turn."""


def test_erasing_the_beginning_of_a_turn_frees_its_conversation_now_and_after_a_rebuild(store, source):
    """G36."""
    entry = store.get_or_create_session(source())
    token = store.begin_turn(entry.session_key)
    store.log.erase([store.log.last_position], actor="operator", reason="asked to")
    assert store.log.query("SELECT * FROM turns") == []
    assert not store.end_turn(token)
    store.begin_turn(entry.session_key)
    before = store.log.query("SELECT * FROM turns")
    store.rebuild()
    assert store.log.query("SELECT * FROM turns") == before
