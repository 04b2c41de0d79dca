"""Faults that event sourcing must make impossible: the twelve of the specification, each by its number."""

import asyncio
import logging

import pytest

from engine import AsyncSessionStore, EngineError, TurnInProgressError
from engine.domain import events as e
from engine.log import EventLog
from engine.log.envelope import NEXT_VERSION, Envelope
from projections.inline import rebuilding
from tests.faults.disk import Disk, full_error
from tests.gateway.children import Child
from tests.gateway.support import lane, policy, say, since, tables, texts

KEY = "agent:main:telegram:dm:4711"


def consistent(store):
    """Every lane leads to a session that exists, and the tables are the fold of the log."""
    for entry in store.list_sessions():
        store.get_session(entry.session_id)
    before = tables(store)
    store.rebuild()
    assert tables(store) == before
    assert store.log.verify().ok


def test_regression_1_a_route_never_points_at_a_session_that_was_not_created(open_store, source):
    with Disk().in_use() as disk:
        store = open_store(vfs=disk.name)
        start = disk.calls
        store.get_or_create_session(source("probe"))
        calls = disk.calls - start
        refused = 0
        for nth in range(calls + 1):
            first = disk.calls
            disk.fail = lambda number, what, at=first + nth: full_error(what) if number >= at else None
            try:
                store.get_or_create_session(source(str(nth)))
            except EngineError:
                refused += 1
            disk.fail = None
            routed = store.get_or_create_session(source(str(nth)))
            say(store, routed.session_id, "not lost")
            assert store.load_transcript(routed.session_id)
        assert refused
        consistent(store)
        store.close()


def test_regression_2_two_processes_keep_each_others_routes(tmp_path, open_store):
    folder = tmp_path / "sessions"
    names = [[f"{process}-{number}" for number in range(10)] for process in range(2)]
    with Child("route", folder, *names[0], "shared") as one, Child("route", folder, *names[1], "shared") as two:
        for child in (one, two):
            assert child.said() == "ready"
        for child in (one, two):
            child.tell()
        routes = {}
        for child, own in ((one, names[0]), (two, names[1])):
            routes |= {name: child.said() for name in own}
        shared = {one.said(), two.said()}
    assert len(shared) == 1
    store = open_store()
    found = {entry.session_key.rpartition(":")[2]: entry.session_id for entry in store.list_sessions()}
    assert found == {**routes, "shared": shared.pop()}
    consistent(store)


def test_regression_3_rewriting_keeps_the_former_history_in_the_log(store, source):
    sid = store.get_or_create_session(source()).session_id
    say(store, sid, "one", "two")
    position = store.log.last_position
    store.rewrite_transcript(sid, [{"role": "system", "content": "summary"}])
    assert texts(store, sid) == ["summary"]
    assert texts(store, store.fork_session(sid, position)) == ["one", "two"]


def test_regression_4_a_suspended_lane_on_a_compressed_parent_is_reset(store, open_store, source):
    parent = store.get_or_create_session(source()).session_id
    store.suspend_session(KEY)
    store.close()
    with EventLog(store.log.path) as log:
        child = "20260701_000000_0000c41d"
        compressed, created = e.SessionCompressed(child_session_id=child), e.SessionCreated(conversation_id=parent)
        log.append([Envelope(f"session:{parent}", NEXT_VERSION, compressed), Envelope(f"session:{child}", 1, created)])
    entry = open_store().get_or_create_session(source())
    assert entry.session_id not in (parent, child)
    assert (entry.was_auto_reset, entry.auto_reset_reason) == (True, "suspended")


def test_regression_5_message_counts_do_not_drift_after_undo(store, open_store, source):
    sid = store.get_or_create_session(source()).session_id
    say(store, sid, "one", "two", "three")
    for step in (
        lambda: store.rewind_session(sid),
        lambda: say(store, sid, "four"),
        lambda: store.rewind_session(sid, 2),
        lambda: store.restore_rewound(sid),
        lambda: store.restore_rewound(sid),
        lambda: store.rewrite_transcript(sid, [{"role": "user", "content": "new"}]),
        lambda: store.rewind_session(sid),
    ):
        step()
        assert store.get_session(sid).message_count == len(store.load_transcript(sid)) == len(texts(open_store(), sid))


def test_regression_6_undone_text_is_not_found(store, source):
    """There is no search yet: what can be found is the live transcript, in every copy of it."""
    sid = store.get_or_create_session(source()).session_id
    say(store, sid, "keep", "undone")
    store.rewind_session(sid)
    copies = [sid, store.fork_session(sid), store.compress_session(sid, covers=0)]
    assert [texts(store, each) for each in copies] == [["keep"]] * 3


@pytest.mark.parametrize("how", ["reset", "idle", "daily", "suspended"])
def test_regression_7_a_reset_or_expiry_is_not_undone_by_recovery(open_store, clock, source, how):
    store = open_store(policy(how if how in ("idle", "daily") else "none"))
    old = store.get_or_create_session(source()).session_id
    say(store, old, "hello")
    store.end_session(old, "agent_close")
    if how == "suspended":
        store.suspend_session(KEY)
    clock.advance(days=2)
    new = store.reset_session(KEY) if how == "reset" else store.get_or_create_session(source())
    store.end_session(new.session_id, "agent_close")
    again = store.get_or_create_session(source())
    assert again.session_id not in (old, new.session_id)
    clock.advance(days=200)
    store.prune_old_entries(90)
    store.close()
    assert open_store().get_or_create_session(source()).session_id != old


