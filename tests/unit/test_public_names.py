"""The public names of the contract, with the original's parameters: what a gateway written for hermes-agent calls."""

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import engine
from engine import AsyncSessionStore, SessionStore

NAMES = [
    "SessionStore",
    "AsyncSessionStore",
    "SessionSource",
    "SessionEntry",
    "SessionContext",
    "Platform",
    "PlatformConfig",
    "GatewayConfig",
    "SessionResetPolicy",
    "HomeChannel",
    "build_session_key",
    "is_shared_multi_user_session",
    "build_session_context",
    "build_session_context_prompt",
    "sanitize_model_override",
    "auto_continue_freshness_window",
    "normalize_whatsapp_identifier",
    "canonical_whatsapp_identifier",
    "set_session_vars",
    "clear_session_vars",
    "reset_session_vars",
    "get_session_env",
    "neutralize_untrusted_inline_text",
    "acting",
]

METHODS = {
    "get_or_create_session": ["source", "force_new"],
    "update_session": ["session_key", "last_prompt_tokens"],
    "suspend_session": ["session_key"],
    "mark_resume_pending": ["session_key", "reason"],
    "clear_resume_pending": ["session_key"],
    "suspend_recently_active": ["max_age_seconds"],
    "reset_session": ["session_key", "display_name"],
    "switch_session": ["session_key", "target_session_id"],
    "set_model_override": ["session_key", "override"],
    "get_model_override": ["session_key"],
    "is_session_expired": ["entry"],
    "is_session_finalizable": ["entry"],
    "set_expiry_finalized": ["session_key", "clear_model_override", "entry"],
    "prune_old_entries": ["max_age_days"],
    "list_sessions": ["active_minutes"],
    "lookup_by_session_id": ["session_id"],
    "peek_session_id": ["session_key"],
    "has_any_sessions": [],
    "append_to_transcript": ["session_id", "message", "skip_db"],
    "has_platform_message_id": ["session_id", "platform_message_id"],
    "rewrite_transcript": ["session_id", "messages"],
    "load_transcript": ["session_id"],
    "rewind_session": ["session_id", "n"],
}
FUNCTIONS = {
    "build_session_key": ["source", "group_sessions_per_user", "thread_sessions_per_user", "profile"],
    "is_shared_multi_user_session": ["source", "group_sessions_per_user", "thread_sessions_per_user"],
    "build_session_context": ["source", "config", "session_entry"],
    "build_session_context_prompt": ["context", "redact_pii"],
    "sanitize_model_override": ["override"],
    "normalize_whatsapp_identifier": ["value"],
    "canonical_whatsapp_identifier": ["identifier"],
    "neutralize_untrusted_inline_text": ["value", "max_chars"],
    "get_session_env": ["name", "default"],
    "clear_session_vars": ["tokens"],
}


def parameters(function: Callable[..., Any]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name != "self"]


@pytest.mark.parametrize("name", NAMES)
def test_name_of_the_contract_can_be_imported(name: str) -> None:
    assert getattr(engine, name) is not None


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("store", [SessionStore, AsyncSessionStore])
def test_method_has_the_originals_parameters_first(store: type, name: str) -> None:
    found = parameters(getattr(store, name))
    assert found[: len(METHODS[name])] == METHODS[name]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_function_has_the_originals_parameters_first(name: str) -> None:
    found = parameters(getattr(engine, name))
    assert found[: len(FUNCTIONS[name])] == FUNCTIONS[name]


def test_store_is_opened_with_the_originals_arguments() -> None:
    assert parameters(SessionStore)[:3] == ["sessions_dir", "config", "has_active_processes_fn"]
    assert parameters(AsyncSessionStore) == ["store"]
