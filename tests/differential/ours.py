"""The engine and the model as drivers of the scripts."""

import itertools
from collections.abc import Collection
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from engine import (
    GatewayConfig,
    Platform,
    SessionEntry,
    SessionResetPolicy,
    SessionSource,
    SessionStore,
    UnknownLaneError,
)
from tests.differential.script import FIELDS, FakeClock, Json, Names
from tests.properties import model
from tests.properties.model import Model, lane_key, micros


def without_message(undone: Json | None) -> Json | None:
    """Return what was undone without the message itself (G51a), which hermes-agent does not return."""
    return None if undone is None else {name: value for name, value in undone.items() if name != "target_message"}


class EngineDriver(Names):
    """The engine's own store."""

    def __init__(self, folder: Path, clock: FakeClock, policy: Json) -> None:
        super().__init__()
        self._folder, self._clock = folder, clock
        self._config = GatewayConfig(default_reset_policy=SessionResetPolicy(**policy))
        self._open()

    def _open(self) -> None:
        self.store = SessionStore(self._folder, self._config, clock=self._local, synchronous="OFF")

    def _local(self) -> datetime:
        return self._clock().astimezone()

    def close(self) -> None:
        self.store.close()

    def restart(self) -> None:
        self.close()
        self._open()

    def view(self, entry: SessionEntry | None) -> Json | None:
        if entry is None:
            return None
        seen: Json = {name: getattr(entry, name) for name in FIELDS}
        for name in ("created_at", "updated_at", "last_resume_marked_at"):
            seen[name] = None if seen[name] is None else micros(seen[name])
        return seen | {"platform": entry.platform and entry.platform.value, "session": self.name(entry.session_id)}

    @staticmethod
    def _source(source: Json) -> SessionSource:
        return SessionSource(**(source | {"platform": Platform(source["platform"])}))

    def key(self, source: Json) -> str:
        return lane_key(source)

    def lane(self, key: str) -> Json | None:
        return self.view(self._entry(key))

    def _entry(self, key: str) -> SessionEntry | None:
        return next((entry for entry in self.store.list_sessions() if entry.session_key == key), None)

    def route(self, source: Json, force_new: bool = False) -> Json | None:
        return self.view(self.store.get_or_create_session(source=self._source(source), force_new=force_new))

    def peek(self, key: str) -> str | None:
        return self.name(self.store.peek_session_id(session_key=key))

    def update(self, key: str, last_prompt_tokens: int | None) -> None:
        self.store.update_session(session_key=key, last_prompt_tokens=last_prompt_tokens)

    def suspend(self, key: str) -> bool:
        return self.store.suspend_session(session_key=key)

    def mark_resume(self, key: str) -> bool:
        return self.store.mark_resume_pending(session_key=key)

    def clear_resume(self, key: str) -> bool:
        return self.store.clear_resume_pending(session_key=key)

    def mark_recent(self, seconds: int) -> int:
        return self.store.suspend_recently_active(max_age_seconds=seconds)

    def expired(self, key: str) -> bool | None:
        entry = self._entry(key)
        return None if entry is None else self.store.is_session_expired(entry=entry)

    def reset(self, key: str, display_name: str | None) -> Json | None:
        return self.view(self.store.reset_session(session_key=key, display_name=display_name))

    def switch(self, key: str, target: str) -> Json | None:
        return self.view(self.store.switch_session(session_key=key, target_session_id=self.id(target)))

    def prune(self, days: int) -> int:
        return self.store.prune_old_entries(max_age_days=days)

    def set_model_override(self, key: str, override: Json | None) -> None:
        with suppress(UnknownLaneError):  # where hermes-agent says nothing
            self.store.set_model_override(session_key=key, override=override)

    def get_model_override(self, key: str) -> Json | None:
        return self.store.get_model_override(session_key=key)

    def end(self, session: str, reason: str) -> None:
        self.store.end_session(self.id(session), reason)

    def reopen(self, session: str) -> None:
        self.store.reopen_session(self.id(session))

    def ended(self, session: str) -> str | None:
        return self.store.get_session(self.id(session)).end_reason

    def compress(self, session: str, summary: list[Json], _key: str) -> str | None:
        return self.name(self.store.compress_session(self.id(session), summary_messages=summary))

    def append(self, session: str, message: Json) -> None:
        self.store.append_to_transcript(session_id=self.id(session), message=message)

    def load(self, session: str) -> list[tuple[str, Any]]:
        return [(m["role"], m["content"]) for m in self.store.load_transcript(self.id(session))]

    def rewrite(self, session: str, messages: list[Json]) -> bool:
        return self.store.rewrite_transcript(session_id=self.id(session), messages=messages)

    def rewind(self, session: str, n: int) -> Json | None:
        return without_message(self.store.rewind_session(session_id=self.id(session), n=n))


