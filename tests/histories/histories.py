"""Recorded histories: logs as text, with what was made of them. Add one for a new behaviour; never edit an old one.

`python -m tests.histories.histories NAME` records the scenario below under a new name.
"""

import json
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw

from engine import GatewayConfig, Platform, SessionResetPolicy, SessionSource, SessionStore, acting, holders
from engine.log import EventLog

FOLDER = Path(__file__).parent
COLUMNS = "position, stream, version, topic, time, actor, command, reason, event_id, metadata, state, hash"
NAMED = (1, 5, 6)
MARKS = "?" + ",?" * COLUMNS.count(",")


class Clock:
    """A clock that moves only when told."""

    def __init__(self) -> None:
        self.now = datetime(2026, 7, 1, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now

    def advance(self, **span: float) -> None:
        self.now += timedelta(**span)


def live_through(store: SessionStore, clock: Clock) -> None:
    """Everything that can happen to lanes and sessions, once."""
    ada = SessionSource(Platform.TELEGRAM, "4711", chat_name="Ada", user_id="u1")
    team = SessionSource(Platform.SLACK, "C1", chat_name="team", chat_type="group", user_id="u2", thread_id="t9")
    lane = store.get_or_create_session(ada)
    key = lane.session_key
    store.append_to_transcript(lane.session_id, {"role": "user", "content": "hello", "message_id": "tg-1"})
    store.append_to_transcript(lane.session_id, {"role": "user", "content": "hello", "message_id": "tg-1"})
    turn = store.begin_turn(key)
    store.append_messages(
        lane.session_id,
        [
            {"role": "assistant", "content": "hi", "reasoning": "polite", "tool_calls": [{"id": "c1"}]},
            {"role": "tool", "content": {"ok": True}, "tool_call_id": "c1", "odd\ud800key": float("nan")},
        ],
    )
    store.end_turn(turn)
    store.update_session(key, 900, input_tokens=1200, output_tokens=80, cost_usd=0.01)
    store.set_model_override(key, {"model": "large-2", "api_key": "never stored"})
    store.set_session_title(lane.session_id, "Trip to Delft")
    clock.advance(minutes=31)
    idle = store.get_or_create_session(ada)
    store.consume_notices(key)
    store.append_messages(idle.session_id, [{"role": "user", "content": f"m{n}"} for n in range(4)])
    store.rewind_session(idle.session_id, 2)
    store.restore_rewound(idle.session_id)
    store.rewind_session(idle.session_id)
    store.set_auto_title(idle.session_id, "Trip to Delft")
    child = store.compress_session(idle.session_id, None, [{"role": "system", "content": "so far"}], covers=1)
    store.append_to_transcript(child, {"role": "user", "content": "and on"})
    fork = store.fork_session(child)
    store.rewrite_transcript(fork, [{"role": "user", "content": "other", "message_id": "tg-2"}])
    carried = store.compress_session(child, None, [{"role": "system", "content": "so far"}], covers=1)
    store.rewrite_transcript(carried, [{"role": "user", "content": "rewritten"}])
    store.set_session_title(carried, "Trip to Delft")
    kept = store.fork_session(carried)
    with acting("ada", reason="her own words"):
        store.append_to_transcript(kept, {"role": "user", "content": "on the side"})
    other = store.get_or_create_session(team)
    twin = SessionSource(Platform.SLACK, "C1:t9", chat_type="group")
    assert store.get_or_create_session(twin).session_key != other.session_key
    store.mark_resume_pending(other.session_key)
    store.suspend_session(key)
    clock.advance(seconds=-90)
    store.get_or_create_session(ada)
    store.switch_session(key, fork)
    store.reset_session(key, display_name="Ada L.")
    store.set_expiry_finalized(key)
    store.get_or_create_session(ada, force_new=True)
    store.end_session(other.session_id, "agent_close")
    late = store.append_to_transcript(other.session_id, {"role": "user", "content": [{"type": "text", "text": "late"}]})
    store.get_or_create_session(team)
    long = store.begin_turn(other.session_key, lease_seconds=60)
    store.renew_turn(long, lease_seconds=90)
    clock.advance(seconds=91)
    store.recover_interrupted_turns()
    store.clear_resume_pending(other.session_key)
    store.runner.touches.flush()
    store.begin_turn(other.session_key)
    store.log.erase([late], actor="operator", reason="asked to", request="R-1")
    clock.advance(days=100)
    store.prune_old_entries(90)
    store.get_or_create_session(team)


def view(store: SessionStore) -> dict[str, Any]:
    """Return what the engine makes of a log: tables, transcripts, the head of the chain."""
    query = store.log.query
    sessions = [session_id for (session_id,) in query("SELECT session_id FROM sessions ORDER BY 1")]
    found = store.log.verify()
    return {
        "verified": [found.ok, found.events, found.head, found.erased],
        "lanes": {key: json.loads(state) for key, state in query("SELECT key, state FROM lanes ORDER BY 1")},
        "sessions": {key: json.loads(state) for key, state in query("SELECT session_id, state FROM sessions")},
        "turns": [list(row) for row in query("SELECT conversation_id, session_id, lane_id FROM turns ORDER BY 1")],
        "lane_sessions": [list(row) for row in query("SELECT * FROM lane_sessions ORDER BY 1, 2")],
        "message_ids": [list(row) for row in query("SELECT * FROM message_ids ORDER BY 1, 2")],
        "transcripts": {session_id: repr(store.load_transcript(session_id)) for session_id in sessions},
    }


def record(name: str) -> None:
    """Write a new history and what is made of it now."""
    target = FOLDER / f"{name}.jsonl"
    if target.exists():
        sys.exit(f"{target.name} exists; histories are added, never edited")
    holders._HOST = "host"  # the name of the machine that records is nobody's business
    clock = Clock()
    config = GatewayConfig(default_reset_policy=SessionResetPolicy(mode="idle", idle_minutes=30))
    with tempfile.TemporaryDirectory() as folder:
        with SessionStore(folder, config, clock=clock) as store:
            live_through(store, clock)
        with SessionStore(folder, config, clock=clock) as store:
            given = "(SELECT event_id FROM events WHERE events.position = log.position)"  # not the one made of the hash
            rows = store.log.query(f"SELECT {COLUMNS.replace('event_id', given)} FROM log ORDER BY position")
            ((log_id,),) = store.log.query("SELECT value FROM meta WHERE key = 'log_id'")
            lines = [json.dumps({"log_id": log_id.hex()}), *(json.dumps(_printable(row)) for row in rows)]
            target.write_text("\n".join(lines) + "\n")
            (FOLDER / f"{name}.expected.json").write_text(json.dumps(view(store), indent=1, sort_keys=True) + "\n")


def restore(name: str, folder: Path) -> None:
    """Make a log file of a history, row by row, as an older version of the engine would have left it."""
    first, *rows = (json.loads(line) for line in (FOLDER / f"{name}.jsonl").read_text().splitlines())
    path = folder / "sessions.db"
    EventLog(path).close()
    with apsw.Connection(str(path)) as connection:
        connection.execute("UPDATE meta SET value = ? WHERE key = 'log_id'", (bytes.fromhex(first["log_id"]),))
        last, names = 0, {}
        for row in rows:
            values = [bytes.fromhex(value["hex"]) if isinstance(value, dict) else value for value in row]
            for column in NAMED:
                name = values[column]
                if name not in names:
                    names[name] = connection.execute("INSERT INTO names (name) VALUES (?) RETURNING id", (name,)).get
                values[column] = names[name]
            connection.execute(f"INSERT INTO events ({COLUMNS}) VALUES ({MARKS})", values)
            if values[4] < last:
                connection.execute("INSERT INTO clock_steps VALUES (?)", (values[0],))
            last = values[4]
    connection.close()


def _printable(row: tuple[Any, ...]) -> list[Any]:
    return [{"hex": value.hex()} if isinstance(value, bytes) else value for value in row]


if __name__ == "__main__":
    record(sys.argv[1])
