"""Completion in the shell: verbs and options by Click, names and ids from the live store (R8)."""

import os

import click
from click.shell_completion import CompletionItem, get_completion_class

from engine.domain.registry import EVENTS
from engine.reader import SessionReader
from replay.opening import open_reader

_OFFERED = 50


SHELLS = ("bash", "zsh", "fish")
_COLONS = "COMP_WORDBREAKS=${COMP_WORDBREAKS//:}  # session keys have colons\n"


def script(shell: str) -> str:
    """Return what makes a shell complete this command."""
    from replay.cli.command import sessions

    made = get_completion_class(shell)
    if made is None:
        raise ValueError(f"there is no completion for {shell}; there is one for {', '.join(SHELLS)}")
    source = made(sessions, {}, "sessions", "_SESSIONS_COMPLETE").source()
    return (_COLONS if shell == "bash" else "") + source + "\n"


def lane_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the keys of lanes that contain what was typed."""
    return _offer(ctx, incomplete, lanes=True)


def session_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the ids of sessions that contain what was typed."""
    return _offer(ctx, incomplete, sessions=True)


def subject_names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the names of lanes and sessions that contain what was typed."""
    return _offer(ctx, incomplete, lanes=True, sessions=True)


def store_values(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the platforms, chats, threads and people of the lanes, the types of events and known actors."""
    if param.name == "type":
        return [CompletionItem(name) for name in sorted(EVENTS) if name.startswith(incomplete)]
    found: set[str] = set()
    try:
        with _reader(ctx) as reader:
            if param.name == "actor":
                found = {each.actor for each in reader.log.events(max(reader.log.last_position - 1000, 0))}
            else:
                for entry in reader.list_sessions(limit=1000):
                    origin = entry.origin
                    value = None if origin is None else getattr(origin, _FIELDS.get(param.name or "", ""), None)
                    found.add("" if value is None else str(getattr(value, "value", value)))
    except Exception:  # noqa: BLE001 - a completion that fails offers nothing, and never disturbs the line being typed
        return []
    return [CompletionItem(each) for each in sorted(found) if each and each.startswith(incomplete)][:_OFFERED]


_FIELDS = {"platform": "platform", "chat": "chat_id", "thread": "thread_id", "user": "user_id"}


def _offer(ctx: click.Context, incomplete: str, *, lanes: bool = False, sessions: bool = False) -> list[CompletionItem]:
    try:
        with _reader(ctx) as reader:
            keys, ids = reader.names_like(incomplete, _OFFERED)
    except Exception:  # noqa: BLE001 - as above
        return []
    return [CompletionItem(name) for name in [*(keys if lanes else []), *(ids if sessions else [])]]


def _reader(ctx: click.Context) -> SessionReader:
    where = None
    context: click.Context | None = ctx
    while context is not None and where is None:
        where = context.params.get("store")
        context = context.parent
    return open_reader(where or os.environ.get("SESSION_STORE") or ".")
