"""Bad input: a clear error each, and nothing lost."""

import contextlib
import gc
import os
import re
import threading
import time
from pathlib import Path

import pytest

from engine import GatewayConfig, Platform, SessionResetPolicy, SessionSource, SessionStore, UnknownSessionError
from engine.domain import events as e
from engine.log.envelope import NEXT_VERSION, Envelope
from engine.log.errors import ClosedLogError, DiskFullError, LockedLogError
from engine.log.sqlite.eventlog import EventLog, _open_logs
from tests.faults.disk import Disk, full_error
from tests.gateway.children import Child
from tests.gateway.support import FakeClock, lane, policy, say, stream_of, tables, texts

KEY = "agent:main:telegram:dm:4711"
UNSAFE_IDS = ["..", "a/../b", "a/b", "a\\b", "C:x", "c:\\x", "", None, 7, b"x"]
UNSAFE_KEYS = ["agent:..:x", "a\\b", "C:agent", "/agent", "agent/", "", None, 7]

ON_SESSIONS = {
    "append_to_transcript": [{"content": "x"}],
    "append_messages": [[{"content": "x"}]],
    "load_transcript": [],
    "rewrite_transcript": [[]],
    "rewind_session": [],
    "restore_rewound": [],
    "end_session": ["why"],
    "reopen_session": [],
    "set_session_title": ["title"],
    "set_auto_title": ["title"],
    "compress_session": [],
    "fork_session": [],
    "get_session": [],
}
ON_LANES = {
    "update_session": [],
    "suspend_session": [],
    "mark_resume_pending": [],
    "clear_resume_pending": [],
    "reset_session": [],
    "switch_session": ["20260701_142530_1a2b3c4d"],
    "set_model_override": [None],
    "get_model_override": [],
    "set_expiry_finalized": [],
    "consume_notices": [],
    "begin_turn": [],
    "peek_session_id": [],
}


@pytest.mark.parametrize("name", [*ON_SESSIONS, "lookup_by_session_id", "has_platform_message_id"])
def test_unsafe_session_ids_are_refused(store, name):
    """G17."""
    rest = ["m"] if name == "has_platform_message_id" else ON_SESSIONS.get(name, [])
    for bad in UNSAFE_IDS:
        if name == "lookup_by_session_id" and not bad:
            assert store.lookup_by_session_id(bad) is None  # G35a
            continue
        with pytest.raises(ValueError, match="session_id"):
            getattr(store, name)(bad, *rest)
    assert store.log.last_position == 0


@pytest.mark.parametrize("name", ON_LANES)
def test_session_keys_that_are_none_are_refused(store, name):
    """G17a: a key may have any text, because whatever a platform calls its chats is in it."""
    for bad in (7, b"agent:main", "agent:main:telegram:dm:\ud800"):
        with pytest.raises(ValueError, match="session_key"):
            getattr(store, name)(bad, *ON_LANES[name])
    assert store.log.last_position == 0


def test_unsafe_ids_given_for_new_things_are_refused(store, source):
    """G17, G17a: the target of a switch and the child of a compression, but not what a platform calls its chats."""
    sid = store.get_or_create_session(source()).session_id
    before = store.log.last_position
    for call in (
        lambda: store.switch_session(KEY, "../x"),
        lambda: store.compress_session(sid, "../x"),
    ):
        with pytest.raises(ValueError, match="refused"):
            call()
    assert store.log.last_position == before
    for chat in ("spaces/AAA", "../../etc", "CORP\\ada", "a..b@example.org", "spaces/AAA/"):
        assert store.get_or_create_session(source(chat)).session_key.endswith(chat)


@pytest.mark.parametrize("name", [name for name in ON_SESSIONS if name not in ("load_transcript", "rewind_session")])
def test_an_unknown_session_is_a_clear_error(store, name):
    with pytest.raises(UnknownSessionError, match="no session 'nobody'"):
        getattr(store, name)("nobody", *ON_SESSIONS[name])
    assert store.log.last_position == 0


@pytest.mark.parametrize("bad", [None, "text", 7, ["role", "user"], [("role", "user")]])
def test_a_message_that_is_not_a_dict(store, source, bad):
    sid = store.get_or_create_session(source()).session_id
    before = store.log.last_position
    for call in (
        lambda: store.append_to_transcript(sid, bad),
        lambda: store.append_messages(sid, [{"content": "fine"}, bad]),
        lambda: store.rewrite_transcript(sid, [bad]),
        lambda: store.compress_session(sid, summary_messages=[bad]),
    ):
        with pytest.raises(ValueError, match="a message must be a dict"):
            call()
    assert store.log.last_position == before


