"""The whole vocabulary: everything that can happen to a lane, a turn, a session or the log itself.

That of a web chat is in `engine.domain.chat_events`.
"""

from typing import Any, Literal

import msgspec

from engine.domain import chat_events as c
from engine.domain.registry import Event, event

SESSION = "20260701_142530_1a2b3c4d"
NEXT = "20260702_040000_5e6f7a8b"
LANE = "agent:main:telegram:dm:4711"
LANE_ID = "9f86d081884c7d65"


class DecisionInputs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The inputs of a decision, so that `why` and `what-if` need nothing but the log."""

    mode: str = "none"
    at_hour: int | None = None
    idle_minutes: int | None = None
    idle_seconds: float | None = None
    freshness_seconds: float | None = None
    pending_seconds: float | None = None
    zone_offset_minutes: int | None = None
    busy: bool = False


# Lanes: streams `lane:<opaque id>`


@event(
    session_id=SESSION,
    how="created",
    key=LANE,
    identity='[0,"telegram","dm","4711",0,0]',
    origin={"platform": "telegram", "chat_id": "4711"},
    display_name="Ada",
)
class LaneRouted(Event, frozen=True, tag="lane.routed"):
    """The lane leads to a session that was created or recovered for it.

    Of a lane that led nowhere it has the key and the identity. They name a person, so they are in a payload,
    which can be erased, and not in the stream's name. `began_at` is when a recovered session was created.
    """

    session_id: str
    how: Literal["created", "recovered", "forced", "imported"]
    key: str | None = None
    identity: str | None = None
    origin: dict[str, Any] | None = None
    display_name: str | None = None
    previous_session_id: str | None = None
    began_at: int | None = None


@event(identity='[0,"telegram","dm","4711",0,0]')
class LaneIdentified(Event, frozen=True, tag="lane.identified"):
    """A lane of unknown origin took the identity of the first source that came to it."""

    identity: str


@event(
    session_id=NEXT,
    previous_session_id=SESSION,
    cause="daily",
    automatic=True,
    had_activity=True,
    saw=DecisionInputs(mode="daily", at_hour=4),
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
    saw: DecisionInputs | None = None


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
    saw: DecisionInputs | None = None


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


# Turns: on the stream of the session they began in


@event(token="t-1", conversation_id=SESSION, lane_id=LANE_ID, lease_seconds=300.0)
class TurnBegun(Event, frozen=True, tag="turn.begun"):
    """A worker took the lease of a conversation; without `lease_seconds` it never runs out.

    `boot` names the run of the machine since it was switched on, and `boot_at` is how long ago that was, in
    microseconds: there the lease does not follow the clock on the wall.

    The turn of a web chat has its stream for a token, no lane, lease or holder, and what its host keeps of it:
    `started_at` in epoch seconds, what it answers, and how many messages were visible.
    """

    token: str
    conversation_id: str
    lane_id: str | None = None
    lease_seconds: float | None = None
    holder: str | None = None
    started_at: float | None = None
    user_message: str | None = None
    attachments: list[Any] = msgspec.field(default_factory=list)
    visible: int = 0
    boot: str | None = None
    boot_at: int | None = None


@event(token="t-1", lease_seconds=300.0)
class TurnRenewed(Event, frozen=True, tag="turn.renewed"):
    """The turn's lease runs from now on."""

    token: str
    lease_seconds: float | None = None
    boot: str | None = None
    boot_at: int | None = None


@event(token="t-1")
class TurnEnded(Event, frozen=True, tag="turn.ended"):
    """The turn finished, failed or was cancelled; the lease is free."""

    token: str
    outcome: Literal["finished", "failed", "cancelled"] = "finished"
    error: str | None = None


@event(token="t-1", evidence="its worker is gone")
class TurnInterrupted(Event, frozen=True, tag="turn.interrupted"):
    """The turn's worker died or lost its lease; the evidence says how that was seen."""

    token: str
    evidence: str


# Sessions: streams `session:<id>`


@event(lane=LANE, conversation_id=SESSION, source={"platform": "telegram", "chat_id": "4711"})
class SessionCreated(Event, frozen=True, tag="session.created"):
    """A session exists. `relation` says how it hangs on its parent, if it has one.

    `family_id` is the conversation that a fork, or a fork of a fork, came from; without it the session's own.
    """

    conversation_id: str
    lane: str | None = None
    source: dict[str, Any] | None = None
    parent_session_id: str | None = None
    relation: Literal["root", "compression", "fork", "copy", "child"] = "root"
    family_id: str | None = None


