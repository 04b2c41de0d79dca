"""The vocabulary of a web chat: what can happen to a session beyond its messages, and to a project."""

from typing import Any

import msgspec

from engine.domain.registry import Event, event

# Sessions: streams `session:<id>`


@event(attributes={"workspace": "/work/site", "model": "large-2", "profile": "default"})
class AttributesSet(Event, frozen=True, tag="session.attributes_set"):
    """Attributes of the session got these values. One that no version knows is kept like the others."""

    attributes: dict[str, Any]


@event(at=1782915930000000)
class SessionTouched(Event, frozen=True, tag="session.touched"):
    """Somebody worked with the session: `at` is when it was updated last."""

    at: int


@event(pinned=True)
class SessionPinned(Event, frozen=True, tag="session.pinned"):
    """The session was pinned to the top of the list, or taken from there."""

    pinned: bool = True


@event(archived=True)
class SessionArchived(Event, frozen=True, tag="session.archived"):
    """The session was put into the archive, or taken out of it."""

    archived: bool = True


@event(project_id="4f1d6a0b9c2e")
class SessionMoved(Event, frozen=True, tag="session.moved"):
    """The session was moved to a project, or with null, out of its project."""

    project_id: str | None = None


@event(session_id="0a1b2c3d4e5f")
class SessionRotated(Event, frozen=True, tag="session.rotated"):
    """The session goes on under another id, and every former id leads to it too."""

    session_id: str


@event()
class SessionDeleted(Event, frozen=True, tag="session.deleted"):
    """The session was deleted: it is not shown any more, and its id is never used again."""


@event()
class AgentSessionDeleted(Event, frozen=True, tag="session.deleted_at_agent"):
    """The session was deleted from its agent's database: it is not listed from there again, nor imported."""


@event(token="t-1", started_at=1782915930.0, user_message="hello again")
class PendingReplaced(Event, frozen=True, tag="session.pending_replaced"):
    """The open turn of a chat answers this instead."""

    token: str
    started_at: float
    user_message: str | None = None
    attachments: list[Any] = msgspec.field(default_factory=list)


@event(position=57, origin=57, added={"_turnUsage": {"output_tokens": 80}})
class MessageExtended(Event, frozen=True, tag="message.extended"):
    """The live message that was recorded at a position has these keys too.

    `origin` is where it was recorded first: erasing it there erases this.
    """

    position: int
    origin: int
    added: dict[str, Any]


@event(messages=[{"role": "user", "content": "hello"}])
class ContextReplaced(Event, frozen=True, tag="session.context_replaced"):
    """The model reads this instead of the messages: the first `keep` of the context before, then these.

    Without any it reads the messages.
    """

    keep: int = 0
    messages: list[dict[str, Any]] = msgspec.field(default_factory=list)


@event(tool_calls=[{"name": "read_file", "done": True}])
class ToolCallsReplaced(Event, frozen=True, tag="session.tool_calls_replaced"):
    """The host shows this of tool calls: the first `keep` of those before, then these."""

    keep: int = 0
    tool_calls: list[Any] = msgspec.field(default_factory=list)


@event(input_tokens=1200, output_tokens=80, cost_usd=0.01)
class UsageCarried(Event, frozen=True, tag="session.usage_carried"):
    """The session shows this usage of the one it was copied from, where it was counted."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None


# Projects: streams `project:<id>`


@event(name="Website", color="#6366f1")
class ProjectCreated(Event, frozen=True, tag="project.created"):
    """There is a project that sessions can be moved to."""

    name: str
    color: str | None = None


@event(name="Web")
class ProjectRenamed(Event, frozen=True, tag="project.renamed"):
    """The project has another name."""

    name: str


@event(color="#10b981")
class ProjectRecolored(Event, frozen=True, tag="project.recolored"):
    """The project has another colour, or with null, none."""

    color: str | None = None


@event()
class ProjectDeleted(Event, frozen=True, tag="project.deleted"):
    """The project is no more; its sessions were moved out of it."""
