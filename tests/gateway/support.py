"""What the gateway's tests have in common: a clock that only moves when told, and short ways to look at a store."""

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from engine import GatewayConfig, Platform, SessionEntry, SessionResetPolicy, SessionSource, SessionStore
from engine.domain.envelope import Envelope


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


def texts(store: SessionStore, session_id: str) -> list[Any]:
    return [message.get("content") for message in store.load_transcript(session_id)]


def since(store: SessionStore, position: int) -> list[Envelope]:
    return list(store.log.events(position))


def tables(store: SessionStore) -> dict[str, list[tuple[Any, ...]]]:
    """Everything the inline projections keep."""
    names = ("lanes", "sessions", "message_ids", "turns", "projections")
    return {name: sorted(store.log.query(f"SELECT * FROM {name}"), key=repr) for name in names}


def until(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Wait for something that another thread or process does."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.002)
