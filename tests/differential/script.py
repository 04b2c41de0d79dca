"""Random commands, and how they are carried out on a driver with plain, comparable answers."""

import random
from collections.abc import Collection, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

Json = dict[str, Any]

LANES: tuple[Json, ...] = (
    {"platform": "telegram", "chat_id": "100", "user_id": "u1", "chat_name": "Ann"},
    {"platform": "telegram", "chat_id": "200", "user_id": "u2", "chat_type": "group"},
    {"platform": "discord", "chat_id": "300", "user_id": "u1", "chat_type": "channel"},
    {
        "platform": "slack",
        "chat_id": "400",
        "user_id": "u3",
        "chat_type": "group",
        "thread_id": "t9",
        "chat_name": "#ops",
    },
    {"platform": "signal", "chat_id": "500", "user_id": "u4"},
)
WEIGHTS = {
    "route": 10,
    "append": 10,
    "advance": 6,
    "rewind": 2,
    "rewrite": 1,
    "update": 2,
    "suspend": 1,
    "mark_resume": 1,
    "clear_resume": 1,
    "reset": 1,
    "switch": 1,
    "prune": 1,
    "set_model_override": 1,
    "force_new": 1,
    "mark_recent": 1,
    "expired": 1,
    "restart": 1,
    "end": 1,
    "reopen": 1,
    "compress": 1,
}
NEVER_DIFFERENT = frozenset(WEIGHTS) - {"restart", "end", "compress", "switch", "rewind"}
"""Commands that reach none of the differences, in whatever order."""

END_REASONS = ("agent_close", "ws_orphan_reap", "session_reset", "user_exit")
FIELDS = (
    "created_at",
    "updated_at",
    "display_name",
    "platform",
    "chat_type",
    "last_prompt_tokens",
    "was_auto_reset",
    "auto_reset_reason",
    "reset_had_activity",
    "is_fresh_reset",
    "expiry_finalized",
    "suspended",
    "resume_pending",
    "resume_reason",
    "last_resume_marked_at",
    "model_override",
)


class FakeClock:
    """A clock that moves only when told."""

    def __init__(self) -> None:
        self.now = datetime(2026, 7, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


class Names:
    """Session ids as S1, S2, … in the order in which they are first seen: the same on every driver."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def name(self, session_id: str | None) -> str | None:
        return None if session_id is None else self._names.setdefault(session_id, f"S{len(self._names) + 1}")

    def id(self, name: str) -> str:
        return next(session_id for session_id, known in self._names.items() if known == name)

    @property
    def sessions(self) -> list[str]:
        return list(self._names.values())


def commands(seed: int, count: int, kinds: Collection[str] = frozenset(WEIGHTS)) -> Iterator[Json]:
    """Commands that name lanes by number and sessions by a draw in [0, 1)."""
    rng = random.Random(seed)
    chosen = [kind for kind in WEIGHTS if kind in kinds]
    weights = [WEIGHTS[kind] for kind in chosen]
    for serial in range(count):
        yield {
            "do": rng.choices(chosen, weights)[0],
            "lane": rng.randrange(len(LANES)),
            "draw": rng.random(),
            "n": rng.randint(0, 4),
            "text": f"m{serial}",
            "role": rng.choice(("user", "assistant")),
            "seconds": rng.choice((1, 7, 60, 600, 1900, 4000, 30_000, 90_000)),
            "reason": rng.choice(END_REASONS),
            "days": rng.choice((0, 1, 2)),
            "override": rng.choice((None, {"model": "m-1", "api_key": "secret"}, {"provider": "p", "model": ""})),
        }


def run(driver: Any, clock: FakeClock, script: Iterable[Json]) -> Iterator[Json]:
    """Each command's answer, and everything there is after it.

    A tick passes first, so that no two commands share an instant: hermes-agent orders sessions by their
    start and leaves ties open.
    """
    for command in script:
        clock.advance(0.001)
        answer = step(driver, clock, command)
        lanes = {key: lane for source in LANES if (lane := driver.lane(key := driver.key(source))) is not None}
        sessions = {name: [driver.ended(name), driver.load(name)] for name in driver.sessions}
        yield {"command": command["do"], "answer": answer, "lanes": lanes, "sessions": sessions}


def step(driver: Any, clock: FakeClock, command: Json) -> Any:
    source = LANES[command["lane"]]
    key = driver.key(source)
    here = driver.peek(key)
    known = driver.sessions
    some = known[int(command["draw"] * len(known))] if known else None
    match command["do"]:
        case "advance":
            return clock.advance(command["seconds"])
        case "route":
            return driver.route(source)
        case "force_new":
            return driver.route(source, force_new=True)
        case "append" if here:
            return driver.append(here, {"role": command["role"], "content": command["text"]})
        case "rewind" if here:
            return driver.rewind(here, command["n"])
        case "rewrite" if here:
            kept = driver.load(here)[: command["n"]]
            return driver.rewrite(here, [{"role": role, "content": content} for role, content in kept])
        case "update":
            return driver.update(key, command["n"] or None)
        case "suspend":
            return driver.suspend(key)
        case "mark_resume":
            return driver.mark_resume(key)
        case "clear_resume":
            return driver.clear_resume(key)
        case "mark_recent":
            return driver.mark_recent(command["seconds"])
        case "expired":
            return driver.expired(key)
        case "reset":
            return driver.reset(key, (None, "", "fresh")[command["n"] % 3])
        case "switch" if some:
            return driver.switch(key, some)
        case "prune":
            return driver.prune(command["days"])
        case "set_model_override":
            driver.set_model_override(key, command["override"])
            return driver.get_model_override(key)
        case "end" if some:
            return driver.end(some, command["reason"])
        case "reopen" if some:
            return driver.reopen(some)
        case "compress" if here and driver.ended(here) is None:
            return driver.compress(here, [{"role": "user", "content": f"summary {command['text']}"}], key)
        case "restart":
            return driver.restart()
    return "skipped"


def differing(where: str, ours: Any, theirs: Any) -> Iterator[str]:
    """Yield what is unequal in two answers, each with the path to it."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for name in sorted(ours.keys() | theirs.keys()):
            yield from differing(f"{where}/{name}", ours.get(name, "(absent)"), theirs.get(name, "(absent)"))
    elif ours != theirs:
        yield f"{where}: {ours!r} != {theirs!r}"