@pytest.mark.parametrize("bad", [None, "text", {"role": "user"}, 7])
def test_messages_that_are_not_a_list(store, source, bad):
    sid = store.get_or_create_session(source()).session_id
    for call in (store.append_messages, store.rewrite_transcript):
        with pytest.raises(ValueError, match="messages must be a list of dicts"):
            call(sid, bad)


def test_an_unknown_platform(store):
    with pytest.raises(ValueError, match="nowhere"):
        SessionSource(platform="nowhere", chat_id="1")
    with pytest.raises(ValueError, match="nowhere"):
        GatewayConfig(reset_by_platform={"nowhere": SessionResetPolicy()})
    assert Platform("telegram") is Platform.TELEGRAM


@pytest.mark.parametrize(
    "call",
    [
        lambda store, sid: store.get_or_create_session("telegram"),
        lambda store, sid: store.get_or_create_session(None),
        lambda store, sid: store.update_session(KEY, input_tokens=-1),
        lambda store, sid: store.update_session(KEY, True),
        lambda store, sid: store.update_session(KEY, input_tokens=1.5),
        lambda store, sid: store.update_session(KEY, cost_usd="1"),
        lambda store, sid: store.update_session(KEY, cost_usd=float("nan")),
        lambda store, sid: store.update_session(KEY, cost_usd=10**400),
        lambda store, sid: store.suspend_session("agent:main:telegram:dm:\ud800"),
        lambda store, sid: store.end_session("\ud800", "done"),
        lambda store, sid: store.compress_session(sid, "child\ud800"),
        lambda store, sid: store.mark_resume_pending(KEY, "\ud800"),
        lambda store, sid: store.suspend_recently_active("120"),
        lambda store, sid: store.suspend_recently_active(float("inf")),
        lambda store, sid: store.suspend_recently_active(10**400),
        lambda store, sid: store.reset_session(KEY, 7),
        lambda store, sid: store.set_model_override(KEY, "large"),
        lambda store, sid: store.prune_old_entries("90"),
        lambda store, sid: store.prune_old_entries(float("nan")),
        lambda store, sid: store.prune_old_entries(1e300),
        lambda store, sid: store.list_sessions("5"),
        lambda store, sid: store.list_sessions(float("inf")),
        lambda store, sid: store.is_session_expired(KEY),
        lambda store, sid: store.is_session_finalizable(None),
        lambda store, sid: store.begin_turn(KEY, lease_seconds="long"),
        lambda store, sid: store.begin_turn(KEY, lease_seconds=float("inf")),
        lambda store, sid: store.begin_turn(KEY, lease_seconds=0),
        lambda store, sid: store.begin_turn(KEY, lease_seconds=-5),
        lambda store, sid: store.end_turn(None),
        lambda store, sid: store.end_turn("token", error=ValueError("x")),
        lambda store, sid: store.end_session(sid, None),
        lambda store, sid: store.end_session(sid, ""),
        lambda store, sid: store.end_session(sid, "\ud800"),
        lambda store, sid: store.fork_session(sid, 0),
        lambda store, sid: store.fork_session(sid, -1),
        lambda store, sid: store.fork_session(sid, 10**400),
        lambda store, sid: store.rewind_session(sid, "1"),
        lambda store, sid: store.rewind_session(sid, True),
        lambda store, sid: store.compress_session(sid, covers=-1),
        lambda store, sid: store.append_to_transcript(sid, {"content": "x", "message_id": 1.5}),
        lambda store, sid: store.append_to_transcript(sid, {"content": "x", "message_id": ["x"]}),
    ],
)
def test_a_value_of_the_wrong_type_or_size_is_refused_and_nothing_happens(store, source, call):
    sid = store.get_or_create_session(source()).session_id
    before = store.log.last_position
    with pytest.raises(ValueError, match=r"must be|not|is refused"):
        call(store, sid)
    assert store.log.last_position == before


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"config": {"mode": "idle"}}, "config"),
        ({"busy": True}, "has_active_processes_fn"),
        ({"clock": "now"}, "clock"),
        ({"clock": lambda: None}, "clock"),
        ({"actor": ""}, "actor"),
        ({"actor": None}, "actor"),
        ({"actor": "\ud800"}, "actor"),
        ({"cached_lanes": -1}, "cached_lanes"),
        ({"cached_lanes": "x"}, "cached_lanes"),
        ({"cached_transcript_bytes": None}, "cached_transcript_bytes"),
        ({"active_profile": 5}, "active_profile"),
    ],
)
def test_a_store_says_what_is_wrong_with_its_own_arguments(open_store, options, said):
    with pytest.raises(ValueError, match=said):
        open_store(**options)


