"""A gateway to start from: `python examples/gateway.py FOLDER` plays a few lines, `… FOLDER -` reads standard input.

A line is `platform chat user message-id text`. Put your platforms' adapters in the place of `receive`, your agent in
`think`'s. Kill it whenever you like and deliver the last message again: it is stored once, and answered.
"""

import asyncio
import io
import sys
from collections import defaultdict
from typing import Any, TextIO

from engine import AsyncSessionStore, AsyncTurn, GatewayConfig, Platform, SessionResetPolicy, SessionSource

CONFIG = GatewayConfig(default_reset_policy=SessionResetPolicy(mode="both", at_hour=4, idle_minutes=120))
LINES = """\
telegram 4711 ada m1 hello
slack C01 bob m1 good morning
telegram 4711 ada m2 /new
telegram 4711 ada m3 me again
"""

Message = dict[str, Any]


async def think(history: list[Message]) -> str:
    return f"message {len(history)} of this session is {history[-1]['content']!r}"


def waits_for_an_answer(history: list[Message], message_id: str) -> bool:
    """Return True if a message is there and nothing was answered since: its worker was killed while it thought."""
    at = [index for index, message in enumerate(history) if message.get("message_id") == message_id]
    return bool(at) and all(message["role"] != "assistant" for message in history[at[-1] :])


class Gateway:
    def __init__(self, store: AsyncSessionStore) -> None:
        self.store = store
        self.in_order: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)

    async def start(self) -> None:
        """Find out whom a crash cut off; their platform delivers again what nobody confirmed."""
        await self.store.recover_interrupted_turns()
        for entry in await self.store.list_sessions():
            if entry.resume_pending:
                print(f"{entry.session_key}: was cut off and will be resumed ({entry.resume_reason})", flush=True)

    async def receive(self, line: str) -> None:
        try:
            platform, chat, user, message_id, text = line.split(maxsplit=4)
            source = SessionSource(Platform(platform), chat, user_id=user, user_name=user)
        except ValueError as error:  # one bad message is nobody else's trouble
            print(f"not a message, {error}: {line.strip()!r}", flush=True)
            return
        # A chat's messages in the order they came; one turn at a time per conversation, in all processes.
        async with self.in_order[platform, chat], self.store.turn(source) as turn:
            print(f"{turn.session_key}: {await self.answer(turn, text.strip(), message_id)}", flush=True)

    async def answer(self, turn: AsyncTurn, text: str, message_id: str) -> str:
        if text == "/new":
            await self.store.reset_session(turn.session_key)
            return "starting over"
        is_new = await turn.append({"role": "user", "content": text, "message_id": message_id}) is not None
        history = await turn.load_transcript()
        if not is_new and not waits_for_an_answer(history, message_id):
            return "had this message already"
        reply = await think(history)
        await turn.append({"role": "assistant", "content": reply})
        await self.store.clear_resume_pending(turn.session_key)
        notices = await self.store.consume_notices(turn.session_key)
        why = notices.auto_reset_reason or ("you asked for it" if notices.is_fresh_reset else "")
        return f"{reply} (a new session: {why})" if why else reply


async def main(folder: str, lines: TextIO) -> None:
    async with await AsyncSessionStore.open(folder, CONFIG) as store, asyncio.TaskGroup() as tasks:
        gateway = Gateway(store)
        await gateway.start()
        while line := await asyncio.to_thread(lines.readline):
            tasks.create_task(gateway.receive(line))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    asyncio.run(main(sys.argv[1], sys.stdin if sys.argv[2:] == ["-"] else io.StringIO(LINES)))
