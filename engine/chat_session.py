"""ChatSession and ChatSummary: a session as a web client sees it, whole or without its messages (W1, W4 to W7)."""

import os
from collections.abc import Collection
from typing import Any

import msgspec

from engine.domain.chat_rows import UNTITLED, last_message_time, row_of

_set = msgspec.structs.force_setattr


class ChatFields(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that a whole session and a summary have in common. Times are epoch seconds."""

    session_id: str
    """The id it goes by now."""
    title: str = UNTITLED
    """Its title; several may have the same."""
    workspace: str = ""
    """The folder it works in: a resolved path."""
    model: str = ""
    """The model it talks to."""
    model_provider: str | None = None
    """Who serves the model, in lower case."""
    created_at: float = 0.0
    """When it was created."""
    updated_at: float = 0.0
    """When somebody last worked with it."""
    pinned: bool = False
    """True at the top of the list."""
    archived: bool = False
    """True in the archive."""
    project_id: str | None = None
    """The project it is in."""
    profile: str | None = None
    """The profile it belongs to."""
    input_tokens: int = 0
    """Tokens read, of all turns."""
    output_tokens: int = 0
    """Tokens written, of all turns."""
    estimated_cost: float | None = None
    """What it cost, if anybody said."""
    personality: str | None = None
    """The personality its host gave it."""
    active_stream_id: str | None = None
    """The stream of the turn that is open."""
    pending_user_message: str | None = None
    """What the open turn answers."""
    pending_attachments: list[Any] = msgspec.field(default_factory=list)
    """What came with it."""
    pending_started_at: float | None = None
    """When the open turn was started."""
    compression_anchor_visible_idx: int | None = None
    """Where the host shows that it was compressed: the place of a message."""
    compression_anchor_message_key: Any = None
    """The same by the message's key."""
    context_length: int | None = None
    """How much the model can read."""
    threshold_tokens: int | None = None
    """From how much on it is compressed."""
    last_prompt_tokens: int | None = None
    """How much the model read last."""
    parent_session_id: str | None = None
    """The session it came from."""
    enabled_toolsets: list[str] | None = None
    """The toolsets it may use; None for the host's own choice."""
    is_cli_session: bool = False
    """True if it came from the agent's command line."""
    source_tag: str | None = None
    """Where it came from, as its source says."""
    session_source: str | None = None
    """Where it came from, in words that all sources share."""
    source_label: str | None = None
    """Where it came from, to be shown."""
    version: int = 0
    """How many events it has: give it as `expected_version` to change what was read and nothing later."""
    extra: dict[str, Any] = msgspec.field(default_factory=dict)
    """Attributes that this version does not know; they come back as they were given."""

    def __post_init__(self) -> None:
        """Bring what hosts write in several ways into one form."""
        if self.workspace:
            _set(self, "workspace", resolved(self.workspace))
        _set(self, "model_provider", tidy_provider(self.model_provider))
        _set(self, "project_id", self.project_id or None)
        _set(self, "input_tokens", self.input_tokens or 0)
        _set(self, "output_tokens", self.output_tokens or 0)
        if not isinstance(self.enabled_toolsets, list):
            _set(self, "enabled_toolsets", None)


class ChatSession(ChatFields, frozen=True, kw_only=True):
    """A session with everything in it. It is a copy: changing it changes nothing that is stored."""

    messages: list[Any] = msgspec.field(default_factory=list)
    """The visible messages, oldest first."""
    tool_calls: list[Any] = msgspec.field(default_factory=list)
    """What the host shows of tool calls."""
    context_messages: list[Any] = msgspec.field(default_factory=list)
    """What the model reads instead of the messages; [] while they are the same."""

    def __post_init__(self) -> None:
        """Bring what hosts write in several ways into one form."""
        super().__post_init__()
        if not isinstance(self.context_messages, list):
            _set(self, "context_messages", [])

    @property
    def message_count(self) -> int:
        """Return how many messages are visible."""
        return len(self.messages)

    @property
    def last_message_at(self) -> float:
        """Return the time of the last message that is not a tool's and has one, else `updated_at` (W6)."""
        found = last_message_time(reversed(self.messages))
        return self.updated_at if found is None else found

    def compact(
        self, include_runtime: bool = False, active_stream_ids: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Return the session's row in a list (W5); with runtime it says if one of these streams is its own (W7)."""
        return _row(self, self.message_count, self.last_message_at, include_runtime, active_stream_ids)


class ChatSummary(ChatFields, frozen=True, kw_only=True):
    """A session without messages, for a list: no command takes it, so it cannot overwrite anything."""

    message_count: int = 0
    """How many messages are visible."""
    last_message_at: float = 0.0
    """The time of the last message that is not a tool's and has one, else `updated_at`."""

    def compact(
        self, include_runtime: bool = False, active_stream_ids: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Return the session's row in a list (W5); with runtime it says if one of these streams is its own (W7)."""
        return _row(self, self.message_count, self.last_message_at, include_runtime, active_stream_ids)


def _row(
    chat: ChatFields, messages: int, last_message_at: float, runtime: bool, streams: Collection[str] | None
) -> dict[str, Any]:
    row = row_of(msgspec.structs.asdict(chat), messages, last_message_at)
    row["is_streaming"] = runtime and chat.active_stream_id is not None and chat.active_stream_id in (streams or ())
    return row


def resolved(path: str) -> str:
    """Return a path without `~`, `..` and links."""
    return os.path.realpath(os.path.expanduser(path))  # noqa: PTH111 - like Path.resolve, but it takes any text


def tidy_provider(provider: object) -> str | None:
    """Return a provider's name stripped and in lower case; None for none."""
    return (provider.strip().lower() or None) if isinstance(provider, str) else None
