"""hermes-agent 0.19.0 as a driver of the scripts. Importing this module imports hermes-agent.

Its global state is handled here and nowhere else: the database's path is a constant of a module, the
clock and the source of ids are names in two modules, and both are replaced by copies, so that nobody
else's `time` and `uuid` change. Drivers may be used in turns, not from several threads.
"""

import itertools
import os
import time
import types
import uuid
from datetime import datetime
from pathlib import Path
from typing import Any

import gateway.config as config_module
import gateway.session as session_module
import hermes_state as state_module

from tests.differential.script import FIELDS, FakeClock, Json, Names
from tests.properties.model import micros


class HermesDriver(Names):
    """hermes-agent's own store."""

    running: "HermesDriver"

    def __init__(self, folder: Path, clock: FakeClock, policy: Json) -> None:
        super().__init__()
        self._folder, self._clock = folder, clock
        self._serial = itertools.count(1)
        self._config = config_module.GatewayConfig(
            default_reset_policy=config_module.SessionResetPolicy(**policy), write_sessions_json=False
        )
        _install()
        self._open()

    def _open(self) -> None:
        os.environ["HERMES_HOME"] = str(self._folder)
        HermesDriver.running = self
        state_module.DEFAULT_DB_PATH = self._folder / "state.db"
        self._store = session_module.SessionStore(self._folder / "sessions", self._config)
        assert self._store._db is not None, state_module.get_last_init_error()
        self._db = self._store._db
        self._db._conn.execute("PRAGMA synchronous=OFF")
        self._store._ensure_loaded()

    def local(self) -> datetime:
        """hermes-agent's own times have no zone and are local."""
        return self._clock().astimezone().replace(tzinfo=None)

    def close(self) -> None:
        self._db.close()

    def restart(self) -> None:
        self.close()
        self._open()

    def view(self, entry: Any) -> Json | None:
        if entry is None:
            return None
        seen: Json = {name: getattr(entry, name) for name in FIELDS}
        for name in ("created_at", "updated_at", "last_resume_marked_at"):
            seen[name] = None if seen[name] is None else micros(seen[name].astimezone())
        override = dict(entry.model_override) if entry.model_override else None
        platform = entry.platform.value if entry.platform else None
        return seen | {"platform": platform, "model_override": override, "session": self.name(entry.session_id)}

    @staticmethod
    def _source(source: Json) -> Any:
        return session_module.SessionSource(**(source | {"platform": config_module.Platform(source["platform"])}))

    def key(self, source: Json) -> str:
        key: str = self._store._generate_session_key(self._source(source))
        return key

    def lane(self, key: str) -> Json | None:
        return self.view(self._store._entries.get(key))

    def route(self, source: Json, force_new: bool = False) -> Json | None:
        return self.view(self._store.get_or_create_session(source=self._source(source), force_new=force_new))

    def peek(self, key: str) -> str | None:
        return self.name(self._store.peek_session_id(session_key=key))

    def update(self, key: str, last_prompt_tokens: int | None) -> None:
        self._store.update_session(session_key=key, last_prompt_tokens=last_prompt_tokens)

    def suspend(self, key: str) -> Any:
        return self._store.suspend_session(session_key=key)

    def mark_resume(self, key: str) -> Any:
        return self._store.mark_resume_pending(session_key=key)

    def clear_resume(self, key: str) -> Any:
        return self._store.clear_resume_pending(session_key=key)

    def mark_recent(self, seconds: int) -> Any:
        return self._store.suspend_recently_active(max_age_seconds=seconds)

    def expired(self, key: str) -> Any:
        entry = self._store._entries.get(key)
        return None if entry is None else self._store._is_session_expired(entry)

    def reset(self, key: str, display_name: str | None) -> Json | None:
        return self.view(self._store.reset_session(session_key=key, display_name=display_name))

    def switch(self, key: str, target: str) -> Json | None:
        return self.view(self._store.switch_session(session_key=key, target_session_id=self.id(target)))

    def prune(self, days: int) -> Any:
        return self._store.prune_old_entries(max_age_days=days)

    def set_model_override(self, key: str, override: Json | None) -> None:
        self._store.set_model_override(session_key=key, override=override)

    def get_model_override(self, key: str) -> Any:
        return self._store.get_model_override(session_key=key)

    def end(self, session: str, reason: str) -> None:
        self._db.end_session(self.id(session), reason)

    def reopen(self, session: str) -> None:
        self._db.reopen_session(self.id(session))

    def ended(self, session: str) -> Any:
        row = self._db.get_session(self.id(session))
        return None if row is None else row["end_reason"]

    def compress(self, session: str, summary: list[Json], key: str) -> str | None:
        """Do what its agent and its gateway do between them: there is no single call."""
        parent = self.id(session)
        child = f"{self.local():%Y%m%d_%H%M%S}_{_fake_uuid4().hex[:8]}"
        self._db.end_session(parent, "compression")
        self._db.create_session(child, self._db.get_session(parent)["source"], parent_session_id=parent)
        self._db.replace_messages(child, summary)
        entry = self._store._entries[key]
        entry.session_id = child
        self._store._save()
        self._store._record_gateway_session_peer(child, key, entry.origin, display_name=entry.display_name)
        return self.name(child)

    def append(self, session: str, message: Json) -> None:
        self._store.append_to_transcript(session_id=self.id(session), message=message)

    def load(self, session: str) -> list[tuple[str, Any]]:
        """Return what the table holds: its load_transcript() also merges neighbours of one role."""
        return [(m["role"], m["content"]) for m in self._db.get_messages_as_conversation(self.id(session))]

    def rewrite(self, session: str, messages: list[Json]) -> Any:
        return self._store.rewrite_transcript(session_id=self.id(session), messages=messages)

    def rewind(self, session: str, n: int) -> Any:
        return self._store.rewind_session(session_id=self.id(session), n=n)


def _fake_uuid4() -> uuid.UUID:
    """Unique in the first eight hex digits, which are all that is kept."""
    return uuid.UUID(int=next(HermesDriver.running._serial) << 96)


def _copy(module: types.ModuleType, **names: Any) -> types.ModuleType:
    copy = types.ModuleType(module.__name__)
    copy.__dict__.update(module.__dict__ | names)
    return copy


def _install() -> None:
    state_module.time = _copy(time, time=lambda: HermesDriver.running._clock().timestamp())
    session_module.uuid = _copy(uuid, uuid4=_fake_uuid4)
    session_module._now = lambda: HermesDriver.running.local()
