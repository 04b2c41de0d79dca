"""Workers that carry out the state machine's commands: a store in this process, or one in a child process.

Both answer in plain JSON values, errors included. `python -m tests.properties.workers` is the child: it reads
a command per line and answers each with a line.
"""

import json
import os
import subprocess
import sys
from collections.abc import Collection
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar
from zoneinfo import ZoneInfo

import msgspec

from engine import GatewayConfig, Platform, SessionEntry, SessionResetPolicy, SessionSource, SessionStore
from engine.domain.errors import EngineError
from tests.properties.model import EPOCH, NEVER, Json, micros

ROOT = Path(__file__).parent.parent.parent
ZONE = ZoneInfo("Europe/Berlin")
POLICIES: dict[str, Json] = {
    "telegram": {"mode": "idle", "at_hour": 4, "idle_minutes": 30},
    "discord": {"mode": "daily", "at_hour": 2, "idle_minutes": 1440},
    "slack": {"mode": "both", "at_hour": 3, "idle_minutes": 120},
    "whatsapp": {"mode": "both", "at_hour": 0, "idle_minutes": 600},
}


def policy_of(source: Json) -> Json:
    return POLICIES.get(source["platform"], NEVER)


def source_of(fields: Json) -> SessionSource:
    return SessionSource(**(fields | {"platform": Platform(fields["platform"])}))


def plain(value: Any) -> Any:
    """An answer as JSON has it, times as UTC microseconds."""
    if isinstance(value, SessionEntry):
        fields = msgspec.structs.asdict(value)
        origin, platform = value.origin and value.origin.to_dict(), value.platform and value.platform.value
        return plain(fields | {"origin": origin, "platform": platform})
    if isinstance(value, msgspec.Struct):
        return plain(msgspec.structs.asdict(value))
    if isinstance(value, datetime):
        return micros(value)
    if isinstance(value, dict):
        return {name: plain(item) for name, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


class Here:
    """A store in this process."""

    process = "here"

    def __init__(self, folder: str, per_user: bool, now: int, busy: Collection[str] = ()) -> None:
        self.per_user = per_user
        self.now = now
        self.busy = busy
        policies = {Platform(name): SessionResetPolicy(**policy) for name, policy in POLICIES.items()}
        config = GatewayConfig(reset_by_platform=policies, group_sessions_per_user=per_user)
        self.store = SessionStore(folder, config, self._is_busy, clock=self._clock, synchronous="OFF", cached_lanes=3)

    def _clock(self) -> datetime:
        return (EPOCH + timedelta(microseconds=self.now)).astimezone(ZONE)

    def _is_busy(self, key: str) -> bool:
        """Half of the busy lanes are so because their host cannot say (G30)."""
        if key in self.busy and len(key) % 2:
            raise RuntimeError("the host does not know")
        return key in self.busy

    def call(self, now: int, busy: Collection[str], name: str, *arguments: Any, **named: Any) -> Any:
        self.now, self.busy = now, busy
        try:
            if name == "flush":
                return self.store.runner.touches.flush()
            if name == "get_or_create_session":
                return plain(self.store.get_or_create_session(source_of(arguments[0]), *arguments[1:], **named))
            if name == "is_session_expired":
                found = [entry for entry in self.store.list_sessions() if entry.session_key == arguments[0]]
                return self.store.is_session_expired(found[0]) if found else None
            return plain(getattr(self.store, name)(*arguments, **named))
        except (EngineError, ValueError) as error:
            return {"raised": type(error).__name__}

    def crash(self) -> None:
        """As far as the file can tell, what SIGKILL does: what waits to be written never is."""
        touches = self.store.runner.touches
        touches._stopped.set()
        touches._work.set()
        if touches._thread is not None:
            touches._thread.join()
        touches._pending.clear()

    def close(self) -> None:
        self.store.close()


class There:
    """A store in a child process, which is started when first needed and serves one store after another."""

    _child: ClassVar[subprocess.Popen[str] | None] = None

    def __init__(self, folder: str, per_user: bool, now: int) -> None:
        self.per_user = per_user
        self.process = str(self._ask({"open": [folder, per_user, now]}))

    def call(self, now: int, busy: Collection[str], name: str, *arguments: Any, **named: Any) -> Any:
        return self._ask({"call": [now, sorted(busy), name, *arguments], "named": named})

    def _ask(self, command: Json) -> Any:
        child = There._child
        if child is None:
            child = There._child = subprocess.Popen(
                [sys.executable, "-m", "tests.properties.workers"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=ROOT,
                text=True,
            )
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(json.dumps(command) + "\n")
        child.stdin.flush()
        line = child.stdout.readline()
        assert line, f"the child ended with status {child.wait()}"
        return json.loads(line)

    def crash(self) -> None:
        There.end()

    def close(self) -> None:
        self._ask({"close": True})

    @classmethod
    def end(cls) -> None:
        """Kill the child, if there is one."""
        child, cls._child = cls._child, None
        if child is not None:
            child.kill()
            child.wait()
            for pipe in (child.stdin, child.stdout):
                assert pipe is not None
                pipe.close()


def main() -> None:
    worker: Here | None = None
    for line in sys.stdin:
        command = json.loads(line)
        answer = None
        if "open" in command:
            worker, answer = Here(*command["open"]), os.getpid()
        elif worker is not None and "call" in command:
            now, busy, *call = command["call"]
            answer = worker.call(now, busy, *call, **command["named"])
        elif worker is not None:
            worker.close()
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