@event(end_reason="session_reset")
class SessionEnded(Event, frozen=True, tag="session.ended"):
    """The session was closed; the reason decides whether it may ever be recovered."""

    end_reason: str


@event(previous_end_reason="ws_orphan_reap")
class SessionReopened(Event, frozen=True, tag="session.reopened"):
    """The session, which had ended, is live again."""

    previous_end_reason: str | None = None


@event(lane=LANE, source={"platform": "telegram", "chat_id": "4711"})
class SessionClaimed(Event, frozen=True, tag="session.claimed"):
    """The session is this lane's from now on, which recovered it, was switched to it, or led to what it goes on for."""

    lane: str
    source: dict[str, Any] | None = None


@event(child_session_id=NEXT, carried=2)
class SessionCompressed(Event, frozen=True, tag="session.compressed"):
    """The session was closed into a child that goes on with a summary and the messages carried over."""

    child_session_id: str
    carried: int = 0


class Inherited(msgspec.Struct, frozen=True, omit_defaults=True):
    """Messages of another session that stand in this one's history without being copied.

    Of the messages live at `version` of that session, whose history began at `history_from`, those from `first` up
    to `last`; `beyond` are the live ones after them. A reference and not a copy: erasing a message erases it wherever
    it is inherited.
    """

    session_id: str
    history_from: int
    version: int
    first: int
    last: int
    beyond: int = 0

    def __len__(self) -> int:
        return self.last - self.first


@event(inherited=Inherited(SESSION, 0, 12, 0, 4), conversation_id=SESSION, position=57)
class SessionForked(Event, frozen=True, tag="session.forked"):
    """This session begins with the history that another one, of another conversation, had up to a message.

    `position` is that of the last message it has in common with it.
    """

    inherited: Inherited
    conversation_id: str
    position: int = 0


@event(message={"role": "user", "content": "hello"}, message_id="tg-9001")
class MessageAppended(Event, frozen=True, tag="message.appended"):
    """One message. With a platform message id it can be appended once per session."""

    message: dict[str, Any]
    message_id: str | None = None


@event(messages=[{"role": "system", "content": "summary"}], cause="compress")
class TranscriptRewritten(Event, frozen=True, tag="transcript.rewritten"):
    """From here on the history is this one: these messages, then those inherited. The former stays in the log.

    The messages of a history that the host rewrites follow as events of their own. `freed` are the positions of
    messages that the former history had inherited and this one leaves out: they may be delivered again.
    """

    messages: list[dict[str, Any]] = msgspec.field(default_factory=list)
    cause: Literal["rewrite", "compress"] = "rewrite"
    inherited: Inherited | None = None
    freed: tuple[int, ...] = ()


@event(message={"role": "user", "content": "hello"}, message_id="tg-9001", copy_of=17)
class MessageRewritten(Event, frozen=True, tag="message.rewritten"):
    """One message of a rewritten history.

    `copy_of` is the position at which it was recorded first, if it is not new: erasing that message erases this one.
    """

    message: dict[str, Any]
    message_id: str | None = None
    copy_of: int = 0


@event(keep=4, rewound_count=2, turns_undone=1)
class TranscriptRewound(Event, frozen=True, tag="transcript.rewound"):
    """The last `rewound_count` live messages are hidden; the first `keep` stay.

    `before` is the version of the undo before it that can still be restored, 0 if there is none.
    """

    keep: int
    rewound_count: int
    turns_undone: int
    cause: Literal["undo", "retry", "truncate"] = "undo"
    before: int = 0


@event(restored_count=2)
class TranscriptRestored(Event, frozen=True, tag="transcript.restored"):
    """The messages hidden by the last rewind are live again. The one `before` it is now the last."""

    restored_count: int
    before: int = 0


@event(title="Trip to Delft", auto=True)
class SessionTitled(Event, frozen=True, tag="session.titled"):
    """The session got a title, or with null, lost it."""

    title: str | None = None
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
    model: str | None = None
    provider: str | None = None


@event(source="telegram", row=57, seen={"input_tokens": 1200, "end_reason": "session_reset"})
class SessionImported(Event, frozen=True, tag="session.rows_imported"):
    """The session came from another program's files, up to a row of its messages there.

    `source` names the program, and how its messages are counted where they have no rows. `rows` are those that came
    with this event, if not all up to `row` did. `seen` is what its tokens, its cost and its end were there, once they
    came too: a later import adds what is new.
    """

    source: str
    row: int
    rows: list[int] = msgspec.field(default_factory=list)
    seen: dict[str, Any] | None = None


# The log itself: stream `log`


