"""Which session the running code works for, per task.

Tools deep in a turn ask `get_session_env` for it. Context variables instead of `os.environ`, because a
gateway runs many turns at once in one process.
"""

import os
from collections.abc import Mapping
from contextvars import ContextVar, Token
from enum import Enum
from types import MappingProxyType
from typing import TypedDict, Unpack

from engine.domain.platforms import Platform


class _State(Enum):
    NEVER_SET = "never set"


_Value = str | _State
SessionTokens = tuple[Token[_Value], ...]

_FIELDS = {
    "platform": "HERMES_SESSION_PLATFORM",
    "source": "HERMES_SESSION_SOURCE",
    "chat_id": "HERMES_SESSION_CHAT_ID",
    "chat_name": "HERMES_SESSION_CHAT_NAME",
    "thread_id": "HERMES_SESSION_THREAD_ID",
    "user_id": "HERMES_SESSION_USER_ID",
    "user_name": "HERMES_SESSION_USER_NAME",
    "session_key": "HERMES_SESSION_KEY",
    "session_id": "HERMES_SESSION_ID",
    "message_id": "HERMES_SESSION_MESSAGE_ID",
    "profile": "HERMES_SESSION_PROFILE",
}
_VARIABLES: Mapping[str, ContextVar[_Value]] = MappingProxyType(
    {name: ContextVar(name, default=_State.NEVER_SET) for name in _FIELDS.values()}
)


class SessionVars(TypedDict, total=False):
    """What `set_session_vars` takes."""

    platform: Platform | str | None
    source: str | None
    chat_id: str | None
    chat_name: str | None
    thread_id: str | None
    user_id: str | None
    user_name: str | None
    session_key: str | None
    session_id: str | None
    message_id: str | None
    profile: str | None


def set_session_vars(**values: Unpack[SessionVars]) -> SessionTokens:
    """Set the given variables for this task and what it starts; the others stay as they are.

    None is a value here, "there is none", and becomes "": a session without a thread must not fall back
    to a thread in the environment. Keep the tokens to restore what was there before.
    """
    unknown = sorted(set(values) - set(_FIELDS))
    if unknown:
        raise TypeError(f"unknown session variable {', '.join(unknown)}; known are {', '.join(_FIELDS)}")
    texts = {_FIELDS[field]: _as_text(value) for field, value in values.items()}
    return tuple(_VARIABLES[name].set(text) for name, text in texts.items())


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
