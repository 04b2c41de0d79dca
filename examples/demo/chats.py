"""The demo's gateway: eight platforms, a reset policy each, and a clock that passes days in moments."""

import asyncio
from datetime import UTC, datetime, timedelta

from engine import AsyncSessionStore, GatewayConfig, Platform, SessionResetPolicy, SessionSource, SessionStore

BEGIN = datetime(2026, 7, 1, 9, 0, tzinfo=UTC)
IDLE = SessionResetPolicy(mode="idle", idle_minutes=90)
DAILY = SessionResetPolicy(mode="daily", at_hour=4)
BOTH = SessionResetPolicy(mode="both", at_hour=4, idle_minutes=300)
NEVER = SessionResetPolicy(mode="none")
POLICIES = {
    Platform.TELEGRAM: IDLE,
    Platform.DISCORD: DAILY,
    Platform.SLACK: BOTH,
    Platform.WHATSAPP: DAILY,
    Platform.SIGNAL: NEVER,
    Platform.MATRIX: DAILY,
    Platform.EMAIL: NEVER,
    Platform.SMS: IDLE,
}
CONFIG = GatewayConfig(reset_by_platform=POLICIES)
CHATS = {
    platform: SessionSource(platform, "4711", chat_name="Ada", user_id=f"ada@{platform.value}") for platform in POLICIES
}
REST = (timedelta(minutes=10), timedelta(hours=2), timedelta(hours=6), timedelta(hours=15, minutes=50))
"""How long everybody is silent after each round; after the last, the next day begins."""


class FastClock:
    """A clock that stands still until it is moved."""

    def __init__(self, now: datetime = BEGIN) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


class Ledger:
    """The messages that the gateway sent and what was acknowledged, to hold the log against."""

    def __init__(self) -> None:
        self.deliveries = 0
        self.acknowledged: set[tuple[str, str]] = set()

    def acknowledge(self, session_id: str, message_id: str) -> None:
        self.acknowledged.add((session_id, message_id))


class Conversations:
    """Everybody writes, the agent answers, and the platforms deliver some messages twice."""

    def __init__(self, store: SessionStore, clock: FastClock, ledger: Ledger) -> None:
        self.store = AsyncSessionStore(store)
        self.clock = clock
        self.ledger = ledger

    async def days(self, count: int) -> None:
        for day in range(count):
            for number, rest in enumerate(REST):
                await asyncio.gather(*(self.turn(platform, f"day {day} round {number}") for platform in CHATS))
                self.clock.now += rest
        key = (await self.store.get_or_create_session(CHATS[Platform.MATRIX])).session_key
        await self.store.suspend_session(key)

    async def turn(self, platform: Platform, name: str) -> None:
        """One message and its answer; a chat that has grown long is compressed, and one asks for a new session."""
        source = CHATS[platform]
        entry = await self.store.get_or_create_session(source)
        token = await self.store.begin_turn(entry.session_key)
        session_id = entry.session_id
        if len(await self.store.load_transcript(session_id)) >= 12:
            summary = [{"role": "system", "content": "what was said so far"}]
            session_id = await self.store.compress_session(session_id, summary_messages=summary)
        await self.deliver(session_id, "user", f"{platform.value} {name} question")
        await self.deliver(session_id, "assistant", f"{platform.value} {name} answer")
        await self.store.update_session(entry.session_key, last_prompt_tokens=100, input_tokens=100, output_tokens=20)
        if platform is Platform.SIGNAL and name.endswith("round 3"):
            await self.store.reset_session(entry.session_key)
        await self.store.clear_resume_pending(entry.session_key)
        await self.store.end_turn(token)

    async def deliver(self, session_id: str, role: str, message_id: str) -> None:
        """Append a message; the platforms deliver every user's message twice."""
        message = {"role": role, "content": message_id, "message_id": message_id}
        for _ in range(2 if role == "user" else 1):
            self.ledger.deliveries += 1
            await self.store.append_to_transcript(session_id, message)
            self.ledger.acknowledge(session_id, message_id)
