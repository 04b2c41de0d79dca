"""Gateways to measure: people who write, what they write, and stores with many lanes, made fast."""

import time
from pathlib import Path
from typing import Any

from engine import Platform, SessionSource, SessionStore
from engine.domain.events import LaneRouted, MessageAppended, SessionCreated
from engine.domain.keys import name_lane
from engine.domain.streams import lane_stream, session_stream
from engine.log.envelope import Envelope
from engine.store import FILE_NAME

Message = dict[str, str]
_EVENTS_AT_ONCE = 2_000


def store_at(folder: Path, **options: Any) -> SessionStore:
    """Open a store without its views, which follow the log on a thread of their own and are measured by themselves."""
    return SessionStore(folder, views=False, **options)


def message(number: int) -> Message:
    """A chat message of about 200 characters, roles alternating."""
    return {
        "role": "assistant" if number % 2 else "user",
        "content": f"message {number} " + "The quick brown fox jumps over the lazy dog. " * 4,
    }


def source(lane: int) -> SessionSource:
    """The source of a lane's messages."""
    return SessionSource(
        platform=Platform.TELEGRAM,
        chat_id=str(100_000 + lane),
        chat_name=f"Chat {lane}",
        user_id=str(500_000 + lane),
        user_name=f"User {lane}",
    )


def session_of(lane: int) -> str:
    """The session a built lane leads to."""
    return f"20260701_142530_{lane:08x}"


def _events(lane: int, messages: int, now: int) -> list[Envelope]:
    """The events that a new lane's first message, and messages after it, leave in the log."""
    origin, session_id = source(lane), session_of(lane)
    name, described, why = name_lane(origin), origin.known(), "first message of this lane"
    created = SessionCreated(conversation_id=session_id, lane=name.key, source=described)
    routed = LaneRouted(
        session_id=session_id,
        how="created",
        key=name.key,
        identity=name.identity,
        origin=described,
        display_name=origin.chat_name,
    )
    command, stream = "get_or_create_session", session_stream(session_id)
    return [
        Envelope(stream, 1, created, now, "gateway", command, why),
        Envelope(lane_stream(f"{lane:016x}"), 1, routed, now, "gateway", command, why),
        *(
            Envelope(stream, 2 + number, MessageAppended(message(number)), now, "gateway", "append_to_transcript")
            for number in range(messages)
        ),
    ]


def build(folder: Path, lanes: int, messages: int = 0) -> float:
    """Make a store of so many lanes with so many messages each, in large commands; the seconds it took."""
    started = time.perf_counter()
    step = max(1, _EVENTS_AT_ONCE // (2 + messages))
    with store_at(folder, synchronous="OFF") as store:
        for first in range(0, lanes, step):
            now = time.time_ns() // 1000
            some = range(first, min(first + step, lanes))
            store.log.append([event for lane in some for event in _events(lane, messages, now)])
        found = store.get_or_create_session(source(lanes - 1), touch=False)
        assert found.session_id == session_of(lanes - 1)
    return time.perf_counter() - started


def megabytes(folder: Path) -> float:
    return (folder / FILE_NAME).stat().st_size / 1e6
