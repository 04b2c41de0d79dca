"""Checks of arguments: a bad one is refused by name, before anything is done."""

import os
from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from enum import Enum
from typing import Any

from engine.domain.encoding import encodable
from engine.domain.entry import SessionEntry
from engine.domain.messages import whole
from engine.domain.sources import SessionSource
from projections.views.find import Question

_COUNTERS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens")
_LARGEST_COST = 10**300
_MOST_ROWS = 10_000
_SETTINGS = ("get_reset_policy", "group_sessions_per_user", "thread_sessions_per_user", "multiplex_profiles")


def checked_text(name: str, value: object) -> str:
    """Return the value if it is text."""
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text, not {value!r:.200}")
    return value


def checked_name(name: str, value: object) -> str:
    """Return the value if it is words that every event can carry."""
    if not isinstance(value, str) or not value or "\0" in value or not encodable(value):
        raise ValueError(f"{name} must be words that the log can keep, not {value!r:.200}")
    return value


def checked_id(name: str, value: object) -> str:
    """Return the id of a person or a chat as text; a number is taken for its digits (G4a)."""
    return checked_name(name, str(value) if isinstance(value, int) and not isinstance(value, bool) else value)


def checked_platform(platform: object) -> str:
    """Return the name of a platform, given as a member or as text: its plugin need not be registered here (G1a)."""
    return checked_name("platform", platform.value if isinstance(platform, Enum) else platform)


def checked_positions(positions: object) -> list[int]:
    """Return positions of the log, each once, in order."""
    if isinstance(positions, (str, bytes, Mapping)) or not isinstance(positions, Sequence | Set):
        raise ValueError(f"positions must be a list of positions in the log, not {positions!r:.200}")
    for each in positions:
        if not isinstance(each, int) or isinstance(each, bool):
            raise ValueError(f"each of positions must be a position in the log, not {each!r:.100}")
    return sorted(set(positions))


def checked_number(name: str, value: Any, largest: float = 1e11) -> Any:
    """Return the value if it is a number that is not absurdly large."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -largest <= value <= largest:
        raise ValueError(f"{name} must be a number of at most {largest:g}, not {value!r:.100}")
    return value


def checked_lease(seconds: Any) -> float | None:
    """Return a lease's length; None never runs out."""
    if seconds is None:
        return None
    lease = float(checked_number("lease_seconds", seconds))
    if not lease > 0:
        raise ValueError(f"lease_seconds must be more than 0, or None to never run out, not {seconds!r}")
    return lease


def checked_timeout(seconds: Any) -> float | None:
    """Return how long to wait; None waits for ever."""
    if seconds is None:
        return None
    timeout = float(checked_number("timeout", seconds))
    if not timeout >= 0:
        raise ValueError(f"timeout must be seconds, at least 0, or None to wait for ever, not {seconds!r}")
    return timeout


def checked_texts(name: str, values: object) -> list[str]:
    """Return the value if it is a list of texts."""
    if isinstance(values, (str, bytes)) or not isinstance(values, (Sequence, Set)):
        raise ValueError(f"{name} must be a list of texts, not {values!r:.200}")
    return [checked_text(f"each of {name}", value) for value in values]


def checked_title(title: object) -> str | None:
    """Return a title as one line of words; None for an empty one."""
    if title is None:
        return None
    return " ".join(checked_text("title", title).encode("utf-8", "backslashreplace").decode().split()) or None


