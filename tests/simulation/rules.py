"""The model, told of the commands of a store as they were decided: what each must have answered."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from engine.domain.events import MessageAppended, TurnBegun, TurnEnded, TurnInterrupted
from engine.work import Touch
from tests.properties import model
from tests.properties.model import Json, Model, lane_key
from tests.properties.workers import plain, policy_of, source_of

SOURCES: tuple[Json, ...] = (
    {"platform": "telegram", "chat_id": "100", "user_id": "u1", "chat_name": "Ann"},
    {"platform": "discord", "chat_id": "300", "user_id": "u1", "chat_type": "channel"},
    {"platform": "slack", "chat_id": "400", "user_id": "u3", "chat_type": "group", "thread_id": "t9"},
    {"platform": "signal", "chat_id": "500", "user_id": "u4"},
)
SOURCE_OF = {lane_key(source): source for source in SOURCES}
REFUSALS = (
    model.UnknownSessionError,
    model.UnknownLaneError,
    model.SessionStateError,
    model.TurnInProgressError,
)


class TurnLostError(Exception):
    """A write named a turn that is over."""


class Decided(msgspec.Struct, eq=False):
    """One command as it was decided: what it saw, what it answered or refused, and the events it let happen."""

    holder: str
    name: str
    arguments: tuple[Any, ...]
    now: datetime
    busy: frozenset[str]
    call: object
    started: int
    gone: dict[str, bool] = {}
    touched: dict[str, Touch] = {}
    events: list[Any] = []
    answer: Any = None
    refused: str | None = None


class Rules(Model):
    """The model of tests.properties, with the answers of the host and the deaths of others as the command saw them."""

    def __init__(self) -> None:
        super().__init__(lambda: self.seen.now, policy_of)
        self.seen = Decided("", "", (), datetime.min, frozenset(), None, 0)
        self.changes = 0
        self.chosen: dict[str, int] = {}
        self.known_tokens: set[str] = set()

    def over(self, turn: Json, asking: str) -> bool:
        gone = self.seen.gone.get(turn["holder"][1], False)
        return gone or (turn["ends_at"] is not None and turn["ends_at"] <= self.now)

    def unknown_turns_of(self, holder: str) -> list[Json]:
        """The open turns of a store whose token no caller has got."""
        turns = self.turns.values()
        return [turn for turn in turns if turn["holder"][1] == holder and turn["token"] not in self.known_tokens]

    def lane(self, key: str, session: str, source: Json, **fields: Any) -> Json:
        self.chosen[key] = self.changes
        return super().lane(key, session, source, **fields)

    def check(self, decided: Decided) -> None:
        """Let the command happen to the model too; raise AssertionError if it would have answered otherwise."""
        self.seen, self.busy = decided, decided.busy
        self.changes += 1
        for key, touch in decided.touched.items():
            if key in self.lanes:
                self.touch_at(self.lanes[key], touch.at)
        try:
            expected = seen(_RULES[decided.name](self, decided))
            refused = None
        except (*REFUSALS, TurnLostError) as error:
            expected, refused = None, type(error).__name__
        what = f"{decided.name}{decided.arguments!r:.200} of {decided.holder}"
        assert decided.refused == refused, f"{what} was refused by {decided.refused}, the model says {refused}"
        if refused is None:
            assert decided.answer == expected, (
                f"{what} answered otherwise than the model says:{differ(decided.answer, expected)}"
            )

    def check_turn(self, token: str | None, session: str) -> None:
        if token is not None:
            turn = self.turns.get(self.known(session)["conversation_id"])
            if turn is None or turn["token"] != token:
                raise TurnLostError


def differ(found: Any, expected: Any) -> str:
    """Say where two answers differ."""
    if isinstance(found, dict) and isinstance(expected, dict):
        names = [name for name in {**found, **expected} if found.get(name) != expected.get(name)]
        return "".join(f"\n  {name}: {found.get(name)!r}, not {expected.get(name)!r}" for name in names)
    return f"\n  {found!r}, not {expected!r}"


def seen(expected: Any) -> Any:
    """The model's answer, with an origin as sources write it."""
    if isinstance(expected, list):
        return [seen(item) for item in expected]
    if isinstance(expected, dict) and "origin" in expected:
        return expected | {"origin": source_of(expected["origin"]).to_dict()}
    return plain(expected)


def told(message: MessageAppended | Json) -> Json:
    """A message of a command as it was given."""
    if not isinstance(message, MessageAppended):
        return message
    return message.message | ({} if message.message_id is None else {"message_id": message.message_id})


def _route(rules: Rules, decided: Decided) -> Json | None:
    arrival, touch, forced_after = decided.arguments
    key = arrival.name.key
    lane = rules.lanes.get(key)
    chosen = decided.answer["session_id"] if decided.answer else ""
    if forced_after is not None and lane is not None and lane["session_id"] == chosen:
        # G26a: calls that overlap make one new session, so this one was made since this call began.
        assert rules.chosen[key] >= decided.started, f"{key} was to get a new session and kept {chosen}"
        return rules.entry(lane)
    return rules.route(key, SOURCE_OF[key], chosen, forced_after is not None, touch)


