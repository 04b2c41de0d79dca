"""Runs of the command in this process, and a small store with everything that a terminal may stumble over."""

import csv
import io
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from click.testing import CliRunner

from engine import GatewayConfig, Platform, SessionResetPolicy, SessionSource, SessionStore
from replay.cli.command import sessions
from tests.gateway.support import FakeClock

BEGAN = datetime(2026, 7, 1, 14, 25, 30, tzinfo=UTC)
NOW = datetime(2026, 7, 3, 12, tzinfo=UTC)
ADA, BOB = "agent:main:telegram:dm:4711", "agent:main:slack:group:C01:bob"
HOSTILE = "clear \x1b[2J\x1b]0;title\x07 \x9b31m \u202etext"
WIDE = "你好 " * 30


class Done(NamedTuple):
    """A finished run of the command."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def items(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.json()["items"]
        return found


def run(*arguments: object, store: object = None, env: Mapping[str, str | None] | None = None, given: str = "") -> Done:
    """Run the command in this process; what it raises unexpectedly is raised."""
    given_env = {"SESSION_STORE": None, "NO_COLOR": None, "FORCE_COLOR": None, **(env or {})}
    words = [*([] if store is None else ["--store", str(store)]), *map(str, arguments)]
    result = CliRunner().invoke(sessions, words, prog_name="sessions", env=given_env, input=given)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return Done(result.exit_code, result.stdout, result.stderr)


def fields_of(text: str) -> list[dict[str, str]]:
    """Return the rows of CSV."""
    return list(csv.DictReader(io.StringIO(text)))


def live_through(folder: Path) -> None:
    """Two chats for a day: messages, a reset by policy, one by hand, an undo, a title, and an erased message."""
    clock = FakeClock(BEGAN)
    config = GatewayConfig(default_reset_policy=SessionResetPolicy(mode="idle", idle_minutes=60))
    with SessionStore(folder, config, clock=clock, synchronous="OFF") as store:
        ada = SessionSource(Platform.TELEGRAM, "4711", user_id="42", user_name="Ada")
        bob = SessionSource(Platform.SLACK, "C01", chat_type="group", user_id="bob", thread_id=None)
        first = store.get_or_create_session(ada)
        store.set_session_title(first.session_id, "Late order")
        store.append_to_transcript(
            first.session_id, {"role": "user", "content": "the order is late", "message_id": "1"}
        )
        store.append_to_transcript(first.session_id, {"role": "assistant", "content": HOSTILE})
        clock.advance(minutes=5)
        other = store.get_or_create_session(bob)
        token = store.begin_turn(other.session_key)
        store.append_to_transcript(other.session_id, {"role": "user", "content": WIDE})
        store.update_session(other.session_key, input_tokens=100, output_tokens=20, cost_usd=0.25, model="large-2")
        store.end_turn(token)
        clock.advance(hours=3)
        again = store.get_or_create_session(ada)
        erased = store.append_to_transcript(again.session_id, {"role": "user", "content": "my number is 555"})
        store.reset_session(other.session_key)
        assert erased is not None
        store.log.erase([erased], actor="ada", reason="asked to", request="R-1")
        store.wait_for_views()


def damage(folder: Path) -> None:
    """Change a byte of a message behind the back of the log."""
    file = folder / "sessions.db"
    data = file.read_bytes()
    assert data.count(b"the order is late") == 1
    file.write_bytes(data.replace(b"the order is late", b"the order is lost"))