def checked_usage(usage: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a lane's usage is recorded with. `last_prompt_tokens` is any whole number (G34a)."""
    prompt, cost = usage["last_prompt_tokens"], usage["cost_usd"]
    if prompt is not None and (isinstance(prompt, bool) or not isinstance(prompt, int)):
        raise ValueError(f"last_prompt_tokens must be a whole number, not {prompt!r:.100}")
    for name in _COUNTERS:
        value = usage[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ValueError(f"{name} must be a whole number of at least 0, not {value!r:.100}")
    if cost is not None and not _is_cost(cost):
        raise ValueError(f"cost_usd must be a number of at least 0, not {cost!r:.100}")
    for name in ("model", "provider"):
        if usage.get(name) is not None:
            checked_name(name, usage[name])
    return usage


def _is_cost(value: object) -> bool:
    """Return True for a number of at least 0 that a float can hold; infinity is one."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return value >= 0 and (isinstance(value, float) or value <= _LARGEST_COST)


def checked_history(messages: object, name: str = "messages") -> list[dict[str, Any]]:
    """Return the messages of a new history, each as it will be stored."""
    return [whole(message) for message in checked_list(messages, name)]


def checked_list(messages: object, name: str = "messages") -> Sequence[Any]:
    """Return the value if it is a list."""
    if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Sequence):
        raise ValueError(f"{name} must be a list of dicts, not {messages!r:.200}")
    return messages


def checked_source(source: object) -> SessionSource:
    """Return the value if it is a source."""
    if not isinstance(source, SessionSource):
        raise ValueError(f"source must be a SessionSource, not {source!r:.200}")
    return source


def checked_entry(name: str, entry: object) -> SessionEntry:
    """Return the value if it is an entry."""
    if not isinstance(entry, SessionEntry):
        raise ValueError(f"{name} must be a SessionEntry, not {entry!r:.200}")
    return entry


def check_config(config: object) -> None:
    """Raise ValueError unless the object has what a store asks a GatewayConfig for (G3a)."""
    missing = [name for name in _SETTINGS if not hasattr(config, name)]
    if missing:
        raise ValueError(f"config must be a GatewayConfig or have its attributes; {config!r:.100} has no {missing[0]}")


def check_folder(sessions_dir: object) -> None:
    """Raise ValueError unless the value names a folder."""
    if not isinstance(sessions_dir, (str, os.PathLike)) or not str(sessions_dir):
        raise ValueError(f"sessions_dir must name a folder, '.' for the current one, not {sessions_dir!r}")


def check_file(name: str, path: object) -> None:
    """Raise ValueError unless the value names a file."""
    if not isinstance(path, (str, os.PathLike)) or not str(path):
        raise ValueError(f"{name} must name a file, not {path!r:.200}")


def checked_files(name: str, paths: object) -> Sequence[str | os.PathLike[str]]:
    """Return the value if it is a list of files."""
    if isinstance(paths, (str, bytes)) or not isinstance(paths, Sequence):
        raise ValueError(f"{name} must be a list of files, not {paths!r:.200}")
    for path in paths:
        check_file(f"each of {name}", path)
    return paths


def checked_moment(name: str, value: object, now: datetime) -> datetime:
    """Return a moment that is given as such, or by how long ago it was."""
    if isinstance(value, timedelta) and value >= timedelta(0):
        return now - value
    if not isinstance(value, datetime) or value.utcoffset() is None:
        raise ValueError(f"{name} must be a datetime with a time zone or a timedelta of at least 0, not {value!r:.100}")
    return value


def check_size(name: str, size: object) -> None:
    """Raise ValueError unless the value is a size."""
    if not isinstance(size, int) or isinstance(size, bool) or size < 0:
        raise ValueError(f"{name} must be a whole number of at least 0, not {size!r}")


def check_callable(name: str, function: Callable[..., Any] | None) -> None:
    """Raise ValueError unless the value can be called."""
    if not callable(function):
        raise ValueError(f"{name} must be callable, not {function!r}")


def checked_limit(limit: object) -> int:
    """Return the value if it is a number of rows."""
    if not isinstance(limit, int) or isinstance(limit, bool) or not 0 < limit <= _MOST_ROWS:
        raise ValueError(f"limit must be a whole number from 1 to {_MOST_ROWS}, not {limit!r}")
    return limit


def checked_question(text: str, *filters: Any) -> Question:
    """Return a question to the search view, each of its parts checked."""
    question = Question(checked_text("text", text), *filters)
    for name in ("platform", "lane", "session_id", "user_id", "role"):
        if getattr(question, name) is not None:
            checked_text(name, getattr(question, name))
    for name in ("since", "until"):
        time = getattr(question, name)
        if time is not None and (not isinstance(time, datetime) or time.utcoffset() is None):
            raise ValueError(f"{name} must be a datetime with a time zone, not {time!r}")
    if question.order not in ("relevance", "newest"):
        raise ValueError(f"order must be 'relevance' or 'newest', not {question.order!r}")
    return question