def _update(rules: Rules, decided: Decided) -> None:
    key, usage = decided.arguments
    rules.update_session(key, **{name: count for name, count in usage.items() if name not in ("model", "provider")})


def _reset(rules: Rules, decided: Decided) -> Json | None:
    key, name = decided.arguments
    return rules.reset_session(key, decided.answer["session_id"] if decided.answer else "", name)


def _set_title(rules: Rules, decided: Decided) -> str | None:
    return rules.set_title(*decided.arguments)


def _begin_turn(rules: Rules, decided: Decided) -> str:
    """A claim that was given up begins nothing; a turn that was given up is ended by the next of the same store."""
    key, lease, claim = decided.arguments
    ended = [event for event in decided.events if isinstance(event.event, TurnEnded)]
    for event in ended:
        running = next(turn for turn in rules.turns.values() if turn["token"] == event.event.token)
        assert running in rules.unknown_turns_of(decided.holder), f"{running} was ended by {decided.holder}"
        rules.end_turn(running["token"])
    if decided.refused is None and not any(isinstance(event.event, TurnBegun) for event in decided.events):
        assert claim.given_up, f"{decided.answer} was answered, and nothing began"
        return claim.token
    return rules.begin_turn(key, claim.token, ("", decided.holder), lease)


def _recover(rules: Rules, decided: Decided) -> int:
    """Turns that were given up are left to whoever ends them."""
    interrupted = {event.event.token for event in decided.events if isinstance(event.event, TurnInterrupted)}
    for conversation, turn in list(rules.turns.items()):
        if turn["token"] in interrupted:
            assert rules.over(turn, ""), f"{turn} is not over and was interrupted"
            rules.interrupt(conversation)
        elif rules.over(turn, ""):
            assert turn in rules.unknown_turns_of(decided.holder), f"{turn} is over and was not interrupted"
    return len(interrupted)


def _compress(rules: Rules, decided: Decided) -> str:
    session, child, summary, covers, turn = decided.arguments
    rules.check_turn(turn, session)
    return rules.compress_session(session, child or decided.answer or "", map(told, summary), covers)


def _fork(rules: Rules, decided: Decided) -> str:
    session, _ = decided.arguments
    history = rules.placed(session)
    return rules.fork_session(session, decided.answer or "", history, rules.written)


def _append(rules: Rules, decided: Decided) -> Any:
    """Positions are the log's own: the model says how many there are."""
    session, messages, turn = decided.arguments
    several = [messages] if isinstance(messages, MessageAppended) else messages
    rules.known(session)
    rules.check_turn(turn, rules.tip(session))
    new = rules.append_messages(session, [told(message) for message in several])
    answered = decided.answer if isinstance(decided.answer, list) else [decided.answer]
    assert new == len([position for position in answered if position is not None])
    return decided.answer


def _rewrite(rules: Rules, decided: Decided) -> bool:
    session, messages, turn = decided.arguments
    rules.known(session)
    rules.check_turn(turn, session)
    return rules.rewrite_transcript(session, map(told, messages))


def _rewind(rules: Rules, decided: Decided) -> Json | None:
    session, turns, _, turn = decided.arguments
    if session in rules.sessions:
        rules.check_turn(turn, session)
    return rules.rewind_session(session, turns)


def _prune(rules: Rules, decided: Decided) -> int:
    days, keys, now = decided.arguments
    return rules.prune(rules.unused(days, keys, now))


def _mark_recent(rules: Rules, decided: Decided) -> int:
    age, keys, now = decided.arguments
    since = now - int(age * 1e6)
    return rules.mark_cut_off([key for key in keys if key in rules.lanes and rules.lanes[key]["updated_at"] >= since])


def _same(name: str) -> Callable[[Rules, Decided], Any]:
    return lambda rules, decided: getattr(rules, name)(*decided.arguments)


def _nothing(_rules: Rules, decided: Decided) -> Any:
    return decided.answer


_RULES: Mapping[str, Callable[[Rules, Decided], Any]] = {
    "get_or_create_session": _route,
    "update_session": _update,
    "reset_session": _reset,
    "set_session_title": _set_title,
    "set_auto_title": _set_title,
    "begin_turn": _begin_turn,
    "renew_turn": _same("renew_turn"),
    "end_turn": lambda rules, decided: rules.end_turn(decided.arguments[0]),
    "recover_interrupted_turns": _recover,
    "compress_session": _compress,
    "fork_session": _fork,
    "append_to_transcript": _append,
    "append_messages": _append,
    "rewrite_transcript": _rewrite,
    "rewind_session": _rewind,
    "mark_resume_pending": lambda rules, decided: rules.mark_resume_pending(*decided.arguments[:2]),
    "set_expiry_finalized": lambda rules, decided: rules.set_expiry_finalized(decided.arguments[0]),
    "prune_old_entries": _prune,
    "suspend_recently_active": _mark_recent,
    "touch": _nothing,
    "close": _nothing,
    **{
        name: _same(name)
        for name in (
            "suspend_session",
            "clear_resume_pending",
            "switch_session",
            "set_model_override",
            "consume_notices",
            "end_session",
            "reopen_session",
            "restore_rewound",
        )
    },
}
