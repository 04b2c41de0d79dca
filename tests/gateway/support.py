"""Parts of the gateway's tests: a clock that only moves when told, and short ways to look at a store."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from engine import GatewayConfig, Platform, SessionEntry, SessionResetPolicy, SessionSource, SessionStore
from engine.log.envelope import Envelope


class FakeClock:
    """A clock in a zone; moves only when told to, and along the time line, not the wall clock."""

    def __init__(self, start: datetime) -> None:
        self._now = start

    def __call__(self) -> datetime:
        return self._now

    def advance(self, **delta: float) -> datetime:
        zone = self._now.tzinfo
        utc = self._now.astimezone(tz=None) if zone is None else self._now - (self._now.utcoffset() or timedelta(0))
        moved = utc.replace(tzinfo=None) + timedelta(**delta)
        self._now = moved.replace(tzinfo=zone) if zone is None else zone.fromutc(moved.replace(tzinfo=zone))
        return self._now

    def set(self, now: datetime) -> None:
        self._now = now


def source(chat_id: str = "4711", **fields: Any) -> SessionSource:
    """A chat on Telegram, unless told otherwise."""
    return SessionSource(**{"platform": Platform.TELEGRAM, "chat_id": chat_id, **fields})


def policy(mode: str = "none", **fields: Any) -> GatewayConfig:
    return GatewayConfig(default_reset_policy=SessionResetPolicy(mode=mode, **fields))


def lane(store: SessionStore, key: str) -> SessionEntry:
    """The lane as it stands, without touching it."""
    return next(entry for entry in store.list_sessions() if entry.session_key == key)


def say(store: SessionStore, session_id: str, *texts: str, role: str = "user") -> None:
    store.append_messages(session_id, [{"role": role, "content": text} for text in texts])


def stream_of(store: SessionStore, key: str) -> str:
    """The stream of a lane."""
    ((lane_id,),) = store.log.query("SELECT lane_id FROM lanes WHERE key = ?", (key,))
    return f"lane:{lane_id}"


def said(store: SessionStore, session_id: str) -> list[dict[str, Any]]:
    """The live messages without the times that reading adds (G49b)."""
    messages = store.load_transcript(session_id)
    return [{key: value for key, value in each.items() if key != "timestamp"} for each in messages]


def texts(store: SessionStore, session_id: str) -> list[Any]:
    return [message.get("content") for message in store.load_transcript(session_id)]


def since(store: SessionStore, position: int) -> list[Envelope]:
    return list(store.log.events(position))


def tables(store: SessionStore) -> dict[str, list[tuple[Any, ...]]]:
    """Everything the inline projections keep, but for how often the tables were made again."""
    names = ("lanes", "lane_sessions", "sessions", "message_ids", "turns")
    found = {name: sorted(store.log.query(f"SELECT * FROM {name}"), key=repr) for name in names}
    rows = "SELECT fingerprint, position, erased_at FROM projections WHERE name = 'inline'"
    found["projections"] = store.log.query(rows)
    return found


def until(condition: Callable[[], bool], seconds: float = 300.0) -> None:
    """Wait for something that another thread or process does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.002)
