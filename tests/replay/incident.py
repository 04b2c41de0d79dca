"""A scripted incident: 200 lanes, three fast days, and everything that goes wrong in a bad week.

Wednesday, 1 July 2026, in Amsterdam: the gateway runs with an idle policy of 24 hours. Thursday 09:00 the policy
becomes "both". At 15:07 the process dies in the middle of three turns and is started again two minutes later. In the
night to Friday the host works on one lane while its reset is due. Friday 10:00 a bad release, 0.1.1, resets all Slack
lanes by mistake; at 11:30 it is rolled back, and one lane is led back to its session. At 14:00 a person is erased.

The same history each time, event for event: clock, ids and holders are given. The documentation ships the life of a few
of the lanes in `docs/incident`; `python -m tests.replay.incident docs/incident` records it again.
"""

import os
import random
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from unittest.mock import patch
from zoneinfo import ZoneInfo

from engine import GatewayConfig, Platform, SessionResetPolicy, SessionSource, SessionStore, acting, holders
from engine.reader import FILE_NAME

ZONE = ZoneInfo("Europe/Amsterdam")
LANES = range(200)
A_FEW = (*range(14), *range(120, 130), *range(160, 168))
"""The lanes of the history that ships with the documentation."""
IDLE = GatewayConfig(default_reset_policy=SessionResetPolicy(mode="idle", idle_minutes=1440))
BOTH = GatewayConfig(default_reset_policy=SessionResetPolicy(mode="both", idle_minutes=1440, at_hour=4))

ADA = "agent:main:telegram:dm:4700"
"""Cut off by the crash; resumed in time."""
GRACE = "agent:main:telegram:dm:4701"
"""Cut off by the crash; came back when it was too late to resume."""
LINUS = "agent:main:telegram:dm:4702"
"""The host works here at night, while the reset is due."""
MARGARET = "agent:main:telegram:dm:4703"
"""Her conversation was compressed on Thursday evening."""
ERASED = "agent:main:telegram:dm:4704"
"""Erased on Friday."""
TEAM = "agent:main:slack:group:C120:U1200"
"""Reset by the bad release, and led back by hand."""

_NAMES = {0: "Ada", 1: "Grace", 2: "Linus", 3: "Margaret", 4: "Erika"}
_ASKED = (
    "How do I get from Delft to Utrecht before nine?",
    "Can you summarise the minutes of yesterday?",
    "The build is red again, what happened?",
    "Remind me what we decided about the invoices.",
    "Write two sentences for the newsletter.",
    "What is a good name for a tomcat?",
    "Which of the three offers is the cheapest over two years?",
    "Translate this into Dutch, please: see you on Thursday.",
)
_ANSWERED = (
    "The 7:51 by way of Rotterdam; you are there at 8:49.",
    "Three points: the budget, the move, and who waters the plants.",
    "A test timed out twice; the third run is green.",
    "They are paid on the first of the month, by Femke.",
    "Our new garden is open. Come and see the tulips!",
    "Erwin. He may be in, or not.",
    "The second one, by 214 euros.",
    "Tot donderdag!",
)


def at(day: int, clock: str) -> datetime:
    """Return a time on a day of July 2026, in Amsterdam."""
    return datetime.combine(datetime(2026, 7, day), datetime.strptime(clock, "%H:%M").time(), ZONE)


def source(lane: int) -> SessionSource:
    """Return where the messages of a lane come from: private chats on Telegram and WhatsApp, groups on Slack."""
    user = f"U{lane:04d}" if lane >= 120 else f"u{lane}"
    name = _NAMES.get(lane, f"Person {lane}")
    if 120 <= lane < 160:
        chat, user = f"C{lane}", f"U{lane}0"
        return SessionSource(Platform.SLACK, chat, chat_name=f"team {lane}", chat_type="group", user_id=user)
    platform = Platform.TELEGRAM if lane < 120 else Platform.WHATSAPP
    return SessionSource(platform, str(4700 + lane), chat_name=name, user_id=user, user_name=name)


