"""Recorded histories: logs as text, with what was made of them. Add one for a new behaviour; never edit an old one.

`python -m tests.histories.histories NAME SCENARIO` records one of the scenarios below under a new name (R22).
"""

import contextlib
import json
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import apsw

from engine import (
    GatewayConfig,
    Platform,
    SessionCatalog,
    SessionResetPolicy,
    SessionSource,
    SessionStore,
    acting,
    holders,
)
from engine.domain.events import MessageAppended
from engine.log import NEXT_VERSION, Envelope, EventLog
from engine.reader import FILE_NAME
from replay import heal, restore as restore_store, salvage
from tests.imports.sources import add_session, agent_db

FOLDER = Path(__file__).parent
COLUMNS = "position, stream, version, topic, time, actor, command, reason, event_id, metadata, state, hash"
KEY = "agent:main:signal:dm:5"
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


def chat_through(store: SessionStore, clock: Clock) -> None:
    """Everything that can happen to chats and projects, once."""
    live = {"s-1"}
    catalog = SessionCatalog(store, live_streams=lambda: live, last_workspace=lambda: "/work/site")
    swept = catalog.new_session().session_id
    clock.advance(days=2)
    assert catalog.sweep_drafts() == [swept]
    project = catalog.create_project("Website", "#10b981")["project_id"]
    catalog.rename_project(project, "Web")
    catalog.recolor_project(project, None)
    catalog.ensure_cron_project()
    chat = catalog.new_session(model="large-2", profile="work", model_provider="Acme").session_id
    catalog.rename_session(chat, "Canals of Delft")
    catalog.pin_session(chat)
    catalog.archive_session(chat, touch=False)
    catalog.move_to_project(chat, project)
    catalog.set_attributes(chat, personality="terse", context_length=8000, colour_of_mine={"odd": [1, None]})
    messages = [
        {"role": "user", "content": "which canals?", "_ts": 1782907000.5},
        {"role": "assistant", "content": "ten"},
    ]
    context = [{"role": "system", "content": "be brief"}, *messages]
    catalog.save_messages(chat, messages, context_messages=context, tool_calls=[{"name": "look", "done": True}])
    messages[1] |= {"_turnUsage": {"output_tokens": 3}}
    catalog.save_messages(chat, messages)
    catalog.record_usage(chat, input_tokens=900, output_tokens=3, estimated_cost=0.02)
    clock.advance(minutes=1)
    catalog.start_turn(chat, "s-1", "and bridges?", attachments=["map.png"])
    catalog.start_turn(chat, "s-1", "and all bridges?")
    catalog.rotate_session(chat, "0f1e2d3c4b5a")
    catalog.finish_turn(
        chat,
        "s-1",
        [*messages, {"role": "user", "content": "and all bridges?"}, {"role": "assistant", "content": "many"}],
        input_tokens=40,
        output_tokens=2,
    )
    catalog.duplicate_session(chat)
    branch = catalog.branch_session(chat, at=2).session_id
    catalog.start_turn(branch, "s-1", "side question")
    catalog.fail_turn(branch, "s-1", "the model did not answer")
    catalog.start_turn(branch, "s-1", "once more")
    catalog.cancel_turn(branch, "s-1", [{"role": "assistant", "content": "half an ans"}])
    live.clear()
    catalog.start_turn(branch, "s-2", "is anybody there?")
    clock.advance(minutes=2)
    assert catalog.repair_stale_turns() == [branch]
    catalog.undo(branch)
    catalog.retry(branch)
    catalog.truncate_session(branch, 1)
    catalog.compress_session(chat, [{"role": "assistant", "content": "so far: canals"}])
    catalog.clear_session(branch)
    catalog.delete_project(project)
    gone = catalog.new_session().session_id
    catalog.delete_session(gone)
    open_turn = catalog.new_session().session_id
    catalog.start_turn(open_turn, "s-3", None)
    asked = [{"role": "user", "content": "what is due?", "_row_id": 7, "timestamp": 1782900000.0}]
    catalog.import_cli_session("cron_bills_20260701", "Bills", asked, updated_at=1782900001.0, source="cron")
    answered = [*asked, {"role": "assistant", "content": "rent", "_row_id": 9, "timestamp": 1782900002.0}]
    catalog.import_cli_session("cron_bills_20260701", None, answered, source="cron")
    catalog.import_session({"title": "From elsewhere", "messages": asked, "pinned": True, "odd": 1, "created_at": 1.5})


