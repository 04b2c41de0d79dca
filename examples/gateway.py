"""A gateway to start from: `python examples/gateway.py FOLDER` plays a few lines, `… FOLDER -` reads standard input.

A line is `platform chat user text`. Put your platforms' adapters in the place of `receive`, your agent in `think`'s.
"""

import asyncio
import io
import sys
import uuid
from collections import defaultdict

from engine import AsyncSessionStore, GatewayConfig, Platform, SessionResetPolicy, SessionSource, SessionStore
from engine.errors import TurnInProgressError

CONFIG = GatewayConfig(default_reset_policy=SessionResetPolicy(mode="both", at_hour=4, idle_minutes=120))
LINES = "telegram 4711 ada hello\nslack C01 bob good morning\ntelegram 4711 ada /new\ntelegram 4711 ada me again\n"


async def think(history: list[dict]) -> str:
    return f"message {len(history)} of this session is {history[-1]['content']!r}"


class Gateway:
    def __init__(self, store: AsyncSessionStore) -> None:
        self.store = store
        self.in_order = defaultdict(asyncio.Lock)

    async def start(self) -> None:
        """Find out whom a crash cut off; their next message goes on in the same session."""
        await self.store.recover_interrupted_turns()
        for entry in await self.store.list_sessions():
            if entry.resume_pending:
                print(f"{entry.session_key}: was cut off and will be resumed ({entry.resume_reason})")

    async def receive(self, line: str) -> None:
        try:
            platform, chat, user, text = line.split(maxsplit=3)
            source = SessionSource(Platform(platform), chat, user_id=user, user_name=user)
        except ValueError as error:  # one bad message is nobody else's trouble
            print(f"not a message, {error}: {line.strip()!r}", flush=True)
            return
        message_id = uuid.uuid4().hex  # the platform's own id: what is delivered twice is then stored once
        async with self.in_order[platform, chat]:
            key = (await self.store.get_or_create_session(source)).session_key
            token = await self.take_turn(key)
            try:
                print(f"{key}: {await self.answer(source, text.strip(), message_id)}", flush=True)
            finally:
                await self.store.end_turn(token)

    async def take_turn(self, key: str) -> str:
        """One turn at a time per conversation, also when several processes serve the same chats."""
        while True:
            try:
                return await self.store.begin_turn(key)
            except TurnInProgressError:
                await asyncio.sleep(0.05)

    async def answer(self, source: SessionSource, text: str, message_id: str) -> str:
        entry = await self.store.get_or_create_session(source)
        if text == "/new":
            await self.store.reset_session(entry.session_key)
            return "starting over"
        question = {"role": "user", "content": text, "message_id": message_id}
        if await self.store.append_to_transcript(entry.session_id, question) is None:
            return "had this message already"
        reply = await think(await self.store.load_transcript(entry.session_id))
        await self.store.append_to_transcript(entry.session_id, {"role": "assistant", "content": reply})
        await self.store.clear_resume_pending(entry.session_key)
        notices = await self.store.consume_notices(entry.session_key)
        why = notices.auto_reset_reason or ("you asked for it" if notices.is_fresh_reset else "")
        return f"{reply} (a new session: {why})" if why else reply


async def main(folder: str, lines: io.TextIOBase) -> None:
    async with AsyncSessionStore(SessionStore(folder, CONFIG)) as store, asyncio.TaskGroup() as tasks:
        gateway = Gateway(store)
        await gateway.start()
        while line := await asyncio.to_thread(lines.readline):
            tasks.create_task(gateway.receive(line))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    asyncio.run(main(sys.argv[1], sys.stdin if sys.argv[2:] == ["-"] else io.StringIO(LINES)))