@event(source="state.db", sessions=12, messages=3400, skipped=1)
class ImportFinished(Event, frozen=True, tag="log.imported"):
    """Sessions of another program were imported; what was left out is in the importer's report."""

    source: str
    sessions: int = 0
    messages: int = 0
    skipped: int = 0


@event(positions=[17, 18], request="R-2026-044")
class ContentErased(Event, frozen=True, tag="log.erased"):
    """The payloads at these positions were replaced by tombstones that keep their digests."""

    positions: list[int]
    request: str | None = None


@event(positions=[17, 18], archive="/backup/2026-06.archive")
class ContentArchived(Event, frozen=True, tag="log.archived"):
    """The payloads at these positions were moved into an archive; markers keep their digests and ids."""

    positions: list[int]
    archive: str


@event(positions=[17, 18], archive="/backup/2026-06.archive")
class ContentRestored(Event, frozen=True, tag="log.restored"):
    """The payloads at these positions were put back from an archive."""

    positions: list[int]
    archive: str


@event(position=17, projection="search", error="payload is not JSON")
class EventQuarantined(Event, frozen=True, tag="log.quarantined"):
    """A projection met an event it could not use, quarantined it and went on."""

    position: int
    projection: str
    error: str


@event(error="database disk image is malformed")
class EventLost(Event, frozen=True, tag="log.lost"):
    """An event could not be read when the log was salvaged. This stands at its position, so that no other moves."""

    error: str


@event(events=1041, lost=3, changed=1)
class LogSalvaged(Event, frozen=True, tag="log.salvaged"):
    """All that could be read of a damaged log was brought into this one, which has hashes of its own."""

    events: int
    lost: int
    changed: int = 0


@event(table="lanes", key="agent:main:telegram:dm:4711", rows=2, position=17, problem="the row is missing")
class TablesHealed(Event, frozen=True, tag="store.healed"):
    """State tables that disagreed with the log were made again from it: how many rows, and the first of them."""

    table: str
    rows: int
    key: str | None = None
    position: int | None = None
    problem: str | None = None


@event(position=1042, head="1042:9f3a", last_position=1100)
class StoreRestored(Event, frozen=True, tag="store.restored"):
    """This store was made of another one's log up to a position; the other went on to the last one named here."""

    position: int
    head: str
    last_position: int


@event(
    version="0.1.0",
    holder="host:4711:99:ab12",
    zone="Europe/Amsterdam",
    settings={"default_reset_policy": {"mode": "idle"}},
)
class StoreOpened(Event, frozen=True, tag="store.opened"):
    """A store began to write: package version, holder, and the settings that decide. A restart can be seen by it."""

    version: str
    holder: str
    zone: str | None = None
    settings: dict[str, Any] | None = None


@event(holder="host:4711:99:ab12")
class StoreClosed(Event, frozen=True, tag="store.closed"):
    """A store that wrote was closed in good order. After a crash this event is missing."""

    holder: str


AnyEvent = (
    LaneRouted
    | LaneIdentified
    | LaneReset
    | LaneSuspended
    | ResumeMarked
    | ResumeCleared
    | LaneTouched
    | LaneSwitched
    | LaneAdvanced
    | LaneReleased
    | LanePruned
    | ModelOverrideSet
    | NoticesConsumed
    | ExpiryFinalized
    | TurnBegun
    | TurnRenewed
    | TurnEnded
    | TurnInterrupted
    | SessionCreated
    | SessionEnded
    | SessionReopened
    | SessionClaimed
    | SessionCompressed
    | SessionForked
    | MessageAppended
    | TranscriptRewritten
    | MessageRewritten
    | TranscriptRewound
    | TranscriptRestored
    | SessionTitled
    | SessionImported
    | UsageRecorded
    | c.AttributesSet
    | c.SessionTouched
    | c.SessionPinned
    | c.SessionArchived
    | c.SessionMoved
    | c.SessionRotated
    | c.SessionDeleted
    | c.AgentSessionDeleted
    | c.PendingReplaced
    | c.MessageExtended
    | c.ContextReplaced
    | c.ToolCallsReplaced
    | c.UsageCarried
    | c.ProjectCreated
    | c.ProjectRenamed
    | c.ProjectRecolored
    | c.ProjectDeleted
    | ImportFinished
    | ContentErased
    | ContentArchived
    | ContentRestored
    | EventQuarantined
    | EventLost
    | LogSalvaged
    | TablesHealed
    | StoreRestored
    | StoreOpened
    | StoreClosed
)
"""Any event of this version: after `isinstance(event, AnyEvent)` a type checker sees whether `match` has every case."""

PAYLOADS_CHANGED = (ContentErased, ContentArchived, ContentRestored)
"""Events that say which payloads are others than before: what was read of those positions is good no more."""
