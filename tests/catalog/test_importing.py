"""W20: a document, or a session of the agent, becomes a session here as it was there, and never twice."""

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from engine import (
    AsyncSessionCatalog,
    AsyncSessionStore,
    ChatSession,
    ConflictError,
    SessionCatalog,
    SessionStore,
)

THEN = 1_780_000_000.0
SAID = [
    {"role": "user", "content": "hello", "timestamp": THEN + 1},
    {"role": "assistant", "content": "hi", "_ts": THEN + 2, "_turnUsage": {"output_tokens": 3}},
    {"role": "tool", "content": "found", "tool_call_id": "c1", "message_id": 7},
]
DOCUMENT: dict[str, Any] = {
    "session_id": "0a1b2c3d4e5f",
    "title": "Trip to Delft",
    "workspace": "/work/site",
    "model": "large-2",
    "model_provider": " OpenAI ",
    "messages": SAID,
    "tool_calls": [{"name": "read_file", "done": True}],
    "created_at": THEN,
    "updated_at": THEN + 60.5,
    "pinned": True,
    "archived": True,
    "project_id": "4f1d6a0b9c2e",
    "profile": "ada",
    "input_tokens": 1200,
    "output_tokens": 80,
    "estimated_cost": 0.5,
    "personality": "terse",
    "active_stream_id": "t-1",
    "pending_user_message": "and then?",
    "pending_attachments": [{"name": "a.png"}],
    "pending_started_at": THEN + 50.25,
    "context_messages": [{"role": "system", "content": "summary"}],
    "compression_anchor_visible_idx": 2,
    "compression_anchor_message_key": {"role": "user"},
    "context_length": 128000.0,
    "threshold_tokens": 64000,
    "last_prompt_tokens": 900,
    "parent_session_id": "0f0f0f0f0f0f",
    "enabled_toolsets": ["web"],
    "is_cli_session": False,
    "source_tag": "webui",
    "session_source": "webui",
    "source_label": "WebUI",
    "gateway_routing": {"to": ["x", None]},
    "llm_title_generated": True,
}


def rows(*numbers: int) -> list[dict[str, Any]]:
    return [
        {"role": "user", "content": f"m{number}", "timestamp": THEN + number, "_row_id": number} for number in numbers
    ]


def texts(chat: ChatSession) -> list[str]:
    return [message["content"] for message in chat.messages]


def test_a_document_keeps_all_it_says(catalog: SessionCatalog) -> None:
    """W20, W1: any fields, times, unknown fields and an open turn."""
    chat = catalog.import_session(DOCUMENT)
    expected = DOCUMENT | {"model_provider": "openai", "context_length": 128000}
    unknown = {name: expected.pop(name) for name in ("gateway_routing", "llm_title_generated")}
    assert {name: getattr(chat, name) for name in expected} == expected
    assert chat.extra == unknown
    assert catalog.get_session(chat.session_id, metadata_only=True).last_message_at == THEN + 2
    first = next(each for each in catalog.store.log.events(topics=["session.created"]))
    assert first.time == THEN * 1e6


def test_what_a_session_was_can_be_imported_in_another_store(catalog: SessionCatalog, tmp_path: Any) -> None:
    """W20, W1: also what is unknown in it."""
    chat = catalog.import_session(DOCUMENT)
    with SessionStore(tmp_path / "other", synchronous="OFF", views=False) as store:
        other = SessionCatalog(store).import_session(msgspec.structs.asdict(chat))
        assert msgspec.structs.replace(other, version=chat.version) == chat
        assert store.verify().ok


def test_a_document_of_nothing_is_a_new_session(catalog: SessionCatalog) -> None:
    """W20: the id is optional, and what is missing has the defaults."""
    chat = catalog.import_session({})
    assert (chat.title, chat.messages, chat.created_at, chat.updated_at) == ("Untitled", [], 1782915930, 1782915930)
    assert len(chat.session_id) == 12
    again = catalog.import_session({"messages": SAID[:1], "title": None, "enabled_toolsets": "x", "tool_calls": {}})
    assert (again.session_id != chat.session_id, again.enabled_toolsets, again.tool_calls) == (True, None, [])


