"""Numbers and events as people say them: `26 h 12 min`, and one plain sentence for each event."""

from collections.abc import Callable
from typing import Any

from engine.domain import chat_events as c, events as e
from engine.domain.encoding import Archived, Content, Erased, Unknown, Unreadable
from engine.domain.policy import ResetRules

_MINUTE, _HOUR, _DAY = 60, 3600, 86400
_TWO_DAYS = 2 * _DAY


def span(seconds: float) -> str:
    """Return a length of time in its two largest units: `40 s`, `26 h 12 min`, `3 d 2 h`."""
    left = abs(round(seconds))
    sign = "-" if seconds < 0 and left else ""
    if left < _MINUTE:
        return f"{sign}{left} s"
    if left < _HOUR:
        return sign + _two(left, _MINUTE, "min", 1, "s")
    if left < _TWO_DAYS:
        return sign + _two(left, _HOUR, "h", _MINUTE, "min")
    return sign + _two(left, _DAY, "d", _HOUR, "h")


def _two(left: int, large: int, name: str, small: int, other: str) -> str:
    rest = left % large // small
    return f"{left // large} {name} {rest} {other}" if rest else f"{left // large} {name}"


def counted(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: `1 lane`, `2,000 lanes`."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def rules(policy: ResetRules | None) -> str:
    """Return a reset policy in a few words: `both: idle 24 h, daily at 04:00`."""
    if policy is None:
        return "not recorded"
    idle, daily = f"idle {span(policy.idle_minutes * _MINUTE)}", f"daily at {policy.at_hour:02}:00"
    return {"none": "none", "idle": idle, "daily": daily}.get(policy.mode, f"both: {idle}, {daily}")


def seen(cause: str, saw: e.DecisionInputs | None) -> str:
    """Return what a decision saw, with its numbers: `idle 26 h 12 min, limit 24 h, mode both`."""
    if saw is None:
        return "what it saw was not recorded"
    if cause == "suspended":
        return "somebody had suspended the lane; that wins over every policy"
    idle = "" if saw.idle_seconds is None else f"idle {span(saw.idle_seconds)}"
    if cause == "resume_pending_expired":
        return f"waited {span(saw.pending_seconds or 0)} to be resumed, limit {span(saw.freshness_seconds or 0)}"
    if cause == "daily":
        return f"last used before the day's boundary at {saw.at_hour or 0:02}:00, {idle}, mode {saw.mode}"
    return f"{idle}, limit {span((saw.idle_minutes or 0) * _MINUTE)}, mode {saw.mode}"


def sentence(event: Content) -> str:
    """Return one plain sentence that says what an event did."""
    tell = _SENTENCES.get(type(event))
    if tell is not None:
        return tell(event)
    match event:
        case Erased():
            return f"a {event.topic} event, whose content was erased"
        case Archived():
            return f"a {event.topic} event, whose content is in an archive"
        case Unreadable():
            return f"a {event.topic} event that cannot be read: {event.error}"
        case Unknown():
            return f"a {event.topic} event of a version that is newer than this one"
    return f"a {event.topic} event"


def _routed(event: e.LaneRouted) -> str:
    to = event.session_id
    return {
        "created": f"created {to}: there was no session to go on with",
        "recovered": f"recovered {to}: it is the newest one here, and nobody had ended it on purpose",
        "forced": f"created {to}: a new session was asked for",
        "imported": f"imported: the lane led to {to} in another program",
    }.get(event.how, f"led to {to}: {event.how}")


def _reset(event: e.LaneReset) -> str:
    to = f"; {event.previous_session_id} → {event.session_id}"
    if not event.automatic:
        return f"reset by hand: somebody asked for it, no policy did{to}"
    if event.cause in ("suspended", "resume_pending_expired") or event.saw is None:
        return f"reset: {seen(event.cause, event.saw)}{to}"
    return f"reset: {seen(event.cause, event.saw)}{to}"


def _touched(event: e.LaneTouched) -> str:
    if event.held is None:
        return "went on: a message came"
    return f"not reset, although {event.held} was due ({seen(event.held, event.saw)}): the host was working on the lane"


def _override(event: e.ModelOverrideSet) -> str:
    if not event.override:
        return "the lane's model is the default again"
    return f"the lane's model was chosen: {', '.join(event.override.values())}"


def _created(event: e.SessionCreated) -> str:
    match event.relation:
        case "compression":
            return f"goes on for {event.parent_session_id}, which was compressed"
        case "fork":
            return f"forked from {event.parent_session_id}"
        case "child":
            return f"created as a child of {event.parent_session_id}"
    return "created"


def _ended_turn(event: e.TurnEnded) -> str:
    return "a turn finished" if event.outcome == "finished" else f"a turn failed: {event.error or 'no error was given'}"


def _opened(event: e.StoreOpened) -> str:
    return f"a store of version {event.version} began to write: {event.holder}"


def _erasure(event: e.ContentErased) -> str:
    asked = "" if event.request is None else f", request {event.request}"
    return f"the content of {counted(len(event.positions), 'event')} was erased{asked}"


def _message(event: e.MessageAppended | e.MessageRewritten) -> str:
    return f"a message of role {event.message.get('role', 'unknown')}"


def _title(event: e.SessionTitled) -> str:
    return "the title was taken away" if event.title is None else f"titled {event.title!r}"


def _rewritten(event: e.TranscriptRewritten) -> str:
    if event.cause == "compress":
        return f"the history begins with a summary of {counted(len(event.messages), 'message')}"
    return "the history was rewritten by the host; the former one stays in the log"


def _list_replaced(what: str, kept: int, new: int) -> str:
    if not kept and not new:
        return f"{what} was emptied"
    return f"{what}: the first {kept:,} stay, {new:,} new"


_SENTENCES: dict[type, Callable[[Any], str]] = {
    e.LaneRouted: _routed,
    e.LaneIdentified: lambda _: "a lane of unknown origin took the identity of the first source that came",
    e.LaneReset: _reset,
    e.LaneSuspended: lambda _: "suspended: the next message starts a new session",
    e.ResumeMarked: lambda event: f"marked as cut off, to be resumed: {event.resume_reason}",
    e.ResumeCleared: lambda _: "no longer waiting to be resumed",
    e.LaneTouched: _touched,
    e.LaneSwitched: lambda event: f"switched by hand: {event.previous_session_id} → {event.session_id}",
    e.LaneAdvanced: lambda event: f"followed the compression of {event.previous_session_id} to {event.session_id}",
    e.LaneReleased: lambda event: f"left {event.session_id}, which had ended: {event.cause}",
    e.LanePruned: lambda event: f"forgotten: untouched for {event.untouched_days:g} days",
    e.ModelOverrideSet: _override,
    e.NoticesConsumed: lambda _: "the user was told of the reset",
    e.ExpiryFinalized: lambda _: "the host finished its work for the expired session",
    e.TurnBegun: lambda _: "a turn began",
    e.TurnRenewed: lambda _: "the turn's lease was renewed",
    e.TurnEnded: _ended_turn,
    e.TurnInterrupted: lambda event: f"a turn was cut off: {event.evidence}",
    e.SessionCreated: _created,
    e.SessionEnded: lambda event: f"ended: {event.end_reason}",
    e.SessionReopened: lambda event: f"live again after it had ended: {event.previous_end_reason or 'unknown'}",
    e.SessionClaimed: lambda _: "belongs to the lane that recovered it, was switched to it, or goes on in it",
    e.SessionCompressed: lambda event: (
        f"compressed into {event.child_session_id}, {counted(event.carried, 'message')} carried over"
    ),
    e.SessionForked: lambda event: (
        f"begins with {counted(len(event.inherited), 'message')} of {event.inherited.session_id}"
    ),
    e.MessageAppended: _message,
    e.TranscriptRewritten: _rewritten,
    e.MessageRewritten: _message,
    e.TranscriptRewound: lambda event: (
        f"undone: {counted(event.turns_undone, 'turn')}, {counted(event.rewound_count, 'message')}"
    ),
    e.TranscriptRestored: lambda event: f"the undo was taken back: {counted(event.restored_count, 'message')}",
    e.SessionTitled: _title,
    e.SessionImported: lambda event: f"imported from {event.source}",
    e.UsageRecorded: lambda event: (
        f"used {event.input_tokens:,} tokens in, {event.output_tokens:,} out"
        + (f", model {event.model}" if event.model else "")
    ),
    e.ImportFinished: lambda event: (
        f"imported {counted(event.sessions, 'session')} and {counted(event.messages, 'message')} from {event.source}"
    ),
    e.ContentErased: _erasure,
    e.ContentArchived: lambda event: (
        f"the content of {counted(len(event.positions), 'event')} was moved to {event.archive}"
    ),
    e.ContentRestored: lambda event: (
        f"the content of {counted(len(event.positions), 'event')} was put back from {event.archive}"
    ),
    e.EventQuarantined: lambda event: (
        f"position {event.position} cannot be used by {event.projection} and was quarantined: {event.error}"
    ),
    e.EventLost: lambda event: f"what stood here could not be read when the log was salvaged: {event.error}",
    e.LogSalvaged: lambda event: (
        f"salvaged from a damaged log: {counted(event.events, 'event')}, {event.lost} lost"
        + (f", {event.changed} changed" if event.changed else "")
    ),
    e.TablesHealed: lambda event: (
        f"the state tables were made again: {counted(event.rows, 'row')} disagreed with the log, the first in "
        f"{event.table}"
    ),
    e.StoreRestored: lambda event: (
        f"this store was made of another one's events up to @{event.position}; that one went on to "
        f"@{event.last_position}"
    ),
    c.AttributesSet: lambda event: f"attributes were set: {', '.join(sorted(map(str, event.attributes)))}",
    c.SessionTouched: lambda _: "somebody worked with it",
    c.SessionPinned: lambda event: "pinned" if event.pinned else "no longer pinned",
    c.SessionArchived: lambda event: "put into the archive" if event.archived else "taken out of the archive",
    c.SessionMoved: lambda event: (
        f"moved to project {event.project_id}" if event.project_id else "taken out of its project"
    ),
    c.SessionRotated: lambda event: f"goes on under the id {event.session_id}",
    c.SessionDeleted: lambda _: "deleted: it is not shown any more",
    c.AgentSessionDeleted: lambda _: "deleted from its agent's database: it is not imported again",
    c.PendingReplaced: lambda _: "the open turn answers something else",
    c.MessageExtended: lambda event: f"message @{event.position} got {', '.join(sorted(map(str, event.added)))} too",
    c.ContextReplaced: lambda event: _list_replaced("the model's context", event.keep, len(event.messages)),
    c.ToolCallsReplaced: lambda event: _list_replaced("the list of tool calls", event.keep, len(event.tool_calls)),
    c.UsageCarried: lambda event: (
        f"shows the usage of the session it was copied from: {event.input_tokens:,} tokens in,"
        f" {event.output_tokens:,} out"
    ),
    c.ProjectCreated: lambda event: f"project {event.name!r} was made",
    c.ProjectRenamed: lambda event: f"the project was named {event.name!r}",
    c.ProjectRecolored: lambda event: f"the project's colour is {event.color or 'none'}",
    c.ProjectDeleted: lambda _: "the project was deleted",
    e.StoreOpened: _opened,
    e.StoreClosed: lambda event: f"a store was closed in good order: {event.holder}",
}