class ModelDriver(Names):
    """The rules on dictionaries, with or without another program's departures."""

    def __init__(self, clock: FakeClock, policy: Json, departures: Collection[str] = ()) -> None:
        super().__init__()
        whole = {"at_hour": 4, "idle_minutes": 1440} | policy
        self.model = Model(lambda: clock().astimezone(), lambda _: whole, departures=departures)
        self._serial = itertools.count(1)

    def _new(self) -> str:
        return f"{next(self._serial):06}"

    def restart(self) -> None:
        lanes = self.model.lanes
        for key, lane in sorted(lanes.items()):  # as hermes-agent loads them: two may be on one session
            session = lane["session_id"]
            ended = self.model.sessions[session]["end_reason"] is not None
            if ended and self.model.departs("a start drops lanes on ended sessions"):
                found = self.model.recover(key, lane["origin"])
                if found is None or found["session_id"] == session:
                    lanes.pop(key)

    def view(self, entry: Json | None) -> Json | None:
        if entry is None:
            return None
        return {name: entry[name] for name in FIELDS} | {"session": self.name(entry["session_id"])}

    def key(self, source: Json) -> str:
        return lane_key(source)

    def lane(self, key: str) -> Json | None:
        return self.view(self.model.entry(self.model.lanes.get(key)))

    def route(self, source: Json, force_new: bool = False) -> Json | None:
        return self.view(self.model.route(lane_key(source), source, self._new(), force_new))

    def peek(self, key: str) -> str | None:
        return self.name(self.model.peek_session_id(key))

    def update(self, key: str, last_prompt_tokens: int | None) -> None:
        self.model.update_session(key, last_prompt_tokens)

    def suspend(self, key: str) -> bool:
        return self.model.suspend_session(key)

    def mark_resume(self, key: str) -> bool:
        return self.model.mark_resume_pending(key)

    def clear_resume(self, key: str) -> bool:
        return self.model.clear_resume_pending(key)

    def mark_recent(self, seconds: int) -> int:
        return self.model.suspend_recently_active(seconds)

    def expired(self, key: str) -> bool | None:
        return self.model.is_session_expired(key)

    def reset(self, key: str, display_name: str | None) -> Json | None:
        return self.view(self.model.reset_session(key, self._new(), display_name))

    def switch(self, key: str, target: str) -> Json | None:
        return self.view(self.model.switch_session(key, self.id(target)))

    def prune(self, days: int) -> int:
        return self.model.prune_old_entries(days)

    def set_model_override(self, key: str, override: Json | None) -> None:
        with suppress(model.UnknownLaneError):
            self.model.set_model_override(key, override)

    def get_model_override(self, key: str) -> Json | None:
        return self.model.get_model_override(key)

    def end(self, session: str, reason: str) -> None:
        self.model.end_session(self.id(session), reason)

    def reopen(self, session: str) -> None:
        self.model.reopen_session(self.id(session))

    def ended(self, session: str) -> str | None:
        reason: str | None = self.model.known(self.id(session))["end_reason"]
        return reason

    def compress(self, session: str, summary: list[Json], key: str) -> str | None:
        return self.name(self.model.compress_session(self.id(session), self._new(), summary, key=key))

    def append(self, session: str, message: Json) -> None:
        self.model.append_messages(self.id(session), [message])

    def load(self, session: str) -> list[tuple[str, Any]]:
        return [(m["role"], m["content"]) for m in self.model.load_transcript(self.id(session))]

    def rewrite(self, session: str, messages: list[Json]) -> bool:
        return self.model.rewrite_transcript(self.id(session), messages)

    def rewind(self, session: str, n: int) -> Json | None:
        return without_message(self.model.rewind_session(self.id(session), n))