class Night:
    """The gateway that lives through it: its clock, its process of the moment, and who works on what."""

    def __init__(self, folder: Path, lanes: Sequence[int] = LANES) -> None:
        self.folder = folder
        self.lanes = lanes
        self.now = at(1, "08:55")
        self.chance = random.Random(20260701)
        self.version = "0.1.0"
        self.busy: set[str] = set()
        self.gone: set[str] = set()
        self.holder = ""
        self.processes = 0
        self.store: SessionStore

    def start(self, when: datetime, config: GatewayConfig, version: str = "0.1.0") -> None:
        self.now, self.version = when, version
        self.processes += 1
        self.holder = f"gateway-1:{4000 + self.processes}:77:{self.processes:08x}"
        self.store = SessionStore(
            self.folder, config, self.busy.__contains__, clock=lambda: self.now, synchronous="OFF", views=False
        )
        self.store.runner.touches._delay = 3600.0  # written with the next command, in the same order each time

    def stop(self) -> None:
        self.gone.add(self.holder)
        self.store.close()

    def die(self) -> None:
        """End as a killed process does: nobody says that the store was closed."""
        self.store._say_closed = lambda: None  # type: ignore[method-assign]
        self.stop()

    def tick(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def begin(self, lane: int) -> tuple[str, str, str]:
        """Let somebody write, and begin the turn that answers."""
        entry = self.store.get_or_create_session(source(lane))
        token = self.store.begin_turn(entry.session_key)
        asked = {"role": "user", "content": self.chance.choice(_ASKED)}
        self.store.append_to_transcript(entry.session_id, asked | {"message_id": f"m{lane}-{self.now:%d%H%M%S}"})
        return entry.session_key, entry.session_id, token

    def exchange(self, lane: int) -> None:
        """Let somebody write, and answer."""
        key, session_id, token = self.begin(lane)
        self.tick(self.chance.uniform(2, 5))
        answer = {"role": "assistant", "content": self.chance.choice(_ANSWERED)}
        self.store.append_to_transcript(session_id, answer, turn=token)
        tokens = self.chance.randrange(200, 1200)
        self.store.update_session(key, tokens, input_tokens=tokens, output_tokens=tokens // 7, model="large-2")
        self.store.end_turn(token)

    def talk(self, since: datetime, until: datetime, most: int, without: frozenset[int] = frozenset()) -> None:
        """Let lanes write at random times between two moments, each at most so often."""
        seconds = (until - since).total_seconds()
        told = [
            (self.chance.uniform(0, seconds), lane)
            for lane in self.lanes
            for _ in range(self.chance.randint(1 if most > 1 else 0, most))
            if lane not in without
        ]
        for after, lane in sorted(told):
            self.now = max(self.now, since + timedelta(seconds=after))
            self.exchange(lane)


def live_through(night: Night) -> None:
    """Three days."""
    night.start(at(1, "08:55"), IDLE)
    night.talk(at(1, "09:00"), at(1, "22:00"), 2)
    _thursday(night)
    _friday(night)


def _thursday(night: Night) -> None:
    night.now = at(2, "08:59")
    night.stop()
    night.start(at(2, "09:00"), BOTH)
    night.talk(at(2, "09:05"), at(2, "15:00"), 1, frozenset({0, 1}))
    night.now = at(2, "15:05")
    for lane in (0, 1, 125):
        night.begin(lane)
        night.tick(20)
    night.now = at(2, "15:07")
    night.die()
    night.start(at(2, "15:09"), BOTH)
    night.store.recover_interrupted_turns()
    night.now = at(2, "15:31")
    night.exchange(0)
    night.store.clear_resume_pending(ADA)
    night.talk(at(2, "15:40"), at(2, "22:00"), 1, frozenset({0, 1, 125}))
    night.now = at(2, "22:10")
    night.exchange(1)
    night.exchange(2)
    night.exchange(3)
    before = night.store.peek_session_id(MARGARET) or ""
    summary = {"role": "system", "content": "So far: Margaret asked about trains and invoices."}
    night.store.compress_session(before, None, [summary], covers=1)
    night.tick(60)
    night.exchange(3)


def _friday(night: Night) -> None:
    night.now = at(3, "04:05")
    night.busy.add(LINUS)
    night.exchange(2)
    night.busy.clear()
    night.talk(at(3, "07:00"), at(3, "09:50"), 1, frozenset({2}))
    night.now = at(3, "09:55")
    night.exchange(120)
    night.now = at(3, "09:58")
    night.stop()
    night.start(at(3, "10:00"), BOTH, "0.1.1")
    with acting("release-0.1.1", reason="startup migration: stale sessions are cleared"):
        for entry in sorted(night.store.list_sessions(), key=lambda each: each.session_key):
            if entry.platform is Platform.SLACK:
                night.tick(0.5)
                night.store.reset_session(entry.session_key)
    night.talk(at(3, "10:10"), at(3, "11:20"), 1, frozenset({120}))
    night.now = at(3, "11:28")
    night.stop()
    night.start(at(3, "11:30"), BOTH)
    night.tick(300)
    lost = night.store.sessions_of(TEAM)[1].session_id
    with acting("ops:femke", reason="0.1.1 had reset it by mistake"):
        night.store.switch_session(TEAM, lost)
    night.tick(60)
    night.exchange(120)
    night.now = at(3, "14:00")
    with acting("privacy-desk"):
        night.store.erase(lane=ERASED, reason="asked for by the person", request="R-2026-044")
    night.talk(at(3, "14:10"), at(3, "17:50"), 1, frozenset({4}))
    night.now = at(3, "18:00")
    night.stop()


@contextmanager
def given_ids(night: Night) -> Iterator[None]:
    """Take everything that is by chance, or of this machine, from the script."""
    chance = random.Random(4711)

    def take() -> str:
        return night.holder

    def digits(count: int | None = None) -> str:
        return chance.randbytes(count or 32).hex()

    def some(count: int | None = None) -> bytes:
        return chance.randbytes(count or 32)

    with (
        patch.object(secrets, "token_hex", digits),
        patch.object(secrets, "token_bytes", some),
        patch.object(os, "urandom", some),
        patch.object(holders, "take", take),
        patch("engine.commands.turns.is_gone", lambda holder: holder in night.gone),
        patch("engine.opening.package_version", lambda: night.version),
    ):
        yield


def record(folder: Path, script: Callable[[Night], None] = live_through, lanes: Sequence[int] = LANES) -> Path:
    """Record the incident in a folder; return its `sessions.db`."""
    night = Night(folder, lanes)
    with given_ids(night):
        script(night)
    return folder / FILE_NAME


if __name__ == "__main__":
    made = Path(sys.argv[1]) / FILE_NAME
    made.unlink(missing_ok=True)
    record(made.parent, lanes=A_FEW)