def test_a_clock_that_loses_its_zone(open_store, clock, source):
    store = open_store()
    clock.set(clock().replace(tzinfo=None))
    with pytest.raises(ValueError, match="time zone"):
        store.get_or_create_session(source())
    assert isinstance(clock, FakeClock)
    clock.set(clock().astimezone())


@pytest.mark.parametrize(("field", "value"), [("mode", "weekly"), ("at_hour", 24), ("idle_minutes", 0)])
def test_a_policy_out_of_range(field, value):
    """G2."""
    with pytest.raises(ValueError, match=field):
        SessionResetPolicy(**{field: value})


def test_a_callback_that_raises_is_logged_and_counts_as_busy(open_store, clock, source, caplog):
    """G30."""
    store = open_store(policy("idle", idle_minutes=1), busy=lambda key: 1 / 0)
    first = store.get_or_create_session(source())
    clock.advance(minutes=2)
    assert store.get_or_create_session(source()).session_id == first.session_id
    assert "ZeroDivisionError" in caplog.text
    assert KEY in caplog.text


def test_a_locked_database_is_waited_for_and_then_named(tmp_path, open_store, source):
    """A bounded wait; the error says which process holds the lock, and for how long one has waited."""
    store = open_store(busy_timeout=0.1)
    sid = store.get_or_create_session(source()).session_id
    with Child("hold_the_lock", tmp_path / "sessions") as child:
        assert child.said() == "ready"
        for call in (lambda: say(store, sid, "x"), lambda: store.get_or_create_session(source("new"))):
            with pytest.raises(LockedLogError) as caught:
                call()
            assert f"process {child.process.pid}" in str(caught.value)
            assert re.search(r"for the \d+\.\d s", str(caught.value))
        with pytest.raises(LockedLogError):
            SessionStore(tmp_path / "sessions", busy_timeout=0.1)
        assert store.get_or_create_session(source()).session_id == sid, "an existing lane still routes"
        assert texts(store, sid) == []
        child.kill()
    say(store, sid, "x")
    assert texts(store, sid) == ["x"]


def test_a_second_writer_with_a_stale_view_sees_the_first(open_store, source):
    """A program without the projections wrote to the lane while the store was open."""
    store = open_store()
    store.get_or_create_session(source())
    other = store.get_or_create_session(source("other")).session_id
    with EventLog(store.log.path) as log:
        event = e.LaneSwitched(session_id=other, previous_session_id="x")
        log.append([Envelope(stream_of(store, KEY), NEXT_VERSION, event)])
    assert store.suspend_session(KEY)
    assert store.peek_session_id(KEY) == other
    assert lane(store, KEY).suspended


