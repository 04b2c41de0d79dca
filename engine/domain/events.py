"""The whole vocabulary: everything that can happen to a lane, a session, a project or the log itself."""

from typing import Any, Literal

import msgspec

from engine.domain.registry import EVENTS, UPCASTS, Event, event, upcast

__all__ = ["EVENTS", "UPCASTS", "Event", "Saw", "event", "upcast"]

SESSION = "20260701_142530_1a2b3c4d"
NEXT = "20260702_040000_5e6f7a8b"
LANE = "agent:main:telegram:dm:4711"


class Saw(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a decision looked at, so that `why` and `what-if` need nothing but the log."""

    mode: str = "none"
    at_hour: int | None = None
    idle_minutes: int | None = None
    idle_seconds: float | None = None
    freshness_seconds: float | None = None
    pending_seconds: float | None = None
    zone_offset_minutes: int | None = None
    busy: bool = False


# Lanes: streams `lane:<session key>`


@event(session_id=SESSION, how="created", origin={"platform": "telegram", "chat_id": "4711"}, display_name="Ada")
class LaneRouted(Event, frozen=True, tag="lane.routed"):
    """The lane, which led nowhere or was forced, now leads to a session that was created or recovered."""

    session_id: str
    how: Literal["created", "recovered", "forced"]
    origin: dict[str, Any] | None = None
    display_name: str | None = None
    previous_session_id: str | None = None
    began_at: int | None = None


@event(
    session_id=NEXT,
    previous_session_id=SESSION,
    cause="daily",
    automatic=True,
    had_activity=True,
    saw=Saw(mode="daily", at_hour=4),
)
class LaneReset(Event, frozen=True, tag="lane.reset"):
    """The lane left its session for a new one, by policy, by suspension or because somebody asked."""

    session_id: str
    previous_session_id: str
    cause: str
    automatic: bool
    had_activity: bool = False
    origin: dict[str, Any] | None = None
    display_name: str | None = None
    saw: Saw | None = None


@event(session_id=SESSION)
class LaneSuspended(Event, frozen=True, tag="lane.suspended"):
    """The next message on this lane starts a new session."""

    session_id: str


@event(session_id=SESSION, resume_reason="restart_interrupted")
class ResumeMarked(Event, frozen=True, tag="lane.resume_marked"):
    """The lane's session was cut off and is to be resumed."""

    session_id: str
    resume_reason: str


@event(session_id=SESSION)
class ResumeCleared(Event, frozen=True, tag="lane.resume_cleared"):
    """The lane's session is no longer waiting to resume."""

    session_id: str


@event(at=1782915930000000)
class LaneTouched(Event, frozen=True, tag="lane.touched"):
    """Somebody spoke. `at` is the moment of the message: touches are written behind it, coalesced."""

    at: int
    held: str | None = None
    saw: Saw | None = None


@event(session_id=NEXT, previous_session_id=SESSION)
class LaneSwitched(Event, frozen=True, tag="lane.switched"):
    """The lane was pointed at another existing session."""

    session_id: str
    previous_session_id: str


@event(session_id=NEXT, previous_session_id=SESSION)
class LaneAdvanced(Event, frozen=True, tag="lane.advanced"):
    """The lane followed a compression from the closed parent to its live tip."""

    session_id: str
    previous_session_id: str


@event(session_id=SESSION, cause="agent_close")
class LaneReleased(Event, frozen=True, tag="lane.released"):
    """Routing found the lane's session ended and forgot the mapping with its flags."""

    session_id: str
    cause: str


@event(session_id=SESSION, untouched_days=91)
class LanePruned(Event, frozen=True, tag="lane.pruned"):
    """The lane was untouched for so long that it was forgotten; its sessions stay."""

    session_id: str
    untouched_days: float


@event(override={"model": "large-2", "provider": "example"})
class ModelOverrideSet(Event, frozen=True, tag="lane.model_set"):
    """The lane's model was chosen, or with null, given back to the default. Never holds a credential."""

    override: dict[str, str] | None = None


@event(auto_reset=True)
class NoticesConsumed(Event, frozen=True, tag="lane.notices_consumed"):
    """The notices of a reset were shown to the user, once."""

    auto_reset: bool = False
    fresh_reset: bool = False


@event(session_id=SESSION)
class ExpiryFinalized(Event, frozen=True, tag="lane.expiry_finalized"):
    """The host finished its work for the lane's expired session."""

    session_id: str


# Turns: on the stream of the lane or chat session that runs them


@event(token="t-1", session_id=SESSION, conversation_id=SESSION, lease_seconds=300.0)
class TurnBegun(Event, frozen=True, tag="turn.begun"):
    """A worker took the lease of a conversation; a chat turn also keeps the user's text."""

    token: str
    session_id: str
    conversation_id: str
    lease_seconds: float | None = None
    holder: str | None = None
    user_message: Any = None
    attachments: list[Any] | None = None


@event(token="t-1", session_id=SESSION)
class TurnEnded(Event, frozen=True, tag="turn.ended"):
    """The turn finished, failed or was cancelled; the lease is free."""

    token: str
    session_id: str
    outcome: Literal["finished", "failed", "cancelled"] = "finished"
    error: str | None = None


@event(token="t-1", session_id=SESSION, evidence="holder is gone")
class TurnInterrupted(Event, frozen=True, tag="turn.interrupted"):
    """The turn's worker died; what it owed the user is kept and marked, once."""

    token: str
    session_id: str
    evidence: str
    messages: list[dict[str, Any]] | None = None


# Sessions: streams `session:<id>`


@event(lane=LANE, conversation_id=SESSION, source={"platform": "telegram", "chat_id": "4711"})
class SessionCreated(Event, frozen=True, tag="session.created"):
    """A session exists. `relation` says how it hangs on its parent, if it has one."""

    conversation_id: str
    lane: str | None = None
    source: dict[str, Any] | None = None
    parent_session_id: str | None = None
    relation: Literal["root", "compression", "fork", "branch", "delegate", "import"] = "root"
    title: str | None = None
    attributes: dict[str, Any] | None = None


@event(end_reason="session_reset")
class SessionEnded(Event, frozen=True, tag="session.ended"):
    """The session was closed; the reason decides whether it may ever be recovered."""

    end_reason: str


@event(previous_end_reason="ws_orphan_reap", lane=LANE)
class SessionReopened(Event, frozen=True, tag="session.reopened"):
    """The session is live again, or was claimed by another lane."""

    previous_end_reason: str | None = None
    lane: str | None = None
    source: dict[str, Any] | None = None


@event(child_session_id=NEXT, carried=2)
class SessionCompressed(Event, frozen=True, tag="session.compressed"):
    """The session was closed into a child that goes on with a summary and the messages carried over."""

    child_session_id: str
    carried: int = 0


@event(parent_session_id=SESSION, parent_version=12, messages=[{"role": "user", "content": "hello"}])
class SessionForked(Event, frozen=True, tag="session.forked"):
    """This session began as a copy of another's history up to a version."""

    parent_session_id: str
    parent_version: int
    messages: list[dict[str, Any]]


@event(message={"role": "user", "content": "hello"}, message_id="tg-9001")
class MessageAppended(Event, frozen=True, tag="message.appended"):
    """One message. With a platform message id it can be appended once per session."""

    message: dict[str, Any]
    message_id: str | None = None


@event(messages=[{"role": "system", "content": "summary"}], cause="compress")
class TranscriptRewritten(Event, frozen=True, tag="transcript.rewritten"):
    """From here on the history is this one; the former stays in the log."""

    messages: list[dict[str, Any]]
    cause: Literal["rewrite", "clear", "truncate", "compress"] = "rewrite"


@event(keep=4, rewound_count=2, turns_undone=1)
class TranscriptRewound(Event, frozen=True, tag="transcript.rewound"):
    """All live messages after the first `keep` are hidden."""

    keep: int
    rewound_count: int
    turns_undone: int
    cause: Literal["undo", "retry"] = "undo"


@event(restored_count=2)
class TranscriptRestored(Event, frozen=True, tag="transcript.restored"):
    """The messages hidden by the last rewind are live again."""

    restored_count: int


@event(title="Trip to Delft", auto=True)
class SessionTitled(Event, frozen=True, tag="session.titled"):
    """The session got a title."""

    title: str
    auto: bool = False


@event(session_id=SESSION, last_prompt_tokens=900, input_tokens=1200, output_tokens=80, cost_usd=0.01)
class UsageRecorded(Event, frozen=True, tag="usage.recorded"):
    """Tokens and cost. `last_prompt_tokens` replaces, the others add up."""

    session_id: str
    last_prompt_tokens: int | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None


@event(attributes={"pinned": True, "project_id": "p-1"})
class AttributesSet(Event, frozen=True, tag="session.attributes_set"):
    """Chat attributes were set: pinned, archived, project, toolsets, personality, model, workspace …"""

    attributes: dict[str, Any]


@event(source="cli", foreign_session_id="c-17")
class SessionDeleted(Event, frozen=True, tag="session.deleted"):
    """The session is gone for good and does not come back, not even by an import."""

    source: str | None = None
    foreign_session_id: str | None = None


@event(source="cli", foreign_session_id="c-17", foreign_row_ids=[1], messages=[{"role": "user", "content": "hi"}])
class SessionImported(Event, frozen=True, tag="session.imported"):
    """Messages were taken over from elsewhere, keyed so that a second import adds nothing."""

    source: str
    foreign_session_id: str
    foreign_row_ids: list[int | str]
    messages: list[dict[str, Any]]
    created_at: int | None = None
    updated_at: int | None = None


# Projects: streams `project:<id>`


@event(name="Cron Jobs", colour="#6366f1")
class ProjectCreated(Event, frozen=True, tag="project.created"):
    """A project exists."""

    name: str
    colour: str | None = None


@event(name="Night jobs")
class ProjectRenamed(Event, frozen=True, tag="project.renamed"):
    """The project has another name."""

    name: str


@event(colour="#22c55e")
class ProjectRecoloured(Event, frozen=True, tag="project.recoloured"):
    """The project has another colour."""

    colour: str | None = None


@event()
class ProjectDeleted(Event, frozen=True, tag="project.deleted"):
    """The project is gone; its sessions stay, without a project."""


# The log itself: stream `log`


@event(positions=[17, 18], request="R-2026-044")
class ContentErased(Event, frozen=True, tag="log.erased"):
    """The payloads at these positions were replaced by tombstones that keep their digests."""

    positions: list[int]
    request: str | None = None


@event(position=17, projection="search", error="payload is not JSON")
class EventQuarantined(Event, frozen=True, tag="log.quarantined"):
    """A projection met an event it could not use, put it aside and went on."""

    position: int
    projection: str
    error: str