def test_an_id_that_is_there_or_was_is_a_conflict(catalog: SessionCatalog) -> None:
    """W20: existing and deleted ids, and those that a session went on under."""
    here = catalog.new_session()
    catalog.rotate_session(here.session_id, "another")
    gone = catalog.new_session()
    catalog.delete_session(gone.session_id)
    before = catalog.store.log.last_position
    for session_id in (here.session_id, "another", gone.session_id):
        with pytest.raises(ConflictError, match=session_id):
            catalog.import_session(DOCUMENT | {"session_id": session_id})
    assert catalog.store.log.last_position == before


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"session_id": "../evil"}, "session_id"),
        ({"messages": ["hello"]}, "message"),
        ({"messages": "hello"}, "messages"),
        ({"created_at": "yesterday"}, "time"),
        ({"created_at": 1e300}, "calendar"),
        ({"input_tokens": -1}, "input_tokens"),
        ({"estimated_cost": "much"}, "cost"),
        ({"pinned": "yes"}, "pinned"),
        ({"title": 7}, "title"),
        ({"context_length": "long"}, "context_length"),
        ({"extra": [1]}, "extra"),
        ({"pending_user_message": 5}, "pending_user_message"),
        ({"active_stream_id": "t", "pending_started_at": "now"}, "pending_started_at"),
        ({"project_id": "a/b"}, "project_id"),
    ],
)
def test_a_field_that_cannot_be_used_is_named_and_nothing_is_imported(
    catalog: SessionCatalog, bad: dict[str, Any], said: str
) -> None:
    """W20."""
    with pytest.raises(ValueError, match=said):
        catalog.import_session(DOCUMENT | bad)
    with pytest.raises(ValueError, match="dict"):
        catalog.import_session([DOCUMENT])  # type: ignore[arg-type]
    assert catalog.store.log.last_position == 0


def test_an_imported_turn_is_repaired_like_any_other(catalog: SessionCatalog, live: set[str]) -> None:
    """W20, W17: it is open while its stream lives, and then what the user said is kept."""
    catalog.import_session(DOCUMENT)
    live.add("t-1")
    assert catalog.repair_stale_turns() == []
    live.clear()
    assert catalog.repair_stale_turns() == ["0a1b2c3d4e5f"]
    chat = catalog.get_session("0a1b2c3d4e5f")
    assert texts(chat)[3:] == ["and then?", "Previous turn did not complete"]
    assert (chat.updated_at, chat.active_stream_id) == (THEN + 60.5, None)


@pytest.mark.parametrize("stream", [None, "t-1"])
def test_what_waits_without_a_stream_of_its_own_is_kept_too(catalog: SessionCatalog, stream: str | None) -> None:
    """W20: of a client that died, or whose stream another session has."""
    catalog.import_session(DOCUMENT)
    chat = catalog.import_session(DOCUMENT | {"session_id": "second", "active_stream_id": stream})
    assert (chat.active_stream_id, chat.pending_user_message) == ("imported:second", "and then?")
    assert catalog.repair_stale_turn("second")


def test_titles_may_be_the_same_and_usage_is_counted_once(catalog: SessionCatalog) -> None:
    """W20, V11."""
    catalog.import_session(DOCUMENT)
    other = catalog.import_session(DOCUMENT | {"session_id": "second", "active_stream_id": "t-2"})
    assert other.title == "Trip to Delft"
    spent = [each.event for each in catalog.store.log.events(topics=["usage.recorded"])]
    assert [(each.input_tokens, each.model, each.provider) for each in spent] == [(1200, "large-2", "openai")] * 2


def test_a_session_of_the_agent_keeps_its_times(store: SessionStore) -> None:
    """W20: workspace is the last used."""
    catalog = SessionCatalog(store, last_workspace=lambda: "/work/last", default_model=lambda: "default")
    chat = catalog.import_cli_session("s1", "Trip", rows(1, 5), "large", "ada", THEN - 5, THEN + 99)
    assert (chat.created_at, chat.updated_at, chat.title) == (THEN - 5, THEN + 99, "Trip")
    assert (chat.workspace, chat.model, chat.profile, chat.is_cli_session) == ("/work/last", "large", "ada", True)
    assert (chat.source_tag, chat.session_source, chat.source_label) == ("cli", "cli", "CLI")
    assert chat.messages == [{"role": "user", "content": f"m{n}", "timestamp": THEN + n} for n in (1, 5)]
    plain = catalog.import_cli_session("s2", "Untitled", rows(3, 4), source="telegram")
    assert (plain.created_at, plain.updated_at, plain.model) == (THEN + 3, THEN + 4, "unknown")
    assert (plain.title, plain.session_source) == ("Untitled", "messaging")