COMMANDS = {
    "route": lambda store, sid: store.get_or_create_session(SessionSource(Platform.SLACK, "new")),
    "reset": lambda store, sid: store.reset_session(KEY),
    "compress": lambda store, sid: store.compress_session(sid, summary_messages=[{"content": "s"}]),
    "fork": lambda store, sid: store.fork_session(sid),
    "append": lambda store, sid: store.append_messages(sid, [{"content": "x" * 5000, "message_id": "a"}] * 2),
    "turn": lambda store, sid: store.begin_turn(KEY),
    "rewind": lambda store, sid: store.rewind_session(sid),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_a_full_disk_in_the_middle_of_a_command_leaves_nothing_of_it(open_store, source, name):
    """At each write and sync of the command: either refused whole, or done whole; and retried with success."""
    with Disk().in_use() as disk:
        store = open_store(vfs=disk.name)
        sid = store.get_or_create_session(source()).session_id
        say(store, sid, "one", "two")
        nth, refused = 0, 0
        while True:
            before = tables(store), store.log.last_position
            countdown = iter(range(nth, -1, -1))
            failing = threading.Event()

            def fail(_number, what, countdown=countdown, failing=failing):
                if what not in ("write", "sync"):
                    return None
                if failing.is_set() or next(countdown, 0) == 0:
                    failing.set()
                    return full_error(what)
                return None

            disk.fail = fail
            with contextlib.suppress(DiskFullError):
                COMMANDS[name](store, sid)
                disk.fail = None
                break
            disk.fail = None
            refused, nth = refused + 1, nth + 1
            assert (tables(store), store.log.last_position) == before
        assert refused
        assert texts(store, sid)[:1] == ["one"]
        after = tables(store)
        store.rebuild()
        assert tables(store) == after
        assert store.log.verify().ok
        store.close()


def test_a_store_that_cannot_open_leaves_nothing_open(tmp_path):
    """A disk that is full from some call of opening on: refused, or opened; never half."""
    with Disk().in_use() as disk:
        SessionStore(tmp_path / "first", vfs=disk.name).close()
        calls, refused = disk.calls, 0
        for nth in range(0, calls, 7):
            disk.calls = 0
            disk.fail = lambda number, what, nth=nth: full_error(what) if number >= nth and what == "write" else None
            try:
                SessionStore(tmp_path / str(nth), vfs=disk.name).close()
            except DiskFullError:
                refused += 1
            assert not list(_open_logs)
            disk.fail = None
            SessionStore(tmp_path / str(nth), vfs=disk.name).close()
        assert refused > 3


def test_a_store_that_cannot_catch_up_leaves_nothing_open(tmp_path, source):
    """The same when opening has events to replay, and no space to write what they make of the tables."""
    with SessionStore(tmp_path) as store:
        sid = store.get_or_create_session(source()).session_id
    with EventLog(store.log.path) as log:
        log.append([Envelope(f"session:{sid}", NEXT_VERSION, e.MessageAppended(message={"role": "user"}))])
    with Disk().in_use() as disk:
        disk.fail = lambda _number, what: full_error(what) if what == "write" else None
        with pytest.raises(DiskFullError):
            SessionStore(tmp_path, vfs=disk.name)
        assert not list(_open_logs)
        disk.fail = None
        with SessionStore(tmp_path, vfs=disk.name) as store:
            assert len(store.load_transcript(sid)) == 1


def test_files_are_the_owners_only(store):
    assert os.stat(store.log.path).st_mode & 0o777 == 0o600  # noqa: PTH116 - path is text


def test_a_store_needs_a_folder():
    for nothing in ("", None, 7):
        with pytest.raises(ValueError, match="sessions_dir"):
            SessionStore(nothing)


def test_an_option_nobody_knows_is_one_error(tmp_path, recwarn):
    with pytest.raises(TypeError, match="colour"):
        SessionStore(tmp_path, colour="red")
    gc.collect()
    assert not recwarn.list


def test_a_title_with_a_number_longer_than_any_number(store, source):
    sid = store.get_or_create_session(source()).session_id
    title = store.set_session_title(sid, "T #" + "9" * 5000)
    say(store, sid, "x")
    assert store.get_session(store.compress_session(sid)).title == f"{title} #2"


def test_closing_while_threads_route_closes_everything(open_store, source):
    for _ in range(10):
        store = open_store()
        for chat in range(4):
            store.get_or_create_session(source(str(chat)))
        errors = []

        def route(store=store, errors=errors):
            try:
                while True:
                    store.get_or_create_session(source(str(threading.get_ident() % 4)))
            except Exception as error:  # noqa: BLE001 - whatever it is, the test looks at it
                errors.append(type(error))

        threads = [threading.Thread(target=route) for _ in range(4)]
        for thread in threads:
            thread.start()
        time.sleep(0.02)
        store.close()
        for thread in threads:
            thread.join()
        assert set(errors) == {ClosedLogError}
        assert not Path(store.log.path + "-wal").exists(), "a connection was left open"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_of_a_busy_gateway_ends_whatever_it_does_with_the_store(tmp_path):
    with Child("fork_while_routing", tmp_path) as child:
        ended = [child.said() for _ in range(16)]
    assert ended == [0] * 15 + ["done"]


def test_use_after_close(open_store, source):
    store = open_store()
    sid = store.get_or_create_session(source()).session_id
    store.close()
    store.close()
    for call in (
        lambda: store.get_or_create_session(source()),
        lambda: say(store, sid, "x"),
        lambda: store.load_transcript(sid),
        lambda: store.list_sessions(),
    ):
        with pytest.raises(Exception, match="closed"):
            call()
