"""The database of an agent, `state.db`, as the published hermes-agent makes it: sessions, messages and routes (V18)."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from engine.domain.entry import SessionEntry
from engine.imports.found import FoundProject, FoundSession
from engine.imports.found_message import FoundMessage
from engine.imports.report import ImportReport
from engine.imports.times import micros
from engine.log.sqlite.agent import AgentFile

_JSON_MARK = "\0json:"
"""What the agent writes before content that is no text."""
_AS_JSON = ("tool_calls", "reasoning_details", "codex_reasoning_items", "codex_message_items")
_KEPT = (
    *("tool_name", "tool_call_id", "effect_disposition", "finish_reason", "reasoning", "reasoning_content"),
    *("token_count", "api_content", *_AS_JSON),
)
_COMPRESSION = "compression"


class AgentDatabase:
    """Reads an agent's database."""

    def __init__(self, path: str) -> None:
        self.name = path
        self._file = AgentFile(path)

    def sessions(self, report: ImportReport) -> Iterator[FoundSession]:
        """Yield sessions, parents before their children; one that names a missing parent has none."""
        parents = self._file.parents()
        done: set[str] = set()
        for session_id in parents:
            for each in _with_ancestors(session_id, parents, done):
                row = self._file.session(each)
                try:
                    if row is not None:
                        yield self._read(row, parents)
                except (ValueError, TypeError, KeyError) as error:
                    report.skip(f"session {each!r}", error)

    def _read(self, row: dict[str, Any], parents: Mapping[str, Any]) -> FoundSession:
        parent = row.get("parent_session_id") if row.get("parent_session_id") in parents else None
        ended = row.get("ended_at")
        started = micros(row["started_at"])
        return FoundSession(
            session_id=str(row["id"]),
            source=str(row["source"]),
            created_at=started,
            lane=row.get("session_key") or None,
            origin=_origin(row),
            parent_session_id=parent,
            relation=self._relation(parent, started),
            title=row.get("title") or None,
            ended_at=None if ended is None else micros(ended),
            end_reason=None if ended is None else str(row.get("end_reason") or "ended"),
            child_session_id=self._child(row) if row.get("end_reason") == _COMPRESSION else None,
            input_tokens=count_of(row, "input_tokens"),
            output_tokens=count_of(row, "output_tokens"),
            cache_read_tokens=count_of(row, "cache_read_tokens"),
            cache_write_tokens=count_of(row, "cache_write_tokens"),
            cost_usd=cost_of(row),
            model=row.get("model") or None,
            provider=row.get("billing_provider") or None,
        )

    def _relation(self, parent: str | None, started: int) -> str:
        """Return how a session hangs on its parent: it goes on for one that ended by compression before it began."""
        if parent is None:
            return "root"
        reason, at = self._file.end_of(parent)
        return _COMPRESSION if reason == _COMPRESSION and (at is None or micros(at) <= started) else "child"

    def _child(self, row: dict[str, Any]) -> str | None:
        """Return the session that goes on for one that ended by compression."""
        ended = row.get("ended_at")
        children = self._file.children_of(row["id"])
        going_on = [child for child, started in children if ended is None or started >= ended]
        return str(going_on[0]) if going_on else None

    def messages(self, session_id: str, after: int, report: ImportReport) -> Iterator[FoundMessage]:
        """Yield the messages of a session behind a row, in the order of their rows."""
        for row in self._file.messages(session_id, after):
            try:
                yield FoundMessage(row["id"], micros(row["timestamp"]), message_of(row), _state(row))
            except (ValueError, TypeError, KeyError, RecursionError) as error:
                report.skip(f"message {row['id']} of session {session_id!r}", error)

    def lanes(self, report: ImportReport) -> Iterator[SessionEntry]:
        """Yield where lanes lead, if the agent kept that in its database."""
        for key, text in self._file.routes():
            try:
                yield SessionEntry.from_dict(json.loads(text) | {"session_key": key})
            except (ValueError, TypeError, KeyError) as error:
                report.skip(f"lane {key!r}", error)

    def projects(self, report: ImportReport) -> Iterator[FoundProject]:  # noqa: ARG002 - an agent has none
        """Yield nothing: an agent has no projects."""
        return iter(())

    def close(self) -> None:
        """Close the database."""
        self._file.close()


def _with_ancestors(session_id: str, parents: Mapping[str, Any], done: set[str]) -> list[str]:
    """Return a session behind its parents that were not given yet; a circle is cut where it closes."""
    chain: list[str] = []
    each: Any = session_id
    while each in parents and each not in done:
        done.add(each)
        chain.append(each)
        each = parents[each]
    return chain[::-1]


def _origin(row: dict[str, Any]) -> dict[str, Any]:
    """Return where a session came from; of one that nobody wrote to from outside, the program alone."""
    text = row.get("origin_json")
    if text:
        origin = json.loads(text)
        if isinstance(origin, dict):
            return {"platform": row["source"]} | origin
    if not row.get("chat_id") and not row.get("user_id"):
        return {"platform": row["source"]}
    names = ("user_id", "chat_id", "chat_type", "thread_id")
    known = {name: row[name] for name in names if row.get(name)}
    return {"platform": row["source"], "chat_type": "dm"} | known


def message_of(row: dict[str, Any]) -> dict[str, Any]:
    """Return the message in a row, or raise ValueError if it is none."""
    content = row["content"]
    if isinstance(content, bytes):
        raise ValueError("its content is no text")
    if isinstance(content, str) and content.startswith(_JSON_MARK):
        content = json.loads(content[len(_JSON_MARK) :])
    message = {"role": str(row["role"]), "content": content}
    for name in _KEPT:
        value = row.get(name)
        if value is not None:
            message[name] = json.loads(value) if name in _AS_JSON and isinstance(value, str) else value
    if row.get("observed"):
        message["observed"] = True
    if row.get("platform_message_id"):
        message["message_id"] = str(row["platform_message_id"])
    return message


def _state(row: dict[str, Any]) -> str:
    if row.get("active", 1):
        return "live"
    return "compacted" if row.get("compacted") else "undone"


def count_of(row: dict[str, Any], name: str) -> int:
    """Return a number of tokens; 0 for what is none."""
    value = row.get(name) or 0
    return value if isinstance(value, int) and value > 0 else 0


def cost_of(row: dict[str, Any]) -> float | None:
    """Return what a session cost, as it was billed or else estimated."""
    for name in ("actual_cost_usd", "estimated_cost_usd"):
        value = row.get(name)
        if isinstance(value, (int, float)) and value >= 0:
            return float(value)
    return None
