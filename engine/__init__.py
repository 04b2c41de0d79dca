"""The session engine: an append-only event log and the sessions a gateway keeps on it.

The names below are the public API. They are imported when first used: the projections import this package's
domain and log, and the store imports the projections.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from engine.aio import AsyncSessionStore
    from engine.commands.lanes import Notices
    from engine.context import clear_session_vars, get_session_env, reset_session_vars, set_session_vars
    from engine.domain.config import GatewayConfig, HomeChannel, PlatformConfig
    from engine.domain.entry import SessionEntry, sanitize_model_override
    from engine.domain.errors import EngineError
    from engine.domain.keys import build_session_key, is_shared_multi_user_session
    from engine.domain.platforms import Platform
    from engine.domain.policy import SessionResetPolicy, auto_continue_freshness_window
    from engine.domain.sources import SessionSource
    from engine.domain.whatsapp import canonical_whatsapp_identifier, normalize_whatsapp_identifier
    from engine.errors import SessionStateError, TurnInProgressError, UnknownLaneError, UnknownSessionError
    from engine.prompt import SessionContext, build_session_context, build_session_context_prompt
    from engine.store import SessionInfo, SessionStore

_HOMES = {
    "engine.aio": ("AsyncSessionStore",),
    "engine.commands.lanes": ("Notices",),
    "engine.context": ("clear_session_vars", "get_session_env", "reset_session_vars", "set_session_vars"),
    "engine.domain.config": ("GatewayConfig", "HomeChannel", "PlatformConfig"),
    "engine.domain.entry": ("SessionEntry", "sanitize_model_override"),
    "engine.domain.errors": ("EngineError",),
    "engine.domain.keys": ("build_session_key", "is_shared_multi_user_session"),
    "engine.domain.platforms": ("Platform",),
    "engine.domain.policy": ("SessionResetPolicy", "auto_continue_freshness_window"),
    "engine.domain.sources": ("SessionSource",),
    "engine.domain.whatsapp": ("canonical_whatsapp_identifier", "normalize_whatsapp_identifier"),
    "engine.errors": ("SessionStateError", "TurnInProgressError", "UnknownLaneError", "UnknownSessionError"),
    "engine.prompt": ("SessionContext", "build_session_context", "build_session_context_prompt"),
    "engine.store": ("SessionInfo", "SessionStore"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "AsyncSessionStore",
    "EngineError",
    "GatewayConfig",
    "HomeChannel",
    "Notices",
    "Platform",
    "PlatformConfig",
    "SessionContext",
    "SessionEntry",
    "SessionInfo",
    "SessionResetPolicy",
    "SessionSource",
    "SessionStateError",
    "SessionStore",
    "TurnInProgressError",
    "UnknownLaneError",
    "UnknownSessionError",
    "auto_continue_freshness_window",
    "build_session_context",
    "build_session_context_prompt",
    "build_session_key",
    "canonical_whatsapp_identifier",
    "clear_session_vars",
    "get_session_env",
    "is_shared_multi_user_session",
    "normalize_whatsapp_identifier",
    "reset_session_vars",
    "sanitize_model_override",
    "set_session_vars",
]


def __getattr__(name: str) -> Any:
    module = _HOME_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'engine' has no attribute {name!r}")
    return getattr(import_module(module), name)


def __dir__() -> list[str]:
    return __all__
