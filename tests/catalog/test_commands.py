"""Commands on a chat: drafts, titles, places, attributes, other ids, deletion (W2 to W4, W8 to W10)."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from engine import (
    ChatSession,
    ChatSummary,
    ConflictError,
    Platform,
    SessionCatalog,
    SessionSource,
    SessionStore,
    UnknownSessionError,
)
from tests.gateway.support import FakeClock

BAD_IDS = ["", "a/b", "..", "a b", "ä", "a" * 129, "agent:main", None, 7, "a\n"]
CHANGES: dict[str, Callable[..., Any]] = {
    "rename": lambda catalog, chat, **options: catalog.rename_session(chat, "Trip", **options),
    "pin": lambda catalog, chat, **options: catalog.pin_session(chat, **options),
    "archive": lambda catalog, chat, **options: catalog.archive_session(chat, **options),
    "move": lambda catalog, chat, **options: catalog.move_to_project(chat, None, **options),
    "attributes": lambda catalog, chat, **options: catalog.set_attributes(chat, model="large-2", **options),
    "usage": lambda catalog, chat, **options: catalog.record_usage(chat, 5, 6, 0.5, **options),
}
OTHERS: dict[str, Callable[..., Any]] = {
    "rotate": lambda catalog, chat, **options: catalog.rotate_session(chat, "another", **options),
    "delete": lambda catalog, chat, **options: catalog.delete_session(chat, **options),
}
FIELDS = {
    "rename": {"title": "Trip"},
    "pin": {"pinned": True},
    "archive": {"archived": True},
    "move": {"project_id": None},
    "attributes": {"model": "large-2"},
    "usage": {"input_tokens": 5, "output_tokens": 6, "estimated_cost": 0.5},
}


def test_a_new_session_has_an_id_of_twelve_hex_digits_and_is_there_at_once(catalog: SessionCatalog) -> None:
    """W2, W3."""
    chat = catalog.new_session()
    assert re.fullmatch("[0-9a-f]{12}", chat.session_id)
    assert catalog.get_session(chat.session_id) == chat
    assert chat.created_at == chat.updated_at == 1782915930.0
    assert (chat.title, chat.messages, chat.context_messages) == ("Untitled", [], [])


def test_what_is_given_wins_over_what_the_host_says(store: SessionStore, tmp_path: Path) -> None:
    """W3."""
    asked: list[str] = []

    def says(what: str) -> Callable[[], str]:
        return lambda: asked.append(what) or f"{tmp_path}/{what}"  # type: ignore[func-returns-value]

    catalog = SessionCatalog(
        store, last_workspace=says("last"), default_model=says("default"), active_profile=says("active")
    )
    given = catalog.new_session(f"{tmp_path}/mine/../own", "large", "ada", " OpenAI ")
    assert asked == []
    assert (given.workspace, given.model, given.profile) == (f"{tmp_path}/own", "large", "ada")
    assert given.model_provider == "openai"
    told = catalog.new_session()
    assert (told.workspace, told.model, told.profile) == tuple(f"{tmp_path}/{each}" for each in asked)
    assert asked == ["last", "default", "active"]


def test_a_draft_depends_on_no_memory(open_store: Callable[..., SessionStore]) -> None:
    """W3."""
    store = open_store()
    chat = SessionCatalog(store).new_session(model="large")
    store.close()
    assert SessionCatalog(open_store()).get_session(chat.session_id) == chat


@pytest.mark.parametrize("bad", BAD_IDS)
def test_a_malformed_id_is_a_key_error_to_ask_for_and_a_value_error_to_change(
    catalog: SessionCatalog, bad: Any
) -> None:
    """W2."""
    with pytest.raises(KeyError):
        catalog.get_session(bad)
    for change in (CHANGES | OTHERS).values():
        with pytest.raises(ValueError, match="session_id must be"):
            change(catalog, bad)
    with pytest.raises(ValueError, match="new_id must be"):
        catalog.rotate_session(catalog.new_session().session_id, bad)


@pytest.mark.parametrize("name", CHANGES | OTHERS)
def test_an_unknown_session_is_an_unknown_session_error_and_a_key_error(catalog: SessionCatalog, name: str) -> None:
    """W4."""
    for error in (UnknownSessionError, KeyError):
        with pytest.raises(error, match="there is no session 'nobody'"):
            (CHANGES | OTHERS)[name](catalog, "nobody")
        with pytest.raises(error):
            catalog.get_session("nobody", metadata_only=True)


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_returned_and_stays(catalog: SessionCatalog, clock: FakeClock, name: str) -> None:
    """W8."""
    chat = catalog.new_session()
    clock.advance(seconds=5)
    changed = CHANGES[name](catalog, chat.session_id)
    assert isinstance(changed, ChatSession)
    assert {field: getattr(changed, field) for field in FIELDS[name]} == FIELDS[name]
    assert changed.updated_at == chat.updated_at + 5
    assert catalog.get_session(chat.session_id) == changed


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_without_touch_leaves_the_time(catalog: SessionCatalog, clock: FakeClock, name: str) -> None:
    """W8."""
    chat = catalog.set_attributes(catalog.new_session().session_id)
    clock.advance(seconds=5)
    assert CHANGES[name](catalog, chat.session_id, touch=False).updated_at == chat.updated_at


@pytest.mark.parametrize("name", CHANGES | OTHERS)
def test_a_stale_version_changes_nothing(catalog: SessionCatalog, store: SessionStore, name: str) -> None:
    """W10."""
    chat = catalog.new_session()
    now = catalog.pin_session(chat.session_id, pinned=False)
    before = store.log.last_position
    with pytest.raises(ConflictError, match=f"at version {now.version}, not {chat.version}"):
        (CHANGES | OTHERS)[name](catalog, chat.session_id, expected_version=chat.version)
    assert store.log.last_position == before
    (CHANGES | OTHERS)[name](catalog, chat.session_id, expected_version=now.version)


@pytest.mark.parametrize("version", ["1", -1, True, 1.0])
def test_a_version_that_is_none_is_refused(catalog: SessionCatalog, version: Any) -> None:
    """W10."""
    with pytest.raises(ValueError, match="expected_version must be"):
        catalog.pin_session(catalog.new_session().session_id, expected_version=version)


def test_a_change_that_changes_nothing_only_touches(catalog: SessionCatalog, store: SessionStore) -> None:
    """W8."""
    chat = catalog.pin_session(catalog.new_session().session_id)
    before = store.log.last_position
    catalog.pin_session(chat.session_id)
    catalog.set_attributes(chat.session_id)
    assert [each.event.topic for each in store.log.events(before)] == ["session.touched"] * 2
    assert catalog.pin_session(chat.session_id, touch=False).version == chat.version + 2


def test_titles_are_lines_of_words_and_several_may_have_one(catalog: SessionCatalog) -> None:
    """W8."""
    one, other = catalog.new_session(), catalog.new_session()
    assert catalog.rename_session(one.session_id, "  Trip to\nDelft ").title == "Trip to Delft"
    assert catalog.rename_session(other.session_id, "Trip to Delft").title == "Trip to Delft"
    for nothing in ("", "Untitled", " "):
        assert catalog.rename_session(one.session_id, nothing).title == "Untitled"
    with pytest.raises(ValueError, match="title must be text"):
        catalog.rename_session(one.session_id, None)  # type: ignore[arg-type]


def test_attributes_keep_what_they_are_and_unknown_ones_come_back(catalog: SessionCatalog, tmp_path: Path) -> None:
    """W1, W8."""
    known: dict[str, Any] = {
        "workspace": str(tmp_path),
        "model": "large",
        "model_provider": "openai",
        "profile": "ada",
        "personality": "kind",
        "enabled_toolsets": ["web", "files"],
        "context_length": 200_000,
        "threshold_tokens": 100_000,
        "last_prompt_tokens": 900,
        "compression_anchor_visible_idx": 4,
        "compression_anchor_message_key": {"role": "user", "ts": 5},
        "is_cli_session": True,
        "source_tag": "telegram",
        "session_source": "messaging",
        "source_label": "Telegram",
        "parent_session_id": "older",
    }
    unknown = {"theme": "dark", "nested": {"a": [1, None]}, "none": None}
    chat = catalog.set_attributes(catalog.new_session().session_id, **known, **unknown)
    assert {name: getattr(chat, name) for name in known} == known
    assert chat.extra == unknown
    assert not set(unknown) & set(chat.compact())
    cleared = catalog.set_attributes(chat.session_id, enabled_toolsets=None, parent_session_id=None)
    assert (cleared.enabled_toolsets, cleared.parent_session_id) == (None, None)


@pytest.mark.parametrize(
    "name",
    [
        *("title", "messages", "tool_calls", "created_at", "updated_at", "pinned", "archived", "project_id", "version"),
        *("input_tokens", "estimated_cost", "active_stream_id", "pending_user_message", "context_messages", "extra"),
        *("message_count", "is_streaming", "last_message_at"),
    ],
)
def test_what_has_its_own_command_is_refused_as_an_attribute(catalog: SessionCatalog, name: str) -> None:
    """W8."""
    chat = catalog.new_session()
    with pytest.raises(ValueError, match=f"{name} cannot be set as an attribute"):
        catalog.set_attributes(chat.session_id, model="large", **{name: 1})
    assert catalog.get_session(chat.session_id) == chat


@pytest.mark.parametrize(
    ("name", "bad"),
    [
        ("model", 7),
        ("workspace", 7),
        ("workspace", "a\0b"),
        ("context_length", "7"),
        ("context_length", True),
        ("enabled_toolsets", "web"),
        ("enabled_toolsets", [1]),
        ("is_cli_session", "yes"),
        ("model_provider", 7),
    ],
)
def test_a_value_of_the_wrong_kind_is_refused(catalog: SessionCatalog, name: str, bad: Any) -> None:
    """W8."""
    with pytest.raises(ValueError, match=name):
        catalog.set_attributes(catalog.new_session().session_id, **{name: bad})


def test_usage_adds_up(catalog: SessionCatalog) -> None:
    """W8."""
    chat = catalog.record_usage(catalog.new_session().session_id, 5, 6)
    assert (chat.input_tokens, chat.output_tokens, chat.estimated_cost) == (5, 6, None)
    chat = catalog.record_usage(chat.session_id, input_tokens=1, estimated_cost=0.5)
    assert (chat.input_tokens, chat.output_tokens, chat.estimated_cost) == (6, 6, 0.5)
    for bad in ({"input_tokens": -1}, {"output_tokens": "7"}, {"estimated_cost": -0.5}):
        with pytest.raises(ValueError, match="must be"):
            catalog.record_usage(chat.session_id, **bad)  # type: ignore[arg-type]


def test_a_rotated_session_is_the_same_under_every_id_it_had(catalog: SessionCatalog, store: SessionStore) -> None:
    """W9."""
    chat = catalog.rename_session(catalog.new_session().session_id, "Trip")
    store.append_to_transcript(chat.session_id, {"role": "user", "content": "hello"})
    rotated = catalog.rotate_session(chat.session_id, "second")
    rotated = catalog.rotate_session("second", "Third-3")
    assert (rotated.session_id, rotated.title, len(rotated.messages)) == ("Third-3", "Trip", 1)
    for known in (chat.session_id, "second", "Third-3"):
        assert catalog.get_session(known) == rotated
        assert catalog.get_session(known, metadata_only=True).session_id == "Third-3"
        assert store.load_transcript(known)[0]["content"] == "hello"
    store.append_to_transcript("second", {"role": "user", "content": "again"})
    assert len(catalog.get_session(chat.session_id).messages) == 2


def test_a_session_cannot_go_on_under_an_id_that_somebody_has(catalog: SessionCatalog) -> None:
    """W9."""
    one, other = catalog.new_session(), catalog.new_session()
    catalog.rotate_session(one.session_id, "second")
    for taken in (other.session_id, "second"):
        with pytest.raises(ConflictError, match="exists already"):
            catalog.rotate_session(catalog.new_session().session_id, taken)
    version = catalog.get_session("second").version
    assert catalog.rotate_session(one.session_id, "second").version == version


def test_a_deleted_session_does_not_return(catalog: SessionCatalog, store: SessionStore) -> None:
    """W9: by none of its ids, for nobody, and its ids stay taken."""
    chat = catalog.rename_session(catalog.new_session().session_id, "Trip")
    store.append_to_transcript(chat.session_id, {"role": "user", "content": "hello"})
    catalog.rotate_session(chat.session_id, "second")
    assert catalog.delete_session("second") is None
    for known in (chat.session_id, "second"):
        with pytest.raises(UnknownSessionError):
            catalog.get_session(known)
        with pytest.raises(UnknownSessionError):
            catalog.delete_session(known)
        with pytest.raises(UnknownSessionError):
            store.append_to_transcript(known, {"role": "user", "content": "again"})
        with pytest.raises(UnknownSessionError):
            store.get_session(known)
        assert store.load_transcript(known) == []
        with pytest.raises(ConflictError):
            catalog.rotate_session(catalog.new_session().session_id, known)


def test_a_gateway_session_is_a_chat_with_defaults(
    catalog: SessionCatalog, store: SessionStore, clock: FakeClock
) -> None:
    """W4: whole and as a summary; `updated_at` is that of its newest message until somebody touches it."""
    entry = store.get_or_create_session(SessionSource(platform=Platform.TELEGRAM, chat_id="4711"))
    clock.advance(seconds=5)
    store.append_to_transcript(entry.session_id, {"role": "user", "content": "hello", "message_id": "tg-1"})
    chat = catalog.get_session(entry.session_id)
    assert chat.messages == [{"role": "user", "content": "hello", "message_id": "tg-1"}]
    assert (chat.title, chat.model, chat.pinned) == ("Untitled", "", False)
    assert chat.updated_at == chat.created_at + 5
    assert catalog.pin_session(entry.session_id, touch=False).updated_at == chat.updated_at


def test_a_summary_says_exactly_what_the_whole_session_says(catalog: SessionCatalog, store: SessionStore) -> None:
    """W4."""
    chat = catalog.new_session()
    said = [{"role": "user", "timestamp": 50}, {"role": "user"}, {"role": "tool", "timestamp": 99}]
    for count in range(len(said) + 1):
        summary = catalog.get_session(chat.session_id, metadata_only=True)
        assert isinstance(summary, ChatSummary)
        assert summary.compact() == catalog.get_session(chat.session_id).compact()
        assert summary.message_count == count
        if count < len(said):
            store.append_to_transcript(chat.session_id, said[count])
    assert summary.last_message_at == 50


def test_reading_writes_nothing(catalog: SessionCatalog, store: SessionStore) -> None:
    chat = catalog.new_session()
    before = store.log.last_position
    for metadata_only in (True, False):
        catalog.get_session(chat.session_id, metadata_only=metadata_only)
    catalog.list_projects()
    assert store.log.last_position == before


def test_a_catalogue_stands_on_a_store_and_asks_functions(store: SessionStore) -> None:
    with pytest.raises(ValueError, match="store must be a SessionStore"):
        SessionCatalog("sessions")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="live_streams must be callable"):
        SessionCatalog(store, live_streams={"a"})  # type: ignore[arg-type]
