"""What can be commanded of a store, with its arguments checked: the same for threads and for tasks.

A subclass says how a command is run: now, on the caller's thread, or later, for an await.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

from engine.commands import lanes, sessions, transcripts, turns
from engine.commands.lanes import Notices
from engine.domain.encoding import encodable
from engine.domain.entry import SessionEntry
from engine.domain.keys import check_session_id, check_session_key
from engine.domain.session import COMPRESSION
from engine.domain.transcript import appended

T = TypeVar("T")
DEFAULT_LEASE_SECONDS = 600.0


class Commander(ABC):
    """The commands on lanes, turns, sessions and transcripts."""

    @abstractmethod
    def _run(self, name: str, command: Callable[..., T], *arguments: Any) -> T:
        """Run a command under the write lock."""

    # Commands on a lane

    def update_session(
        self,
        key: str,
        last_prompt_tokens: int | None = None,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        cache_read_tokens: int = 0,
        cache_write_tokens: int = 0,
        cost_usd: float | None = None,
    ) -> None:
        """Touch a lane and count its tokens and cost; does nothing for a lane that leads nowhere (G34)."""
        usage = {
            "last_prompt_tokens": last_prompt_tokens,
            "input_tokens": input_tokens,
            "output_tokens": output_tokens,
            "cache_read_tokens": cache_read_tokens,
            "cache_write_tokens": cache_write_tokens,
            "cost_usd": cost_usd,
        }
        _check_usage(usage)
        return self._run("update_session", lanes.record_usage, check_session_key(key), usage)

    def suspend_session(self, key: str) -> bool:
        """Let the lane's next message start a new session (G35)."""
        return self._run("suspend_session", lanes.suspend, check_session_key(key))

    def mark_resume_pending(self, key: str, reason: str = "restart_timeout") -> bool:
        """Mark a lane's session as cut off, to be resumed; False if the lane is unknown or suspended (G35)."""
        return self._run("mark_resume_pending", lanes.mark_resume, check_session_key(key), _reason(reason))

    def clear_resume_pending(self, key: str) -> bool:
        """Take the mark away; True only if it was there (G35)."""
        return self._run("clear_resume_pending", lanes.clear_resume, check_session_key(key))

    def suspend_recently_active(self, max_age_seconds: float = 120) -> int:
        """Mark lanes active within the window as cut off by a restart; how many (G36)."""
        seconds = number("max_age_seconds", max_age_seconds)
        return self._run("suspend_recently_active", lanes.mark_recently_active, seconds)

    def reset_session(self, key: str, display_name: str | None = None) -> SessionEntry | None:
        """Start over because somebody asked; None if the lane leads nowhere (G37)."""
        name = None if display_name is None else _text("display_name", display_name)
        return self._run("reset_session", lanes.reset, check_session_key(key), name)

    def switch_session(self, key: str, target: str) -> SessionEntry | None:
        """Point a lane at another session; None if the lane leads nowhere (G38)."""
        return self._run("switch_session", lanes.switch, check_session_key(key), check_session_id(target))

    def set_model_override(self, key: str, override: Mapping[str, Any] | None) -> None:
        """Choose the lane's model until its next reset; None gives the choice back (G39)."""
        if override is not None and not isinstance(override, Mapping):
            raise ValueError(f"override must be a dict or None, not {type(override).__name__}")
        return self._run("set_model_override", lanes.set_model_override, check_session_key(key), override)

    def set_expiry_finalized(self, key: str) -> bool:
        """Remember that the host has done its work for the lane's expired session (G40)."""
        return self._run("set_expiry_finalized", lanes.finalize_expiry, check_session_key(key))

    def prune_old_entries(self, days: float | None = None) -> int:
        """Forget lanes untouched for so many days; how many. None, 0 and less forget none (G41)."""
        return self._run("prune_old_entries", lanes.prune, 0 if days is None else number("days", days, 1e7))

    def consume_notices(self, key: str) -> Notices:
        """What is to be told to the lane's user, once (G45)."""
        return self._run("consume_notices", lanes.consume_notices, check_session_key(key))

    # Turns

    def begin_turn(self, key: str, *, lease_seconds: float | None = DEFAULT_LEASE_SECONDS) -> str:
        """Take the turn of the lane's conversation; the token to end it with (G36).

        Raises TurnInProgressError while another turn of the conversation runs. The lease ends with
        `end_turn`, with the death of this process, or after `lease_seconds`; None never runs out.
        """
        lease = _lease(lease_seconds)
        return self._run("begin_turn", turns.begin, check_session_key(key), lease)

    def renew_turn(self, token: str, *, lease_seconds: float | None = DEFAULT_LEASE_SECONDS) -> bool:
        """Let a long turn's lease run from now; False if the turn is over."""
        lease = _lease(lease_seconds)
        return self._run("renew_turn", turns.renew, _text("token", token), lease)

    def end_turn(self, token: str, *, error: str | None = None) -> bool:
        """End a turn; False if it is over already."""
        said = None if error is None else _text("error", error)
        return self._run("end_turn", turns.finish, _text("token", token), said)

    def recover_interrupted_turns(self) -> int:
        """After a crash: mark the lanes whose turns lost their worker for resuming; how many turns (G36)."""
        return self._run("recover_interrupted_turns", turns.recover)

    # Sessions

    def compress_session(
        self,
        session_id: str,
        child_id: str | None = None,
        summary_messages: Sequence[Mapping[str, Any]] = (),
        *,
        covers: int | None = None,
    ) -> str:
        """Close a session into a child that goes on with a summary; the child's id (G42).

        The summary stands for the first `covers` live messages: the number of those it was made from.
        Messages appended since then are carried over. Without `covers` it stands for all of them.
        """
        summary = sessions.checked_summary(summary_messages)
        child = None if child_id is None else check_session_id(child_id)
        if covers is not None and (isinstance(covers, bool) or not isinstance(covers, int) or covers < 0):
            raise ValueError(f"covers must be a number of messages, not {covers!r}")
        arguments = check_session_id(session_id), child, summary, covers
        return self._run("compress_session", sessions.compress, *arguments)

    def fork_session(self, session_id: str, at: object = None) -> str:
        """A new session with the history up to a message, its platform id, or a position; its id (G43)."""
        return self._run("fork_session", sessions.fork, check_session_id(session_id), at)

    def end_session(self, session_id: str, reason: str) -> bool:
        """End a session; False if an earlier reason stands (G44)."""
        if reason == COMPRESSION:
            raise ValueError("a session ends by compression only with a child; use compress_session()")
        arguments = check_session_id(session_id), _reason(reason)
        return self._run("end_session", sessions.end_session, *arguments)

    def reopen_session(self, session_id: str) -> bool:
        """Make an ended session live again; False if it is (G44)."""
        return self._run("reopen_session", sessions.reopen, check_session_id(session_id))

    def set_session_title(self, session_id: str, title: str) -> str:
        """Name a session; the name it got, with a number if another has it (G44)."""
        return self._run("set_session_title", sessions.set_title, check_session_id(session_id), _title(title), False)

    def set_auto_title(self, session_id: str, title: str) -> str:
        """Name a session unless somebody chose its name; the name it has then (G44)."""
        return self._run("set_auto_title", sessions.set_title, check_session_id(session_id), _title(title), True)

    # Transcripts

    def append_to_transcript(self, session_id: str, message: Mapping[str, Any], skip_db: bool = False) -> int | None:
        """Append one message; its position in the log, None if its platform id is known already (G46, G47).

        `skip_db` says that the caller has stored the message here before: nothing is appended.
        """
        event = appended(message)
        if skip_db:
            return None
        return self._run("append_to_transcript", transcripts.append_one, check_session_id(session_id), event)

    def append_messages(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> list[int]:
        """Append messages, all or none; the positions of those that were new (G46, G47)."""
        if isinstance(messages, (str, bytes, Mapping)) or not isinstance(messages, Sequence):
            raise ValueError(f"messages must be a list of dicts, not {messages!r:.200}")
        events = [appended(message) for message in messages]
        return self._run("append_messages", transcripts.append, check_session_id(session_id), events)

    def rewrite_transcript(self, session_id: str, messages: Sequence[Mapping[str, Any]]) -> bool:
        """Make another history live; the former one stays in the log (G50)."""
        whole = sessions.checked_summary(messages)
        return self._run("rewrite_transcript", transcripts.rewrite, check_session_id(session_id), whole)

    def rewind_session(self, session_id: str, n: int = 1) -> dict[str, Any] | None:
        """Undo the last n turns; None when there is no user message (G51)."""
        if isinstance(n, bool) or not isinstance(n, int):
            raise ValueError(f"n must be a number of turns, not {n!r}")
        return self._run("rewind_session", transcripts.rewind, check_session_id(session_id), n)

    def restore_rewound(self, session_id: str) -> int:
        """Undo the last undo; how many messages are live again (G51)."""
        return self._run("restore_rewound", transcripts.restore, check_session_id(session_id))


def _check_usage(usage: Mapping[str, Any]) -> None:
    for name, value in usage.items():
        if value is None and name in ("last_prompt_tokens", "cost_usd"):
            continue
        kinds = (int, float) if name == "cost_usd" else int
        if isinstance(value, bool) or not isinstance(value, kinds) or not value >= 0:
            raise ValueError(f"{name} must be a number of at least 0, not {value!r:.100}")
        if name == "cost_usd" and isinstance(value, int):
            number(name, value, 1e300)  # one that a float can hold


def _lease(seconds: Any) -> float | None:
    if seconds is not None and not number("lease_seconds", seconds) > 0:
        raise ValueError(f"lease_seconds must be more than 0, or None to never run out, not {seconds!r}")
    return cast("float | None", seconds)


def number(name: str, value: Any, largest: float = 1e11) -> Any:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not -largest <= value <= largest:
        raise ValueError(f"{name} must be a number of at most {largest:g}, not {value!r:.100}")
    return value


def _title(title: object) -> str:
    words = " ".join(_text("title", title).encode("utf-8", "backslashreplace").decode().split())
    if not words:
        raise ValueError("a title needs at least one word")
    return words


def _reason(value: object) -> str:
    reason = _text("reason", value)
    if not reason or not encodable(reason):
        raise ValueError(f"reason must be words that the log can keep, not {value!r}")
    return reason


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text, not {value!r}")
    return value