def test_regression_8_everybody_can_say_by_whom_a_session_was_ended(open_store, source):
    store = open_store(actor="gateway-7")
    sid = store.get_or_create_session(source()).session_id
    store.reset_session(KEY)
    (ended,) = (each for each in store.log.stream(f"session:{sid}") if isinstance(each.event, e.SessionEnded))
    assert (ended.actor, ended.command, ended.reason) == ("gateway-7", "reset_session", "reset by the host")
    assert ended.time


def test_regression_9_the_same_message_is_stored_once(open_store, source):
    stores = [open_store(), open_store()]
    sid = stores[0].get_or_create_session(source()).session_id
    message = {"role": "user", "content": "hello", "platform_message_id": "m1"}

    async def deliver():
        faces = [AsyncSessionStore(each) for each in stores]
        return await asyncio.gather(*(faces[n % 2].append_to_transcript(sid, message) for n in range(20)))

    positions = asyncio.run(deliver())
    assert len([position for position in positions if position is not None]) == 1
    assert texts(stores[1], sid) == ["hello"]


def test_regression_10_a_kill_between_two_writes_leaves_no_disagreement(tmp_path, open_store):
    acknowledged = {}
    for round_ in range(3):
        with Child("churn", tmp_path / "sessions", "4711") as child:
            for _ in range(7 + 6 * round_):
                sid, number = child.said()
                acknowledged.setdefault(sid, set()).add((round_, number))
            child.kill()
            for sid, number in child.rest():
                acknowledged.setdefault(sid, set()).add((round_, number))
    store = open_store()
    lost = [
        (sid, number)
        for sid, numbers in acknowledged.items()
        for _, number in numbers
        if not store.has_platform_message_id(sid, f"m{number}")
    ]
    assert lost == []
    sessions = [store.get_session(sid) for (sid,) in store.log.query("SELECT session_id FROM sessions")]
    assert len([each for each in sessions if each.end_reason is None]) == 1, "one live session for the one lane"
    for each in sessions:
        if each.end_reason == "compression":
            assert store.get_session(each.compressed_into).parent_session_id == each.session_id
        assert each.message_count == len(store.load_transcript(each.session_id))
    consistent(store)


def test_regression_11_one_bad_record_is_quarantined_and_the_rest_is_served(store, open_store, source, caplog):
    good = store.get_or_create_session(source()).session_id
    store.close()
    bad = [
        e.LaneRouted(key="a", session_id="../../etc/passwd", how="created"),
        e.LaneRouted(key="b", session_id="s", how="created", origin={"platform": "telegram", "thread_id": []}),
    ]
    with EventLog(store.log.path) as log:
        first = log.last_position + 1
        log.append([Envelope(f"lane:bad{n}", 1, event) for n, event in enumerate(bad)])
        log.append([Envelope("lane:later", 1, e.LaneRouted(key="d", session_id="s2", how="created"))])
    with caplog.at_level(logging.WARNING, "engine.projections"):
        store = open_store()
    assert [position for position, _ in store.quarantined()] == [first, first + 1]
    assert store.metrics()["quarantined_events"] == 2
    assert {entry.session_id for entry in store.list_sessions()} == {good, "s2"}
    reports = [each.event.position for each in store.log.events() if isinstance(each.event, e.EventQuarantined)]
    assert reports == [first, first + 1]
    assert "quarantined" in caplog.text
    store.close()
    store = open_store()
    reports = [each for each in store.log.events() if isinstance(each.event, e.EventQuarantined)]
    assert len(reports) == 2, "reported once"


def test_regression_12_two_turns_do_not_interleave_and_a_killed_one_frees_the_lease(tmp_path, open_store):
    with Child("take_a_turn", tmp_path / "sessions", "4711") as child:
        token = child.said()
        store = open_store()
        with pytest.raises(TurnInProgressError) as caught:
            store.begin_turn(KEY)
        assert f":{child.process.pid}:" in caught.value.holder
        assert store.recover_interrupted_turns() == 0
        child.kill()
        assert store.recover_interrupted_turns() == 1
        assert lane(store, KEY).resume_reason == "restart_interrupted"
        assert store.end_turn(token) is False
        before = store.log.last_position
        assert store.end_turn(store.begin_turn(KEY))
        assert [type(each.event) for each in since(store, before)] == [e.TurnBegun, e.TurnEnded]


def test_a_failed_commit_leaves_no_phantom_message(open_store, source):
    """A command that read what another one of the same batch had written must not remember it when both fail."""
    with Disk().in_use() as disk:
        store = open_store(vfs=disk.name)
        sid = store.get_or_create_session(source()).session_id
        say(store, sid, "first")

        async def fail_together():
            face = AsyncSessionStore(store)
            disk.fail = lambda _, what: full_error(what) if what in ("write", "sync") else None
            together = [face.append_to_transcript(sid, {"role": "user", "content": "phantom"})]
            together.append(face.rewind_session(sid))
            return await asyncio.gather(*together, return_exceptions=True)

        assert [getattr(each, "code", each) for each in asyncio.run(fail_together())] == ["disk_full"] * 2
        disk.fail = None
        store.append_to_transcript(sid, {"role": "user", "content": "real"})
        assert texts(store, sid) == ["first", "real"]
        store.close()


def test_a_rebuild_is_never_seen_half_done(open_store, source, monkeypatch):
    """While the tables are made again, another store still sees where every lane leads."""
    store, other = open_store(), open_store()
    sid = store.get_or_create_session(source()).session_id
    seen = []
    replay = rebuilding.replay

    def watched(*arguments):
        seen.append(other.peek_session_id(KEY))
        return replay(*arguments)

    monkeypatch.setattr(rebuilding, "replay", watched)
    assert store.rebuild() == store.log.last_position
    assert set(seen) == {sid}