def store_through(store: SessionStore, clock: Clock) -> None:
    """Everything that happens to a log as a whole, and what other programs may write to it, once."""
    ada = SessionSource(Platform.TELEGRAM, "4711", chat_name="Ada", user_id="u1")
    lane = store.get_or_create_session(ada)
    store.append_to_transcript(lane.session_id, {"role": "user", "content": "hello", "message_id": "tg-1"})
    clock.advance(minutes=5)
    store.get_or_create_session(ada)
    store.runner.touches.flush()
    store.append_to_transcript(lane.session_id, {"role": "assistant", "content": "hello Ada"})
    store.reset_session(lane.session_key)
    clock.advance(days=40)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # paths are in the log as they were given
        store.archive(timedelta(days=30), "july.archive", reason="older than a month")
        store.restore("july.archive")
        older = Path("older")
        older.mkdir()
        times = dict.fromkeys(("created_at", "updated_at"), "2026-06-01T10:00:00+00:00")
        lane_there = {KEY: {"session_key": KEY, "session_id": "s1", "platform": "signal"} | times}
        (older / "sessions.json").write_text(json.dumps(lane_there))
        (older / "s1.jsonl").write_text('{"role": "user", "content": "older", "timestamp": 1780308060.5}\n')
        assert store.import_from(older).lanes == 1
        with contextlib.closing(agent_db(Path("state.db"))) as agent:
            add_session(agent, "s2")
        assert SessionCatalog(store).delete_cli_session("state.db", "s2")
    store.get_or_create_session(SessionSource(Platform.SIGNAL, "5"))
    again = MessageAppended(message={"role": "user", "content": "again"}, message_id="tg-1")
    with EventLog(store.log.path) as log:  # another program, which does not keep the tables
        log.append([Envelope(f"session:{lane.session_id}", NEXT_VERSION, again)])
    store.append_to_transcript("s1", {"role": "assistant", "content": "newer"})
    store.rebuild()


def repair_through(store: SessionStore, clock: Clock) -> Path:
    """A log that was damaged, salvaged, healed and restored elsewhere; return the folder of what came of it."""
    folder = Path(store.log.path).parent
    damaged, salvaged, restored = folder / FILE_NAME, folder / "salvaged", folder / "restored"
    lane = store.get_or_create_session(SessionSource(Platform.TELEGRAM, "4711", chat_name="Ada", user_id="u1"))
    for words in ("first", "damaged", "third"):
        store.append_to_transcript(lane.session_id, {"role": "user", "content": words, "message_id": words})
    store.close()
    damaged.write_bytes(damaged.read_bytes().replace(b'"content":"damaged"', b'"content":"dAmaged"'))
    with EventLog(damaged, read_only=True) as log:
        assert salvage(log, salvaged, clock=clock).lost == 1
    with EventLog(salvaged / FILE_NAME) as log:
        log.transact(lambda transaction: transaction.execute("DELETE FROM lanes"))
    assert heal(salvaged).healed
    with EventLog(salvaged / FILE_NAME) as log:
        restore_store(log, restored, clock=clock)
    return restored


SCENARIOS = {"gateway": live_through, "chats": chat_through, "store": store_through, "repair": repair_through}


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
        "chats": {session_id: json.loads(state) for session_id, state in query("SELECT session_id, state FROM chats")},
        "projects": {key: json.loads(state) for key, state in query("SELECT project_id, state FROM projects")},
        "session_ids": [list(row) for row in query("SELECT * FROM session_ids ORDER BY 1")],
    }


def record(name: str, scenario: str) -> None:
    """Write a new history and what is made of it now."""
    target = FOLDER / f"{name}.jsonl"
    if target.exists():
        sys.exit(f"{target.name} exists; histories are added, never edited")
    holders._HOST = "host"  # the name of the machine that records is nobody's business
    clock = Clock()
    config = GatewayConfig(default_reset_policy=SessionResetPolicy(mode="idle", idle_minutes=30))
    with tempfile.TemporaryDirectory() as folder:
        with SessionStore(folder, config, clock=clock) as store:
            where = SCENARIOS[scenario](store, clock) or folder
        with SessionStore(where, config, clock=clock) as store:
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
    record(*sys.argv[1:])
