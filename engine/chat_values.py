"""Checks of what a web client gives: ids, attributes of a session, names and colours of projects (W1, W2, W8)."""

import os
import re
from collections.abc import Mapping
from typing import Any

from engine.chat_session import ChatSession, resolved, tidy_provider
from engine.domain.chat_rows import ATTRIBUTES, NUMBERS, TEXTS, UNTITLED
from engine.validation import checked_name, checked_text, checked_title

_ID = re.compile(r"[0-9A-Za-z_-]{1,128}")
_ELSEWHERE = (frozenset(ChatSession.__struct_fields__) - ATTRIBUTES) | {
    *("message_count", "last_message_at", "is_streaming"),
}
"""What other commands set, or nobody does."""


def is_chat_id(value: object) -> bool:
    """Return True for text that can be the id of a chat."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def check_chat_id(value: object, argument: str = "session_id") -> str:
    """Return the id, or raise ValueError: ids become parts of addresses and names of files (W2)."""
    if isinstance(value, str) and _ID.fullmatch(value) is not None:
        return value
    raise ValueError(f"{argument} must be 1 to 128 letters, digits, '_' or '-', not {value!r:.200}")


def checked_version(version: object) -> int | None:
    """Return the version that a command expects; None for any."""
    if version is None or (isinstance(version, int) and not isinstance(version, bool) and version >= 0):
        return version
    raise ValueError(f"expected_version must be a session's version, not {version!r:.100}")


def checked_flag(name: str, value: object) -> bool:
    """Return the value if it is True or False."""
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, not {value!r:.100}")
    return value


def checked_chat_title(title: object) -> str | None:
    """Return a title as one line of words; None for an empty one and for that of a session without."""
    found = checked_title(checked_text("title", title))
    return None if found == UNTITLED else found


def checked_attributes(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """Return attributes as they are stored; raise ValueError for one that has a command of its own."""
    return {name: _checked(name, value) for name, value in attributes.items()}


def _checked(name: str, value: Any) -> Any:
    if name in _ELSEWHERE:
        raise ValueError(f"{name} cannot be set as an attribute: it has a command of its own, or follows from others")
    if value is None or name not in ATTRIBUTES:
        return value
    if name in NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int):
            raise ValueError(f"{name} must be a whole number or None, not {value!r:.100}")
    elif name == "is_cli_session":
        return checked_flag(name, value)
    elif name == "enabled_toolsets":
        if not isinstance(value, (list, tuple)) or not all(isinstance(each, str) for each in value):
            raise ValueError(f"enabled_toolsets must be a list of names or None, not {value!r:.200}")
        return list(value)
    elif name == "workspace":
        return checked_workspace(value)
    elif name == "model_provider":
        return tidy_provider(checked_text(name, value))
    elif name in TEXTS:
        return checked_text(name, value)
    return value


def checked_workspace(value: object) -> str:
    """Return a folder as a resolved path, `~` expanded."""
    if not isinstance(value, (str, os.PathLike)) or "\0" in str(value):
        raise ValueError(f"workspace must name a folder, not {value!r:.200}")
    return resolved(str(value)) if str(value) else ""


def checked_project_name(name: object) -> str:
    """Return a project's name as one line of words."""
    found = checked_title(checked_name("name", name))
    if found is None:
        raise ValueError("name must be words, not an empty text")
    return found


def checked_color(color: object) -> str | None:
    """Return a colour as its host writes it; None for none."""
    return None if color is None or color == "" else checked_name("color", color)
