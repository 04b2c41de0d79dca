"""The session that the running code works for, per task.

Tools deep in a turn ask `get_session_env` for it. Context variables instead of `os.environ`, because a
gateway runs many turns at once in one process.
"""

import os
from collections.abc import Mapping
from contextvars import ContextVar, Token
from enum import Enum
from types import MappingProxyType

from engine.domain.platforms import Platform


class _State(Enum):
    NEVER_SET = "never set"


_Value = str | _State
SessionTokens = tuple[Token[_Value], ...]

_NAMES = (
    "HERMES_SESSION_PLATFORM",
    "HERMES_SESSION_CHAT_ID",
    "HERMES_SESSION_CHAT_NAME",
    "HERMES_SESSION_THREAD_ID",
    "HERMES_SESSION_USER_ID",
    "HERMES_SESSION_USER_NAME",
    "HERMES_SESSION_KEY",
    "HERMES_SESSION_SOURCE",
    "HERMES_SESSION_ID",
    "HERMES_SESSION_MESSAGE_ID",
    "HERMES_SESSION_PROFILE",
)
_VARIABLES: Mapping[str, ContextVar[_Value]] = MappingProxyType(
    {name: ContextVar(name, default=_State.NEVER_SET) for name in _NAMES}
)


def set_session_vars(
    platform: Platform | str | None = "",
    chat_id: str | None = "",
    chat_name: str | None = "",
    thread_id: str | None = "",
    user_id: str | None = "",
    user_name: str | None = "",
    session_key: str | None = "",
    source: str | None = "",
    session_id: str | None = "",
    message_id: str | None = "",
    profile: str | None = "",
) -> SessionTokens:
    """Set every variable for this task and what it starts; one that is not given, or None, becomes "".

    All of them, because a turn has no thread of the turn before it, nor one of the environment's. Keep
    the tokens to restore what was there before.
    """
    given = (
        platform,
        chat_id,
        chat_name,
        thread_id,
        user_id,
        user_name,
        session_key,
        source,
        session_id,
        message_id,
        profile,
    )
    texts = [_as_text(value) for value in given]  # all are checked before the first is set
    return tuple(variable.set(text) for variable, text in zip(_VARIABLES.values(), texts, strict=True))


def clear_session_vars(tokens: SessionTokens | None = None) -> None:  # noqa: ARG001 - see below
    """Set every variable to "", so that nothing of an ended turn and nothing of the environment is seen.

    The tokens are not needed; they may be passed so that a turn's end is written the same either way.
    """
    for variable in _VARIABLES.values():
        variable.set("")


def reset_session_vars(tokens: SessionTokens | None = None) -> None:
    """Return every variable to never-set, or those of `tokens` to what they were before.

    Restores by value and not by `ContextVar.reset`, which fails in another context than the token's:
    a turn may end in an executor thread.
    """
    if tokens is None:
        for variable in _VARIABLES.values():
            variable.set(_State.NEVER_SET)
        return
    for token in reversed(tokens):
        old = token.old_value
        token.var.set(_State.NEVER_SET if old is Token.MISSING else old)


def get_session_env(name: str, default: str = "") -> str:
    """Return a variable by its HERMES_SESSION_* name: what was set, even "", else `os.environ`, else default.

    Another name is only looked up in the environment, so that tools need one function for both.
    """
    variable = _VARIABLES.get(name)
    value = _State.NEVER_SET if variable is None else variable.get()
    return os.environ.get(name, default) if isinstance(value, _State) else value


def _as_text(value: object) -> str:
    if value is None:
        return ""
    return str(value.value if isinstance(value, Platform) else value)