@pytest.mark.parametrize("keyed", [True, False], ids=["rows", "places"])
def test_twice_adds_nothing_and_a_source_that_grew_adds_what_is_new(catalog: SessionCatalog, keyed: bool) -> None:
    """W20: keyed by source, session and row, else place."""

    def given(*numbers: int) -> list[dict[str, Any]]:
        messages = rows(*numbers)
        return messages if keyed else [{key: m[key] for key in m if key != "_row_id"} for m in messages]

    first = catalog.import_cli_session("s1", "Trip", given(1, 2))
    before = catalog.store.log.last_position
    assert catalog.import_cli_session("s1", "Other", given(1, 2), "other", updated_at=THEN + 500) == first
    assert catalog.store.log.last_position == before
    grown = catalog.import_cli_session("s1", "Other", given(1, 2, 3), "other", updated_at=THEN + 500)
    assert texts(grown) == ["m1", "m2", "m3"]
    assert (grown.title, grown.model, grown.updated_at) == ("Trip", "unknown", THEN + 500)


def test_a_row_that_comes_back_between_others_is_new_and_one_given_twice_is_one(catalog: SessionCatalog) -> None:
    """W20: a row is a key, and not a mark up to which everything came."""
    catalog.import_cli_session("s1", None, rows(1, 4))
    assert texts(catalog.import_cli_session("s1", None, rows(1, 2, 2, 4))) == ["m1", "m4", "m2"]
    assert texts(catalog.import_cli_session("s1", None, rows(1, 2, 4))) == ["m1", "m4", "m2"]
    assert len(catalog.import_cli_session("s1", None, rows(1, 2), source="telegram").messages) == 5


def test_what_was_done_here_meanwhile_stays(catalog: SessionCatalog) -> None:
    """W20: title, attributes and messages; what was undone does not come back."""
    catalog.import_cli_session("s1", "Trip", rows(1, 2), updated_at=THEN + 2)
    catalog.rename_session("s1", "Mine")
    catalog.set_attributes("s1", model="large", workspace="/own")
    catalog.undo("s1")
    touched = catalog.save_messages("s1", [rows(1)[0] | {"_row_id": 1}, {"role": "user", "content": "own"}]).updated_at
    chat = catalog.import_cli_session("s1", "Trip", rows(1, 2, 3))
    assert texts(chat) == ["m1", "own", "m3"]
    assert (chat.title, chat.model, chat.workspace, chat.updated_at) == ("Mine", "large", "/own", touched)


def test_a_long_session_is_looked_through_before_the_lock_is_taken(catalog: SessionCatalog) -> None:
    """W20."""
    many = rows(*range(1, 1203))
    catalog.import_cli_session("s1", None, many)
    assert len(catalog.import_cli_session("s1", None, [*many, *rows(2000)]).messages) == 1203


def test_a_deleted_session_is_not_brought_back(catalog: SessionCatalog) -> None:
    """W20: a deleted session does not return."""
    catalog.import_cli_session("s1", None, rows(1))
    catalog.delete_session("s1")
    with pytest.raises(ConflictError, match="deleted"):
        catalog.import_cli_session("s1", None, rows(1, 2))


@pytest.mark.parametrize(
    "bad",
    [
        {"session_id": "a/b"},
        {"messages": [{"role": "user", "_row_id": "one"}]},
        {"messages": [{"role": "user", "_row_id": 0}]},
        {"messages": [7]},
        {"created_at": "then"},
        {"updated_at": float("nan")},
        {"source": ""},
        {"model": 5},
    ],
)
def test_what_no_agent_has_is_refused(catalog: SessionCatalog, bad: dict[str, Any]) -> None:
    """W20."""
    given: dict[str, Any] = {"session_id": "s1", "title": None, "messages": []}
    with pytest.raises(ValueError, match=r"must|none"):
        catalog.import_cli_session(**given | bad)
    assert catalog.store.log.last_position == 0


def test_imports_can_be_awaited(open_store: Callable[..., SessionStore]) -> None:
    """W20."""
    store = open_store()

    async def bring() -> None:
        catalog = AsyncSessionCatalog(AsyncSessionStore(store), last_workspace=lambda: "/work")
        assert (await catalog.import_session(DOCUMENT)).title == "Trip to Delft"
        first = await catalog.import_cli_session("s1", "Trip", rows(1), "large", "ada", THEN, THEN + 9, "tui")
        assert (first.workspace, first.model, first.source_tag, first.updated_at) == ("/work", "large", "tui", THEN + 9)
        assert await catalog.import_cli_session("s1", "Trip", rows(1), source="tui") == first

    asyncio.run(bring())
