"""Words of a chat: saving, clearing, taking back, compressing, branching and copying (W8, W9)."""

import math
from collections.abc import Callable
from typing import Any

import pytest

from engine import (
    ChatSession,
    ConflictError,
    Platform,
    SessionCatalog,
    SessionSource,
    SessionStore,
    UnknownSessionError,
)
from projections.inline import transcripts
from tests.gateway.support import FakeClock


def user(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "user", "content": text, **more}


def answer(text: str, **more: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": text, **more}


TALK = [user("one"), answer("1"), user("two"), answer("2", tool="x"), user("three")]
CONTEXT = [{"role": "system", "content": "be kind"}, user("one"), answer("1"), user("two"), answer("2"), user("three")]
CALLS = [{"name": "read", "done": True}, {"name": "write"}]
CHANGES: dict[str, Callable[..., Any]] = {
    "save": lambda catalog, chat, **options: catalog.save_messages(chat, [*TALK, answer("3")], **options),
    "clear": lambda catalog, chat, **options: catalog.clear_session(chat, **options),
    "truncate": lambda catalog, chat, **options: catalog.truncate_session(chat, 1, **options),
    "undo": lambda catalog, chat, **options: catalog.undo(chat, **options),
    "retry": lambda catalog, chat, **options: catalog.retry(chat, **options),
    "compress": lambda catalog, chat, **options: catalog.compress_session(chat, [user("so far")], **options),
    "branch": lambda catalog, chat, **options: catalog.branch_session(chat, **options),
    "duplicate": lambda catalog, chat, **options: catalog.duplicate_session(chat, **options),
}


@pytest.fixture
def chat(catalog: SessionCatalog) -> ChatSession:
    """A chat in which much was said."""
    chat = catalog.new_session(model="large", profile="ada")
    chat = catalog.rename_session(chat.session_id, "Trip")
    return catalog.save_messages(chat.session_id, TALK, CONTEXT, CALLS)


def topics(store: SessionStore, after: int) -> list[str]:
    return [each.event.topic for each in store.log.events(after)]


@pytest.mark.parametrize("name", CHANGES)
def test_a_stale_version_changes_nothing(
    catalog: SessionCatalog, store: SessionStore, chat: ChatSession, name: str
) -> None:
    """W10."""
    before = store.log.last_position
    with pytest.raises(ConflictError):
        CHANGES[name](catalog, chat.session_id, expected_version=chat.version - 1)
    assert store.log.last_position == before
    CHANGES[name](catalog, chat.session_id, expected_version=chat.version)
    assert store.log.last_position > before


@pytest.mark.parametrize("name", CHANGES)
def test_an_unknown_or_malformed_session_is_refused(catalog: SessionCatalog, name: str) -> None:
    """W2, W4."""
    with pytest.raises(UnknownSessionError):
        CHANGES[name](catalog, "nobody")
    with pytest.raises(ValueError, match="session_id must be"):
        CHANGES[name](catalog, "a/b")


def test_what_is_saved_comes_back_as_it_was_given(chat: ChatSession) -> None:
    """W8."""
    assert (chat.messages, chat.context_messages, chat.tool_calls) == (TALK, CONTEXT, CALLS)


def test_only_what_is_new_is_appended(
    catalog: SessionCatalog, store: SessionStore, chat: ChatSession, clock: FakeClock
) -> None:
    """W8."""
    before = store.log.last_position
    clock.advance(seconds=5)
    again = catalog.save_messages(chat.session_id, [*chat.messages, answer("3")])
    assert topics(store, before) == ["message.appended", "session.touched"]
    assert again.messages == [*TALK, answer("3")]
    assert (again.context_messages, again.tool_calls) == (CONTEXT, CALLS)
    assert again.updated_at == chat.updated_at + 5
    assert catalog.save_messages(chat.session_id, again.messages, touch=False).version == again.version


def test_while_no_context_was_given_it_is_empty(catalog: SessionCatalog) -> None:
    """W8."""
    chat = catalog.save_messages(catalog.new_session().session_id, TALK)
    assert (chat.context_messages, chat.tool_calls) == ([], [])


def test_context_and_tool_calls_replace_theirs(catalog: SessionCatalog, store: SessionStore, chat: ChatSession) -> None:
    """W8: and what stays of them is not stored again."""
    before = store.log.last_position
    longer = [*CONTEXT, answer("3")]
    assert catalog.save_messages(chat.session_id, TALK, longer, touch=False).context_messages == longer
    [event] = [each.event for each in store.log.events(before)]
    assert (event.keep, event.messages) == (len(CONTEXT), [answer("3")])  # type: ignore[union-attr]
    other = [{"role": "system", "content": "be short"}]
    changed = catalog.save_messages(chat.session_id, TALK, other, [])
    assert (changed.context_messages, changed.tool_calls) == (other, [])
    assert catalog.save_messages(chat.session_id, TALK, []).context_messages == []


def test_a_stored_message_may_come_back_with_more_keys(
    catalog: SessionCatalog, store: SessionStore, chat: ChatSession
) -> None:
    """W8: each time by an event of its own; everybody sees them."""
    before = store.log.last_position
    more = [*TALK[:1], {**TALK[1], "usage": {"tokens": 7}}, *TALK[2:]]
    assert catalog.save_messages(chat.session_id, more, touch=False).messages == more
    assert topics(store, before) == ["message.extended"]
    more[1] = {**more[1], "liked": True}
    more[3] = {**more[3], "usage": None}
    assert catalog.save_messages(chat.session_id, more).messages == more
    assert catalog.get_session(chat.session_id).messages == more
    assert [store.load_transcript(chat.session_id)[place].get("usage", 0) for place in (0, 1, 3)] == [
        0,
        {"tokens": 7},
        None,
    ]
    branch = catalog.branch_session(chat.session_id, at=2)
    assert branch.messages == more[:2]
    again = [more[0], {**more[1], "seen": 1}]
    assert catalog.save_messages(branch.session_id, again).messages == again
    assert catalog.get_session(chat.session_id).messages == more


def test_keys_are_added_to_messages_that_share_an_event(catalog: SessionCatalog, store: SessionStore) -> None:
    """W8: those of a gateway's summary have one position."""
    entry = store.get_or_create_session(SessionSource(platform=Platform.TELEGRAM, chat_id="4711"))
    child = store.compress_session(entry.session_id, None, [user("so far"), answer("ok")])
    for messages in ([user("so far"), answer("ok", usage=7)], [user("so far", seen=1), answer("ok", usage=7, liked=1)]):
        assert catalog.save_messages(child, messages).messages == messages
        assert catalog.get_session(child).messages == messages
        assert store.load_transcript(child)[1]["usage"] == 7


@pytest.mark.parametrize(
    ("messages", "problem"),
    [
        (TALK[:-1], "has 4 of the 5 stored ones"),
        ([], "has 0 of the 5"),
        ([*TALK[:2], user("other"), *TALK[3:]], r"messages\[2\] has another 'content'"),
        ([*TALK[:3], answer("2"), *TALK[4:]], r"messages\[3\] has another 'tool'"),
        ([*TALK, "text"], "a message must be a dict"),
        ("text", "messages must be a list"),
    ],
)
def test_any_other_difference_and_a_shorter_list_are_refused(
    catalog: SessionCatalog, chat: ChatSession, messages: Any, problem: str
) -> None:
    """W8: nothing of it happens."""
    with pytest.raises(ValueError, match=problem):
        catalog.save_messages(chat.session_id, messages, [], [])
    assert catalog.get_session(chat.session_id) == chat


@pytest.mark.parametrize(
    "odd", [math.nan, [math.inf], "\ud800", {"$text": 1}, 10**5000, {"a": {"\ud800": 1}}, "\0"], ids=type
)
def test_odd_values_are_recognised_when_they_come_back(catalog: SessionCatalog, odd: Any) -> None:
    """W8."""
    chat = catalog.save_messages(catalog.new_session().session_id, [user("x", odd=odd)], [user("y", odd=odd)], [odd])
    again = catalog.save_messages(chat.session_id, chat.messages, chat.context_messages, chat.tool_calls, touch=False)
    assert again.version == chat.version


def test_a_long_history_is_compared_before_the_lock(
    catalog: SessionCatalog, chat: ChatSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W8: what is far back is read while others may write."""
    monkeypatch.setattr("engine.work._NEAR", 2)
    longer = [*TALK, answer("3")]
    assert catalog.save_messages(chat.session_id, longer, [*CONTEXT, answer("3")], CALLS[:1]).messages == longer
    with pytest.raises(ValueError, match="has 1 of the 6"):
        catalog.save_messages(chat.session_id, longer[:1])
    assert catalog.undo(chat.session_id).context_messages == CONTEXT[:-1]
    assert catalog.truncate_session(chat.session_id, 1).messages == TALK[:1]
    assert catalog.branch_session(chat.session_id, 1).messages == TALK[:1]


def test_clearing_empties_a_session_and_keeps_its_settings(catalog: SessionCatalog, chat: ChatSession) -> None:
    """W9."""
    cleared = catalog.clear_session(chat.session_id)
    assert (cleared.title, cleared.messages, cleared.context_messages, cleared.tool_calls) == ("Untitled", [], [], [])
    assert (cleared.model, cleared.profile, cleared.created_at) == ("large", "ada", chat.created_at)
    assert catalog.save_messages(chat.session_id, TALK[:2]).messages == TALK[:2]


@pytest.mark.parametrize(
    ("keep", "context"),
    [(5, CONTEXT), (9, CONTEXT), (4, CONTEXT[:5]), (3, CONTEXT[:5]), (2, CONTEXT[:3]), (0, CONTEXT[:1])],
)
def test_truncating_takes_as_many_turns_off_the_context(
    catalog: SessionCatalog, chat: ChatSession, keep: int, context: list[Any]
) -> None:
    """W9."""
    left = catalog.truncate_session(chat.session_id, keep)
    assert (left.messages, left.context_messages, left.tool_calls) == (TALK[:keep], context, CALLS)
    again = catalog.save_messages(chat.session_id, [*TALK[:keep], user("more")])
    assert again.messages == [*TALK[:keep], user("more")]


@pytest.mark.parametrize("keep", [-1, True, "1", None, 1.0])
def test_a_number_of_messages_that_is_none_is_refused(catalog: SessionCatalog, chat: ChatSession, keep: Any) -> None:
    """W9."""
    with pytest.raises(ValueError, match="keep must be"):
        catalog.truncate_session(chat.session_id, keep)


def test_undo_takes_the_last_turn_off_both(catalog: SessionCatalog, chat: ChatSession) -> None:
    """W9."""
    assert catalog.undo(chat.session_id).messages == TALK[:4]
    undone = catalog.undo(chat.session_id)
    assert (undone.messages, undone.context_messages) == (TALK[:2], CONTEXT[:3])


def test_retry_gives_back_what_to_send_again(catalog: SessionCatalog, chat: ChatSession) -> None:
    """W9."""
    catalog.save_messages(chat.session_id, [*TALK, answer("3")])
    assert catalog.retry(chat.session_id) == {"removed_count": 2, "text": "three", "message": user("three")}
    left = catalog.get_session(chat.session_id)
    assert (left.messages, left.context_messages) == (TALK[:4], CONTEXT[:5])


@pytest.mark.parametrize("name", ["undo", "retry"])
def test_without_a_user_message_nothing_is_undone(catalog: SessionCatalog, name: str) -> None:
    """W9."""
    chat = catalog.save_messages(catalog.new_session().session_id, [answer("hello")])
    with pytest.raises(ValueError, match=f"no message of a user to {name}"):
        getattr(catalog, name)(chat.session_id)
    assert catalog.get_session(chat.session_id) == chat


def test_compressing_replaces_both_and_keeps_the_id(catalog: SessionCatalog, chat: ChatSession) -> None:
    """W9."""
    shorter, context = [user("so far"), TALK[4]], [{"role": "system", "content": "summary"}]
    after = catalog.compress_session(chat.session_id, shorter, context)
    assert (after.session_id, after.messages, after.context_messages) == (chat.session_id, shorter, context)
    assert (after.tool_calls, after.title, after.model) == ([], "Trip", "large")
    assert catalog.compress_session(chat.session_id, shorter[:1]).context_messages == []


def test_a_branch_goes_on_from_a_message(catalog: SessionCatalog, chat: ChatSession, clock: FakeClock) -> None:
    """W9."""
    catalog.pin_session(chat.session_id)
    clock.advance(seconds=5)
    branch = catalog.branch_session(chat.session_id, at=2)
    assert (branch.title, branch.messages) == ("Trip (fork)", TALK[:2])
    assert (branch.model, branch.profile, branch.pinned) == ("large", "ada", False)
    assert (branch.context_messages, branch.tool_calls) == ([], [])
    assert branch.parent_session_id == chat.session_id
    assert branch.created_at == chat.created_at + 5
    assert catalog.save_messages(branch.session_id, [*TALK[:2], user("else")]).messages[-1] == user("else")
    assert catalog.get_session(chat.session_id).messages == TALK
    assert catalog.branch_session(chat.session_id, title="Other").title == "Other"
    assert catalog.branch_session(chat.session_id, at=TALK[1]).messages == TALK[:2]
    assert catalog.branch_session(chat.session_id, at=0).messages == []
    for bad in (-1, 6, True, 1.5):
        with pytest.raises(ValueError, match="at must be"):
            catalog.branch_session(chat.session_id, at=bad)


def test_a_copy_has_all_but_pin_archive_and_anchors(
    catalog: SessionCatalog, chat: ChatSession, clock: FakeClock
) -> None:
    """W9."""
    project = catalog.create_project("Website")["project_id"]
    chat_id = chat.session_id
    catalog.move_to_project(chat_id, project)
    catalog.record_usage(chat_id, 5, 6, 0.5)
    catalog.pin_session(chat_id)
    catalog.archive_session(chat_id)
    catalog.set_attributes(
        chat_id,
        compression_anchor_visible_idx=3,
        compression_anchor_message_key="k",
        last_prompt_tokens=9,
        context_length=100,
        theme="dark",
        parent_session_id="older",
    )
    clock.advance(seconds=5)
    original, copy = catalog.get_session(chat_id), catalog.duplicate_session(chat_id)
    differ = {
        name: getattr(copy, name)
        for name in ChatSession.__struct_fields__
        if getattr(copy, name) != getattr(original, name)
    }
    assert differ == {
        "session_id": copy.session_id,
        "title": "Trip (copy)",
        "created_at": original.created_at + 5,
        "updated_at": original.created_at + 5,
        "pinned": False,
        "archived": False,
        "last_prompt_tokens": None,
        "compression_anchor_visible_idx": None,
        "compression_anchor_message_key": None,
        "version": copy.version,
    }
    catalog.truncate_session(chat_id, 1)
    assert catalog.get_session(copy.session_id) == copy
    assert catalog.duplicate_session(catalog.new_session().session_id).parent_session_id is None


def test_a_branch_of_a_rotated_session_is_of_the_same(catalog: SessionCatalog, chat: ChatSession) -> None:
    """W9."""
    catalog.rotate_session(chat.session_id, "second")
    assert catalog.branch_session("second", at=1).messages == TALK[:1]
    assert catalog.duplicate_session("second").messages == TALK


def test_reading_from_memory_and_from_the_log_is_the_same(
    catalog: SessionCatalog, chat: ChatSession, store: SessionStore, open_store: Callable[..., SessionStore]
) -> None:
    """W8: extended messages that were undone and restored among them."""
    more = [{**message, "extra": place} for place, message in enumerate(TALK)]
    catalog.save_messages(chat.session_id, more)
    catalog.undo(chat.session_id)
    store.restore_rewound(chat.session_id)
    assert catalog.get_session(chat.session_id).messages == more
    again = SessionCatalog(open_store())
    assert again.get_session(chat.session_id).messages == more
    assert transcripts.Transcripts(0).live(store.log.reader, chat.session_id) is not None
