"""ChatSession and ChatSummary as values: defaults, forms that hosts write, and the row of a list (W1, W5 to W7)."""

from pathlib import Path
from typing import Any

import pytest

from engine import ChatSession, ChatSummary
from engine.chat_session import ChatFields

ROW = {
    *("session_id", "title", "workspace", "model", "model_provider", "message_count", "created_at", "updated_at"),
    *("last_message_at", "pinned", "archived", "project_id", "profile", "input_tokens", "output_tokens"),
    *("estimated_cost", "personality", "compression_anchor_visible_idx", "compression_anchor_message_key"),
    *("context_length", "threshold_tokens", "last_prompt_tokens", "active_stream_id", "pending_user_message"),
    *("is_cli_session", "source_tag", "session_source", "source_label", "enabled_toolsets", "is_streaming"),
}


def test_a_session_can_be_made_of_an_id_alone() -> None:
    """W1."""
    chat = ChatSession(session_id="abc")
    assert (chat.title, chat.messages, chat.tool_calls, chat.context_messages) == ("Untitled", [], [], [])
    assert (chat.input_tokens, chat.estimated_cost, chat.enabled_toolsets, chat.extra) == (0, None, None, {})
    assert chat.messages is not ChatSession(session_id="abc").messages


def test_a_session_is_frozen() -> None:
    """W1."""
    with pytest.raises(AttributeError):
        ChatSession(session_id="abc").title = "x"  # type: ignore[misc]


@pytest.mark.parametrize(
    ("given", "field", "kept"),
    [
        ({"workspace": "~/a/../b"}, "workspace", str(Path.home().resolve() / "b")),
        ({"workspace": ""}, "workspace", ""),
        ({"model_provider": "  OpenAI "}, "model_provider", "openai"),
        ({"model_provider": " "}, "model_provider", None),
        ({"model_provider": 7}, "model_provider", None),
        ({"project_id": ""}, "project_id", None),
        ({"input_tokens": None}, "input_tokens", 0),
        ({"output_tokens": None}, "output_tokens", 0),
        ({"context_messages": None}, "context_messages", []),
        ({"context_messages": {"a": 1}}, "context_messages", []),
        ({"enabled_toolsets": "web"}, "enabled_toolsets", None),
        ({"enabled_toolsets": ["web"]}, "enabled_toolsets", ["web"]),
    ],
)
def test_what_hosts_write_in_several_ways_has_one_form(given: dict[str, Any], field: str, kept: object) -> None:
    """W1."""
    assert getattr(ChatSession(session_id="abc", **given), field) == kept


def test_the_row_has_thirty_keys_and_a_parent_only_when_there_is_one() -> None:
    """W5: unknown fields are in no row."""
    chat = ChatSession(session_id="abc", extra={"theme": "dark"}, messages=[{"role": "user", "content": "x"}])
    assert set(chat.compact()) == ROW
    assert len(ROW) == 30
    assert chat.compact()["message_count"] == 1
    row = ChatSession(session_id="abc", parent_session_id="def").compact()
    assert set(row) == ROW | {"parent_session_id"}
    assert set(ChatSummary(session_id="abc").compact()) == ROW


def test_last_activity_is_that_of_a_message_else_of_the_session() -> None:
    """W6."""
    messages = [{"role": "user", "timestamp": 5}, {"role": "tool", "timestamp": 9}]
    assert ChatSession(session_id="abc", messages=messages, updated_at=7.0).compact()["last_message_at"] == 5
    assert ChatSession(session_id="abc", updated_at=7.0).compact()["last_message_at"] == 7


@pytest.mark.parametrize("kind", [ChatSession, ChatSummary])
def test_streaming_is_told_when_asked_for(kind: type[ChatSession | ChatSummary]) -> None:
    """W7."""
    chat = kind(session_id="abc", active_stream_id="s1")
    assert chat.compact(active_stream_ids={"s1"})["is_streaming"] is False
    assert chat.compact(include_runtime=True)["is_streaming"] is False
    assert chat.compact(include_runtime=True, active_stream_ids={"s2"})["is_streaming"] is False
    assert chat.compact(include_runtime=True, active_stream_ids={"s1"})["is_streaming"] is True
    assert kind(session_id="abc").compact(True, [None])["is_streaming"] is False  # type: ignore[list-item]


def test_a_summary_has_no_messages_and_a_session_has_every_field_of_it() -> None:
    """W4."""
    own = set(ChatFields.__struct_fields__)
    assert set(ChatSummary.__struct_fields__) - own == {"message_count", "last_message_at"}
    assert set(ChatSession.__struct_fields__) - own == {"messages", "tool_calls", "context_messages"}
